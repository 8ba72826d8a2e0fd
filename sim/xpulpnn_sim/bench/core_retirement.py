"""Monitor of the core's retirement port, and its comparison with the instruction-set simulator."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cocotb.triggers import FallingEdge

from xpulpnn.config import CoreConfig
from xpulpnn.isa.table import Decoder, enabled
from xpulpnn_sim.bench.parts import Dut, Scoreboard, sample
from xpulpnn_sim.bench.retirement import Record, Registers
from xpulpnn_sim.iss.core import Iss

ALWAYS = (
    *("order", "insn", "pc_rdata", "pc_wdata", "trap", "intr", "halt", "mode", "ixl", "rs1_addr", "rs2_addr"),
    *("rd_we", "base_we", "nn_we", "mem_rmask", "mem_wmask"),
)
WRITES = {
    "rd_we": ("rd_addr", "rd_wdata"),
    "base_we": ("base_addr", "base_wdata"),
    "nn_we": ("nn_addr", "nn_wdata"),
    "mem_rmask": ("mem_addr", "mem_rdata"),
    "mem_wmask": ("mem_addr", "mem_wdata"),
    "trap": ("cause",),
    "intr": ("cause",),
}
"""Fields that mean something only with another one."""
INTERRUPT = 1 << 5
MACHINE_MODE, XLEN_32 = 3, 1
MCAUSE_INTERRUPT = 1 << 31
_SHOWN = 6


class Interrupt(NamedTuple):
    """An acknowledged interrupt and all lines that were high."""

    line: int
    lines: int


class CoreMonitor:
    """Collects retirement records."""

    def __init__(self, dut: Dut) -> None:
        self.dut = dut
        self.records: list[Record] = []
        self._ports = {name: getattr(dut, f"rvfi_{name}") for name in (*ALWAYS, *sum(WRITES.values(), ()))}

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await FallingEdge(self.dut.clk)
            if sample(self.dut.rvfi_valid):
                record = {name: sample(self._ports[name]) for name in ALWAYS}
                for enable, names in WRITES.items():
                    if record[enable]:
                        record |= {name: sample(self._ports[name]) for name in names}
                self.records.append(record)

    def stored(self, address: int) -> bool:
        """Whether the newest record is a store to ``address``."""
        return bool(self.records) and self.records[-1]["mem_wmask"] != 0 and self.records[-1]["mem_addr"] == address


class Hart:
    """The simulator, stepped by the records.

    Parameters
    ----------
    config : CoreConfig
        Instructions present.
    boot_address, hart_id : int
        Inputs of the core.
    words : mapping of int to int
        Memory at the start.
    """

    def __init__(self, config: CoreConfig, boot_address: int, hart_id: int, words: Mapping[int, int]) -> None:
        self.iss = Iss(boot_address, extensions=config.extensions, widths=config.widths, hart_id=hart_id)
        for address, word in words.items():
            self.iss.load(address, [word])
        self._decoder = Decoder(enabled(config.extensions, config.widths))

    def check(self, records: Sequence[Record], taken: Sequence[Interrupt], board: Scoreboard) -> None:
        """Raise ``AssertionError`` at the first record that differs."""
        state, waiting, before = Registers.after_reset(), deque(taken), deque[str](maxlen=_SHOWN)
        for number, record in enumerate(records):
            insn = self._decoder.decode(record["insn"])
            before.append(f"{record['pc_rdata']:#x} {insn.mnemonic if insn else 'illegal'}")
            where = f"in retirement {number}: {', then '.join(before)}"
            # the core retires on the far side of a wfi, so the simulator must not wait there
            self.iss.state.asleep = False
            if record["intr"]:
                self._interrupt(record, waiting.popleft(), board, where)
            want, read = self._step(record)
            got = {name: record.get(name, 0) for name in want}
            board.equal(_hexadecimal(got), _hexadecimal(want), where)
            board.equal(record["order"], number, f"order {where}")
            if record["mem_rmask"]:
                board.equal(hex(record["mem_rdata"]), hex(read), f"loaded data {where}")
            state.apply(record)
            board.equal(_changes(state.regs, self.iss.state.regs), {}, f"registers (got, expected) {where}")
            board.equal(_changes(state.nn, self.iss.state.nn), {}, f"NN-RF (got, expected) {where}")
        # the last one may have been taken after the last record
        assert len(waiting) <= 1, f"{len(waiting)} interrupts acknowledged and not taken (seed {board.seed})"

    def _interrupt(self, record: Record, interrupt: Interrupt, board: Scoreboard, where: str) -> None:
        """Take the interrupt that the lines demand: the most urgent enabled one."""
        self.iss.csrs.irq = interrupt.lines
        step = self.iss.step()
        self.iss.csrs.irq = 0
        board.equal(step.cause, MCAUSE_INTERRUPT | interrupt.line, f"interrupt {where}")
        if not record["trap"]:
            board.equal(record["cause"], INTERRUPT | interrupt.line, f"cause {where}")

    def _step(self, record: Record) -> tuple[dict[str, int], int]:
        """Step the simulator; the expected fields and the data that the record's access finds."""
        iss = self.iss
        size = record["mem_rmask"].bit_length()
        read = iss.memory.read(record["mem_addr"], size) if size else 0
        raw = iss.memory.read(iss.state.pc, 4)
        raw &= 0xFFFF_FFFF if raw & 3 == 3 else 0xFFFF
        pc = iss.state.pc
        step = iss.step()
        want = {
            "pc_rdata": pc,
            "insn": raw,
            "trap": int(step.cause is not None),
            "pc_wdata": iss.state.pc,
            "halt": 0,
            "mode": MACHINE_MODE,
            "ixl": XLEN_32,
        }
        insn = step.insn
        if step.cause is not None:
            want |= {"cause": step.cause, "rd_we": 0, "base_we": 0, "nn_we": 0, "mem_rmask": 0, "mem_wmask": 0}
        elif insn is not None:
            want |= {"rs1_addr": step.word >> 15 & 31} if "rs1" in insn.reads else {}
            want |= {"rs2_addr": step.word >> 20 & 31} if "rs2" in insn.reads else {}
            want["mem_wmask"] = {"sb": 1, "sh": 3, "sw": 15}.get(insn.op, 0)
            if insn.is_store and record["mem_wmask"]:
                stored = record["mem_wmask"].bit_length()
                value = iss.memory.read(record["mem_addr"], stored)
                want["mem_wdata"] = record["mem_wdata"] & ~((1 << 8 * stored) - 1) | value
        return want, read


def _hexadecimal(fields: Mapping[str, int]) -> dict[str, str]:
    return {name: hex(value) for name, value in fields.items()}


def _changes(got: Sequence[int], want: Sequence[int]) -> dict[int, tuple[str, str]]:
    return {
        index: (hex(value), hex(wanted))
        for index, (value, wanted) in enumerate(zip(got, want, strict=True))
        if value != wanted
    }
