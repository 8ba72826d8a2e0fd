"""Golden model of the coprocessor behind CV-X-IF, one instruction at a time on Python integers."""

from collections.abc import Callable, Sequence

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import Decoder
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.reference.golden.dotp import as_signed, rounded
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute

Load = Callable[[int], tuple[int, bool]]  # returns the word at an address, and whether the bus answered with an error

_WORD = 1 << 32
_PIXELS = _FILTERS = 4
_ACTIVATIONS = (0, 1, 8, 9)  # entries of the activations of each pixel
_WEIGHTS = (2, 3, 4, 5)
_SHIFT = 6  # entry of the shift, with the zero point in its second byte
_PAIRS = ((0, 1), (8, 9), (2, 3), (4, 5), (_SHIFT,))  # entries that pa.ld writes, by its number
_FIRST_ENTRY, _FIRST_POINTER = 16, 26  # words that pa.rd and pa.wr call by these numbers
_NO_BYTES = 0, False  # what memory answers if there is none


def _elements(word: int, width: int, *, signed: bool) -> list[int]:
    base = 1 << width
    digits = (word // base**lane % base for lane in range(32 // width))
    return [digit - base if signed and 2 * digit >= base else digit for digit in digits]


def _dot(activations: Sequence[int], weights: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(activations, weights, strict=True))


class Coprocessor:
    """State of the coprocessor and the instructions that change it. ``decode`` returns the row of a word, and None for
    words that it refuses."""

    def __init__(self, config: XifConfig, load: Load = lambda address: _NO_BYTES) -> None:
        self.accumulators = [0] * (_PIXELS * _FILTERS)
        self.entries: dict[int, int] = dict.fromkeys((*_ACTIVATIONS, *_WEIGHTS, _SHIFT), 0)
        self.pointers = [0, 0]  # to activations and to weights
        self.failed = 0  # a load was answered with an error since the last pa.sync
        self.decode = Decoder(config.insns).decode
        # words that the configuration lacks read as 0
        weights, shift = _WEIGHTS * (config.memory != "none"), (_SHIFT,) * (config.requantise != "none")
        self._present = frozenset((*_ACTIVATIONS, *weights, *shift))
        self._load, self._has_memory = load, config.memory != "none"

    @property
    def state(self) -> list[int]:
        """All words that pa.rd reads, in the order of their numbers."""
        return [*self.accumulators, *(self.entries[number] for number in sorted(self.entries)), *self.pointers]

    def execute(self, insn: Insn, word: int, rs1: int = 0, rs2: int = 0) -> int | None:
        """Execute an instruction and return what it writes to rd, None if nothing."""
        top = word >> 25
        match insn.op:
            case "pa.acc":
                self._add(top >> 2 & 15, _dot(self._activations(insn, rs1), self._weights(insn, rs2)))
            case "pa.ld":
                for number, value in zip(_PAIRS[top & 7], (rs1, rs2), strict=False):
                    self._write_entry(number, value)
            case "pa.blk":
                weights = {2 * (word >> 31) + place: value for place, value in enumerate((rs1, rs2))}
                self._block(insn, weights, insn.entry or 0)
            case "pa.ptr":
                self.pointers = [rs1 - rs1 % 4, rs2 - rs2 % 4]
            case "pa.step":
                for step in range(rs1 % 1024):
                    self._step(insn, step)
            case "pa.clr":
                self.accumulators = [0] * len(self.accumulators)
            case "pa.wr":
                self._write(top & 31, rs1)
            case "pa.rqu" | "pa.rqs" | "pa.rqxu" | "pa.rqxs":
                self._requantise(insn, top & 3, rs1, rs2)
            case _:
                return self._result(insn, word, rs1, rs2)
        return None

    def _result(self, insn: Insn, word: int, rs1: int, rs2: int) -> int:
        if insn.op == "pa.rd":
            return self._read(word >> 25 & 31)
        if insn.op == "pa.sync":
            failed, self.failed = self.failed, 0
            return failed
        words, first, second = (np.array([value], np.uint32) for value in (word, rs1, rs2))
        effects = execute(insn, Sources(word=words, rs1=first, rs2=second))
        assert effects.rd is not None
        return int(effects.rd[0])

    def _add(self, number: int, value: int) -> None:
        self.accumulators[number] = (self.accumulators[number] + value) % _WORD

    @staticmethod
    def _activations(insn: Insn, word: int) -> list[int]:
        return _elements(word, insn.elements.width, signed=insn.a_signed)

    @staticmethod
    def _weights(insn: Insn, word: int, part: int = 0) -> list[int]:
        weights = _elements(word, (insn.wgt_fmt or insn.elements).width, signed=insn.b_signed)
        return weights[part * insn.elements.lanes : (part + 1) * insn.elements.lanes]

    def _block(self, insn: Insn, weights: dict[int, int], part: int) -> None:
        for pixel, number in enumerate(_ACTIVATIONS):
            activations = self._activations(insn, self.entries[number])
            for number_of_filter, word in weights.items():
                self._add(_FILTERS * pixel + number_of_filter, _dot(activations, self._weights(insn, word, part)))

    def _step(self, insn: Insn, step: int) -> None:
        ratio = insn.elements.width // (insn.wgt_fmt or insn.elements).width
        activations, weights = self.pointers
        sources = [(number, activations + 4 * pixel) for pixel, number in enumerate(_ACTIVATIONS)]
        sources[2:2] = [(number, weights + 4 * place) for place, number in enumerate(_WEIGHTS)]
        for number, address in sources:
            self.entries[number], is_error = self._load(address % _WORD)
            self.failed |= is_error
        self._block(insn, {place: self.entries[number] for place, number in enumerate(_WEIGHTS)}, step % ratio)
        moved = 16 if step % ratio == ratio - 1 else 0
        self.pointers = [(activations + 16) % _WORD, (weights + moved) % _WORD]

    def _read(self, number: int) -> int:
        if number < _FIRST_ENTRY:
            return self.accumulators[number]
        if number < _FIRST_POINTER:
            return self.entries[number - _FIRST_ENTRY]
        return self.pointers[number - _FIRST_POINTER]

    def _write(self, number: int, value: int) -> None:
        if number < _FIRST_ENTRY:
            self.accumulators[number] = value
        elif number < _FIRST_POINTER:
            self._write_entry(number - _FIRST_ENTRY, value)
        elif self._has_memory:
            self.pointers[number - _FIRST_POINTER] = value - value % 4

    def _write_entry(self, number: int, value: int) -> None:
        if number in self._present:
            self.entries[number] = value if number != _SHIFT else value % 64 + value // 256 % 256 * 256

    def _requantise(self, insn: Insn, number_of_filter: int, factor: int, summand: int) -> None:
        levels, scale = 1 << insn.elements.width, self.entries[_SHIFT]
        least = -(levels // 2) if insn.a_signed else 0
        for first in range(0, len(self.accumulators), _FILTERS):
            total = self.accumulators[first + number_of_filter]
            if insn.op.startswith("pa.rqx"):
                value = rounded(total, summand, factor, scale)
            else:
                value = as_signed((factor * total + summand) % _WORD, _WORD) // 2 ** (scale % 32)
            code = min(max(value, least), least + levels - 1) % levels
            lanes = _elements(self.accumulators[first] if number_of_filter else 0, insn.elements.width, signed=False)
            lanes[number_of_filter] = code
            self.accumulators[first] = sum(lane * levels**place for place, lane in enumerate(lanes))
