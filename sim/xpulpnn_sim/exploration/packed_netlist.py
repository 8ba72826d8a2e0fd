"""Mapped netlists as short text, for results that are kept."""

import base64
import json
import zlib
from collections.abc import Mapping

from xpulpnn_sim.exploration.liberty import LibraryCell
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist
from xpulpnn_sim.tools.netlists import NetlistCell


def packed(netlist: MappedNetlist) -> str:
    """A netlist as text without line breaks."""
    content = {
        "module": netlist.module,
        "gates": [[gate.name, gate.path, gate.cell.name, gate.pins] for gate in netlist.gates],
        "inputs": netlist.inputs,
        "outputs": netlist.outputs,
        "names": list(netlist.names.items()),
        "apart": [[cell.name, cell.type, cell.pins, cell.parameters, sorted(cell.outputs)] for cell in netlist.apart],
    }
    return base64.b64encode(zlib.compress(json.dumps(content, separators=(",", ":")).encode())).decode()


def unpacked(text: str, library: Mapping[str, LibraryCell]) -> MappedNetlist:
    """Inverse of :func:`packed`, in the cells of ``library``."""
    content = json.loads(zlib.decompress(base64.b64decode(text)))
    return MappedNetlist(
        module=content["module"],
        gates=[MappedGate(name, path, library[cell], pins) for name, path, cell, pins in content["gates"]],
        inputs=content["inputs"],
        outputs=content["outputs"],
        names=dict(content["names"]),
        apart=[
            NetlistCell(name=name, type=kind, pins=pins, parameters=parameters, outputs=frozenset(outputs))
            for name, kind, pins, parameters, outputs in content["apart"]
        ],
    )
