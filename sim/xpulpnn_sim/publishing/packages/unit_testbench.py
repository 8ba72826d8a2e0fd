"""The testbench of a unit: vectors and the Verilog that applies them."""

from collections.abc import Sequence

from xpulpnn_sim.publishing.packages.core_testbench import SIMULATED_NS
from xpulpnn_sim.publishing.packages.design import Design, Port, clocking
from xpulpnn_sim.publishing.packages.listing import fill, hex_words
from xpulpnn_sim.publishing.packages.units import UnitVector, unit_vectors

_COMPARISON = """\
                if (counts[{place}] && {name} !== must_{name}) begin
                    wrong = wrong + 1;
                    if (wrong <= 10)
                        $display("vector %0d: {name} is %h, must be %h", place + 1, {name}, must_{name});
                end"""


def unit_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for a unit, by name."""
    rows = unit_vectors(design.top, design.core, design.by_name)
    inputs = [port for port in design.ports if port.is_input and not port.is_clocking]
    outputs = [port for port in design.ports if not port.is_input]
    wires = [_declared(port, port.name) for port in (*inputs, *outputs)]
    wires += [_declared(port, f"must_{port.name}") for port in outputs]
    has_done = any(port.name == "done" for port in outputs)
    return {
        f"{design.identifier}_tb.v": fill(
            "unit_tb.v",
            module=design.module,
            top=design.top,
            top_name=design.identifier,
            count=len(rows),
            inputs=sum(port.width for port in inputs),
            outputs=sum(port.width for port in outputs),
            checks=len(outputs),
            wires="\n".join(wires) + "\n",
            driven=_concatenation(port.name for port in inputs),
            musts=_concatenation(f"must_{port.name}" for port in outputs),
            connections=",\n".join(f"        .{port.name}({clocking(port) or port.name})" for port in design.ports),
            half_period=SIMULATED_NS // 2,
            path="tb",
            done="done" if has_done else "1'b1",
            comparisons="\n".join(
                _COMPARISON.format(place=place, name=port.name) for place, port in enumerate(outputs)
            ),
        ),
        f"{design.top}_vectors.hex": hex_words(
            (_packed(row, inputs, outputs) for row in rows),
            sum(port.width for port in (*inputs, *outputs)) + len(outputs) + 1,
        ),
        f"{design.top}_vectors.lst": "".join(
            f"{number:5}  {_described(row)}\n" for number, row in enumerate(rows, start=1)
        ),
    }


def _declared(port: Port, name: str) -> str:
    return f"    wire {port.range:7}{name};"


def _concatenation(names) -> str:
    """Names from bit 0 up as a Verilog concatenation."""
    return "{" + ", ".join(reversed(list(names))) + "}"


def _packed(row: UnitVector, inputs: Sequence[Port], outputs: Sequence[Port]) -> int:
    """A vector as one number, as the testbench takes it apart."""
    unknown = {*row.inputs, *row.expected} - {port.name for port in (*inputs, *outputs)}
    # an ALU has no shift amount where the whole stage has one, and the other way round
    assert unknown <= {"shamt", "op_c"}, unknown
    word = lsb = 0
    for ports, values in ((inputs, row.inputs), (outputs, row.expected)):
        for port in ports:
            value = values.get(port.name, 0)
            assert 0 <= value < 1 << port.width, (port.name, value)
            word |= value << lsb
            lsb += port.width
    for port in outputs:
        word |= int(port.name in row.expected) << lsb
        lsb += 1
    return word | int(row.waits) << lsb


def _described(row: UnitVector) -> str:
    given = " ".join(f"{name}={value:x}" for name, value in row.inputs.items() if value)
    return f"{row.text}: {given or 'all 0'} -> {' '.join(f'{name}={value:x}' for name, value in row.expected.items())}"
