"""Nets of a testbench: arrays of ports as vectors, one for each signal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn_sim.publishing.packages.design import Design, Port, clocking

_ELEMENT = re.compile(r"(?P<group>\w+?)__(?P<place>\d+)__(?P<signal>\w+)")


@dataclass(frozen=True)
class Nets:
    """The nets of all ports of a design.

    A port ``group__3__signal`` of an array is a slice of the vector ``group_signal``, ``bus__signal`` is called
    ``bus_signal``, all others have their own names.
    """

    design: Design
    driven: Sequence[str] = ()  # Arrays, buses and ports whose inputs the testbench assigns: they are variables

    def elements(self, group: str) -> int:
        """Return the number of elements of an array of ports."""
        places = {int(match["place"]) for match in self._matches() if match is not None and match["group"] == group}
        return len(places)

    def _matches(self) -> list[re.Match[str] | None]:
        return [_ELEMENT.fullmatch(port.name) for port in self.design.ports]

    def declarations(self) -> str:
        """Declarations of the nets."""
        rows: dict[str, tuple[str, int]] = {}
        for port, match in zip(self.design.ports, self._matches(), strict=True):
            if port.is_clocking:
                continue
            name = _net(port, match)
            group = match["group"] if match else port.name.partition("__")[0]
            kind = "reg" if port.is_input and group in self.driven else "wire"
            rows[name] = kind, rows.get(name, (kind, 0))[1] + port.width
        # one bit has a range too, so that a testbench may have an index for any number of cores
        lines = (f"    {kind:4} {f'[{width - 1}:0]':9} {name};" for name, (kind, width) in rows.items())
        return "\n".join(lines) + "\n"

    def connections(self) -> str:
        """Connections of the instance, one port per line."""
        rows: list[str] = []
        for port, match in zip(self.design.ports, self._matches(), strict=True):
            rows.append(f"        .{port.name}({self._connection(port, match)})")
        return ",\n".join(rows)

    def _connection(self, port: Port, match: re.Match[str] | None) -> str:
        if port.is_clocking:
            return clocking(port)
        name = _net(port, match)
        if match is None or self.elements(match["group"]) == 1:
            return name
        return f"{name}[{int(match['place']) * port.width} +: {port.width}]"


def _net(port: Port, match: re.Match[str] | None) -> str:
    return f"{match['group']}_{match['signal']}" if match else port.name.replace("__", "_")
