"""Litmus tests: the outcomes that sequential consistency allows, and programs that run a test many times."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, permutations
from pathlib import Path
from random import Random
from struct import pack
from typing import NamedTuple

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.cluster import L2_BASE, TCDM_ALIAS, TCDM_BASE, TEST_SET_BIT
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.bare.program import random_executable
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sim.verification.clusters.program import barrier_lines, set_barrier_lines
from xpulpnn_sw.assembly.asm import assemble

MARK = WORD_MASK  # what a test&set leaves


class _Operation(NamedTuple):
    kind: str  # W: write, R: read, T: test&set
    variable: int  # number of the variable; all are 0 at first
    value: int = 0


Thread = tuple[_Operation, ...]
Outcome = tuple[int, ...]  # what all reads have found, thread after thread, then what the variables hold in the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Litmus:
    name: str  # as in the literature
    what: str
    threads: tuple[Thread, ...]  # their accesses in order

    @property
    def variables(self) -> int:
        return 1 + max(operation.variable for thread in self.threads for operation in thread)

    def reads(self) -> Iterator[tuple[int, int]]:
        """Yield each read in the order of an outcome, as its thread and its number within the thread."""
        for number, thread in enumerate(self.threads):
            count = sum(operation.kind != "W" for operation in thread)
            yield from ((number, position) for position in range(count))

    def shown(self, outcome: Outcome) -> str:
        """Format an outcome: the value of each read, then the final values of the variables."""
        reads = list(self.reads())
        pairs = zip(reads, outcome, strict=False)
        observed = [f"{thread}:r{position}={_value(value)}" for (thread, position), value in pairs]
        final = [f"{'xyzw'[number]}={_value(value)}" for number, value in enumerate(outcome[len(reads) :])]
        return " ".join([*observed, *final])

    def allowed(self) -> set[Outcome]:
        turns = [number for number, thread in enumerate(self.threads) for _ in thread]
        return {self._outcome(order) for order in set(permutations(turns))}

    def _outcome(self, order: Sequence[int]) -> Outcome:
        memory, reads = [0] * self.variables, [list[int]() for _ in self.threads]
        left = [iter(thread) for thread in self.threads]
        for number in order:
            kind, variable, value = next(left[number])
            if kind != "W":
                reads[number].append(memory[variable])
            if kind != "R":
                memory[variable] = MARK if kind == "T" else value
        return (*chain(*reads), *memory)

    def forbidden(self, counts: Mapping[Outcome, int]) -> dict[Outcome, int]:
        allowed = self.allowed()
        return {outcome: count for outcome, count in counts.items() if outcome not in allowed}


def _value(value: int) -> str:
    return "-1" if value == MARK else str(value)


def _litmus(name: str, what: str, *threads: str) -> Litmus:
    """Parse a test whose operations are spelled like ``Wx1 Ry Tx``."""
    words = [text.split() for text in threads]
    parsed = (tuple(_Operation(word[0], "xyzw".index(word[1]), int(word[2:] or 0)) for word in text) for text in words)
    return Litmus(name=name, what=what, threads=tuple(parsed))


TESTS: Sequence[Litmus] = (
    _litmus("SB", "store buffering", "Wx1 Ry", "Wy1 Rx"),
    _litmus("MP", "message passing", "Wx1 Wy1", "Ry Rx"),
    _litmus("LB", "load buffering", "Rx Wy1", "Ry Wx1"),
    _litmus("S", "write after a message", "Wx2 Wy1", "Ry Wx1"),
    _litmus("R", "read after two writes", "Wx1 Wy1", "Wy2 Rx"),
    _litmus("2+2W", "two writers", "Wx1 Wy2", "Wy1 Wx2"),
    _litmus("WRC", "write to read causality", "Wx1", "Rx Wy1", "Ry Rx"),
    _litmus("IRIW", "independent readers", "Wx1", "Wy1", "Rx Ry", "Ry Rx"),
    _litmus("CoRR", "reads of one word", "Wx1 Wx2", "Rx Rx"),
    _litmus("CoWW", "writers of one word", "Wx1 Wx2", "Wx3 Rx"),
    _litmus("CoWR", "read of an own write", "Wx1 Rx", "Wx2 Rx"),
    _litmus("TAS", "test&set of one word", "Tx", "Tx Tx"),
    _litmus("TAS+W", "release between test&sets", "Tx Wx0", "Tx Rx"),
    _litmus("TAS+MP", "message behind a lock", "Wy1 Tx", "Tx Ry"),
)
"""All litmus tests, with two to four threads each."""

_TEXT = L2_BASE + 0x80
_TABLES = L2_BASE + 0x10_0000  # rows of all harts, one for each round; then their results
_ROW_WORDS, _RESULT_WORDS = 6, 2
_VARIABLES = 2
_SLED = 24  # longest delay of a thread in cycles
_TCDM_WORDS = TCDM_BASE + 0x1000
_START, _TOHOST = TCDM_BASE, TCDM_BASE + 0x40
_ROUND_BYTES = 0x40
MOST_ROUNDS = 1000
_ADDRESSES = ("s2", "s3")
_MARKING = ("s8", "s9")
_VALUES = {0: "zero", 1: "s10", 2: "s11", 3: "t5"}
_READ_REGISTERS = ("a0", "a1")


class LitmusProgram:
    """A program that runs a litmus test on a cluster, in many rounds.

    In each round all harts meet at a barrier, which releases them in the same cycle. Each thread runs on a random hart
    and begins after a delay of 0 to :data:`_SLED` cycles. The variables are words that no other round uses, in the same
    bank or in different banks, in the TCDM under any of its addresses or outside the cluster. Harts without a thread
    access words nearby.

    Raises :class:`InputError` for a cluster that is too small.
    """

    def __init__(self, test: Litmus, config: ClusterConfig, rounds: int, seed: int = 0) -> None:
        if config.cores < len(test.threads):
            raise InputError(f"cores must be at least {len(test.threads)} for {test.name}, not {config.cores}")
        require(1 <= rounds <= MOST_ROUNDS, f"rounds must be 1 to {MOST_ROUNDS}, not {rounds}")
        self._test, self._config, self._rounds = test, config, rounds
        self._rng = Random(f"litmus {test.name} {seed}")
        # bytes of rows and of results of a hart
        self._row_bytes, self._result_bytes = (WORD_BYTES * words * rounds for words in (_ROW_WORDS, _RESULT_WORDS))
        self._results = _TABLES + self._row_bytes * config.cores
        self._end = self._results + self._result_bytes * config.cores
        self._made: list[tuple[tuple[int, ...], list[int]]] = []  # variables and harts of each round

    def _variables(self, number: int) -> tuple[int, ...]:
        rng = self._rng
        inside = _TCDM_WORDS + _ROUND_BYTES * number
        outside = self._end + _ROUND_BYTES * number
        bases = [rng.choice((inside, inside, inside, outside)) for _ in range(_VARIABLES)]
        if any(operation.kind == "T" for thread in self._test.threads for operation in thread):
            # outside the cluster there is no test&set
            bases[0] = inside
        same_bank = WORD_BYTES * self._config.banks % _ROUND_BYTES or 8
        distances = rng.choice(((0, 4), (4, 0), (0, same_bank), (0, 32), (12, 0)))
        return tuple(base + distance for base, distance in zip(bases, distances, strict=True))

    def _seen_at(self, address: int) -> int:
        """Return ``address``, or at random the same word's address in the TCDM alias."""
        if address >= L2_BASE:
            return address
        return self._rng.choice((address, address, TCDM_ALIAS + address - TCDM_BASE))

    def executable(self) -> Executable:
        code = assemble(self._text(), _TEXT)
        rng, cores = self._rng, self._config.cores
        roles = [code.labels[f"thread{number}"] for number in range(len(self._test.threads))]
        rows: list[list[bytes]] = [[] for _ in range(cores)]
        for number in range(self._rounds):
            places, harts = self._variables(number), rng.sample(range(cores), len(roles))
            self._made.append((places, harts))
            for hart in range(cores):
                role = roles[harts.index(hart)] if hart in harts else code.labels["noise"]
                addresses = [self._seen_at(place) for place in places]
                if hart not in harts:
                    addresses = [place ^ rng.choice((16, 48)) for place in places]
                sled = code.labels["sled_end"] - WORD_BYTES * rng.randrange(_SLED + 1)
                rows[hart].append(pack("<6I", role, *addresses, sled, *(place | 1 << TEST_SET_BIT for place in places)))
        table = b"".join(row for part in rows for row in part)
        whole = self._end - _TABLES + _ROUND_BYTES * (self._rounds + 1)
        return random_executable(
            f"litmus test {self._test.name}",
            code,
            tohost=_TOHOST,
            functions=[name for name, address in code.labels.items() if address >= _TEXT],
            data=[Segment(_TABLES, table, whole)],
            text=_TEXT,
        )

    def _text(self) -> str:
        lines = ["start:", "csrrs s0, mhartid, zero", "andi s0, s0, 31", f"li s1, 0x{_TABLES:x}"]
        lines += [f"li t0, {self._row_bytes}", "mul t0, t0, s0", "add s1, s1, t0"]
        lines += [f"li s7, 0x{self._results:x}", f"li t0, {self._result_bytes}", "mul t0, t0, s0", "add s7, s7, t0"]
        lines += ["addi s10, zero, 1", "addi s11, zero, 2", "addi t5, zero, 3", f"li s6, {self._rounds}"]
        lines += [f"li t2, 0x{_START:x}", "addi a2, s0, 0", "bne a2, zero, begin"]
        lines += [*set_barrier_lines(0, (1 << self._config.cores) - 1), "sw s10, 0(t2)", "addi s0, a2, 0"]
        lines += ["begin: lw t0, 0(t2)", "beq t0, zero, begin"]
        lines += ["round: lw s4, 0(s1)", "lw s2, 4(s1)", "lw s3, 8(s1)", "lw s5, 12(s1)", "lw s8, 16(s1)"]
        lines += ["lw s9, 20(s1)", "addi a0, zero, 0", "addi a1, zero, 0", "addi a3, s0, 0"]
        # the barrier's code works in s0 and t1
        lines += [*barrier_lines(0), "addi s0, a3, 0", "jalr zero, 0(s5)"]
        lines += ["sled:", *["addi zero, zero, 0"] * _SLED, "sled_end:", "jalr zero, 0(s4)"]
        for number, thread in enumerate(self._test.threads):
            lines += [f"thread{number}:", *self._accesses(thread), "jal zero, next"]
        lines += ["noise:", "lw t0, 0(s2)", "sw t0, 0(s3)", "lw t0, 0(s3)", "sw t0, 0(s2)", "lw t0, 0(s2)"]
        lines += ["next:", "sw a0, 0(s7)", "sw a1, 4(s7)", f"addi s7, s7, {WORD_BYTES * _RESULT_WORDS}"]
        lines += [f"addi s1, s1, {WORD_BYTES * _ROW_WORDS}", "addi s6, s6, -1", "bne s6, zero, round"]
        lines += ["addi a3, s0, 0", *barrier_lines(0), "bne a3, zero, rest"]
        lines += [f"li t1, 0x{_TOHOST:x}", "sw s10, 0(t1)", "rest: jal zero, rest"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _accesses(thread: Thread) -> list[str]:
        lines: list[str] = []
        registers = iter(_READ_REGISTERS)
        for kind, variable, value in thread:
            if kind == "W":
                lines.append(f"sw {_VALUES[value]}, 0({_ADDRESSES[variable]})")
            else:
                address = _MARKING[variable] if kind == "T" else _ADDRESSES[variable]
                lines.append(f"lw {next(registers)}, 0({address})")
        return lines

    def outcomes(self, result: RunResult) -> Counter[Outcome]:
        counts: Counter[Outcome] = Counter()
        for number, (places, harts) in enumerate(self._made):
            outcome: list[int] = []
            for thread, position in self._test.reads():
                row = harts[thread] * self._rounds + number
                at = self._results + WORD_BYTES * (_RESULT_WORDS * row + position)
                outcome.append(_word(result, at))
            outcome += [_word(result, places[variable]) for variable in range(self._test.variables)]
            counts[tuple(outcome)] += 1
        return counts


def _word(result: RunResult, address: int) -> int:
    return int.from_bytes(result.read(address, WORD_BYTES), "little")


def run_litmus(
    test: Litmus, config: ClusterConfig, machine: Machine, rounds: int, *, seed: int = 0, library: Path | None = None
) -> tuple[Counter[Outcome], RunResult]:
    """Run a litmus test on a cluster, with all checks of the simulation; return how often each outcome occurred."""
    program = LitmusProgram(test, config, rounds, seed)
    executable = program.executable()
    result = run_program(executable, config, replace(machine, seed=seed), check=True, library=library)
    return program.outcomes(result), result
