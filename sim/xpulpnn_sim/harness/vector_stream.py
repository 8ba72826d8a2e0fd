"""Single-instruction vectors on the design under test: many of them joined into one instruction stream.

Around the vector's word the stream loads x10, x11 and x12 from a block of parameters and, for Mac&Load, fills the
NN-RF before and reads it afterwards with Mac&Load instructions that keep nothing. The words of the vector's memory
appear just before its instruction accesses them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled, find
from xpulpnn_sim.golden.dotp import FIRST_WEIGHT, RELOADS_ACTIVATION, RELOADS_WEIGHT, WEIGHT_SELECT_LSB
from xpulpnn_sim.harness.abi import POKE, Property
from xpulpnn_sim.harness.engine import BusTiming, Engine, Outcome, Values
from xpulpnn_sim.harness.statics import VectorProgram
from xpulpnn_sim.harness.vectors import NNRF_ENTRIES, REGISTERS, Vector, VectorMismatch, differences

CHUNK = 8192
"""Vectors per stream."""

_POINTER = 5
_WORD_BYTES = 4
_LOW_BITS = 12
_LOW = 1 << _LOW_BITS
_ALIGNMENT = 1 << 20
_ADDRESS_SPACE = 1 << 32

_Words = list[tuple[Insn, int]]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Instructions before and after a vector's word, and the NN-RF entry each instruction of ``after`` shows."""

    before: _Words
    after: _Words
    shown: list[tuple[str, int, int]]
    parameters: int

    @property
    def length(self) -> int:
        """Instructions per vector."""
        return len(self.before) + 1 + len(self.after)


def _post_load(rd: int) -> tuple[Insn, int]:
    row = find("p.lw", "rd,imm12(rs1!)")
    return row, row.encode(rd=rd, imm12=_WORD_BYTES, rs1=_POINTER)


def _parameters() -> _Words:
    return [_post_load(number) for number in REGISTERS.values()]


def _nn_frame(row: Insn) -> _Frame:
    """Frame of a core with the nn form."""

    def product(selector: int) -> tuple[Insn, int]:
        return row, row.encode(rd=0, rs1=_POINTER, nnimm5=selector)

    weights = range(NNRF_ENTRIES - FIRST_WEIGHT)
    fill = [product(i | RELOADS_ACTIVATION) for i in range(FIRST_WEIGHT)]
    fill += [product(i << WEIGHT_SELECT_LSB | RELOADS_WEIGHT) for i in weights]
    show = [product(i % FIRST_WEIGHT | i << WEIGHT_SELECT_LSB) for i in weights]
    shown = [("act", i, i) for i in range(FIRST_WEIGHT)] + [("wgt", i, FIRST_WEIGHT + i) for i in weights]
    return _Frame([*fill, *_parameters()], show, shown, NNRF_ENTRIES + len(REGISTERS))


def _cu_frame(rows: Sequence[Insn]) -> _Frame:
    """Frame of a core with the C&U form alone, where reading an entry also reloads it."""
    products = [(row, row.encode(rd=0, rs1=_POINTER, rs2=0)) for row in rows]
    shown = [("wgt", i, FIRST_WEIGHT + i) for i in range(len(rows))]
    return _Frame([*products, *_parameters()], products, shown, 2 * len(rows) + len(REGISTERS))


def _mac_load_frame(config: CoreConfig) -> _Frame | None:
    rows = enabled(config.extensions, config.widths)
    for row in rows:
        if row.op == "pv.mlsdot":
            return _nn_frame(row)
    compute_update = [row for row in rows if row.op == "pv.cusdot"]
    if not compute_update:
        return None
    first = compute_update[0]
    same = [
        row
        for row in compute_update
        if (row.fmt, row.a_signed, row.b_signed) == (first.fmt, first.a_signed, first.b_signed)
    ]
    return _cu_frame(sorted(same, key=lambda row: row.entry or 0))


class VectorBench:
    """Runs vectors on the compiled model of a configuration.

    Parameters
    ----------
    config : CoreConfig
        Configuration of the model.
    library : Path
        The model, with the retirement port.
    timing : BusTiming
        Behaviour of the memory.
    """

    def __init__(self, config: CoreConfig, library: Path, timing: BusTiming | None = None) -> None:
        self._library, self._timing = library, timing
        self._plain = _Frame(_parameters(), [], [], len(REGISTERS))
        self._mac_load = _mac_load_frame(config)

    def check(self, vectors: Iterable[Vector]) -> list[VectorMismatch]:
        """Mismatches of the vectors, in their order within a kind."""
        found: list[VectorMismatch] = []
        for mac_load, group in groupby(sorted(vectors, key=_is_mac_load), key=_is_mac_load):
            frame = self._mac_load if mac_load else self._plain
            assert frame is not None
            chosen = list(group)
            for start in range(0, len(chosen), CHUNK):
                found += self._run(frame, chosen[start : start + CHUNK])
        return found

    def _run(self, frame: _Frame, vectors: list[Vector]) -> list[VectorMismatch]:
        block = np.array([_block(frame, vector) for vector in vectors], np.uint32)
        base = _free_base(vectors, block.nbytes)
        program, sequence = _text(frame, vectors, base)
        setup = len(sequence) - frame.length * len(vectors)
        records: list[tuple[int, Values]] = []
        window = (base, block.reshape(-1).view(np.uint8))
        with Engine(self._library, program, [window], sparse=True, timing=self._timing) as engine:
            engine.add_pokes(_pokes(frame, vectors, setup))
            outcome = engine.run(
                [sequence],
                observe=lambda at, values: records.append((at, {k: v.copy() for k, v in values.items()})),
                replay=False,
            )
        merged = {name: np.concatenate([values[name] for _, values in records]) for name in records[0][1]}
        incremented = (engine.table["properties"][-len(vectors) :] & Property.WRITES_BASE) != 0
        return list(_judge(frame, vectors, setup, merged, incremented.tolist(), outcome))


def _is_mac_load(vector: Vector) -> bool:
    return vector.insn.is_mac_load


def _block(frame: _Frame, vector: Vector) -> list[int]:
    """Parameters of a vector in the order its frame loads them."""
    registers = [vector.rd_in, vector.rs1, vector.rs2]
    entries = vector.nnrf_in if len(frame.before) > len(REGISTERS) else []
    if len(frame.before) - len(REGISTERS) < len(entries):
        entries = entries[FIRST_WEIGHT:]
    block = [*entries, *registers]
    return block + [0] * (frame.parameters - len(block))


def _free_base(vectors: list[Vector], size: int) -> int:
    """An aligned address where no memory of the vectors lies within ``size`` bytes."""
    blocked = {(address + edge) % _ADDRESS_SPACE // _ALIGNMENT for v in vectors for address in v.mem for edge in (0, 3)}
    needed = -(-size // _ALIGNMENT)
    start = 1
    while any(number in blocked for number in range(start, start + needed)):
        start += 1
    return start * _ALIGNMENT


def _text(frame: _Frame, vectors: list[Vector], base: int) -> tuple[VectorProgram, NDArray[np.uint32]]:
    """The program (frame and words) and the executed sequence."""
    low = (base + _LOW // 2) % _LOW - _LOW // 2
    lui, addi = find("lui"), find("addi")
    setup: _Words = [(lui, lui.match | _POINTER << 7 | ((base - low) & (_ADDRESS_SPACE - 1)))]
    setup.append((addi, addi.encode(rd=_POINTER, rs1=_POINTER, imm12=low)))
    fixed = [*setup, *frame.before, *frame.after]
    pairs = [*fixed, *((vector.insn, vector.word) for vector in vectors)]
    count = len(pairs)
    sequence = np.empty((len(vectors), frame.length), np.uint32)
    sequence[:, : len(frame.before)] = np.arange(len(frame.before)) + len(setup)
    sequence[:, len(frame.before)] = np.arange(len(vectors)) + len(fixed)
    sequence[:, len(frame.before) + 1 :] = np.arange(len(frame.after)) + len(setup) + len(frame.before)
    program = VectorProgram(
        words=np.array([word for _, word in pairs], np.uint32),
        pcs=np.arange(count, dtype=np.uint32) * np.uint32(_WORD_BYTES),
        insns=tuple(insn for insn, _ in pairs),
        regions=("vectors",) * count,
        # the words follow each other in an order that no program counter would take
        hwloop_end=np.ones(count, np.bool_),
    )
    return program, np.concatenate((np.arange(len(setup), dtype=np.uint32), sequence.reshape(-1)))


def _pokes(frame: _Frame, vectors: list[Vector], setup: int) -> NDArray[Any]:
    """The memory of every vector, appearing when its word executes."""
    rows = [
        (setup + i * frame.length + len(frame.before), address, word)
        for i, vector in enumerate(vectors)
        for address, word in vector.mem.items()
    ]
    return np.array(rows, POKE)


def _judge(
    frame: _Frame, vectors: list[Vector], setup: int, records: Values, incremented: list[bool], outcome: Outcome
) -> Iterator[VectorMismatch]:
    """Compare the records with the vectors; an error of the compiled checker counts for the vector it fell into."""
    done, length, lead = len(records["rd"]), frame.length, len(frame.before)
    values = {name: array.tolist() for name, array in records.items()}
    broken: dict[int, VectorMismatch] = {}
    for mismatch in outcome.mismatches:
        number = min(max(mismatch.position - setup, 0) // length, len(vectors) - 1)
        broken.setdefault(number, VectorMismatch(vectors[number], mismatch.what, mismatch.expected, mismatch.got))
    for number, vector in enumerate(vectors):
        first = setup + number * length
        if first + length > done:
            yield broken.get(number) or VectorMismatch(vector, "executed", 1, 0)
            continue
        at = first + lead
        after: dict[str, Any] = {"rd_out": values["rd"][at], "rs1_out": vector.rs1, "nnrf_out": list(vector.nnrf_out)}
        if incremented[number]:
            after["rs1_out"] = values["base"][at]
        for name, offset, entry in frame.shown:
            after["nnrf_out"][entry] = values[name][at + 1 + offset]
        different = list(differences(vector, after))
        yield from different
        if not different and number in broken:
            yield broken[number]
