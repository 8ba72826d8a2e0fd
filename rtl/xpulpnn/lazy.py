"""Public names of a package that are loaded when they are first used.

``xpulpnn.isa`` can so be imported without Amaranth, and the command line starts without what a subcommand does not use.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def loader(initialiser: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the package of a file ``__init__.py``, for the names that the stub beside it
    imports."""
    path = Path(initialiser)
    stub = path.with_suffix(".pyi").read_text()
    homes = {name: home for home, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.MULTILINE)}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {path.parent.name!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load, lambda: sorted(homes)
