"""Monitor of the back end's retirement port, and its comparison with the reference machine."""

from dataclasses import dataclass

from cocotb.triggers import FallingEdge

from xpulpnn_sim.bench.parts import Dut, sample
from xpulpnn_sim.bench.stream import REGISTER_MASK, Executed

_ALWAYS = (
    *("insn", "pc_rdata", "trap", "rd_we", "base_we", "nn_we", "rs1_rdata", "rs2_rdata", "rd_rdata"),
    *("mem_rmask", "mem_wmask", "mem_addr"),
)
_SOURCES = {"rs1": (15, "rs1_rdata"), "rs2": (20, "rs2_rdata"), "rd": (7, "rd_rdata")}
"""Lowest bit of the register field and port of its value, by the names of ``Insn.reads``."""
_RD = ("rd_addr", "rd_wdata")
_BASE = ("base_addr", "base_wdata")
_NN = ("nn_addr", "nn_wdata")

Record = dict[str, int]
"""Fields of one retirement; addresses and data of writes only where there is one."""


class RetirementMonitor:
    """Collects retirement records."""

    def __init__(self, dut: Dut) -> None:
        self.dut = dut
        self.records: list[Record] = []

    def _read(self, names: tuple[str, ...]) -> Record:
        return {name: sample(getattr(self.dut, f"rvfi__{name}")) for name in names}

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await FallingEdge(self.dut.clk)
            if sample(self.dut.rvfi__valid):
                record = self._read(_ALWAYS)
                for enable, names in (("rd_we", _RD), ("base_we", _BASE), ("nn_we", _NN)):
                    if record[enable]:
                        record |= self._read(names)
                self.records.append(record)


@dataclass(slots=True)
class Registers:
    """GP-RF and NN-RF as the retirement records change them."""

    regs: list[int]
    nn: list[int]

    @classmethod
    def after_reset(cls) -> "Registers":
        """All zeros."""
        return cls([0] * 32, [0] * 6)

    def apply(self, record: Record) -> None:
        """Write what the record says; rd stays if it is the base as well."""
        if record["base_we"]:
            self.regs[record["base_addr"]] = record["base_wdata"]
        if record["rd_we"]:
            self.regs[record["rd_addr"]] = record["rd_wdata"]
        if record["nn_we"]:
            self.nn[record["nn_addr"]] = record["nn_wdata"]


def check_retirement(stream: list[Executed], records: list[Record], seed: int) -> None:
    """Raise ``AssertionError`` at the first instruction whose record or resulting registers differ."""
    state = Registers.after_reset()
    # Their numbers are compared last: the first wrong record tells more than a wrong count.
    for number, (item, record) in enumerate(zip(stream, records, strict=False)):
        name = "illegal" if item.insn is None else f"{item.insn.mnemonic} {item.insn.operands}"
        where = f"instruction {number}, {name}, {item.word:#010x} at {item.pc:#x} (seed {seed})"
        got = (record["insn"], record["pc_rdata"], record["trap"])
        want = (item.word, item.pc, int(item.cause is not None))
        assert got == want, f"retired word, pc, trap {got}, expected {want}: {where}"
        _check_sources(item, record, state.regs, where)
        state.apply(record)
        for kind, have, expected in (("x", state.regs, item.regs), ("nn", state.nn, item.nn)):
            wrong = [
                f"{kind}{index}={value:#x}, expected {wanted:#x}"
                for index, (value, wanted) in enumerate(zip(have, expected, strict=True))
                if value != wanted
            ]
            assert not wrong, f"{'; '.join(wrong)} after {where}; record {record}; before: {_names(stream, number)}"
    assert len(records) == len(stream), f"{len(records)} retirements of {len(stream)} instructions (seed {seed})"


def _check_sources(item: Executed, record: Record, regs: list[int], where: str) -> None:
    """The source values and the memory access of the record, where the instruction has them."""
    insn = item.insn
    for field, (low, port) in _SOURCES.items():
        if item.cause is None and insn is not None and field in insn.reads:
            want = regs[item.word >> low & REGISTER_MASK]
            assert record[port] == want, f"{port} {record[port]:#x}, expected {want:#x}: {where}"
    accesses = bool(record["mem_rmask"] | record["mem_wmask"])
    assert accesses == (item.address is not None), f"memory access {accesses}: {where}"
    if item.address is not None:
        got, stores = record["mem_addr"], bool(record["mem_wmask"])
        assert got == item.address, f"address {got:#x}, expected {item.address:#x}: {where}"
        assert stores == (insn is not None and insn.is_store), f"store {stores}: {where}"


def _names(stream: list[Executed], number: int) -> str:
    before = stream[max(0, number - 3) : number]
    return " | ".join("illegal" if item.insn is None else f"{item.insn.mnemonic} {item.word:#010x}" for item in before)
