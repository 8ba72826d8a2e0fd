"""Fills what is generated into the pages of the guide.

A page is Markdown; a line ``% generated: NAME [ARGUMENT]`` stands for a table made from the sources.
"""

import re
from collections.abc import Callable

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import drawings, machine, settings
from xpulpnn_sim.publishing.guide.instructions import instructions

_PLAIN: dict[str, Callable[[], str]] = {
    "addresses": machine.addresses,
    "causes": machine.causes,
    "cluster-presets": machine.cluster_presets,
    "costs": machine.costs,
    "csrs": machine.csrs,
    "event-lines": machine.event_lines,
    "events": machine.events,
    "extensions": machine.extensions,
    "fields": machine.fields,
    "formats": machine.formats,
    "house": drawings.house,
    "intrinsics": machine.intrinsics,
    "nnrf": drawings.nnrf,
    "other-selectors": machine.other_selectors,
    "pipeline": drawings.pipeline,
    "presets": machine.preset_table,
    "retirement": machine.retirement,
    "samples": machine.samples,
    "selectors": machine.selectors,
    "signs": machine.signs,
    "timer-settings": machine.timer_settings,
    "waits": machine.waits,
}

_WITH_ARGUMENT: dict[str, Callable[[str], str]] = {
    "instructions": instructions,
    "ports": settings.ports,
    "registers": machine.registers,
    "settings": settings.settings,
    "timing": drawings.timing,
}

_MARK = re.compile(r"^% generated: (\S+)(?: (\S+))?$", re.MULTILINE)


def expand(text: str, **others: Callable[[], str]) -> str:
    """Return the page with everything generated in its place, by ``others`` too, which the page tells by their names.

    Raises :class:`InputError` for names that do not exist.
    """
    plain = _PLAIN | others

    def generated(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        if argument is None and name in plain:
            return plain[name]()
        if argument is not None and name in _WITH_ARGUMENT:
            return _WITH_ARGUMENT[name](argument)
        known = ", ".join([*plain, *(f"{name} ARGUMENT" for name in _WITH_ARGUMENT)])
        raise InputError(f"generated must be one of {known}, not {match[0]}")

    return _MARK.sub(generated, text)
