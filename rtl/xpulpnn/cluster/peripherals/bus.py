from amaranth.hdl import Cat, Module, Signal
from amaranth.utils import exact_log2

from xpulpnn.cluster.error_responder import ErrorResponder
from xpulpnn.cluster.funnel import Funnel
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import MASTER_BITS


class PeripheralBus(Component):
    """Routes the accesses of several initiators to peripherals, and returns the answers.

    A request is offered to its peripheral in the cycle after its grant; a peripheral without wait states answers in the
    second cycle after the grant. At most one request in two cycles. A peripheral has one access outstanding; until it
    answers, accesses to other peripherals are served. Reset drops outstanding accesses.
    """

    def __init__(self, initiators: int, blocks: tuple[tuple[int, int], ...]):
        self.number = initiators  # number of initiators, each with at most one access outstanding
        # blocks: Address and size of each peripheral; the size is a power of two that divides the address. Other
        # accesses fail.
        self.blocks = blocks
        ports = {
            "initiators": In(ObiSignature()).array(initiators),  #: Initiators.
            "peripherals": Out(ObiSignature()).array(len(blocks)),  #: Peripherals, in the order of ``blocks``.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.funnel = funnel = Funnel(self.number)
        m.submodules.unmapped = unmapped = ErrorResponder()
        selected = funnel.selected
        selects = [selected.addr[exact_log2(size) :] == base >> exact_log2(size) for base, size in self.blocks]
        selects.append(~Cat(selects).any())
        grants, answers = [], []
        for index, (peripheral, is_selected) in enumerate(
            zip((*self.peripherals, unmapped.port), selects, strict=True)
        ):
            outstanding = Signal(name=f"outstanding{index}")
            owner = Signal(MASTER_BITS, name=f"owner{index}")
            free = ~outstanding | peripheral.rvalid
            m.d.comb += [
                peripheral.req.eq(selected.req & is_selected & free),
                *assign_by_name(peripheral, selected, *REQUEST_FIELDS),
            ]
            taken = peripheral.req & peripheral.gnt
            with m.If(taken):
                m.d.sync += [outstanding.eq(1), owner.eq(funnel.owner)]
            with m.Elif(peripheral.rvalid):
                m.d.sync += outstanding.eq(0)
            grants.append(taken)
            answers.append((peripheral, owner))
        m.d.comb += selected.gnt.eq(Cat(grants).any())
        for number, initiator in enumerate(self.initiators):
            request = funnel.requests[number]
            own_answers = Signal(len(answers), name=f"answered{number}")
            m.d.comb += [
                own_answers.eq(Cat(peripheral.rvalid & (owner == number) for peripheral, owner in answers)),
                *assign_by_name(request, initiator, "req", *REQUEST_FIELDS),
                initiator.gnt.eq(request.gnt),
                initiator.rvalid.eq(own_answers.any()),
            ]
            for (peripheral, _), answered in zip(answers, own_answers, strict=True):
                with m.If(answered):
                    m.d.comb += assign_by_name(initiator, peripheral, *RESPONSE_FIELDS)
        return m
