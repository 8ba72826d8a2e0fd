"""Read area, function, delay, energy and leakage of cells, at one corner, from Liberty files.

Units are um2, fF, ns, fJ and nW. The Liberty User Guide defines simple attributes ``name : value;``, complex attributes
``name (values);`` and groups ``name (values) { ... }``.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError

_TOKEN = re.compile(r"([A-Za-z_][\w\[\].$]*)|\S")
_PYTHON = {
    **dict(zip("01!'^()", ("zero", "ones", "ones^", "^ones", "^", "(((", ")))"), strict=True)),
    **dict.fromkeys("*& ", ")&("),
    **dict.fromkeys("+|", "))|(("),
}
"""Python for each Liberty operator; parentheses around the operands of ``&`` and ``|`` make ``^`` bind tighter."""


class Expression:
    """A Boolean expression; operators by falling precedence: ``!a`` ``a'``; ``^``; ``*`` ``&`` space; ``+`` ``|``."""

    def __init__(self, text: str) -> None:
        names: dict[str, str] = {}
        python, after_operand = "((", False
        for match in _TOKEN.finditer(text):
            token = match[0]
            if after_operand and (match[1] or token in "01!("):
                python += _PYTHON[" "]
            python += names.setdefault(token, f"v{len(names)}") if match[1] else _PYTHON.get(token, "?")
            after_operand = token not in "!(^*&+|"
        self.inputs = list(names)
        python = f"{python}))" if text.strip() else "ones"
        try:
            if "()" in python:
                raise SyntaxError
            self._code = compile(python, text, "eval")
        except SyntaxError:
            raise ValueError(f"expression must be Boolean, not {text}") from None

    def evaluate(self, values: Mapping[str, Any], ones: Any = True) -> Any:
        """Return the value for bools, arrays or bit vectors; ``ones`` is the value that stands for true."""
        given = {f"v{number}": values[name] for number, name in enumerate(self.inputs)}
        return eval(self._code, {}, {"ones": ones, "zero": ones ^ ones, **given})

    def truth_table(self, inputs: Sequence[str]) -> int:
        """Return an integer whose bit ``i`` is the value for input bits ``i``; the first input is the lowest bit."""
        size = 1 << len(inputs)
        values = {name: sum(1 << row for row in range(size) if row >> place & 1) for place, name in enumerate(inputs)}
        return self.evaluate(values, (1 << size) - 1)


@cache
def expression(text: str) -> Expression:
    return Expression(text)


_STATEMENT = re.compile(
    r"(?:\s|\\\s|/\*.*?\*/|//[^\n]*)*+"
    r"(?:(?P<mark>[;}])|(?P<name>[A-Za-z_][\w.\-]*)\s*"
    r'(?::\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^;{}"\n]*))[ \t]*;?'
    r'|\((?P<arguments>(?:"[^"]*"|[^"(){};])*)\)\s*(?P<open>[{;]?)))?',
    re.DOTALL,
)
_ITEM = re.compile(r'"([^"]*)"|([^\s,"\\]+)')


@dataclass(slots=True)
class LibertyGroup:
    kind: str
    arguments: list[str]
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    lists: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    groups: list["LibertyGroup"] = field(default_factory=list["LibertyGroup"])

    def subgroups(self, kind: str) -> Iterator["LibertyGroup"]:
        return (group for group in self.groups if group.kind == kind)

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self.attributes[name]) if name in self.attributes else default

    def flag(self, name: str) -> bool:
        return self.attributes.get(name, "").lower() == "true"


def parse_library(text: str) -> LibertyGroup:
    """Return the group ``library`` of a Liberty file; raise ValueError with the line if it is malformed or missing."""
    open_groups: list[LibertyGroup] = []
    position, problem = 0, ""
    while not problem:
        match = _STATEMENT.match(text, position)
        assert match is not None  # every part of the pattern is optional
        position, name = match.end(), match["name"]
        items = [quoted or plain for quoted, plain in _ITEM.findall(match["arguments"] or "")]
        if not open_groups and (name, match["open"]) != ("library", "{"):
            problem = "library (NAME) { expected"
        elif match["open"] == "{":
            open_groups.append(LibertyGroup(name, items))
        elif match["arguments"] is not None:
            open_groups[-1].lists.setdefault(name, []).extend(items)
        elif name:
            open_groups[-1].attributes[name] = match["plain"].strip() if match["quoted"] is None else match["quoted"]
        elif match["mark"] == "}":
            group = open_groups.pop()
            if not open_groups:
                return group
            open_groups[-1].groups.append(group)
        elif not match["mark"]:
            problem = "the file ends" if position == len(text) else "attribute or group expected"
    raise ValueError(f"line {text.count(chr(10), 0, position) + 1}: {problem}")


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_DELAY_TABLES = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
_POWER_TABLES = ("rise_power", "fall_power", "power")
_SLEW_VARIABLES = frozenset({"input_net_transition", "input_transition_time", "related_pin_transition"})
_DATA_SLEW = "constrained_pin_transition"
_LOAD_VARIABLES = frozenset({"total_output_net_capacitance", _DATA_SLEW})


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A Liberty table over input slew and output load; an axis that the file lacks has length 1."""

    slews_ns: list[float]  # ascending
    loads_ff: list[float]  # ascending
    columns: list[list[float]]  # indexed by load, slew: ns in delay tables, fJ in power tables

    def value_at(self, slew_ns: float, load_ff: float) -> float:
        """Interpolate the table bilinearly; extrapolate linearly outside its axes."""
        place, along = _position(self.slews_ns, slew_ns)
        low, share = _position(self.loads_ff, load_ff)
        first, *second = (
            column[place] + along * (column[place + 1] - column[place]) if along else column[place]
            for column in self.columns[low : low + 2]
        )
        return first + share * (second[0] - first) if share else first


def _position(axis: list[float], x: float) -> tuple[int, float]:
    """Return the place on an axis below which, or before the last of which, ``x`` is, and how far it is to the next."""
    if len(axis) == 1:
        return 0, 0.0
    low = min(max(bisect_left(axis, x) - 1, 0), len(axis) - 2)
    return low, (x - axis[low]) / (axis[low + 1] - axis[low])


class _Units:
    def __init__(self, library: LibertyGroup) -> None:
        self.library = library
        self.time = _scale(library.attributes.get("time_unit", "1ns"), "s") / 1e-9
        self.leakage = _scale(library.attributes.get("leakage_power_unit", "1nW"), "W") / 1e-9
        self.volt = _scale(library.attributes.get("voltage_unit", "1V"), "V")
        number, unit = library.lists.get("capacitive_load_unit", ["1", "pf"])
        self.load = float(number) * _scale(unit, "F") / 1e-15
        templates = (group for group in library.groups if group.kind.endswith("_template") and group.arguments)
        self._templates = {group.arguments[0]: group for group in templates}

    def table(self, group: LibertyGroup, kind: str, scale: float) -> Table | None:
        """Return the table named ``kind`` of a group; None if it is missing or its axes are not slew and load."""
        given = next(group.subgroups(kind), None)
        if given is None or "values" not in given.lists:
            return None
        template = self._templates.get(given.arguments[0] if given.arguments else "", LibertyGroup("", []))
        values = _numbers(given.lists["values"]) * scale
        axes: list[tuple[str, NDArray[np.float64]]] = []
        for number in ("1", "2"):
            points = given.lists.get(f"index_{number}") or template.lists.get(f"index_{number}")
            variable = template.attributes.get(f"variable_{number}", "")
            if points is not None and variable:
                axes.append((variable, _numbers(points)))
        shape = [len(points) for _, points in axes]
        if values.size != int(np.prod(shape)):
            raise ValueError(f"{kind} has {values.size} values for axes of {shape}")
        values = values.reshape(shape or [1])
        slews, loads = np.zeros(1), np.zeros(1)
        for variable, points in axes:
            if variable in _SLEW_VARIABLES:
                slews = points * self.time
            elif variable in _LOAD_VARIABLES:
                loads = points * (self.time if variable == _DATA_SLEW else self.load)
            else:
                return None
        if len(axes) == 2 and axes[0][0] in _LOAD_VARIABLES:
            values = values.T
        return Table(slews.tolist(), loads.tolist(), values.reshape(len(slews), len(loads)).T.tolist())


def _scale(unit: str, base: str) -> float:
    match = re.fullmatch(r"([\d.eE+-]*)\s*([fpnumk]?)" + base, unit.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"unit {unit} is unknown")
    return float(match[1] or 1) * _PREFIXES[match[2].lower()]


def _numbers(items: list[str]) -> NDArray[np.float64]:
    return np.array(_NUMBER.findall(" ".join(items)), dtype=np.float64)


class TimingArc:
    def __init__(self, related_pin: str, group: LibertyGroup, units: _Units) -> None:
        self.related_pin = related_pin
        self.timing_sense = group.attributes.get("timing_sense", "non_unate")
        self.timing_type = group.attributes.get("timing_type", "combinational")
        tables = (units.table(group, kind, units.time) for kind in _DELAY_TABLES)
        self.cell_rise, self.cell_fall, self.rise_transition, self.fall_transition = tables
        # setup or hold times, of which the tables have the slew of the data instead of a load
        limits = (units.table(group, kind, units.time) for kind in ("rise_constraint", "fall_constraint"))
        self.constraints = [table for table in limits if table is not None]


class InternalPower:
    """Internal energy per edge, of an output after an edge at ``related_pin``, or of an input if there is none."""

    def __init__(self, related_pin: str, group: LibertyGroup, units: _Units) -> None:
        energy = units.volt**2 * units.load
        rise, fall, both = (units.table(group, kind, energy) for kind in _POWER_TABLES)
        self.related_pin = related_pin
        self.when = group.attributes.get("when", "")
        self.rise_power, self.fall_power = rise or both, fall or both


class Pin:
    def __init__(self, name: str, group: LibertyGroup, units: _Units) -> None:
        self.name = name
        self.direction = group.attributes.get("direction", "input")
        default = units.library.number(f"default_{self.direction}_pin_cap")
        self.capacitance_ff = group.number("capacitance", default) * units.load
        # empty without one
        self.function = group.attributes.get("function", group.attributes.get("state_function", ""))
        self.three_state = group.attributes.get("three_state", "")
        self.clock = group.flag("clock")
        # role in a clock gate: `clock`, `enable`, `test`, `out` or empty
        roles = (role for role in ("clock", "enable", "test", "out") if group.flag(f"clock_gate_{role}_pin"))
        self.clock_gate = next(roles, "")
        self.timing = [
            TimingArc(related, arc, units)
            for arc in group.subgroups("timing")
            for related in arc.attributes.get("related_pin", "").split()
        ]
        self.internal_power = [
            InternalPower(related, power, units)
            for power in group.subgroups("internal_power")
            for related in power.attributes.get("related_pin", "").split() or [""]
        ]


class FlipFlop:
    """Names of a flip-flop's state and inverted state; expressions of clock, data, clear and preset, or empty."""

    def __init__(self, group: LibertyGroup) -> None:
        self.state, self.state_inverse, *_ = [*group.arguments, "", ""]
        rules = (group.attributes.get(name, "") for name in ("clocked_on", "next_state", "clear", "preset"))
        self.clocked_on, self.next_state, self.clear, self.preset = rules


class LibraryCell:
    def __init__(self, group: LibertyGroup, units: _Units) -> None:
        self.name = group.arguments[0]
        self.area = group.number("area")  # in the unit of the library, usually um2
        # unconditional leakage, or the mean over all states
        leakages = [item.number("value") for item in group.subgroups("leakage_power")]
        mean = sum(leakages) / max(len(leakages), 1)
        self.leakage_nw = group.number("cell_leakage_power", mean) * units.leakage
        self.dont_use = group.flag("dont_use")
        pins = (item for item in group.groups if item.kind in ("pin", "bus"))
        self.pins = {name: Pin(name, item, units) for item in pins for name in item.arguments}
        self.inputs = [pin for pin in self.pins.values() if pin.direction == "input"]
        self.outputs = [pin for pin in self.pins.values() if pin.direction == "output"]
        self.flip_flop = next(map(FlipFlop, group.subgroups("ff")), None)
        self.latch = any(group.subgroups("latch"))
        # integrated clock gate such as `latch_posedge`, else empty
        self.clock_gate = group.attributes.get("clock_gating_integrated_cell", "")
        self.sequential = bool(self.flip_flop or self.latch or self.clock_gate)
        memory = next(group.subgroups("memory"), LibertyGroup("", []))
        # words and bits of a memory, else 1 and 0
        self.words, self.word_bits = 1 << int(memory.number("address_width")), int(memory.number("word_width"))

    def truth_table(self) -> int | None:
        """Return the truth table of a combinational cell, see :meth:`Expression.truth_table`.

        Return None for cells with state, without inputs, with several outputs, or with a three-state output.
        """
        if self.sequential or len(self.outputs) != 1 or not self.inputs:
            return None
        output = self.outputs[0]
        if not output.function or output.three_state:
            return None
        return expression(output.function).truth_table([pin.name for pin in self.inputs])


class WireLoad:
    """Capacitance of a net by its number of sinks, between the fan-outs of a library and above them on a line."""

    def __init__(self, group: LibertyGroup, units: _Units) -> None:
        self.name = group.arguments[0]
        listed = [float(item) for item in group.lists.get("fanout_length", ("1", "0"))]
        self._fanouts, self._lengths = listed[::2], listed[1::2]
        self._slope = group.number("slope")
        self._load_ff = group.number("capacitance") * units.load

    def capacitance_ff(self, fanout: int) -> float:
        beyond, length = max(0.0, fanout - self._fanouts[-1]), float(np.interp(fanout, self._fanouts, self._lengths))
        return (length + self._slope * beyond) * self._load_ff


class Liberty:
    def __init__(self, library: LibertyGroup) -> None:
        units = _Units(library)
        cells = (LibraryCell(group, units) for group in library.subgroups("cell"))
        self.name = library.arguments[0] if library.arguments else ""
        self.voltage = library.number("nom_voltage", 1.0) * units.volt
        self.temperature = library.number("nom_temperature", 25.0)  # degrees Celsius
        self.operating_conditions = library.attributes.get("default_operating_conditions", "")
        self.default_input_pin_cap_ff = library.number("default_input_pin_cap") * units.load
        self.cells = {cell.name: cell for cell in cells}
        self.wire_loads = {load.name: load for load in (WireLoad(one, units) for one in library.subgroups("wire_load"))}
        selections = {one.arguments[0]: one.lists for one in library.subgroups("wire_load_selection")}
        areas = selections.get(library.attributes.get("default_wire_load_selection", ""), {}).get(
            "wire_load_from_area", ()
        )
        # the least areas of combinational cells from which on wire loads are those of a design, ascending
        self.wire_load_areas = [(float(low), name) for low, name in zip(areas[::3], areas[2::3], strict=False)]
        self.wire_load_areas = self.wire_load_areas or [(0.0, library.attributes.get("default_wire_load", ""))]
        if not self.cells:
            raise ValueError("it holds no cell")


def read_liberty(text: str, source: object) -> Liberty:
    try:
        return Liberty(parse_library(text))
    except (ValueError, LookupError) as error:
        raise ToolError(f"liberty must be a Liberty file, not {source} ({error})") from error
