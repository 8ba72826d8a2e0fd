"""Code that aims at single crosses: it contains the instructions of the cross, and everything else is random."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random

from xpulpnn.isa import machine
from xpulpnn.isa.csr import Csr
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.reference.bare.layout import BASE, COUNTER, FAILING, LINK
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.verification.coverage.crosses import Crosses
from xpulpnn_sim.verification.coverage.kinds import ENTRIES, Producer, reserved_words
from xpulpnn_sim.verification.coverage.placing import PRODUCER, NoWayError, Placed, Placer, ProducedPair
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_REPEATS = 6  # copies of what waits for an interrupt
_INTERRUPTED = 40  # iterations of a loop that waits for an interrupt
_PENDING = 12  # cycles in which a line may rise while interrupts are off
_WAITED_FOR = {
    WaitCause.LOAD_USE: Producer.LOAD,
    WaitCause.JUMP_REGISTER: Producer.ALU,
    WaitCause.MAC_LOAD: Producer.MAC_LOAD_BASE,
}
_COUNT, _LINK, _BASE = ABI_NAMES[COUNTER], ABI_NAMES[LINK], ABI_NAMES[BASE]
_ON, _OFF = "csrrsi zero, mstatus, 8", "csrrci zero, mstatus, 8"
_AHEAD: Mapping[WaitCause, list[str]] = {
    WaitCause.TRAP: ["ecall"],
    WaitCause.CSR: ["csrrw zero, mscratch, zero"],
    WaitCause.SYNC: ["fence.i"],
    WaitCause.SLEEP: [_OFF, f"addi {_LINK}, zero, -1", f"csrrw zero, mie, {_LINK}", "wfi"],
}
"""Instructions behind which an instruction waits, by cause."""

SKIPPING = """
skip:
    sw t6, 4(t5); csrrs t6, mepc, zero; lw t6, 0(t6); sw t1, 0(t5)
    lui t1, 0x30200; addi t1, t1, 0x73; bne t6, t1, other
    csrrs t6, mepc, zero; addi t6, t6, 4; csrrw zero, mepc, t6
other:
    lw t1, 0(t5); lw t6, 4(t5); mret
"""
"""Interrupt handler that skips an interrupted mret, which would return to itself for ever."""

Lines = list[str]


class Aims:
    def __init__(self, crosses: Crosses, placer: Placer) -> None:
        self._crosses, self._placer = crosses, placer
        self._rng: Random = placer.draw.rng
        self._writers: Mapping[str, Callable[..., Lines]] = {
            "instruction": lambda row: placer.place(row).all_lines(),
            "operand": lambda row, slot, producer, distance: self._spaced(placer.pair(row, slot, producer), distance),
            "overwrite": lambda row, producer, distance: self._spaced(placer.overwritten(row, producer), distance),
            "NN-RF": self._entry,
            "wait": self._wait,
            "interrupt": self._interrupt,
            "loop end": lambda row, place: self._loop_of(row, first=place.startswith("first")),
            "access fault": self._fault,
            "timing": self._timing,
            "across an interrupt": self._across_interrupt,
            "across a loop end": self._across_loop,
            "interrupt in a loop": self._interrupted_loop,
            "CSR": self._csr,
            "reserved word": self._reserved,
        }

    def block(self, number: int) -> ProgramBlock | None:
        """Return code that aims at the cross ``number``; None for crosses that programs reach by chance."""
        family, place = self._crosses.place(number)
        if family.name not in self._writers:
            return None
        values = (axis[at] for axis, at in zip(family.values, family.at(place), strict=True))
        with suppress(NoWayError):
            lines = self._writers[family.name](*values)
            return ProgramBlock(f"aims at {family.name}: {family.label(place)}", tuple(lines))
        return None

    def _spaced(self, pair: ProducedPair, distance: int, *ahead: str) -> Lines:
        """Return the code of ``pair`` with ``distance - 1`` other instructions between its two instructions."""
        fillers = [self._placer.filler(pair.preserved) for _ in range(distance - 1)]
        return [*pair.before, *ahead, *pair.producer, *fillers, *pair.consumer]

    def _entry(self, row: Insn, entry: str, distance: int) -> Lines:
        pins, first = self._loader(row, entry)
        placed = self._placer.place(row, pins)
        fillers = [self._placer.filler() for _ in range(distance - 1)]
        return placed.all_lines([*first.all_lines(), *fillers])

    def _loader(self, row: Insn, entry: str) -> tuple[dict[str, int], Placed]:
        """Return operands of ``row`` that select an NN-RF entry, and an instruction that loads the entry."""
        rng, operands, pins = self._rng, dict[str, int](), dict[str, int]()

        if row.is_pair:
            operands = {"w": rng.randrange(4), "p": rng.randrange(2)}
            number = machine.SECOND_PAIR * operands["p"] + (entry == ENTRIES[-1])
            pins = {"t": machine.FIRST_WEIGHT + operands["w"] if entry == "weight" else number}
            rows = [other for other in self._crosses.rows if other.is_pair and other.writes_base]
        elif row.requantises:
            pins = {"uimm1": ENTRIES.index(entry) - 2}
            rows = [other for other in self._crosses.rows if other.loads_parameter]
        elif row.is_nn_form:
            entries, both = rng.randrange(8), machine.RELOADS_ACTIVATION | machine.RELOADS_WEIGHT
            own = both if row.reloads_other else rng.choice((machine.RELOADS_ACTIVATION, machine.RELOADS_WEIGHT))
            operands = {"nnimm5": own | entries}
            if entry == "activation":
                other_weight = rng.randrange(4) << machine.WEIGHT_SELECT_LSB
                pins = {"nnimm5": machine.RELOADS_ACTIVATION | entries & machine.ACTIVATION_SELECT | other_weight}
            else:
                weight = entries & machine.WEIGHT_SELECT << machine.WEIGHT_SELECT_LSB
                pins = {"nnimm5": machine.RELOADS_WEIGHT | weight | rng.randrange(2)}
            rows = [other for other in self._crosses.rows if other.is_nn_form and not other.reloads_other]
        else:
            rows = [other for other in self._crosses.rows if (other.op, other.entry) == (row.op, row.entry)]
        return operands, self._placer.place(rng.choice(rows), pins, scratch=PRODUCER)

    def _wait(self, row: Insn, cause: WaitCause) -> Lines:
        placer, reads = self._placer, self._crosses.reads(row)
        match cause:
            case WaitCause.LOOP:
                return self._short_loop(row)
            case WaitCause.MISALIGNED:
                return placer.place(row, crosses_word=True).all_lines()
            case WaitCause.MAC_LOAD if not reads.slots:
                return self._entry(row, self._rng.choice(reads.entries), 1)
            case _ if cause in _WAITED_FOR:
                return self._spaced(placer.pair(row, self._rng.choice(reads.slots), _WAITED_FOR[cause]), 1)
            case WaitCause.JUMP | WaitCause.BRANCH:
                over = placer.draw.label("near")
                jump = "jal zero" if cause is WaitCause.JUMP else "beq zero, zero"
                return placer.place(row).all_lines([f"{jump}, {over}", placer.filler(), f"{over}:"])
            case _:
                self._require_interrupts(cause is WaitCause.SLEEP or (cause is WaitCause.TRAP and row.op == "mret"))
                lines = placer.place(row).all_lines(_AHEAD.get(cause, []))
                return [*lines, _ON] if cause is WaitCause.SLEEP else lines

    def _interrupt(self, row: Insn, side: str) -> Lines:
        self._require_interrupts()
        resumes = side == "first not retired"
        if resumes and row.op == "mret":
            return self._wait(row, WaitCause.TRAP)
        lines: list[str] = []
        for _ in range(2 if resumes else _REPEATS):
            # a line that has risen meanwhile is taken at once when interrupts are on again
            enabled = [_OFF, *(self._placer.filler() for _ in range(_PENDING)), _ON] if resumes else []
            lines += self._placer.place(row).all_lines(enabled)
        return lines

    def _require_interrupts(self, needed: bool = True) -> None:
        if needed and not self._placer.interrupts:
            raise NoWayError

    def _other_loop(self, row: Insn, number: int) -> dict[str, int]:
        """Return operands with which a hardware-loop instruction does not affect the loop ``number``."""
        return {"L": 1 - number} if row.insn_class is InsnClass.LOOP else {}

    def _short_loop(self, row: Insn) -> Lines:
        """Return a loop that begins with the instruction ``row`` and writes its own count just before its end."""
        placer, number = self._placer, self._rng.randrange(2)
        placed = placer.place(row, self._other_loop(row, number))
        start, end = (placer.draw.label(stem) for stem in ("start", "end"))
        setup = [f"lp.counti {number}, 0", f"lp.starti {number}, {start}", f"lp.endi {number}, {end}"]
        last = placer.filler(placed.registers(row))
        count = [f"addi {_COUNT}, {_COUNT}, -1", f"lp.count {number}, {_COUNT}", f"{end}:", last]
        ahead = [*placed.before, *setup, f"addi {_COUNT}, zero, 3", f"{start}:"]
        return [*ahead, placed.text, *placed.after, *count, f"lp.counti {number}, 0"]

    def _interrupted_loop(self, kind: InsnClass, side: str) -> Lines:
        self._require_interrupts()
        traps = ("mret", "ecall", "ebreak")
        rows = [row for row in self._crosses.rows if row.insn_class is kind and row.op not in traps]
        return self._loop_of(self._rng.choice(rows), first=False, length=3, count=_INTERRUPTED)

    def _loop_of(self, row: Insn, *, first: bool, length: int = 0, count: int = 0) -> Lines:
        """Return a loop whose first or last instruction is ``row``; with 0, ``length`` and ``count`` are random."""
        placer, rng, number = self._placer, self._rng, self._rng.randrange(2)
        placed = placer.place(row, self._other_loop(row, number))
        body = [placer.filler(placed.registers(row)) for _ in range(length or rng.randrange(1, 4))]
        end, own = f"{placer.draw.label('end')}:", [placed.text, *placed.after]
        inside = [*own, *body[:-1], end, body[-1]] if first else [*body, end, *own]
        setup = f"lp.setupi {number}, {count or rng.randrange(2, 4)}, {end[:-1]}"
        return [*placed.before, setup, *inside, f"lp.counti {number}, 0"]

    def _fault(self, row: Insn, place: str) -> Lines:
        if place == "fails":
            return self._placer.place(row, fails=True).all_lines()
        self._require_interrupts(row.op == "mret")
        failing = self._rng.choice((f"lw zero, 0({_LINK})", f"sw zero, 0({_LINK})", f"lh zero, 2({_LINK})"))
        return self._placer.place(row).all_lines([f"li {_LINK}, 0x{FAILING[0]:x}", failing])

    def _read(self, kind: InsnClass) -> tuple[Insn, str]:
        crosses = self._crosses
        rows = [(row, slot) for row in crosses.rows if row.insn_class is kind for slot in crosses.reads(row).slots]
        return self._rng.choice(rows)

    def _timing(self, kind: InsnClass, producer: Producer, distance: int, when: str) -> Lines:
        # while this load waits, fetching starts again unseen
        load = [f"lw zero, 0({_BASE})"] if when == "at once" and producer is Producer.LINK else []
        return self._spaced(self._placer.pair(*self._read(kind), producer), distance, *load)

    def _across_interrupt(self, kind: InsnClass, producer: Producer) -> Lines:
        self._require_interrupts()
        lines: list[str] = []
        for _ in range(_REPEATS):
            with suppress(NoWayError):
                lines += self._spaced(self._placer.pair(*self._read(kind), producer), 1)
        return lines

    def _across_loop(self, kind: InsnClass, producer: Producer) -> Lines:
        if kind is InsnClass.SYSTEM:
            raise NoWayError
        (row, slot), number = self._read(kind), self._rng.randrange(2)
        pair = self._placer.pair(row, slot, producer, self._other_loop(row, number))
        end, (*ahead, last) = self._placer.draw.label("end"), pair.producer
        inside = [*pair.consumer, *pair.before, *ahead, f"{end}:", last]
        return [*pair.before, *pair.producer, f"lp.setupi {number}, 2, {end}", *inside, f"lp.counti {number}, 0"]

    def _csr(self, csr: Csr, access: str) -> Lines:
        read = f"csrrs {_COUNT}, 0x{csr.address:03x}, zero"
        return [read] if access == "read" else [read, f"csrrw zero, 0x{csr.address:03x}, {_COUNT}"]

    def _reserved(self, row: Insn) -> Lines:
        word = self._rng.choice(reserved_words(row, self._placer.draw.decoder))
        return [f".half 0x{word:04x}" if row.size < machine.WORD_BYTES else f".word 0x{word:08x}"]
