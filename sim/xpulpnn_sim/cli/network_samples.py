"""Options that say which numbers a model takes for the samples of images."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.options import Count, arguments
from xpulpnn_sim.cosimulation.networks.images import FORMS, Images, read_images

_IMAGES = Parameter(help=f"Images, with labels for answers to be counted: {FORMS}.", metavar="PATH")


@arguments
class ImageOptions:
    """Images for a network."""

    images: Annotated[Path | None, _IMAGES] = None
    labels: Path | None = None
    """IDX file with the classes of the images (default: the one beside them called labels-idx1)."""
    limit: Count | None = None
    """Only the first N images."""

    def read(self) -> Images | None:
        """The images that are asked for, if any; raises :class:`~xpulpnn.errors.InputError` for others."""
        return None if self.images is None else read_images(self.images, self.labels).first(self.limit)


@arguments
class Samples:
    """Numbers that a model takes for the samples of images."""

    samples: Annotated[str | None, Parameter(metavar="LOW:HIGH")] = None
    """Values of the samples 0 and 255 of an image, such as -1:1 (default 0:1; of TFLite the codes of the
    input as they are)."""
    mean: Annotated[str | None, Parameter(metavar="LIST")] = None
    """Numbers that are subtracted from that, by colour or one for all, before a network of ONNX sees it."""
    std: Annotated[str | None, Parameter(metavar="LIST")] = None
    """Numbers that it is divided by then, as many (default 1)."""


def samples_of(options: Samples) -> tuple[Fraction, Fraction] | None:
    """Return the bounds in ``LOW:HIGH``, or None if none are given."""
    text: str | None = options.samples
    if text is None:
        return None
    try:
        low, high = map(Fraction, text.split(":"))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"--samples must be LOW:HIGH, two numbers, not {text}") from None
    if low >= high:
        raise InputError(f"--samples must be LOW:HIGH, the first the smaller one, not {text}")
    return low, high


def normalisation_of(options: Samples) -> list[tuple[Fraction, Fraction]]:
    """Return the mean and the deviation of each channel."""
    mean: str | None = options.mean
    std: str | None = options.std
    lists: list[list[Fraction]] = []
    for option, text, usual in (("--mean", mean, 0), ("--std", std, 1)):
        try:
            lists.append([Fraction(usual)] if text is None else [Fraction(one) for one in re.split("[,+]", text)])
        except (ValueError, ZeroDivisionError):
            raise InputError(f"{option} must be numbers such as 0.5,0.4, not {text}") from None
    means, deviations = lists
    if mean is None and std is None:
        return []
    count = max(map(len, lists))
    means, deviations = (one * count if len(one) == 1 else one for one in (means, deviations))
    if len(means) != len(deviations):
        raise InputError(f"--mean and --std must have as many numbers, not {len(means)} and {len(deviations)}")
    return [*zip(means, deviations, strict=True)]
