"""Fills what is generated into the pages of the guide.

A page is Markdown; a line ``% generated: NAME [ARGUMENT]`` stands for a table made from the sources.
"""

import re
from collections.abc import Callable

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import drawings, machine, settings
from xpulpnn_sim.publishing.guide.instructions import instructions

_TABLES = (
    *(machine.addresses, machine.causes, machine.cluster_presets, machine.costs, machine.csrs, machine.event_lines),
    *(machine.events, machine.extensions, machine.fields, machine.formats, machine.intrinsics, machine.other_selectors),
    *(machine.presets, machine.retirement, machine.samples, machine.selectors, machine.signs, machine.timer_settings),
    *(machine.waits, drawings.house, drawings.nnrf, drawings.pipeline),
)
_PLAIN: dict[str, Callable[[], str]] = {table.__name__.replace("_", "-"): table for table in _TABLES}
_WITH_ARGUMENT: dict[str, Callable[[str], str]] = {
    table.__name__: table
    for table in (instructions, settings.ports, machine.registers, settings.settings, drawings.timing)
}

_MARK = re.compile(r"^% generated: (\S+)(?: (\S+))?$", re.MULTILINE)


def expand_page(text: str, **others: Callable[[], str]) -> str:
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
