from amaranth.hdl import Const, Module, Mux, Signal

from xpulpnn.cluster.peripherals.registers import serve, written_value
from xpulpnn.component import Component, In, Out
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import Control
from xpulpnn.isa.machine import WORD_BYTES, XLEN


class ClusterControl(Component):
    """Start of the cores, their boot addresses, the end of a program and its result.

    Registers: ``Control.EOC`` bit 0; ``FETCH_ENABLE`` a bit per core, which starts a core as the input of the cluster
    does; ``CLOCK_GATE`` bit 0, set by reset: the clocks of waiting cores may stop; ``BOOT_ADDRESS`` of each core, which
    reads as the input until it is written; ``RETURN``. ``CONFIG`` and ``DEBUG_STATUS`` have no function and read as 0.
    Answers in the next cycle.
    """

    def __init__(self, cores: int):
        self.cores = cores
        ports = {
            "port": In(ObiSignature()),  #: Access to the registers; bits 9 to 2 of the address count.
            "boot_addr": In(XLEN),  #: First instruction address of cores without a boot address set by software.
            "boot_addresses": Out(XLEN).array(cores),  #: Boot address of each core.
            "fetch_enable": Out(cores),  #: Cores that software has started.
            "clock_gate": Out(1, init=1),  #: The clocks of waiting cores may stop.
            "eoc": Out(1),  #: End of computation, set by software.
            "return_value": Out(XLEN),  #: Result of the program; bit 31 marks it as valid.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        port = self.port
        stored = {
            Control.EOC: self.eoc,
            Control.FETCH_ENABLE: self.fetch_enable,
            Control.CLOCK_GATE: self.clock_gate,
            Control.RETURN: self.return_value,
        }
        values = stored | {Control.CONFIG: Const(0), Control.DEBUG_STATUS: Const(0)}
        first = Control.BOOT_ADDRESS
        values |= {first + WORD_BYTES * core: address for core, address in enumerate(self.boot_addresses)}
        written = serve(m, port, values)
        for register, value in stored.items():
            with m.If(written[register]):
                m.d.sync += value.eq(written_value(port, value))
        for core, address in enumerate(self.boot_addresses):
            own = Signal(XLEN, name=f"boot_addr{core}")
            has_own = Signal(name=f"has_boot_addr{core}")
            with m.If(written[first + WORD_BYTES * core]):
                m.d.sync += [own.eq(written_value(port, address)), has_own.eq(1)]
            m.d.comb += address.eq(Mux(has_own, own, self.boot_addr))
        return m
