"""Results on disk, under a hash of everything that determines them."""

import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import xpulpnn
import xpulpnn_sw
from xpulpnn_sim.explorer.results import EmittedDesign, EnergyResult, Flow, FlowOutput, from_json, to_json
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.build import cache_directory

_Result = TypeVar("_Result", FlowOutput, EnergyResult)


_SHOWS_ONLY = {"commands", "report", "bench", "verify", "formal"}
"""Folders of sources that no result depends on."""


@cache
def sources_digest() -> str:
    """Hash of the sources of generator, kernels and simulation, and of the version of the hardware language."""
    digest = hashlib.sha256(metadata.version("amaranth").encode())
    packages = [Path(package.__file__ or "").parent for package in (xpulpnn, xpulpnn_sw)]
    for folder in (*packages, Path(__file__).parents[1]):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc" and not _SHOWS_ONLY.intersection(path.parts):
                digest.update(path.name.encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def content_key(content: list[Any]) -> str:
    """Hash of a list of JSON values, as part of a file name."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def cached(folder: str, key: str, kind: type[_Result], make: Callable[[], _Result]) -> tuple[_Result, bool]:
    """The result kept as ``key``, and whether it was there; an entry that cannot be read is made anew."""
    entry = cache_directory() / folder / f"{key}.json"
    try:
        return from_json(kind, json.loads(entry.read_text())), True
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        result = make()
        write_text(entry, json.dumps(to_json(result)))
        return result, False


def cached_flow(flow: Flow, design: EmittedDesign) -> tuple[FlowOutput, bool]:
    """Result and files of a flow, and whether it came from the cache; raises what :meth:`Flow.run` raises."""
    key = content_key([flow.name, flow.script, sorted(flow.settings().items()), design.module, design.verilog])
    return cached("flows", key, FlowOutput, lambda: flow.run(design))
