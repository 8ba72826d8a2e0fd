"""Inputs, outputs and logs of a flow's tools, kept beside the figures."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from xpulpnn.errors import ToolError

_KEPT = frozenset({".abc", ".constr", ".log", ".out", ".rpt", ".tcl", ".v", ".ys"})


class FlowError(ToolError):
    """A flow that failed, with the files it left."""

    def __init__(self, message: str, files: Mapping[str, str]) -> None:
        super().__init__(message)
        self.files = files


@contextmanager
def flow_folder(files: dict[str, str], folder: str = "") -> Iterator[Path]:
    """A folder for tools to run in; what is worth keeping is added to ``files`` when they have finished."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-flow-") as name:
        try:
            yield Path(name)
        except ToolError as error:
            _collect(Path(name), files, folder)
            raise FlowError(str(error), files) from error
        _collect(Path(name), files, folder)


def _collect(folder: Path, files: dict[str, str], prefix: str) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix in _KEPT:
            files[f"{prefix}/{path.name}" if prefix else path.name] = path.read_text(errors="replace")
