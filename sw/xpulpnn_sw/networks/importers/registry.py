"""Choice of the importer of a model, by the beginning of its file."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.described import Described
from xpulpnn_sw.networks.importers.options import ImportOptions

Importer = Callable[[Path, ImportOptions], Described]

_MAGIC_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReader:
    """An importer."""

    name: str  # of the files it reads
    suffix: str  # how their names end
    magic: bytes = b""  # what they have at `offset`, whatever they are called; empty: nothing of the kind
    offset: int = 0  # bytes before that
    module: str  # module of the importer, which is imported when it is needed
    function: str  # the importer in that module

    def recognises(self, beginning: bytes) -> bool:
        """Return whether a file that begins so is one of these."""
        return bool(self.magic) and beginning[self.offset :].startswith(self.magic)


# those there are; their modules are imported when they are needed
READERS: tuple[ModelReader, ...] = (
    ModelReader(
        name="TFLite",
        suffix=".tflite",
        magic=b"TFL3",
        offset=4,
        module="xpulpnn_sw.networks.importers.tflite_network",
        function="import_tflite",
    ),
    ModelReader(name="ONNX", suffix=".onnx", module="xpulpnn_sw.networks.importers.onnx_file", function="import_onnx"),
    ModelReader(
        name="weights of CNV or CMSIS-NN's CIFAR-10",
        suffix=".npz",
        module="xpulpnn_sw.networks.importers.arrays_file",
        function="import_arrays",
    ),
)


def import_model(path: Path, options: ImportOptions) -> Described:
    """The network of a model in a file."""
    with packages_for(path) as reader:
        read = cast("Importer", getattr(import_module(reader.module), reader.function))
        return read(path, options)


@contextmanager
def packages_for(path: Path) -> Generator[ModelReader]:
    """Find the reader of a model; a package that it lacks meanwhile is named in an :class:`InputError`."""
    reader = _reader_of(path)
    try:
        yield reader
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith("xpulpnn"):
            raise
        raise InputError(
            f"{package} must be installed to read {reader.name}, not missing: pip install '.[networks]'"
        ) from None


def _reader_of(path: Path) -> ModelReader:
    """The importer of a model; raises :class:`InputError` for a file that cannot be read or is none of a kind."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_MAGIC_BYTES)
    except OSError as error:
        raise InputError(f"model must be a file that can be read, not {path}: {error.strerror}") from None
    found = [reader for reader in READERS if reader.recognises(beginning)]
    found += [reader for reader in READERS if path.suffix.lower() == reader.suffix]
    if not found:
        known = ", ".join(f"{reader.name} ({reader.suffix})" for reader in READERS)
        raise InputError(f"model must be one of {known}, not {path}")
    return found[0]
