"""Identity of this package's own sources."""

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

import xpulpnn
import xpulpnn_sw


@cache
def sources_digest(without: frozenset[str] = frozenset()) -> str:
    """Hash of all sources but those in folders named in ``without``, and of the version of the hardware language."""
    digest = hashlib.sha256(metadata.version("amaranth").encode())
    for root in (
        *(Path(package.__file__ or "").parent for package in (xpulpnn, xpulpnn_sw)),
        Path(__file__).parents[1],
    ):
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and path.suffix != ".pyc" and not without.intersection(name.parts):
                digest.update(str(name).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
