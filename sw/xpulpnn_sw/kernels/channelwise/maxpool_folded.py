"""The function of a maximum pooling whose input has its columns folded.

Of each four columns and the next there are two places of windows, whose columns are in three pixels and the next one.
All rows are inside, or repeated.
"""

from xpulpnn_sw.kernels.builder import Held
from xpulpnn_sw.kernels.channelwise.maxpool_code import MaxPooling
from xpulpnn_sw.kernels.folding import FOLDED_COLUMNS
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term


class FoldedMaxPooling(MaxPooling):
    """That of :class:`MaxPooling` for windows of three by three elements with steps of two."""

    def _terms(self) -> dict[str, Term]:
        pixel = Name("pixel_bytes")
        return super()._terms() | {
            # over the pixel that is not stored
            "next_window": pixel * 2,
            # the last four columns have no next one
            "inner": Argument("width") // FOLDED_COLUMNS - 1,
            "inner_offset": pixel,
            "left_edge": Number(0),
            "right_edge": Number(0),
        }

    def _windows(self) -> None:
        frame = self.frame
        self._row_pointers()
        self.code.repeat(
            frame.value("inner", self._remaining), self._remaining, lambda: self._places(has_next=True), level=0
        )
        self._places(has_next=False)

    def _places(self, *, has_next: bool) -> None:
        """Two places of windows. The pointers are at the second of four pixels, and move on to that of the next."""
        rows = len(self._pointers)
        firsts, seconds, spare = self.values[:rows], self.values[rows : 2 * rows], self.values[2 * rows]
        self._load(firsts, self._pixel)
        self._load(seconds, self._distances["next_window"])
        self._greatest_of(firsts)
        self.store_result(firsts[0], self._out)
        # the register of the result is free again
        nexts = [*firsts[1:], spare]
        if has_next:
            self._load(nexts, self._pixel)
        self._greatest_of(seconds)
        if has_next:
            self._greatest_of(nexts)
            self.packed.max(seconds[0], seconds[0], nexts[0])
        self.store_result(seconds[0], self._out)

    def _load(self, words: list[int], step: int) -> None:
        """A word of each row, whose pointers move on."""
        for word, pointer in zip(words, self._pointers, strict=True):
            self.code.load(word, pointer, Held(step))

    def _greatest_of(self, words: list[int]) -> None:
        """The maxima of the rows, in the first register."""
        first, *others = words
        for word in others:
            self.packed.max(first, first, word)

    def _windows_at_edge(self) -> None:
        """No window is cut off by columns: what lies beyond is in none of the folded ones."""
