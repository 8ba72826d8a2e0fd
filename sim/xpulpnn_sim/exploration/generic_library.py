"""A cell library of no particular technology, to compare designs without a Liberty file.

Delays follow logical effort (Sutherland, Sproull, Harris: Logical Effort, 1999): a stage of size ``s`` takes ``tau * (p
+ load / (s * C))``, where ``C`` is the input capacitance of the unit inverter; an input of effort ``g`` has the
capacitance ``s * g * C``. Efforts ``g`` and parasitics ``p`` follow from the transistor networks: pull-up devices are
twice as wide as pull-down devices, and ``n`` devices in series are ``n`` times wider. Slews are those of the output
stage, and do not change delays. One fan-out-of-four delay is ``5 * tau`` = 50 ps.

Areas count columns of one pull-up and one pull-down device of unit size, plus one column between neighbours; the
2-input NAND of three columns has area 1. Energies are ``C * V**2 / 2`` per edge of parasitic and internal capacitances,
with ``C`` = 1 fF and ``V`` = 1 V; leakage is proportional to device width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xpulpnn_sim.exploration.library import Library

LIBRARY_NAME = "xpulpnn_builtin"
TAU_PS = 10.0
C_FF = 1.0
VOLTAGE = 1.0
LEAKAGE_NW = 0.02  # of a unit inverter
_NAND2_COLUMNS = 3
_LOADS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_SLEWS_NS = (0.0, 0.5, 1.0)
_MAXIMUM_LOAD = 64.0
_DEFAULT_LOAD = 2.0

_GATES: Mapping[str, tuple[str, tuple[int, ...], int]] = {
    "INV": ("A", (3,), 3),
    "NAND2": ("(A*B)", (4, 4), 6),
    "NAND3": ("(A*B*C)", (5, 5, 5), 9),
    "NAND4": ("(A*B*C*D)", (6, 6, 6, 6), 12),
    "NOR2": ("(A+B)", (5, 5), 6),
    "NOR3": ("(A+B+C)", (7, 7, 7), 9),
    "NOR4": ("(A+B+C+D)", (9, 9, 9, 9), 12),
    "AOI21": ("((A*B)+C)", (6, 6, 5), 7),
    "AOI22": ("((A*B)+(C*D))", (6, 6, 6, 6), 12),
    "AOI211": ("((A*B)+C+D)", (8, 8, 7, 7), 10),
    "OAI21": ("((A+B)*C)", (6, 6, 4), 8),
    "OAI22": ("((A+B)*(C+D))", (6, 6, 6, 6), 12),
    "OAI211": ("((A+B)*C*D)", (7, 7, 5, 5), 11),
}
"""Single-stage gates: complement of the function, efforts ``3 g`` of inputs A, B, ..., and parasitic ``3 p``."""

_INVERTED = {
    "BUF": "INV",
    "AND2": "NAND2",
    "AND3": "NAND3",
    "OR2": "NOR2",
    "OR3": "NOR3",
    "AO21": "AOI21",
    "OA21": "OAI21",
}
_SIZES = {"INV": (1, 2, 4, 8, 16), "BUF": (1, 2, 4, 8, 16), "NAND2": (1, 2, 4), "NOR2": (1, 2, 4)}
_FEW_SIZES = (1, 2)


@dataclass(frozen=True, slots=True)
class _Input:
    """An input: capacitance in ``C``, intrinsic delay in ``tau``, unateness of its timing arc."""

    name: str
    capacitance: float
    delay: float
    sense: str = "negative_unate"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """A gate: its output stage's size, area in columns, internal capacitance and total device width (both in ``C``)."""

    name: str
    function: str
    size: int
    columns: int
    inside: float
    width: float
    inputs: Sequence[_Input]


def _inverting(kind: str, size: int) -> _Cell:
    function, efforts, parasitic = _GATES[kind]
    inputs = [_Input(name, size * (effort / 3), parasitic / 3) for name, effort in zip("ABCD", efforts, strict=False)]
    return _Cell(
        name=f"{kind}_X{size}",
        function=f"!{function}",
        size=size,
        columns=size * len(inputs),
        inside=size * (parasitic / 3),
        width=sum(item.capacitance for item in inputs),
        inputs=inputs,
    )


def _composed(name: str, function: str, stages: Sequence[_Cell], inner_load: float, inputs: Sequence[_Input]) -> _Cell:
    """Return a cell of several gates, output gate last; ``inner_load`` is the load of all other gates, in ``C``."""
    size = stages[-1].size
    return _Cell(
        name=f"{name}_X{size}",
        function=function,
        size=size,
        columns=sum(stage.columns for stage in stages),
        inside=sum(stage.inside for stage in stages) + inner_load,
        width=sum(stage.width for stage in stages),
        inputs=inputs,
    )


def _non_inverting(kind: str, size: int) -> _Cell:
    first = max(1, size // 4)
    gate = _inverting(_INVERTED[kind], first)
    delay = gate.inputs[0].delay + size / first + 1
    inputs = [_Input(item.name, item.capacitance, delay, "positive_unate") for item in gate.inputs]
    return _composed(kind, gate.function[1:], [gate, _inverting("INV", size)], size, inputs)


def _with_inverted_input(kind: str, size: int) -> _Cell:
    gate = _inverting(kind, size)
    a, b = gate.inputs
    inputs = [_Input("A", 1, 1 + a.capacitance + a.delay, "positive_unate"), b]
    stages = [_inverting("INV", 1), gate]
    return _composed(f"{kind}B", gate.function.replace("A", "!A"), stages, a.capacitance, inputs)


def _exclusive(kind: str, size: int) -> _Cell:
    first, second, function = ("NOR2", "AOI21", "A^B") if kind == "XOR2" else ("NAND2", "OAI21", "!(A^B)")
    front, back = _inverting(first, 1), _inverting(second, size)
    middle = back.inputs[2].capacitance
    delay = front.inputs[0].delay + middle + back.inputs[0].delay
    load = front.inputs[0].capacitance + back.inputs[0].capacitance
    inputs = [_Input(name, load, delay, "non_unate") for name in "AB"]
    return _composed(kind, function, [front, back], middle, inputs)


def _multiplexer(size: int) -> _Cell:
    """Return MUX2, which selects B if S is 1, as a cell of AOI22 and inverters for select and output."""
    gate = _inverting("AOI22", 1)
    data = gate.inputs[0]
    delay = data.delay + size + 1
    inputs = [_Input(name, data.capacitance, delay, "positive_unate") for name in "AB"]
    inputs.append(_Input("S", 1 + data.capacitance, delay + 1 + data.capacitance, "non_unate"))
    stages = [_inverting("INV", 1), gate, _inverting("INV", size)]
    return _composed("MUX2", "(A*!S)+(B*S)", stages, data.capacitance + size, inputs)


def _cells() -> Iterator[_Cell]:
    for kind in _GATES:
        yield from (_inverting(kind, size) for size in _SIZES.get(kind, _FEW_SIZES))
    for kind in _INVERTED:
        yield from (_non_inverting(kind, size) for size in _SIZES.get(kind, _FEW_SIZES))
    for size in _FEW_SIZES:
        yield from (_with_inverted_input(kind, size) for kind in ("NAND2", "NOR2"))
        yield from (_exclusive(kind, size) for kind in ("XOR2", "XNOR2"))
        yield _multiplexer(size)


def _cell(name: str, columns: int, width: float) -> str:
    area, leakage = (columns + 1) / _NAND2_COLUMNS, LEAKAGE_NW * width
    return f"  cell ({name}) {{\n    area : {area:.9g};\n    cell_leakage_power : {leakage:.9g};\n"


def _numbers(values: Sequence[float]) -> str:
    return '"' + ", ".join(f"{value:.9g}" for value in values) + '"'


def _table(kind: str, template: str, row: Sequence[float]) -> str:
    rows = ", ".join([_numbers(row)] * len(_SLEWS_NS))
    return f"{kind} ({template}) {{ values ({rows}); }}"


def _delay_tables(delay: float, size: float) -> str:
    """Return Liberty delay and transition tables for an intrinsic delay in ``tau``; both edges are equal."""
    tau = TAU_PS / 1e3
    delays = [tau * (delay + load / size) for load in _LOADS]
    slews = [tau * (1 + load / size) for load in _LOADS]
    kinds = (("cell_rise", delays), ("cell_fall", delays), ("rise_transition", slews), ("fall_transition", slews))
    return " ".join(_table(kind, "delay", row) for kind, row in kinds)


def _power(capacitance: float, related: str = "") -> str:
    energy = C_FF * capacitance * VOLTAGE**2 / 2
    inside = f"related_pin : {related}; " if related else ""
    tables = " ".join(f"{kind} (scalar) {{ values ({_numbers([energy])}); }}" for kind in ("rise_power", "fall_power"))
    return f"internal_power () {{ {inside}{tables} }}"


def _input_pin(name: str, capacitance: float, more: str = "") -> str:
    return f"    pin ({name}) {{ direction : input; capacitance : {C_FF * capacitance:.9g}; {more}}}\n"


def _gate(cell: _Cell) -> str:
    arcs = "".join(
        f"      timing () {{ related_pin : {item.name}; timing_sense : {item.sense}; "
        f"{_delay_tables(item.delay, cell.size)} }}\n"
        for item in cell.inputs
    )
    # an output edge spends the internal energy, whichever input caused it
    power = "".join(f"      {_power(cell.inside, item.name)}\n" for item in cell.inputs)
    return (
        _cell(cell.name, cell.columns, cell.width)
        + "".join(_input_pin(item.name, item.capacitance) for item in cell.inputs)
        + f'    pin (Y) {{ direction : output; function : "{cell.function}"; '
        f"max_capacitance : {C_FF * _MAXIMUM_LOAD * cell.size:.9g};\n{arcs}{power}    }}\n  }}\n"
    )


def _flip_flop() -> str:
    return (
        _cell("DFF_X1", 12, 12)
        + '    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }\n'
        + _input_pin("D", 1, _power(2) + " ")
        + _input_pin("CK", 1, f"clock : true; {_power(6)} ")
        + '    pin (Q) { direction : output; function : "IQ"; '
        f"max_capacitance : {C_FF * _MAXIMUM_LOAD:.9g};\n"
        f"      timing () {{ related_pin : CK; timing_type : rising_edge; {_delay_tables(6, 1)} }}\n"
        f"      {_power(6, 'CK')}\n    }}\n  }}\n"
    )


def _clock_gate() -> str:
    """Return the Liberty text of a clock gate: a latch, transparent while the clock is low, and an AND gate."""
    return (
        _cell("CLKGATE_X1", 10, 10) + "    dont_use : true;\n    clock_gating_integrated_cell : latch_posedge;\n"
        '    statetable ("CK E", "IE") { table : "L L : - : L, L H : - : H, H - : - : N"; }\n'
        "    pin (IE) { direction : internal; internal_node : IE; }\n"
        + _input_pin("E", 1, f"clock_gate_enable_pin : true; {_power(2)} ")
        + _input_pin("CK", 2, f"clock : true; clock_gate_clock_pin : true; {_power(3)} ")
        + '    pin (GCK) { direction : output; clock_gate_out_pin : true; state_function : "CK*IE";\n'
        f"      timing () {{ related_pin : CK; timing_sense : positive_unate; {_delay_tables(4, 1)} }}\n"
        f"      {_power(4, 'CK')}\n    }}\n  }}\n"
    )


def liberty_text() -> str:
    header = (
        "/* Generated by the built-in library of the xpulpnn explorer "
        "(xpulpnn_sim.exploration.generic_library); do not edit. */\n"
        f'library ({LIBRARY_NAME}) {{\n  delay_model : table_lookup;\n  time_unit : "1ns";\n  voltage_unit : "1V";\n'
        '  current_unit : "1uA";\n  pulling_resistance_unit : "1kohm";\n  leakage_power_unit : "1nW";\n'
        "  capacitive_load_unit (1, ff);\n"
        f"  nom_process : 1;\n  nom_temperature : 25;\n  nom_voltage : {VOLTAGE:g};\n"
        f"  default_input_pin_cap : {C_FF * _DEFAULT_LOAD:g};\n  default_max_transition : 10;\n"
        "  input_threshold_pct_rise : 50;\n  input_threshold_pct_fall : 50;\n"
        "  output_threshold_pct_rise : 50;\n  output_threshold_pct_fall : 50;\n"
        "  slew_lower_threshold_pct_rise : 20;\n  slew_upper_threshold_pct_rise : 80;\n"
        "  slew_lower_threshold_pct_fall : 20;\n  slew_upper_threshold_pct_fall : 80;\n"
    )
    templates = (
        "  lu_table_template (delay) { variable_1 : input_net_transition; variable_2 : total_output_net_capacitance; "
        f"index_1 ({_numbers(_SLEWS_NS)}); index_2 ({_numbers([C_FF * load for load in _LOADS])}); }}\n"
    )
    return header + templates + "".join(map(_gate, _cells())) + _flip_flop() + _clock_gate() + "}\n"


def generic_library() -> Library:
    name = "built-in (logical effort, no technology)"
    return Library(liberty_text().encode(), LIBRARY_NAME, name=name, physical=False)
