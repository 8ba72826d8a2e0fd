"""Runs vectors, each an instruction with operands and expected results, on the design as one instruction stream.

Before the instruction of a vector the stream loads x10, x11 and x12 from a block of parameters. If the instruction uses
the NN-RF, Mac&Load instructions without a result fill the NN-RF before and read it afterwards. Retirements do not show
the requantisation parameters and the second pair of activations; for these only the write by the vector's instruction
is checked. The words of a vector's memory are written just before its instruction accesses them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa import machine
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled, find
from xpulpnn_sim.cosimulation.checks.vectors import VECTOR_REGISTERS, Vector, VectorMismatch, differences
from xpulpnn_sim.cosimulation.model.schema import POKE
from xpulpnn_sim.cosimulation.workloads.workload import ExecutedStream, run_stream
from xpulpnn_sim.reference.programs.retirements import Records

CHUNK = 8192  # Vectors per stream

_POINTER = 5
_LOW_BITS = 12
_LOW = 1 << _LOW_BITS
_ALIGNMENT = 1 << 20

_Words = list[tuple[Insn, int]]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Instructions that the stream executes before and after the instruction of each vector."""

    before: _Words
    after: _Words
    shown: list[tuple[str, int, int]]  # operand, instruction of `after` that reads it, and NN-RF entry
    filled: list[int]  # entries that the first instructions of `before` load
    spare: int = 0  # words that `after` loads

    @property
    def length(self) -> int:
        return len(self.before) + 1 + len(self.after)


def _parameters() -> _Words:
    row = find("p.lw", "rd,imm12(rs1!)")
    return [(row, row.encode(rd=rd, imm12=machine.WORD_BYTES, rs1=_POINTER)) for rd in VECTOR_REGISTERS.values()]


def _mac_load_frame(row: Insn, config: CoreConfig) -> _Frame:
    parameters = range(machine.NNRF_PARAMETERS if config.requantise else 0)
    pair = range(machine.SECOND_PAIR, machine.NNRF_WORDS if config.mac_load_pair else machine.SECOND_PAIR)
    load = find("pv.rqld")

    def product(selector: int) -> tuple[Insn, int]:
        return row, row.encode(rd=0, rs1=_POINTER, nnimm5=selector)

    weights = range(machine.NNRF_ENTRIES - machine.FIRST_WEIGHT)
    fill = [product(i | machine.RELOADS_ACTIVATION) for i in range(machine.FIRST_WEIGHT)]
    fill += [product(i << machine.WEIGHT_SELECT_LSB | machine.RELOADS_WEIGHT) for i in weights]
    fill += [(load, load.encode(uimm1=i, rs1=_POINTER)) for i in parameters]
    other = find(row.mnemonic.replace("dot", "duo"))
    fill += [(other, other.encode(rd=0, rs1=_POINTER, w=0, p=0, t=i)) for i in pair]
    show = [product(i % machine.FIRST_WEIGHT | i << machine.WEIGHT_SELECT_LSB) for i in weights]
    shown = [("act", i, i) for i in range(machine.FIRST_WEIGHT)] + [
        ("wgt", i, machine.FIRST_WEIGHT + i) for i in weights
    ]
    filled = [*range(machine.NNRF_ENTRIES), *(machine.FIRST_PARAMETER + i for i in parameters), *pair]
    return _Frame([*fill, *_parameters()], show, shown, filled)


def _frame_with_entries(config: CoreConfig) -> _Frame | None:
    rows = enabled(config.extensions, config.widths)
    for row in rows:
        if row.op == "pv.mlsdot":
            return _mac_load_frame(row, config)
    compute_update = [row for row in rows if row.op == "pv.cusdot"]
    if not compute_update:
        return None
    first = compute_update[0]
    same = [
        row
        for row in compute_update
        if (row.fmt, row.a_signed, row.b_signed) == (first.fmt, first.a_signed, first.b_signed)
    ]
    # Compute&Update reloads every entry that it reads
    ordered = sorted(same, key=lambda row: row.entry or 0)
    products = [(row, row.encode(rd=0, rs1=_POINTER, rs2=0)) for row in ordered]
    shown = [("wgt", i, machine.FIRST_WEIGHT + i) for i in range(len(ordered))]
    filled = [entry for _, _, entry in shown]
    return _Frame([*products, *_parameters()], products, shown, filled, spare=len(ordered))


class VectorBench:
    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._plain = _Frame(_parameters(), [], [], [])
        self._with_entries = _frame_with_entries(config)

    def check(self, vectors: Iterable[Vector]) -> list[VectorMismatch]:
        mismatches: list[VectorMismatch] = []
        for uses_nnrf, group in groupby(sorted(vectors, key=_uses_nnrf), key=_uses_nnrf):
            frame = self._with_entries if uses_nnrf else self._plain
            assert frame is not None
            chosen = list(group)
            for start in range(0, len(chosen), CHUNK):
                mismatches += self._run(frame, chosen[start : start + CHUNK])
        return mismatches

    def _run(self, frame: _Frame, vectors: list[Vector]) -> list[VectorMismatch]:
        block = np.array([_block(frame, vector) for vector in vectors], np.uint32)
        base = _free_base(vectors, block.nbytes)
        words, sequence = _text(frame, vectors, base)
        setup = len(sequence) - frame.length * len(vectors)
        blocks: list[Records] = []
        # the addresses do not matter: the stream says which word is next
        pcs = np.arange(len(words), dtype=np.uint32) * np.uint32(machine.WORD_BYTES)
        run_stream(
            ExecutedStream(words, pcs, sequence, {base: block.reshape(-1).view(np.uint8)}),
            self._config,
            sparse=True,
            pokes=_pokes(frame, vectors, setup),
            check=False,
            observer=lambda records: blocks.append(records[0].copy()),
        )
        return list(_judge(frame, vectors, np.concatenate(blocks)[setup:]))


def _uses_nnrf(vector: Vector) -> bool:
    return vector.insn.uses_nnrf


def _block(frame: _Frame, vector: Vector) -> list[int]:
    others = (vector.rd2_in, vector.rs1) if vector.insn.is_pair else (vector.rs1, vector.rs2)
    given = len(vector.nnrf_in)
    entries = [vector.nnrf_in[entry] if entry < given else 0 for entry in frame.filled]
    return [*entries, vector.rd_in, *others, *[0] * frame.spare]


def _free_base(vectors: list[Vector], size: int) -> int:
    blocked = {
        (address + edge) % machine.ADDRESS_SPACE // _ALIGNMENT for v in vectors for address in v.mem for edge in (0, 3)
    }
    needed = -(-size // _ALIGNMENT)
    start = 1
    while any(number in blocked for number in range(start, start + needed)):
        start += 1
    return start * _ALIGNMENT


def _text(frame: _Frame, vectors: list[Vector], base: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    low = (base + _LOW // 2) % _LOW - _LOW // 2
    lui, addi = find("lui"), find("addi")
    setup: _Words = [(lui, lui.encode(rd=_POINTER, uimm20=((base - low) & machine.WORD_MASK) >> _LOW_BITS))]
    setup.append((addi, addi.encode(rd=_POINTER, rs1=_POINTER, imm12=low)))
    fixed = [word for _, word in (*setup, *frame.before, *frame.after)]
    sequence = np.empty((len(vectors), frame.length), np.uint32)
    sequence[:, : len(frame.before)] = np.arange(len(frame.before)) + len(setup)
    sequence[:, len(frame.before)] = np.arange(len(vectors)) + len(fixed)
    sequence[:, len(frame.before) + 1 :] = np.arange(len(frame.after)) + len(setup) + len(frame.before)
    words = np.array([*fixed, *(vector.word for vector in vectors)], np.uint32)
    return words, np.concatenate((np.arange(len(setup), dtype=np.uint32), sequence.reshape(-1)))


def _pokes(frame: _Frame, vectors: list[Vector], setup: int) -> NDArray[Any]:
    rows = [
        (setup + i * frame.length + len(frame.before), address, word)
        for i, vector in enumerate(vectors)
        for address, word in vector.mem.items()
    ]
    return np.array(rows, POKE)


_SHOWN_FIELD = {"act": "nn_act_rdata", "wgt": "nn_wgt_rdata"}


def _judge(frame: _Frame, vectors: list[Vector], records: Records) -> Iterator[VectorMismatch]:
    length, lead = frame.length, len(frame.before)
    names = ("rd_we", "rd_addr", "rd_wdata", "base_we", "base_wdata", "nn_we", "nn_addr", "nn_wdata")
    names += ("rd2_we", "rd2_wdata", *_SHOWN_FIELD.values())
    values = {name: records[name].tolist() for name in names}
    for number, vector in enumerate(vectors):
        first = number * length
        if first + length > len(records):
            yield VectorMismatch(vector, "executed", 1, 0)
            continue
        at = first + lead
        writes = values["rd_we"][at] and values["rd_addr"][at] == VECTOR_REGISTERS["rd"]
        after: dict[str, Any] = {
            "rd_out": values["rd_wdata"][at] if writes else vector.rd_in,
            "rd2_out": values["rd2_wdata"][at] if values["rd2_we"][at] else vector.rd2_in,
            "rs1_out": values["base_wdata"][at] if values["base_we"][at] else vector.rs1,
            "nnrf_out": list(vector.nnrf_out),
        }
        for name, offset, entry in frame.shown:
            after["nnrf_out"][entry] = values[_SHOWN_FIELD[name]][at + 1 + offset]
        after["nnrf_out"][machine.FIRST_PARAMETER :] = vector.nnrf_in[machine.FIRST_PARAMETER :]
        if values["nn_we"][at] and machine.FIRST_PARAMETER <= values["nn_addr"][at] < len(after["nnrf_out"]):
            after["nnrf_out"][values["nn_addr"][at]] = values["nn_wdata"][at]
        yield from differences(vector, after)
