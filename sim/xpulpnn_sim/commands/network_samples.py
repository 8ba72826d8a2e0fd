"""What the samples of images are for a model, on the command line."""

import argparse
from fractions import Fraction

from xpulpnn.errors import InputError


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add ``--samples``, ``--mean`` and ``--std``."""
    parser.add_argument(
        "--samples",
        metavar="LOW:HIGH",
        help="what the model takes for the samples 0 and 255 of an image, such as -1:1 (default 0:1; of TFLite the "
        "codes of the input as they are)",
    )
    parser.add_argument(
        "--mean",
        metavar="LIST",
        help="numbers that are subtracted from that, by colour or one for all, before a network of ONNX sees it",
    )
    parser.add_argument("--std", metavar="LIST", help="numbers that it is divided by then, as many (default 1)")


def samples_of(arguments: argparse.Namespace) -> tuple[Fraction, Fraction] | None:
    """What is meant by ``LOW:HIGH``; None: nothing is said."""
    text: str | None = arguments.samples
    if text is None:
        return None
    try:
        low, high = map(Fraction, text.split(":"))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"--samples must be LOW:HIGH, two numbers, not {text}") from None
    if low >= high:
        raise InputError(f"--samples must be LOW:HIGH, the first the smaller one, not {text}")
    return low, high


def normalisation_of(arguments: argparse.Namespace) -> list[tuple[Fraction, Fraction]]:
    """What is meant by both lists."""
    mean: str | None = arguments.mean
    std: str | None = arguments.std
    lists: list[list[Fraction]] = []
    for option, text, usual in (("--mean", mean, 0), ("--std", std, 1)):
        try:
            lists.append([Fraction(usual)] if text is None else [Fraction(one) for one in text.split(",")])
        except (ValueError, ZeroDivisionError):
            raise InputError(f"{option} must be numbers with commas between, not {text}") from None
    means, deviations = lists
    if mean is None and std is None:
        return []
    count = max(map(len, lists))
    means, deviations = (one * count if len(one) == 1 else one for one in (means, deviations))
    if len(means) != len(deviations):
        raise InputError(f"--mean and --std must have as many numbers, not {len(means)} and {len(deviations)}")
    return [*zip(means, deviations, strict=True)]
