"""Weights of CIFAR-10 networks in npz files: which network a file is of, by the names of its arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.networks.described import Described
from xpulpnn_sw.networks.importers import bnn_pynq, cmsis
from xpulpnn_sw.networks.importers.options import ImportOptions

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Names of the arrays of a file, and the network they belong to."""

    name: str  # whose they are
    arrays: tuple[str, ...]
    optional: tuple[str, ...] = ()  # those that may be left out
    network: Callable[[Arrays, str], Described]  # makes the network of them

    def __str__(self) -> str:
        return f"{', '.join(self.arrays)} ({self.name})"


CMSIS = Form(name="CMSIS-NN's CIFAR-10", arrays=cmsis.ARRAYS, network=cmsis.network)
# the networks that are known
FORMS = (
    CMSIS,
    Form(name="BNN-PYNQ's CNV", arrays=bnn_pynq.ARRAYS, optional=bnn_pynq.OPTIONAL, network=bnn_pynq.network),
)


def import_arrays(path: Path, options: ImportOptions) -> Described:
    """The network whose weights are in an npz file."""
    if options.quantise is not None:
        raise InputError("--quantise must be left out with an npz file, whose weights are quantised")
    if options.samples is not None or options.normalisation:
        raise InputError("--samples, --mean and --std must be left out with an npz file, whose network has its own")
    return network_in(path, options.name)


def network_in(path: Path, name: str, forms: Sequence[Form] = FORMS) -> Described:
    """The network, called ``name``, whose weights are in a file of one of some forms.

    Raises :class:`InputError` or :class:`LayerError` as :func:`import_arrays`.
    """
    arrays = _read_numbers(path)
    for form in forms:
        if len(forms) == 1 or form.arrays[0] in arrays:
            return _checked(form, arrays, path).network(arrays, name)
    raise InputError(f"arrays must be {' or '.join(map(str, forms))}, not {_listed(arrays)}, in {path}")


def _read_numbers(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file; raises :class:`InputError` unless it is one, whole, of integers."""
    arrays = npz_arrays(path, "weights")
    for name, values in arrays.items():
        if values.dtype.kind not in "iu" or not values.size:
            raise InputError(f"{name} must be integers, not {values.dtype} of shape {values.shape}, in {path}")
    return arrays


def _checked(form: Form, arrays: Arrays, path: Path) -> Form:
    for name in form.arrays:
        if name not in arrays:
            raise InputError(f"arrays must be {form}, not without {name}, in {path}")
    for name in arrays:
        if name not in (*form.arrays, *form.optional):
            raise InputError(f"arrays must be {form}, not also {name}, in {path}")
    return form


def _listed(arrays: Arrays) -> str:
    return ", ".join(arrays) or "none"
