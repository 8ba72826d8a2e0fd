"""Designs that are mapped part by part: a part is a module with all below it, what is left has the parts' ports alone.

Of the memories of a design that would be macros none is mapped, whatever it is mapped in.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from xpulpnn_sim.exploration.results import EmittedDesign

PARTS = frozenset(
    {
        "xpulpnn.core.core.Core",
        "xpulpnn.cluster.tcdm.tcdm.Tcdm",
        "xpulpnn.cluster.event_unit.unit.EventUnit",
        "xpulpnn.cluster.dma.unit.Dma",
        "xpulpnn.cluster.icache.unit.InstructionCache",
    }
)
"""Components that are mapped by themselves where they are in another one."""

_MACROS = frozenset({"xpulpnn.cluster.icache.way.CacheWay", "xpulpnn.cluster.tcdm.bank.Bank"})
"""Components whose memories would be macros; those of all others, queues of a few words, are registers."""

_MODULE = re.compile(r"^module (\w+) .*?^\);$.*?^endmodule$", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^module .*?^\);$", re.MULTILINE | re.DOTALL)


def part_instances(design: EmittedDesign) -> dict[str, str]:
    """Module of each part, by its instance below the top, such as ``core0``."""
    modules, hierarchy = design.manifest["modules"], design.manifest["hierarchy"]
    return {
        path.removeprefix(f"{design.module}."): module
        for path, module in hierarchy.items()
        if path != design.module and modules[module]["component"] in PARTS
    }


def part(design: EmittedDesign, module: str) -> EmittedDesign:
    """The part that is the module ``module`` of a design."""
    return _cut(design, module, frozenset())


def remainder(design: EmittedDesign) -> EmittedDesign:
    """The design with its parts as black boxes."""
    return _cut(design, design.module, frozenset(part_instances(design).values()))


def with_macros(design: EmittedDesign) -> EmittedDesign:
    """The whole design, with its memories apart."""
    return _cut(design, design.module, frozenset())


def _cut(design: EmittedDesign, module: str, apart: frozenset[str]) -> EmittedDesign:
    modules: Mapping[str, Any] = design.manifest["modules"]
    hierarchy = dict(_instances(modules, module, apart))
    texts = {found[1]: found[0] for found in _MODULE.finditer(design.verilog)}
    wanted = set(hierarchy.values())
    kept = [_ports_alone(text) if name in apart else text for name, text in texts.items() if name in wanted]
    return EmittedDesign(
        top=design.top,
        module=module,
        config=design.config,
        verilog="\n\n".join(kept) + "\n",
        manifest={**design.manifest, "top": module, "hierarchy": hierarchy},
        apart=apart,
        memories=tuple(sorted(name for name in wanted - apart if modules[name]["component"] in _MACROS)),
    )


def _instances(modules: Mapping[str, Any], top: str, apart: Collection[str]) -> Iterator[tuple[str, str]]:
    """Path and module of every instance, the top first, nothing below the modules ``apart``."""
    waiting = [(top, top)]
    while waiting:
        path, module = waiting.pop()
        yield path, module
        if module not in apart:
            waiting += [(f"{path}.{name}", inner) for name, inner in modules[module]["instances"].items()]


def _ports_alone(text: str) -> str:
    found = _HEADER.match(text)
    return f"(* blackbox *)\n{found[0] if found else text}\nendmodule"
