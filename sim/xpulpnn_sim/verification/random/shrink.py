"""From a failing program to a minimal one: delta debugging over the blocks, then over the machine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from xpulpnn.errors import EncodingError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.verification.random.program import PLAIN, ProgramBlock, RandomProgram

T = TypeVar("T")
RUNS = 1500  # candidates that are tried before the best one so far is accepted
_SMALL_NUMBERS = (0, 1, 2, 4)
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
        keep: frozenset[str] = frozenset({"max_cycles", "bus_errors"}),
        progress: Callable[[int], None] | None = None,
        runs: int = RUNS,
    ) -> None:
        self._fails, self._keep, self._progress = fails, keep, progress
        self._runs = runs
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
            if field.name not in self._keep and getattr(case.machine, field.name) != field.default
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
        program = case.program
        handlers = program.handlers
        for simpler in (
            PLAIN,
            replace(handlers, nests=False, loops=False, filler=()),
            replace(handlers, nests=False),
            replace(handlers, loops=False),
            replace(handlers, filler=()),
        ):
            if simpler != handlers:
                case = self._first(case, _with(case, handlers=simpler))
            if case.program.handlers != handlers:
                break
        if case.program.data_seed is not None:
            case = self._first(case, _with(case, data_seed=None))
        return case

    def _blocks(self, case: ShrinkCase) -> ShrinkCase:
        main = self._reduce(case.program.main, lambda blocks: self._try(_with(case, main=blocks)))
        case = _with(case, main=main)
        called = case.program.functions
        bodies = tuple(child for block in called for child in block.children)
        for inlined in ((*main, *bodies), _without_calls(main, called) + bodies):
            candidate = _with(case, main=inlined, functions=())
            if bodies and self._try(candidate):
                return candidate
        functions = self._reduce(called, lambda blocks: self._try(_with(case, functions=blocks)), hoist=False)
        return _with(case, functions=functions)

    def _reduce(
        self, blocks: tuple[ProgramBlock, ...], fails: Callable[[tuple[ProgramBlock, ...]], bool], *, hoist: bool = True
    ) -> tuple[ProgramBlock, ...]:
        """Leave blocks out, put children in the place of their parents, then the same inside each block."""
        blocks = minimise_list(blocks, fails)
        position = 0
        while position < len(blocks):
            before, block, after = blocks[:position], blocks[position], blocks[position + 1 :]
            if hoist and block.children and fails(before + block.children + after):
                blocks = minimise_list(before + block.children + after, fails)
                position = 0
                continue

            block = self._inside(block, lambda changed, before=before, after=after: fails((*before, changed, *after)))
            blocks = (*before, block, *after)
            position += 1
        return blocks

    def _inside(self, block: ProgramBlock, fails: Callable[[ProgramBlock], bool]) -> ProgramBlock:
        children = self._reduce(block.children, lambda blocks: fails(replace(block, children=blocks)))
        block = replace(block, children=children)
        if len(block.head) + len(block.tail) < 2:
            return block
        for name in ("head", "tail"):
            lines = minimise_list(
                getattr(block, name), lambda lines, name=name, block=block: fails(replace(block, **{name: lines}))
            )
            block = replace(block, **{name: lines})
        return block

    def _numbers(self, case: ShrinkCase) -> ShrinkCase:
        """Constants as small as possible: loop counts and register values."""
        return _with(case, main=self._smaller(case.program.main, lambda blocks: self._try(_with(case, main=blocks))))

    def _smaller(
        self, blocks: tuple[ProgramBlock, ...], fails: Callable[[tuple[ProgramBlock, ...]], bool]
    ) -> tuple[ProgramBlock, ...]:
        for position, block in enumerate(blocks):
            before, after = blocks[:position], blocks[position + 1 :]
            for index, line in enumerate(block.head):
                for simpler in _simpler_lines(line):
                    head = (*block.head[:index], simpler, *block.head[index + 1 :])
                    if fails((*before, replace(block, head=head), *after)):
                        block = replace(block, head=head)
                        break
            children = self._smaller(
                block.children,
                lambda found, block=block, before=before, after=after: fails(
                    (*before, replace(block, children=found), *after)
                ),
            )
            blocks = (*before, replace(block, children=children), *after)
        return blocks


def _without_calls(blocks: tuple[ProgramBlock, ...], functions: tuple[ProgramBlock, ...]) -> tuple[ProgramBlock, ...]:
    names = [block.head[0].removesuffix(":") for block in functions if block.head]
    return tuple(block for block in blocks if not any(name in line for name in names for line in block.lines()))


def _simpler_lines(line: str) -> Iterator[str]:
    mnemonic, _, rest = line.partition(" ")
    register, comma, value = rest.partition(", ")
    if mnemonic != "li" or not comma:
        return
    for number in _SMALL_NUMBERS:
        if value in (str(number), f"0x{number:x}"):
            return
        yield f"li {register}, {number}"
