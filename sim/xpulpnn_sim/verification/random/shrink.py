"""From a failing program to a minimal one: delta debugging over the blocks, then over the machine."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from xpulpnn.errors import EncodingError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.bare.program import PLAIN, RETURN, ProgramBlock, RandomProgram, names_of

T = TypeVar("T")
RUNS = 1500  # candidates that are tried before the best one so far is accepted
_SMALL_NUMBERS = (0, 1, 2, 4)
_KEPT = ("max_cycles", "max_instructions", "bus_errors")  # fields of the machine that stay
_RATES = (0.2, 0.05, 0.01)  # Interrupt rates that let a failure come early


@dataclass(frozen=True, slots=True)
class ShrinkCase:
    """A program and the machine it runs on."""

    program: RandomProgram
    machine: Machine  # how memory and interrupts behave; default values are the simplest


def _with(case: ShrinkCase, **parts: Any) -> ShrinkCase:
    return replace(case, program=replace(case.program, **parts))


def minimise_list(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A shortest sublist that still fails, in the sense that no single item can be left out (ddmin)."""
    kept = tuple(items)
    chunk = len(kept)
    while chunk:
        position = 0
        while position < len(kept):
            candidate = kept[:position] + kept[position + chunk :]
            if fails(candidate):
                kept = candidate
            else:
                position += chunk
        chunk = min(chunk // 2, len(kept))
    return kept


class Shrinker:
    """Makes a failing case small."""

    def __init__(
        self,
        fails: Callable[[ShrinkCase], bool],
        *,
        progress: Callable[[int], None] | None = None,
        runs: int = RUNS,
    ) -> None:
        self._fails, self._progress, self._runs = fails, progress, runs
        self._known: dict[tuple[str, Any, int | None], bool] = {}
        self.tried = 0

    def shrink(self, case: ShrinkCase) -> ShrinkCase:
        """The smallest case found; ``case`` itself must fail."""
        while True:
            before = case
            for step in (self._machine, self._skeleton, self._blocks, self._numbers):
                case = step(case)
            if case == before or self.tried >= self._runs:
                return case

    def _try(self, case: ShrinkCase) -> bool:
        """Try a candidate; remembered, since different cuts give the same program."""
        try:
            text = case.program.text()
            key = (text, case.machine, case.program.data_seed)
            if key not in self._known:
                case.program.assembled()
                if self.tried >= self._runs:
                    return False
                self.tried += 1
                self._known[key] = self._fails(case)
        except EncodingError:
            return False
        if self._known[key] and self._progress is not None:
            self._progress(case.program.statements)
        return self._known[key]

    def _first(self, case: ShrinkCase, *candidates: ShrinkCase) -> ShrinkCase:
        """The first candidate that fails in place of the case."""
        return next((candidate for candidate in candidates if self._try(candidate)), case)

    def _machine(self, case: ShrinkCase) -> ShrinkCase:
        """No wait states, no interrupts: every field at its default value, all at once or one by one."""
        defaults = {
            field.name: field.default
            for field in fields(case.machine)
            if field.name not in _KEPT and getattr(case.machine, field.name) != field.default
        }
        plain = ShrinkCase(case.program, replace(case.machine, **defaults))
        if self._try(plain):
            return plain
        for name, value in defaults.items():
            case = self._first(case, ShrinkCase(case.program, replace(case.machine, **{name: value})))
        # a short program must be interrupted early
        faster = [rate for rate in _RATES if 0 < case.machine.irq_rate < rate]
        return self._first(case, *(ShrinkCase(case.program, replace(case.machine, irq_rate=rate)) for rate in faster))

    def _skeleton(self, case: ShrinkCase) -> ShrinkCase:
        """The simplest handlers, zeros as data."""
        case = self._first(case, _with(case, handlers=PLAIN))
        for name in ("nests", "loops", "filler"):
            simpler = replace(case.program.handlers, **{name: getattr(PLAIN, name)})
            case = self._first(case, _with(case, handlers=simpler))
        return self._first(case, _with(case, data_seed=None))

    def _blocks(self, case: ShrinkCase) -> ShrinkCase:
        """Leave blocks out, then single lines of what is left; functions move into the program if they can."""
        for name in ("main", "functions"):
            case = self._part(case, name, getattr(case.program, name))
        if names := names_of(case.program.functions):
            bodies = (block for block in _by_line(case.program.functions) if block.head[0] != RETURN)
            plain = (
                one for one in case.program.main if not any(name in line for line in one.lines() for name in names)
            )
            case = self._first(case, _with(case, main=(*plain, *bodies), functions=()))
        for name in ("main", "functions"):
            case = self._part(case, name, _by_line(getattr(case.program, name)))
        return case

    def _part(self, case: ShrinkCase, name: str, blocks: tuple[ProgramBlock, ...]) -> ShrinkCase:
        """The case with as few of the blocks in a part of the program as fail."""
        return _with(case, **{name: minimise_list(blocks, lambda kept: self._try(_with(case, **{name: kept})))})

    def _numbers(self, case: ShrinkCase) -> ShrinkCase:
        """Constants as small as possible: loop counts and register values."""
        for at, block in enumerate(case.program.main):
            before, after = case.program.main[:at], case.program.main[at + 1 :]
            lines = (replace(block, head=(line,)) for line in _simpler_lines(block.head[0]))
            case = self._first(case, *(_with(case, main=(*before, line, *after)) for line in lines))
        return case


def _by_line(blocks: Iterable[ProgramBlock]) -> tuple[ProgramBlock, ...]:
    """The same lines, each a block of its own."""
    return tuple(ProgramBlock(block.kind, (line,)) for block in blocks for line in block.lines())


def _simpler_lines(line: str) -> Iterator[str]:
    mnemonic, _, rest = line.partition(" ")
    register, comma, value = rest.partition(", ")
    if mnemonic != "li" or not comma:
        return
    for number in _SMALL_NUMBERS:
        if value in (str(number), f"0x{number:x}"):
            return
        yield f"li {register}, {number}"
