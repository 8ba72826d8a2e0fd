"""Programs for the testbench of the core, and the results that they must leave in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import DATA_BASE, HALF_BYTES, TEXT_BASE, WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import enabled
from xpulpnn_sim.publishing.packages.design import listing
from xpulpnn_sim.reference.bare import layout
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.bare.program import ProgramBlock, RandomProgram
from xpulpnn_sim.reference.directed.case import HANDLERS
from xpulpnn_sim.reference.directed.programs import short_programs
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sw.assembly.disasm import render

DRIVEN_HART_ID = 0x25  # constant input `hart_id` in the testbench
TEXT_SIZE = 0x1_0000
REGIONS = (
    (TEXT_BASE, TEXT_SIZE),
    (DATA_BASE, layout.DATA_SIZE),
    (layout.LOW_BASE, layout.LOW_SIZE),
    *((base, layout.FAR_SIZE) for base in layout.FAR),
)
"""First address and size of each memory region."""

_SEED = 20
_LONGEST = 350  # maximum instructions of a directed program
_RESULTS_AT, _RESULTS_END = DATA_BASE + 0x2400, layout.FRAME
_OPERANDS_AT, _OPERANDS = DATA_BASE, 0x400  # operands of loads
_SCRATCH_AT, _SCRATCH = DATA_BASE + 0x800, 0x80  # targets of stores
_CORNERS = (0, 1, WORD_MASK, 0x8000_0000, 0x7FFF_FFFF, 0x8000_8000, 0x7F80_FF01)  # operands that carry, borrow or wrap
_CORNER_CHANCE = 0.25
_REGISTERS = {"rd": 12, "rs1": 10, "rs2": 11, "rs3": 12}  # a0, a1 and a2


@dataclass(frozen=True, slots=True)
class CoreProgram:
    name: str
    program: RandomProgram
    words: Mapping[int, int]  # initial memory by address; zero elsewhere
    results_at: int  # address of the results
    expected: Sequence[int]
    texts: Sequence[str]  # meaning of each result
    interrupts: bool  # if interrupts may come at any time

    def listing(self, config: CoreConfig) -> str:
        insns = enabled(config.extensions, config.widths)
        head, rows = listing(self.program.assembled(), self.program.text().splitlines(), insns).split("\n", 1)
        return f"{head}\n\n{self.name}\n\n{rows}"


def core_programs(config: CoreConfig) -> list[CoreProgram]:
    return [_rows_program(config), *_directed_programs(config)]


def _directed_programs(config: CoreConfig) -> Iterator[CoreProgram]:
    for case in short_programs(config, _LONGEST):
        program = case.program()
        executable, expected = program.executable(), [word & WORD_MASK for word in case.expected if word is not None]
        if None in case.expected:
            expected = _results(executable, config, layout.SIGNATURE, len(case.expected))
        texts = [f"{case.name}: result {number}" for number in range(len(expected))]
        yield CoreProgram(case.name, program, executable.words(), layout.SIGNATURE, expected, texts, case.interrupts)


def _results(executable: Executable, config: CoreConfig, address: int, count: int) -> list[int]:
    """Return the words that a program has stored from ``address`` on when it ends on the simulator."""
    session = IssSession(executable, config, errors=layout.BUS_ERRORS, hart_id=DRIVEN_HART_ID, output=lambda _: None)
    end = session.run(1 << 20)
    assert end.reason is Reason.PASS, end
    return [session.memory.read(address + WORD_BYTES * number, WORD_BYTES) for number in range(count)]


@dataclass(slots=True)
class _RowsProgram:
    """Collects the lines of a program in which every instruction stores its results where s11 points."""

    config: CoreConfig
    rng: Random
    lines: list[str] = field(default_factory=list[str])
    texts: list[str] = field(default_factory=list[str])

    def operand(self) -> int:
        return self.rng.choice(_CORNERS) if self.rng.random() < _CORNER_CHANCE else self.rng.getrandbits(32)

    def store(self, register: str, text: str) -> None:
        self.lines += [f"sw {register}, 0(s11)", f"addi s11, s11, {WORD_BYTES}"]
        self.texts.append(text)

    def add_all(self) -> None:
        draw = Draw(self.rng, self.config)
        for csr in ("mhartid", "mtvec", "misa"):
            self.lines.append(f"csrrs a2, {csr}, zero")
            self.store("a2", csr)
        rows = [insn for insn in enabled(self.config.extensions, self.config.widths) if insn.size == WORD_BYTES]
        for insn in (row for row in rows if not row.alias):
            values = draw.values(insn, pins=_REGISTERS)
            if insn.is_mac_load:
                self._mac_load(insn, values)
            elif insn.is_load or insn.is_store:
                self._access(insn, values)
            elif computes(insn):
                self._computation(insn, values)
        for place in range(0, _SCRATCH, WORD_BYTES):
            self.lines += [f"li a0, {_SCRATCH_AT + place}", "lw a1, 0(a0)"]
            self.store("a1", f"byte {place} of what stores write")

    def _computation(self, insn: Insn, values: Mapping[str, int]) -> None:
        text = render(insn, insn.encode(**values))
        a, b, d = (self.operand() for _ in range(3))
        self.lines += [f"li a0, {a}", f"li a1, {b}", f"li a2, {d}", text]
        self.store("a2", f"{text} with a0 {a:08x}, a1 {b:08x}, a2 {d:08x}")

    def _mac_load(self, insn: Insn, values: Mapping[str, int]) -> None:
        text, pointer = render(insn, insn.encode(**values)), self.rng.randrange(0, _OPERANDS, WORD_BYTES)
        self.lines += [f"li a0, {_OPERANDS_AT + pointer}", *(f"li a{at}, {self.operand()}" for at in (1, 2, 3)), text]
        self.store("a2", text)
        if insn.is_pair:
            self.store("a3", f"second sum of {text}")
        self.store("a0", f"pointer of {text}")

    def _access(self, insn: Insn, values: Mapping[str, int]) -> None:
        text = render(insn, insn.encode(**values))
        first, room = (_OPERANDS_AT, _OPERANDS) if insn.is_load else (_SCRATCH_AT, _SCRATCH)
        size = {"b": 1, "h": HALF_BYTES, "w": WORD_BYTES}[insn.op.removesuffix("u")[-1]]
        place = first + self.rng.randrange(room - size + 1)
        immediate = next((values[name] for name in ("imm12", "stimm12") if name in values), None)
        offset = self.rng.randrange(-64, 64) if immediate is None else immediate
        base, register = place if insn.writes_base else place - offset, "a1" if insn.is_load else "a2"
        data = [] if insn.is_load else [f"li a1, {self.rng.getrandbits(32)}"]
        self.lines += [f"li a0, {base & WORD_MASK}", f"li {register}, {offset}", *data, text]
        if insn.is_load:
            self.store("a2", f"{text} of {place:08x}")
        if insn.writes_base:
            self.store("a0", f"base of {text}")


_COMPUTING = frozenset({InsnClass.ALU, InsnClass.MULTIPLY, InsnClass.MULTIPLY_HIGH, InsnClass.DIVISION})


def computes(insn: Insn) -> bool:
    return insn.insn_class in _COMPUTING and not insn.uses_nnrf and insn.op != "auipc"


def _rows_program(config: CoreConfig) -> CoreProgram:
    rows = _RowsProgram(config, Random(_SEED))
    rows.add_all()
    name = "all instructions that compute or access memory"
    lines = (f"li s11, {_RESULTS_AT}", *rows.lines)
    program = RandomProgram((ProgramBlock(name, lines),), (), HANDLERS, None, name)
    parts, operands = program.executable().segments, rows.rng.randbytes(_OPERANDS)
    parts = [replace(part, data=operands) if part.address == _OPERANDS_AT else part for part in parts]
    assert all(part.size <= TEXT_SIZE for part in parts)
    executable = replace(program.executable(), segments=tuple(parts))
    assert _RESULTS_AT + WORD_BYTES * len(rows.texts) <= _RESULTS_END
    expected = _results(executable, config, _RESULTS_AT, len(rows.texts))
    return CoreProgram(name, program, executable.words(), _RESULTS_AT, expected, rows.texts, interrupts=False)
