"""Code that aims at single crosses: it contains the instructions of the cross, and everything else is random."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random

from xpulpnn.isa.csr import Csr
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import FIRST_WEIGHT, SECOND_PAIR, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.reference.bare.layout import BASE, COUNTER, FAILING, LINK
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.reference.golden.dotp import (
    ACTIVATION_SELECT,
    RELOADS_ACTIVATION,
    RELOADS_WEIGHT,
    WEIGHT_SELECT,
    WEIGHT_SELECT_LSB,
)
from xpulpnn_sim.verification.coverage.crosses import Crosses
from xpulpnn_sim.verification.coverage.kinds import ENTRIES, Producer, reserved_words
from xpulpnn_sim.verification.coverage.placing import PRODUCER, NoWayError, Placed, Placer, ProducedPair
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_REPEATS = 6  # copies of what waits for an interrupt
_INTERRUPTED = 40  # iterations of a loop that waits for an interrupt
_TRANSFERS = frozenset({"mret", "ecall", "ebreak"})
_PENDING = 12  # cycles in which a line may rise while interrupts are off
_WAITED_FOR = {
    WaitCause.LOAD_USE: Producer.LOAD,
    WaitCause.JUMP_REGISTER: Producer.ALU,
    WaitCause.MAC_LOAD: Producer.MAC_LOAD_BASE,
}
_COUNT = ABI_NAMES[COUNTER]
_ON, _OFF = "csrrsi zero, mstatus, 8", "csrrci zero, mstatus, 8"

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
            "instruction": lambda row: placer.place(row).behind(),
            "operand": self._operand,
            "overwrite": lambda row, *how: self._apart(self._placer.overwritten(row, how[0]), how[1]),
            "NN-RF": self._entry,
            "wait": self._wait,
            "interrupt": self._interrupt,
            "loop end": lambda row, place: self._loop_of(
                row, first=place.startswith("first"), length=self._rng.randrange(1, 4)
            ),
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
        writer = self._writers.get(family.name)
        if writer is None:
            return None
        values = (axis[at] for axis, at in zip(family.values, family.at(place), strict=True))
        with suppress(NoWayError):
            return ProgramBlock(f"aims at {family.name}: {family.label(place)}", tuple(writer(*values)))
        return None

    def _apart(self, pair: ProducedPair, distance: int, *ahead: str) -> Lines:
        """Return the code of ``pair`` with ``distance - 1`` other instructions between its two instructions."""
        fillers = [self._placer.filler(pair.keep) for _ in range(distance - 1)]
        return [*pair.before, *ahead, *pair.producer, *fillers, *pair.consumer]

    def _operand(self, row: Insn, slot: str, producer: Producer, distance: int) -> Lines:
        return self._apart(self._placer.pair(row, slot, producer), distance)

    def _entry(self, row: Insn, entry: str, distance: int) -> Lines:
        pins, first = self._loader(row, entry)
        placed = self._placer.place(row, pins)
        fillers = [self._placer.filler() for _ in range(distance - 1)]
        return placed.behind([*first.behind(), *fillers])

    def _loader(self, row: Insn, entry: str) -> tuple[dict[str, int], Placed]:
        """Return operands of ``row`` that select an NN-RF entry, and an instruction that loads the entry."""
        rows, rng, operands, chosen = self._crosses.rows, self._rng, dict[str, int](), 0
        if row.is_pair:
            operands = {"w": rng.randrange(4), "p": rng.randrange(2)}
            number = SECOND_PAIR * operands["p"] + (entry == ENTRIES[-1])
            pins = {"t": FIRST_WEIGHT + operands["w"] if entry == "weight" else number}
            loads = rng.choice([load for load in rows if load.is_pair and load.writes_base])
        elif row.requantises:
            pins = {"uimm1": ENTRIES.index(entry) - 2}
            loads = next(load for load in rows if load.loads_parameter)
        elif not row.is_nn_form:
            pins, loads = {}, rng.choice([load for load in rows if load.op == row.op and load.entry == row.entry])
        else:
            chosen = rng.randrange(8)
            if entry == "activation":
                selector = RELOADS_ACTIVATION | chosen & ACTIVATION_SELECT | rng.randrange(4) << WEIGHT_SELECT_LSB
            else:
                selector = RELOADS_WEIGHT | chosen & WEIGHT_SELECT << WEIGHT_SELECT_LSB | rng.randrange(2)
            pins, loads = (
                {"nnimm5": selector},
                rng.choice([load for load in rows if load.is_nn_form and not load.reloads_other]),
            )
        first = self._placer.place(loads, pins, scratch=PRODUCER)
        if row.is_nn_form:
            both = RELOADS_ACTIVATION | RELOADS_WEIGHT
            own = both if row.reloads_other else rng.choice((RELOADS_ACTIVATION, RELOADS_WEIGHT))
            operands = {"nnimm5": own | chosen}
        return operands, first

    def _wait(self, row: Insn, cause: WaitCause) -> Lines:
        placer = self._placer
        match cause:
            case WaitCause.LOOP:
                return self._short_loop(row)
            case WaitCause.MISALIGNED:
                return placer.place(row, crosses_word=True).behind()
            case WaitCause.MAC_LOAD if not self._crosses.reads(row).slots:
                return self._entry(row, self._rng.choice(self._crosses.reads(row).entries), 1)
            case _ if cause in _WAITED_FOR:
                return self._operand(row, self._rng.choice(self._crosses.reads(row).slots), _WAITED_FOR[cause], 1)
            case _:
                pass
        placed = placer.place(row)
        if cause is WaitCause.TRAP:
            self._require_end(row)
        over = placer.draw.label("near")
        ahead: Mapping[WaitCause, list[str]] = {
            WaitCause.JUMP: [f"jal zero, {over}", placer.filler(), f"{over}:"],
            WaitCause.BRANCH: [f"beq zero, zero, {over}", placer.filler(), f"{over}:"],
            WaitCause.TRAP: ["ecall"],
            WaitCause.CSR: ["csrrw zero, mscratch, zero"],
            WaitCause.SYNC: ["fence.i"],
        }
        if cause is WaitCause.SLEEP:
            self._require_interrupts()
            lines = [_OFF, f"addi {ABI_NAMES[LINK]}, zero, -1", f"csrrw zero, mie, {ABI_NAMES[LINK]}", "wfi"]
            return [*placed.behind(lines), _ON]
        return placed.behind(ahead.get(cause, []))

    def _interrupt(self, row: Insn, side: str) -> Lines:
        self._require_interrupts()
        if side == "first not retired" and row.op == "mret":
            return self._wait(row, WaitCause.TRAP)
        lines: list[str] = []
        resumes = side == "first not retired"
        for _ in range(2 if resumes else _REPEATS):
            placed = self._placer.place(row)
            # a line that has risen meanwhile is taken at once when interrupts are on again
            enabled = [_OFF, *(self._placer.filler() for _ in range(_PENDING)), _ON] if resumes else []
            lines += placed.behind(enabled)
        return lines

    def _require_interrupts(self) -> None:
        if not self._placer.interrupts:
            raise NoWayError

    def _require_end(self, row: Insn) -> None:
        """Raise :class:`NoWayError` for mret without interrupts, which would return to itself for ever."""
        if row.op == "mret":
            self._require_interrupts()

    def _short_loop(self, row: Insn) -> Lines:
        """Return a loop that begins with the instruction ``row`` and writes its own count just before its end."""
        placer, number = self._placer, self._rng.randrange(2)
        placed = placer.place(row, {"L": 1 - number} if row.insn_class is InsnClass.LOOP else {})
        start, end = (placer.draw.label(stem) for stem in ("start", "end"))
        setup = [f"lp.counti {number}, 0", f"lp.starti {number}, {start}", f"lp.endi {number}, {end}"]
        last = placer.filler(placed.registers(row))
        count = [f"addi {_COUNT}, {_COUNT}, -1", f"lp.count {number}, {_COUNT}", f"{end}:", last]
        ahead = [*placed.before, *setup, f"addi {_COUNT}, zero, 3", f"{start}:"]
        return [*ahead, placed.text, *placed.after, *count, f"lp.counti {number}, 0"]

    def _interrupted_loop(self, kind: InsnClass, side: str) -> Lines:
        """Return a loop with so many iterations that an interrupt is likely to come during the loop."""
        self._require_interrupts()
        rows = [row for row in self._crosses.rows if row.insn_class is kind and row.op not in _TRANSFERS]
        return self._loop_of(self._rng.choice(rows), first=False, length=3, count=_INTERRUPTED)

    def _loop_of(self, row: Insn, *, first: bool, length: int, count: int = 0) -> Lines:
        """Return a loop whose first or last instruction is ``row``; it has ``count`` iterations, for 0 two or three."""
        placer, number = self._placer, self._rng.randrange(2)
        other = {"L": 1 - number} if row.insn_class is InsnClass.LOOP else {}
        placed = placer.place(row, other)
        end = placer.draw.label("end")
        body = [placer.filler(placed.registers(row)) for _ in range(length)]
        setup = f"lp.setupi {number}, {count or self._rng.randrange(2, 4)}, {end}"
        if first:
            inside = [placed.text, *placed.after, *body[:-1], f"{end}:", body[-1]]
            return [*placed.before, setup, *inside, f"lp.counti {number}, 0"]
        return [*placed.before, setup, *body, f"{end}:", placed.text, *placed.after, f"lp.counti {number}, 0"]

    def _fault(self, row: Insn, place: str) -> Lines:
        if place == "fails":
            return self._placer.place(row, fails=True).behind()
        placed = self._placer.place(row)
        self._require_end(row)
        base = ABI_NAMES[LINK]
        failing = self._rng.choice(("lw zero, 0({})", "sw zero, 0({})", "lh zero, 2({})")).format(base)
        return placed.behind([f"li {base}, 0x{FAILING[0]:x}", failing])

    def _rows_of(self, kind: InsnClass) -> list[tuple[Insn, str]]:
        """Return the instructions of a class, each paired with every register operand that the instruction reads."""
        reads = self._crosses.reads
        return [(row, slot) for row in self._crosses.rows if row.insn_class is kind for slot in reads(row).slots]

    def _timing(self, kind: InsnClass, producer: Producer, distance: int, when: str) -> Lines:
        row, slot = self._rng.choice(self._rows_of(kind))
        if when != "at once" or producer is not Producer.LINK:
            return self._operand(row, slot, producer, distance)
        # while this load waits, fetching starts again unseen
        return self._apart(self._placer.pair(row, slot, producer), distance, f"lw zero, 0({ABI_NAMES[BASE]})")

    def _across_interrupt(self, kind: InsnClass, producer: Producer) -> Lines:
        self._require_interrupts()
        lines: list[str] = []
        for _ in range(_REPEATS):
            row, slot = self._rng.choice(self._rows_of(kind))
            with suppress(NoWayError):
                lines += self._operand(row, slot, producer, 1)
        return lines

    def _across_loop(self, kind: InsnClass, producer: Producer) -> Lines:
        row, slot = self._rng.choice(self._rows_of(kind))
        number = self._rng.randrange(2)
        pair = self._placer.pair(row, slot, producer, pins={"L": 1 - number} if kind is InsnClass.LOOP else {})
        if kind is InsnClass.SYSTEM:
            raise NoWayError
        end = self._placer.draw.label("end")
        *ahead, last = pair.producer
        inside = [*pair.consumer, *pair.before, *ahead, f"{end}:", last]
        setup = f"lp.setupi {number}, 2, {end}"
        return [*pair.before, *pair.producer, setup, *inside, f"lp.counti {number}, 0"]

    def _csr(self, csr: Csr, access: str) -> Lines:
        """Return code that reads a CSR and, unless ``access`` is "read", writes the value back."""
        read = f"csrrs {_COUNT}, 0x{csr.address:03x}, zero"
        return [read] if access == "read" else [read, f"csrrw zero, 0x{csr.address:03x}, {_COUNT}"]

    def _reserved(self, row: Insn) -> Lines:
        word = self._rng.choice(reserved_words(row, self._placer.draw.decoder))
        return [f".half 0x{word:04x}" if row.size < WORD_BYTES else f".word 0x{word:08x}"]
