"""Observation of instructions: reads and effects, as the retirement port of a core reports them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from xpulpnn.isa.csr import MCAUSE_INTERRUPT
from xpulpnn.isa.retirement import CAUSE_INTERRUPT
from xpulpnn_sim.reference.iss.core import Iss, Step
from xpulpnn_sim.reference.iss.fetched import Fetched
from xpulpnn_sim.reference.iss.memory import BusError


@dataclass(slots=True)
class Retired:
    """One retirement. Registers 0 stand for "none"."""

    pc: int  # address of the instruction and of the one after it; after a trap the handler
    raw: int  # the word, 16 bits if compressed
    fetched: Fetched | None = None  # the instruction; None if illegal
    next_pc: int = 0  # address of the instruction and of the one after it; after a trap the handler
    cause: int | None = None  # mcause if it trapped
    interrupt: int | None = None  # number of the interrupt whose handler starts here
    reads: Mapping[str, int] = field(default_factory=dict[str, int])  # old values of the register fields it reads
    rd: int = 0  # register written through field rd
    rd_value: int = 0  # register written through field rd
    base: int = 0  # base register moved
    base_value: int = 0  # base register moved
    address: int | None = None  # address of the memory access; None if it traps
    size: int = 0  # bytes of the access
    is_store: bool = False  # direction of the access
    data: int = 0  # raw data of the access, zero above its size
    activation: int | None = None  # NN-RF factors
    weight: int | None = None  # NN-RF factors
    nn: int | None = None  # NN-RF entry that takes `data`

    def fields(self) -> dict[str, int]:
        """The fields of the record; those left out are zero."""
        taken = 0 if self.interrupt is None else CAUSE_INTERRUPT | self.interrupt
        values = {
            "insn": self.raw,
            "trap": int(self.cause is not None),
            "intr": int(self.interrupt is not None),
            "cause": taken if self.cause is None else self.cause,
            "pc_rdata": self.pc,
            "pc_wdata": self.next_pc,
        }
        for name, value in self.reads.items():
            values[f"{name}_rdata"] = value
        if self.fetched is not None:
            values |= {"rs1_addr": self.fetched.rs1, "rs2_addr": self.fetched.rs2}
        if self.rd:
            values |= {"rd_we": 1, "rd_addr": self.rd, "rd_wdata": self.rd_value}
        if self.base:
            values |= {"base_we": 1, "base_addr": self.base, "base_wdata": self.base_value}
        if self.address is not None:
            mask, data = ("mem_wmask", "mem_wdata") if self.is_store else ("mem_rmask", "mem_rdata")
            values |= {"mem_addr": self.address, mask: (1 << self.size) - 1, data: self.data}
        if self.activation is not None:
            values["nn_act_rdata"] = self.activation
        if self.weight is not None:
            values["nn_wgt_rdata"] = self.weight
        if self.nn is not None:
            values |= {"nn_we": 1, "nn_addr": self.nn, "nn_wdata": self.data}
        return values


class Observer:
    """Steps a hart and tells what each instruction did."""

    def __init__(self, iss: Iss) -> None:
        self._iss = iss
        self._interrupt: int | None = None

    def step(self) -> tuple[Step, Retired | None]:
        """One step; None for what retired if it took an interrupt or slept."""
        iss = self._iss
        state, csrs = iss.state, iss.csrs
        if (state.asleep and not csrs.wakes) or (csrs.irq and csrs.interrupt() is not None):
            step = iss.step()
            if step.cause is not None:
                self.interrupted(step.cause & ~MCAUSE_INTERRUPT)
            return step, None
        fetched = iss.peek()
        retired = self._before(fetched)
        state.asleep = False
        step = iss.execute(fetched)
        retired.next_pc, retired.cause = state.pc, step.cause
        if step.cause is not None:
            retired.address = None
        retired.interrupt, self._interrupt = self._interrupt, None
        if step.cause is None and isinstance(fetched, Fetched):
            self._after(retired, fetched)
        return step, retired

    def interrupted(self, line: int) -> None:
        """The next instruction is the first of the handler of ``line``."""
        self._interrupt = line

    def _before(self, fetched: Fetched | int | None) -> Retired:
        state = self._iss.state
        regs = state.regs
        if not isinstance(fetched, Fetched):
            return Retired(state.pc, fetched or 0)
        retired = Retired(state.pc, fetched.raw, fetched)
        numbers = {"rs1": fetched.rs1, "rs2": fetched.rs2, "rd": fetched.rd}
        retired.reads = {name: regs[numbers[name]] for name in fetched.reads}
        access = fetched.access
        if access is not None:
            retired.address, retired.size = fetched.address(regs), access.size
            retired.is_store = fetched.insn.is_store
            if retired.is_store:
                retired.data = regs[fetched.rs2] & ((1 << 8 * access.size) - 1)
            else:
                with suppress(BusError):
                    retired.data = self._iss.memory.read(retired.address, access.size)
        if fetched.nn_weight is not None:
            retired.weight = state.nn[fetched.nn_weight]
        if fetched.nn_activation is not None:
            retired.activation = state.nn[fetched.nn_activation]
        return retired

    def _after(self, retired: Retired, fetched: Fetched) -> None:
        regs = self._iss.state.regs
        retired.rd, retired.rd_value = fetched.destination, regs[fetched.destination]
        if fetched.base != fetched.destination:
            retired.base, retired.base_value = fetched.base, regs[fetched.base]
        retired.nn = fetched.nn_loaded
