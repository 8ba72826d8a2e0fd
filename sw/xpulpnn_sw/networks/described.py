"""A network with what its inputs are made of and what its results mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage


def by_colour(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """Numbers of colours as :class:`Scaling` has them: one if all are the same."""
    return numbers[0] if len({*numbers}) == 1 else tuple(numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Inputs of a network, as a function of the samples of an image."""

    subtract: tuple[int, ...] = ()  # from the samples, by colour; empty: nothing
    # of `((sample - subtract) * multiply + add) >> shift`, for all colours or by colour
    multiply: int | tuple[int, ...] = 1
    add: int | tuple[int, ...] = 0  # of `((sample - subtract) * multiply + add) >> shift`, for all colours or by colour
    shift: int = 0

    def by_colour(self, colours: int) -> list[tuple[int, int, int]]:
        """``subtract``, ``multiply`` and ``add`` of each colour.

        Raises :class:`LayerError` unless there is one number for all, or one for each.
        """
        columns: list[tuple[int, ...]] = []
        given = {"subtract": self.subtract or 0, "multiply": self.multiply, "add": self.add}
        for name, numbers in given.items():
            column = (numbers,) * colours if isinstance(numbers, int) else numbers
            if len(column) != colours:
                raise LayerError(f"{name} must have {colours} numbers, not {len(column)}")
            columns.append(column)
        return [(subtract, multiply, add) for subtract, multiply, add in zip(*columns, strict=True)]

    def scaled(self, samples: Ints, bits: int, *, signed: bool) -> Ints:
        """The samples, channels last, as inputs of so many bits; of one bit -1 for what is below 0, and 1."""
        differences = samples.astype(np.int64) - (np.array(self.subtract) if self.subtract else 0)
        # arrays of one number for each colour, or numbers
        values = (differences * np.array(self.multiply) + np.array(self.add)) >> self.shift
        if bits == SIGN_BITS:
            return np.where(values < 0, -1, 1)
        least = -(1 << (bits - 1)) if signed else 0
        return np.clip(values, least, least + (1 << bits) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A network out of a file, and what its inputs are."""

    network: Network
    scaling: Scaling
    labels: tuple[str, ...] = ()  # what its classes are called, by result; empty: numbers

    @property
    def classes(self) -> int:
        """Results of the last layer."""
        return prod(self.network.stages[-1].output_shape)

    @property
    def _reader(self) -> tuple[Stage, tuple[int, ...], tuple[int, bool]]:
        """A layer that reads the input, as what it does that, and the elements."""
        for number, stage in enumerate(self.network.stages):
            for place, source in enumerate(self.network.sources(number)):
                if source == NETWORK_INPUT:
                    return stage, stage.input_shapes[place], stage.input_elements[place]
        raise AssertionError(self.network.name)

    def random_input(self, seed: int) -> Ints:
        """An input anywhere in the range of its elements."""
        _, shape, (bits, signed) = self._reader
        rng = np.random.default_rng(seed)
        if bits == SIGN_BITS:
            return rng.choice(np.array([-1, 1]), shape)
        least = -(1 << (bits - 1)) if signed else 0
        return rng.integers(least, least + (1 << bits), shape)

    def inputs(self, samples: Ints) -> Ints:
        """The input for an image, in the shape of the first layer's; raises :class:`LayerError` for another size."""
        return self.batch(samples[np.newaxis])[0]

    def batch(self, samples: Ints) -> Ints:
        """The inputs for images of one size, ``[image][row][column][colour]``, or without colours if there is one.

        Raises :class:`LayerError` for another size than that of the network's input.
        """
        _, shape, (bits, signed) = self._reader
        image = samples.shape[1:]
        flat = prod(shape) == prod(image) and 1 in (len(shape), len(image))
        grey = image == shape[:-1] and shape[-1] == 1
        # a sequence has one row
        if not (flat or grey or [size for size in image if size > 1] == [size for size in shape if size > 1]):
            raise LayerError(f"image must have the shape {shape}, not {image}")
        self.scaling.by_colour(1 if grey else image[-1])
        return self.scaling.scaled(samples, bits, signed=signed).reshape(len(samples), *shape)
