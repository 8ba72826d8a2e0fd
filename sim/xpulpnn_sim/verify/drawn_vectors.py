"""Vectors of the Mac&Loads and of the requantisation, computed with plain integers.

Neither the encodings nor the results come from the instruction table or the reference models, so that vectors check
these too: words are put together from the guide's tables ("Mac&Load", "XpulpNN 2"), elements are digits of a number, a
shift is a division, clipping takes the middle of three.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.files import write_bytes
from xpulpnn_sim.stimuli import corner_words, random_word

_WORDS = 1 << 32
_ENTRIES, _WITH_PARAMETERS = 6, 8
_KAPPA, _LAMBDA = 6, 7
_RD, _RS1, _RS2 = 10, 11, 12
_OPCODE = 0b1110111
_SUFFIXES = {16: "h", 8: "b", 4: "n", 2: "c"}
_PRODUCTS = {"up": 0b1110000, "usp": 0b1110100, "sup": 0b1101100, "sp": 0b1111100}
"""Bits [31:25] of ``pv.mlsdot*``; the lowest leaves out the accumulation."""
_FUNCT3 = {16: 0b000, 8: 0b001, 4: 0b010, 2: 0b011}
_REQUANTISED_FUNCT3 = {8: 0b101, 4: 0b110, 2: 0b111}
_LOAD_FUNCT3 = 0b100
_SIGNED_BIT = 27
_X0_CHANCE, _CORNER_CHANCE = 0.1, 0.4
_NEAR = 2
"""How far outside its range a result is aimed at."""
_END_CHANCE = 0.3
"""How often it is aimed at an end of the range or beyond it."""


def _encode(top: int, bits24_20: int, funct3: int, rd: int) -> int:
    return top << 25 | bits24_20 << 20 | _RS1 << 15 | funct3 << 12 | rd << 7 | _OPCODE


def _digits(word: int, width: int) -> list[int]:
    """The elements of a word, unsigned, the lowest first."""
    found: list[int] = []
    for _ in range(32 // width):
        word, digit = divmod(word, 2**width)
        found.append(digit)
    return found


def _numbers(word: int, width: int, *, signed: bool) -> list[int]:
    return [digit - 2**width if signed and 2 * digit >= 2**width else digit for digit in _digits(word, width)]


def _word(rng: Random, width: int) -> int:
    return rng.choice(corner_words(width)) if rng.random() < _CORNER_CHANCE else random_word(rng)


def _memory(rng: Random, address: int) -> tuple[dict[str, int], int]:
    """Aligned words around an address, and the one at the address itself."""
    first = address - address % 4
    places = [first] if first == address else [first, (first + 4) % _WORDS]
    words = [random_word(rng) for _ in places]
    held = b"".join(word.to_bytes(4, "little") for word in words)
    at = address % 4
    return dict(zip(map(str, places), words, strict=True)), int.from_bytes(held[at : at + 4], "little")


class _Writer:
    """Draws vectors for one configuration."""

    def __init__(self, config: CoreConfig, rng: Random) -> None:
        self._rng = rng
        self._config = config
        self._entries = _WITH_PARAMETERS if config.requantise else _ENTRIES
        self._widths = sorted(config.widths)
        self._narrow = [width for width in self._widths if width in _REQUANTISED_FUNCT3]
        self.kinds: list[Callable[[], dict[str, Any]]] = []
        if config.mac_load_nn:
            self.kinds += [self._product] * 3
        if config.requantise:
            self.kinds.append(self._parameter)
            self.kinds += [self._requantised] * (3 if self._narrow else 0)

    def _entry_words(self, width: int) -> list[int]:
        return [_word(self._rng, width) for _ in range(self._entries)]

    def _product(self) -> dict[str, Any]:
        """A Mac&Load of any form that the configuration has."""
        rng, config = self._rng, self._config
        width, signs = rng.choice(self._widths), rng.choice([*_PRODUCTS])
        begins = config.mac_load_dot and rng.random() < 0.5
        update = rng.randrange(4 if config.mac_load_cross else 3)
        selector = update << 3 | rng.randrange(8)
        rd = 0 if rng.random() < _X0_CHANCE else _RD
        before, rs1, rd_in = self._entry_words(width), rng.getrandbits(32), _word(rng, width)
        activation, weight = selector % 2, 2 + selector // 2 % 4
        first = _numbers(before[weight], width, signed=signs in ("sup", "sp"))
        second = _numbers(before[activation], width, signed=signs in ("usp", "sp"))
        total = sum(a * b for a, b in zip(first, second, strict=True)) + (0 if begins else rd_in)
        after, memory, rs1_out = [*before], dict[str, int](), rs1
        if update:
            memory, loaded = _memory(rng, rs1)
            after[{1: activation, 2: weight, 3: 1 - activation}[update]] = loaded
            rs1_out = (rs1 + 4) % _WORDS
        return {
            "insn": f"pv.ml{'' if begins else 's'}dot{signs}.{_SUFFIXES[width]}",
            "word": _encode(_PRODUCTS[signs] + begins, selector, _FUNCT3[width], rd),
            "imm": selector,
            "rs1": rs1,
            "rd_in": rd_in,
            "rd_is_x0": rd == 0,
            "nnrf_in": before,
            "mem": memory,
            "rd_out": total % _WORDS if rd else rd_in,
            "rs1_out": rs1_out,
            "nnrf_out": after,
        }

    def _parameter(self) -> dict[str, Any]:
        """A pv.rqld."""
        rng = self._rng
        number, rs1, before = rng.randrange(2), rng.getrandbits(32), self._entry_words(8)
        memory, loaded = _memory(rng, rs1)
        after = [*before]
        after[_KAPPA + number] = loaded
        return {
            "insn": "pv.rqld",
            "word": _encode(0, number, _LOAD_FUNCT3, 0),
            "rs1": rs1,
            "rd_in": 0,
            "nnrf_in": before,
            "mem": memory,
            "rd_out": 0,
            "rs1_out": (rs1 + 4) % _WORDS,
            "nnrf_out": after,
        }

    def _requantised(self) -> dict[str, Any]:
        """A pv.rq*, mostly with a result within the range or next to it."""
        rng = self._rng
        width, signed = rng.choice(self._narrow), rng.random() < 0.5
        lane, rd = rng.randrange(32 // width), 0 if rng.random() < _X0_CHANCE else _RD
        least = -(2 ** (width - 1)) if signed else 0
        most = least + 2**width - 1
        before, rs1, rd_in = self._entry_words(32), _word(rng, 32), _word(rng, width)
        shift = rng.randrange(32)
        if rng.random() < 0.9:
            ends = (least - _NEAR, least - 1, least, most, most + 1, most + _NEAR)
            aim = rng.choice(ends) if rng.random() < _END_CHANCE else rng.randint(least, most)
            rest = rng.choice((0, 2**shift - 1, rng.randrange(2**shift)))
            before[_LAMBDA] = (aim * 2**shift + rest - before[_KAPPA] * rs1) % _WORDS
        total = (before[_KAPPA] * rs1 + before[_LAMBDA]) % _WORDS
        total -= _WORDS if 2 * total >= _WORDS else 0
        digits = _digits(rd_in, width)
        digits[lane] = sorted((least, total // 2**shift, most))[1] % 2**width
        result = sum(digit * 2 ** (width * place) for place, digit in enumerate(digits))
        return {
            "insn": f"pv.rq{'s' if signed else 'u'}.{_SUFFIXES[width]}",
            "word": _encode(0, _RS2, _REQUANTISED_FUNCT3[width], rd) | lane << 28 | signed << _SIGNED_BIT,
            "rs1": rs1,
            "rs2": rng.randrange(2**27) * 32 + shift,
            "rd_in": rd_in,
            "rd_is_x0": rd == 0,
            "nnrf_in": before,
            "rd_out": result if rd else rd_in,
            "rs1_out": rs1,
            "nnrf_out": before,
        }


def drawn_vectors(config: CoreConfig, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """``count`` vectors as objects of a vector file."""
    rng = Random(f"vectors {seed}")
    kinds = _Writer(config, rng).kinds
    if not kinds:
        raise InputError("mac_load_nn must be true for vectors that are drawn, not false")
    for _ in range(count):
        yield rng.choice(kinds)()


def write_vectors(path: Path, config: CoreConfig, count: int, seed: int) -> None:
    """Write vectors to a file, compressed if its name ends so; raises :class:`InputError` as :func:`drawn_vectors`."""
    text = "".join(json.dumps(vector) + "\n" for vector in drawn_vectors(config, count, seed)).encode()
    # no time in the header: the same vectors are the same file
    write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
