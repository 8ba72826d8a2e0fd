"""Public names of a package that are imported on first use.

Importing ``xpulpnn.isa`` thus needs no Amaranth, and the command line loads only the modules of its subcommand.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def loader(initialiser: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package for the names in the stub beside its ``__init__.py``."""
    path = Path(initialiser)
    stub = path.with_suffix(".pyi").read_text()
    homes = {name: home for home, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.MULTILINE)}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {path.parent.name!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load, lambda: sorted(homes)
