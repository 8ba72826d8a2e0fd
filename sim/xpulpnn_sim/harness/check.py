"""Replays retirement records through the reference models, a block at a time, grouped by table row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.golden.effects import Effects, Sources
from xpulpnn_sim.golden.execute import execute
from xpulpnn_sim.harness.abi import RECORD_FIELDS, Property
from xpulpnn_sim.harness.statics import ProgramText

U32 = NDArray[np.uint32]
Values = dict[str, U32]

KEPT = 64
"""Mismatches per block whose details are kept."""

_SOURCES = ("rs1", "rs2", "rd_old", "loaded", "act", "wgt")
_RD_IS_BASE, _RD_IS_X0 = 1, 2
_RS1_FIELD = np.uint32(31 << 15)
_STORE_MASK = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF}
_TEXT = {"rd": "result", "base": "incremented base", "address": "memory address", "store": "stored data"}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One value that differs from the reference.

    Members
    -------
    position : int
        Number of the instruction in the executed sequence.
    index : int
        Its position in the static program.
    what : str
        The value compared.
    expected, got : int
        Reference value and value of the design.
    operands : dict
        What the instruction read, by record field; empty where no record exists.
    """

    position: int
    index: int
    what: str
    expected: int
    got: int
    operands: dict[str, int]


def kinds_of(table: NDArray[Any]) -> NDArray[Any]:
    """What of the register numbers decides which results count, for each element of a static table.

    Instructions of one row are to be compared separately where this differs.
    """
    return (table["rd"] == 0) * _RD_IS_X0 + (table["rd"] == table["rs1"]) * _RD_IS_BASE


def sources_of(insn: Insn, words: U32, pcs: U32, values: Values, length: int | None = None) -> Sources:
    """What the executions of a row read according to their records.

    Parameters
    ----------
    insn : Insn
        The 32-bit row.
    words, pcs : uint32[N]
        Expanded words and addresses.
    values : mapping
        The arrays of N record values by field name.
    length : int or None
        Bytes in memory, None: those of the row.
    """
    reads, absent = insn.reads, np.zeros(0, np.uint32)
    return Sources(
        word=words,
        rs1=values["rs1"] if "rs1" in reads else absent,
        rs2=values["rs2"] if "rs2" in reads else absent,
        rd=values["rd_old"] if "rd" in reads else absent,
        pc=pcs,
        loaded=values["loaded"],
        act=values["act"],
        wgt=values["wgt"],
        length=insn.size if length is None else length,
    )


def differences(kind: int, expected: Effects, words: U32, values: Values) -> list[tuple[str, Any, U32, U32]]:
    """Results that differ, as (field of the records, where, reference values, values of the design).

    Parameters
    ----------
    kind : int
        Of all the instructions, from :func:`kinds_of`.
    expected : Effects
        The reference results.
    words : uint32[N]
        Expanded words.
    values : mapping
        The arrays of N record values by field name.
    """
    found: list[tuple[str, Any, U32, U32]] = []

    def differ(name: str, want: U32, got: U32, counts: NDArray[np.bool_] | None = None) -> None:
        different = want != got
        if counts is not None:
            different &= counts
        if different.any():
            found.append((name, np.flatnonzero(different), want, got))

    rd_is_x0, rd_is_base = bool(kind & _RD_IS_X0), bool(kind & _RD_IS_BASE)
    if expected.rd is not None and not rd_is_x0:
        differ("rd", expected.rd, values["rd"])
    if expected.base is not None and (rd_is_x0 or not rd_is_base or expected.rd is None):
        counts = (words & _RS1_FIELD) != 0
        if expected.base_written is not None:
            counts &= expected.base_written
        differ("base", expected.base, values["base"], counts)
    if expected.address is not None:
        differ("address", expected.address, values["address"], expected.accessed)
    if expected.store is not None and expected.size is not None:
        differ("store", expected.store, values["store"] & np.uint32(_STORE_MASK[expected.size]))
    return found


class BlockChecker:
    """Compares blocks of records of one program with the reference semantics.

    Parameters
    ----------
    program : ProgramText
        The static text.
    table : array
        Its :func:`~xpulpnn_sim.harness.statics.static_table`.
    """

    def __init__(self, program: ProgramText, table: NDArray[Any]) -> None:
        rows: dict[tuple[int, int], int] = {}
        pairs = zip(map(id, program.insns), kinds_of(table).tolist(), strict=True)
        numbers = [rows.setdefault(pair, len(rows)) for pair in pairs]
        self._row_of = np.array(numbers, np.uint16)
        named = {id(insn): insn for insn in program.insns}
        self._rows = [(named[key], kind) for key, kind in rows]
        self._words = np.ascontiguousarray(table["word"])
        self._pcs = np.ascontiguousarray(table["pc"])
        self._lengths = table["length"].astype(np.uint32)
        self._loop_end = (table["properties"] & Property.LOOP_END) != 0

    def check(self, sequence: U32, records: Values, first_position: int) -> tuple[int, list[Mismatch]]:
        """Number of mismatches among the records, and the first of them.

        Parameters
        ----------
        sequence : uint32[N] or uint32[N + 1]
            Static positions of the N records and, unless the stream ends, of the instruction after them.
        records : mapping
            The arrays of N values by field name.
        first_position : int
            Number of the first record in the whole stream.
        """
        count = len(records["rd"])
        index, following = sequence[:count], sequence[1 : count + 1]
        row_ids = self._row_of[index]
        order = np.argsort(row_ids, kind="stable").astype(np.uint32)
        bounds = np.zeros(len(self._rows) + 1, np.int64)
        np.cumsum(np.bincount(row_ids, minlength=len(self._rows)), out=bounds[1:])
        sorted_index = index[order]
        words = self._words[sorted_index]
        total, kept = 0, []
        for number, (insn, kind) in enumerate(self._rows):
            start, stop = bounds[number], bounds[number + 1]
            if start == stop:
                continue
            chosen = order[start:stop]
            values = {name: records[name][chosen] for name in RECORD_FIELDS}
            word = words[start:stop]
            expected = execute(insn, sources_of(insn, word, self._pcs[sorted_index[start:stop]], values))
            found = [(_TEXT[name], at, want, got) for name, at, want, got in differences(kind, expected, word, values)]
            if expected.taken is not None:
                found += self._redirects(expected, chosen, index, following)
            for what, at, want, got in found:
                total += len(at)
                for i in at[:KEPT].tolist():
                    position = int(chosen[i])
                    operands = {name: int(values[name][i]) for name in _SOURCES}
                    kept.append(
                        Mismatch(
                            first_position + position, int(index[position]), what, int(want[i]), int(got[i]), operands
                        )
                    )
        kept.sort(key=lambda mismatch: mismatch.position)
        return total, kept[:KEPT]

    def _redirects(self, expected: Effects, chosen: U32, index: U32, following: U32) -> list[tuple[str, Any, U32, U32]]:
        """Control transfers of the stream that the operands do not ask for, and the other way round."""
        assert expected.taken is not None
        assert expected.target is not None
        known = chosen < len(following)
        current = index[chosen]
        next_pc = self._pcs[following[np.where(known, chosen, 0)]] if len(following) else self._pcs[current]
        fall_through = self._pcs[current] + self._lengths[current]
        want = np.where(expected.taken, expected.target, fall_through).astype(np.uint32)
        at = np.flatnonzero((want != next_pc) & known & ~self._loop_end[current])
        return [("next pc", at, want, next_pc)] if len(at) else []
