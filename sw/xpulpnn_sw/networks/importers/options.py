"""Options of importing a model, about things that its file does not say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.widths import WidthRequest


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class ImportOptions:
    """Options of importing a model."""

    name: str
    # what the samples 0 and 255 of an image are for the model; None: what its kind of file takes them for, 0 and 1 in
    # floating point
    samples: tuple[Fraction, Fraction] | None = None
    # mean and standard deviation, by colour or one for all, which the model's inputs are brought to 0 and 1 with behind
    # that; empty: none
    normalisation: Sequence[tuple[Fraction, Fraction]] = ()
    # bits of a model in floating point, 8, 4 or 2: of each layer, or of all; None: models are quantised already
    quantise: WidthRequest | int | None = None
    # for `quantise`, `[image][row][column][colour]` or without colours: what the ranges of activations are taken from
    images: NDArray[Any] | None = None
    wide: bool = False  # whether requantisation may take 64 bits
    note: Callable[[str], None] = _silent  # is told, in a line each, what the network has not of the model

    @property
    def low(self) -> Fraction:
        """The number that the sample 0 stands for in a model in floating point."""
        return Fraction(0) if self.samples is None else self.samples[0]

    @property
    def high(self) -> Fraction:
        """The number that the sample 255 stands for."""
        return Fraction(1) if self.samples is None else self.samples[1]

    def by_colour(self, colours: int) -> list[tuple[Fraction, Fraction]]:
        """Mean and standard deviation of each colour, empty if there are none.

        Raises :class:`InputError` unless there is one for all, or one for each, and no deviation is 0.
        """
        found = list(self.normalisation) * (colours if len(self.normalisation) == 1 else 1)
        if found and len(found) != colours:
            raise InputError(f"--mean and --std must have 1 or {colours} numbers, not {len(found)}")
        if any(deviation <= 0 for _, deviation in found):
            raise InputError("--std must have numbers greater than 0, not others")
        return found

    @property
    def request(self) -> WidthRequest | None:
        """The bits that ``quantise`` asks for; raises :class:`~xpulpnn.errors.InputError` for others."""
        return WidthRequest.uniform(self.quantise) if isinstance(self.quantise, int) else self.quantise
