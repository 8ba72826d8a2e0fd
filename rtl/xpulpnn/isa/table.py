"""The instruction table: all instructions, those of a configuration, and look-up by name or word.

Encodings are written nowhere else. The decoder, the assembler, the disassembler and the simulator iterate over the
table.
"""

from collections.abc import Iterable
from functools import cache, lru_cache

from xpulpnn.errors import EncodingError
from xpulpnn.isa.compressed import COMPRESSED_ROWS, expand_compressed
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.scalar import INTEGER_ROWS, SCALAR_ROWS, SYSTEM_ROWS
from xpulpnn.isa.xif import XIF_ROWS
from xpulpnn.isa.xpulpnn import MAC_LOAD_ROWS, QUANTISATION_ROWS, SIMD_ROWS, XPULPNN2_ROWS, XPULPNN3_ROWS

__all__ = ["INSNS", "Decoder", "Insn", "by_mnemonic", "enabled", "expand_compressed", "find"]

INSNS: tuple[Insn, ...] = (
    *INTEGER_ROWS,
    *COMPRESSED_ROWS,
    *SYSTEM_ROWS,
    *SCALAR_ROWS,
    *SIMD_ROWS,
    *MAC_LOAD_ROWS,
    *QUANTISATION_ROWS,
    *XPULPNN2_ROWS,
    *XPULPNN3_ROWS,
)
"""All rows of the instruction table, aliases included. The coprocessor's have names, but share words with them."""


@cache
def enabled(extensions: frozenset[Extension], widths: frozenset[int], *, aliases: bool = False) -> tuple[Insn, ...]:
    """Return the instructions of a core with these extensions and SIMD element widths in bits."""
    return tuple(
        insn
        for insn in INSNS
        if extensions.issuperset(insn.needs)
        and (insn.fmt is None or insn.fmt.width in widths)
        and (aliases or not insn.alias)
    )


_ROWS: dict[str, list[Insn]] = {}
for _insn in (*INSNS, *XIF_ROWS):
    _ROWS.setdefault(_insn.mnemonic.lower(), []).append(_insn)


def by_mnemonic(mnemonic: str) -> tuple[Insn, ...]:
    """Return the instructions called ``mnemonic``, ignoring case; empty if there is none."""
    return tuple(_ROWS.get(mnemonic.lower(), ()))


def find(mnemonic: str, operands: str | None = None) -> Insn:
    """Return the instruction with this mnemonic and, where the mnemonic has several forms, these operands.

    Without operands, a Mac&Load is the one that reloads an entry it multiplies. Raises :class:`EncodingError` if no
    instruction or more than one matches.
    """
    rows = by_mnemonic(mnemonic)
    if not rows:
        raise EncodingError(f"mnemonic must be in the instruction table, not {mnemonic}")
    chosen = [
        insn
        for insn in rows
        if (
            not insn.reloads_other and insn.writes_base >= insn.is_pair
            if operands is None
            else insn.operands == operands
        )
    ]
    if len(chosen) != 1:
        forms = " or ".join(insn.operands for insn in rows)
        raise EncodingError(f"operands of {mnemonic} must be {forms}, not {operands or 'open'}")
    return chosen[0]


_CACHE_LIMIT = 1 << 18


class Decoder:
    """A decoder of the words of the given instructions; aliases are ignored, as other rows have their words."""

    def __init__(self, insns: Iterable[Insn]) -> None:
        # words are looked up by mask, then by fixed bits
        self._rows: dict[int, dict[int, list[Insn]]] = {}
        # returns the row of a word, or None if it is illegal; the upper half of a compressed word is ignored
        self.decode = lru_cache(_CACHE_LIMIT)(self._decode)
        for insn in insns:
            if not insn.alias:
                self._rows.setdefault(insn.mask, {}).setdefault(insn.match, []).append(insn)

    def _decode(self, word: int) -> Insn | None:
        rows = (insn for mask, rows_by_match in self._rows.items() for insn in rows_by_match.get(word & mask, ()))
        return next((insn for insn in rows if insn.matches(word)), None)


ALL_WORDS = Decoder(INSNS)  # decoder of the whole table
