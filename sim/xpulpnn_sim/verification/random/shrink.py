"""Shrink a failing program by delta debugging: first its blocks, then the settings of its machine."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from xpulpnn.errors import EncodingError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.bare.program import PLAIN, RETURN, ProgramBlock, RandomProgram, indented, names_of
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.verification.random.designs import Verdict, shown_machine
from xpulpnn_sim.verification.random.program_runs import ProgramCase, ProgramRun

T = TypeVar("T")
Case = ProgramCase[RandomProgram]
RUNS = 1500  # candidates that are tried before the best one so far is accepted
_SMALL_NUMBERS = (0, 1, 2, 4)
_FIXED = ("max_cycles", "max_instructions", "bus_errors")  # fields of the machine that stay
_RATES = (0.2, 0.05, 0.01)  # Interrupt rates that let a failure come early
_SPARE_CYCLES = 1_000  # added to the cycles a shrunk program may take
_ENDLESS_SHARE = 16  # a shrunk program without an end is given up after a fraction of the instructions
_ALL_INSTRUCTIONS = 2_000_000  # retirements of all programs tried, after which the smallest so far is accepted


def _vary(case: Case, **parts: Any) -> Case:
    return replace(case, program=replace(case.program, **parts))


def minimise_list(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a sublist that still fails and from which no single item can be removed (ddmin)."""
    remaining = tuple(items)
    chunk = len(remaining)
    while chunk:
        position = 0
        while position < len(remaining):
            candidate = remaining[:position] + remaining[position + chunk :]
            if fails(candidate):
                remaining = candidate
            else:
                position += chunk
        chunk = min(chunk // 2, len(remaining))
    return remaining


class Shrinker:
    def __init__(
        self, fails: Callable[[Case], bool], *, progress: Callable[[int], None] | None = None, runs: int = RUNS
    ) -> None:
        self._fails, self._progress, self._runs = fails, progress, runs
        self._known: dict[tuple[str, Any, int | None], bool] = {}
        self.tried = 0

    def shrink(self, case: Case) -> Case:
        """Return the smallest failing case that was found; ``case`` itself must fail."""
        while True:
            before = case
            for step in (self._machine, self._skeleton, self._blocks, self._numbers):
                case = step(case)
            if case == before or self.tried >= self._runs:
                return case

    def _try(self, case: Case) -> bool:
        """Return whether a candidate fails; results are cached, since different removals may give the same program."""
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

    def _first(self, case: Case, *candidates: Case) -> Case:
        return next((candidate for candidate in candidates if self._try(candidate)), case)

    def _machine(self, case: Case) -> Case:
        defaults = {
            field.name: field.default
            for field in fields(case.machine)
            if field.name not in _FIXED and getattr(case.machine, field.name) != field.default
        }
        plain = ProgramCase(case.program, replace(case.machine, **defaults))
        if self._try(plain):
            return plain
        for name, value in defaults.items():
            case = self._first(case, ProgramCase(case.program, replace(case.machine, **{name: value})))
        # a short program must be interrupted early
        faster = [rate for rate in _RATES if 0 < case.machine.irq_rate < rate]
        return self._first(case, *(ProgramCase(case.program, replace(case.machine, irq_rate=rate)) for rate in faster))

    def _skeleton(self, case: Case) -> Case:
        """Try the simplest handlers, and data of zeros; keep each if the program still fails."""
        case = self._first(case, _vary(case, handlers=PLAIN))
        for name in ("nests", "loops", "filler"):
            simpler = replace(case.program.handlers, **{name: getattr(PLAIN, name)})
            case = self._first(case, _vary(case, handlers=simpler))
        return self._first(case, _vary(case, data_seed=None))

    def _blocks(self, case: Case) -> Case:
        """Remove blocks, then single lines; replace functions by their code if possible."""
        for name in ("main", "functions"):
            case = self._part(case, name, getattr(case.program, name))
        if names := names_of(case.program.functions):
            bodies = (block for block in _by_line(case.program.functions) if block.head[0] != RETURN)
            main = case.program.main
            plain = (block for block in main if not any(name in line for line in block.lines() for name in names))
            case = self._first(case, _vary(case, main=(*plain, *bodies), functions=()))
        for name in ("main", "functions"):
            case = self._part(case, name, _by_line(getattr(case.program, name)))
        return case

    def _part(self, case: Case, name: str, blocks: tuple[ProgramBlock, ...]) -> Case:
        return _vary(case, **{name: minimise_list(blocks, lambda rest: self._try(_vary(case, **{name: rest})))})

    def _numbers(self, case: Case) -> Case:
        for at, block in enumerate(case.program.main):
            before, after = case.program.main[:at], case.program.main[at + 1 :]
            lines = (replace(block, head=(line,)) for line in _simpler_lines(block.head[0]))
            case = self._first(case, *(_vary(case, main=(*before, line, *after)) for line in lines))
        return case


def _by_line(blocks: Iterable[ProgramBlock]) -> tuple[ProgramBlock, ...]:
    return tuple(ProgramBlock(block.kind, (line,)) for block in blocks for line in block.lines())


def _simpler_lines(line: str) -> Iterator[str]:
    load, comma, value = line.partition(", ")
    if load.startswith("li ") and comma:
        number = int(value, 0)
        yield from (f"{load}, {small}" for small in _SMALL_NUMBERS if small < number or number < 0)


def shorter(machine: Machine, verdict: Verdict) -> Machine:
    """Return the machine with lower limits for shrunk programs: about twice the cycles that the failure took."""
    cycles = min(2 * verdict.cycles + _SPARE_CYCLES, machine.max_cycles)
    share = _ENDLESS_SHARE if verdict.reason is Reason.MAX_CYCLES else 1
    return replace(machine, max_cycles=cycles, max_instructions=machine.max_instructions // share)


def shrink(run: ProgramRun, progress: Callable[[int], None] | None = None, runs: int = RUNS) -> Case:
    """Return the smallest program found that fails in the same way as that of ``run``, in at most ``runs`` runs."""
    full = run.source.case(run.seed)
    case, spent = replace(full, machine=shorter(full.machine, run.verdict)), 0

    def fails(candidate: Case) -> bool:
        nonlocal spent
        if spent > _ALL_INSTRUCTIONS:
            return False
        verdict = run.source.check(candidate)
        spent += verdict.instructions
        return verdict.reason is run.verdict.reason

    return Shrinker(fails, progress=progress, runs=runs).shrink(case) if fails(case) else full


def _heading(case: Case, run: ProgramRun) -> list[str]:
    return [
        "Written by xpulpnn verify: minimal program that fails",
        f"from: {run.source.command(run.seed)}",
        f"machine: {shown_machine(case.machine)}, seed {case.machine.seed}",
        *run.verdict.text.splitlines(),
    ]


def program_listing(case: Case, run: ProgramRun) -> str:
    return case.program.listing(_heading(case, run))


def excerpt(case: Case, run: ProgramRun) -> str:
    """Return the generated part of the program, without handlers and prologue, to be read on a terminal."""
    lines = [line for block in (*case.program.main, *case.program.functions) for line in block.lines()]
    return "\n".join([*(f"# {line}" for line in _heading(case, run)), *indented(lines)]) + "\n"
