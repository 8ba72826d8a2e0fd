"""Results on disk, under a hash of everything that determines them."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from xpulpnn_sim import sources
from xpulpnn_sim.explorer.results import EmittedDesign, EnergyResult, Flow, FlowOutput, from_json, to_json
from xpulpnn_sim.tools.results import cached_results

_Result = TypeVar("_Result", FlowOutput, EnergyResult)


_SHOWS_ONLY = frozenset({"commands", "report", "bench", "verify", "formal", "papers", "netruns"})
"""Folders of sources that no result depends on."""


def sources_digest() -> str:
    """Hash of the sources of generator, kernels and simulation, and of the version of the hardware language."""
    return sources.sources_digest(_SHOWS_ONLY)


def content_key(content: list[Any]) -> str:
    """Hash of a list of JSON values, as part of a file name."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def cached(folder: str, key: str, kind: type[_Result], make: Callable[[], _Result]) -> tuple[_Result, bool]:
    """The result kept as ``key``, and whether it was there; an entry that cannot be read is made anew."""
    results = cached_results(folder)
    if (found := results.find(key)) is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return from_json(kind, found), True
    result = make()
    results.keep(key, to_json(result))
    return result, False


def cached_flow(flow: Flow, design: EmittedDesign) -> tuple[FlowOutput, bool]:
    """Result and files of a flow, and whether it came from the cache; raises what :meth:`Flow.run` raises."""
    content = [flow.name, flow.script, sorted(flow.settings().items()), design.module, design.code]
    key = content_key([*content, *([design.memories] if design.memories else [])])
    return cached("flows", key, FlowOutput, lambda: flow.run(design))
