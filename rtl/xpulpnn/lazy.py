"""Public names of a package that are imported on first use.

Importing ``xpulpnn.isa`` thus needs no Amaranth, and the command line loads only the modules of its subcommand.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module


def loader(initialiser: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package for the names in the stub beside its ``__init__.py``."""

    @cache
    def homes() -> dict[str, str]:
        # imported here, as a traceback ends a command that is interrupted before it has begun
        import re
        from pathlib import Path

        stub = Path(initialiser).with_suffix(".pyi").read_text()
        return {name: home for home, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.MULTILINE)}

    def load(name: str) -> object:
        if name not in homes():
            raise AttributeError(f"module {initialiser.split('/')[-2]!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    return load, lambda: sorted(homes())
