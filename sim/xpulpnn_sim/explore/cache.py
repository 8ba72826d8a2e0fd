"""Results of flows, kept under a hash of the Verilog and of everything else that determines them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from xpulpnn_sim.explore.results import Design, Flow, FlowResult, flow_from_json, to_json
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.build import cache_directory


def content_key(content: list[Any]) -> str:
    """Hash of a list of JSON values, as part of a file name."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def cached(flow: Flow, design: Design) -> tuple[FlowResult, bool]:
    """Result of a flow, and whether it came from the cache; an entry that cannot be read is made anew.

    Raises what :meth:`Flow.run` raises.
    """
    key = content_key([flow.name, flow.script, sorted(flow.settings().items()), design.module, design.verilog])
    entry = cache_directory() / "flows" / f"{key}.json"
    known = _read(entry)
    if known is not None:
        return known, True
    result = flow.run(design)
    write_text(entry, json.dumps(to_json(result)))
    return result, False


def _read(entry: Path) -> FlowResult | None:
    try:
        return flow_from_json(json.loads(entry.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
