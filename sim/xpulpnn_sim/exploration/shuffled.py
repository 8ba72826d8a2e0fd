"""The same netlist in another order: what synthesis makes of it tells how much of a figure is chance."""

import json
from random import Random
from typing import Any


def shuffled(netlist: str, seed: int) -> str:
    """A netlist (JSON of Yosys) with its modules, cells and wires in an order that ``seed`` draws."""
    design: dict[str, Any] = json.loads(netlist)
    random = Random(seed)
    for module in design["modules"].values():
        for part in ("cells", "netnames"):
            module[part] = _in_any_order(module[part], random)
    return json.dumps({**design, "modules": _in_any_order(design["modules"], random)})


def _in_any_order(entries: dict[str, Any], random: Random) -> dict[str, Any]:
    items = list(entries.items())
    random.shuffle(items)
    return dict(items)
