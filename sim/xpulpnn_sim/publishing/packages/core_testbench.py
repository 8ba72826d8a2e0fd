"""The testbench of the core: memories, a program that checks itself, and the results it must leave."""

from collections.abc import Sequence

from xpulpnn.errors import ConfigError
from xpulpnn.isa.csr import CLUSTER_EVENTS
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.publishing.packages.core_checks import (
    DEVICE_BASE,
    INTERRUPTS,
    MEMORY_BASE,
    MEMORY_WORDS,
    NOWHERE,
    RESULTS_AT,
)
from xpulpnn_sim.publishing.packages.core_program import DRIVEN_HART_ID, core_program
from xpulpnn_sim.publishing.packages.design import Design, Port, connections, fill, hex_words, template
from xpulpnn_sim.publishing.packages.units import UnitVector, unit_vectors

SIMULATED_NS = 10  # period of the clock in simulation

_CYCLES_PER_WORD = 8  # of the watchdog, for the fastest memory, by words of the program

_SHORTEST_GAP = 16  # words

_DRIVEN = {
    "boot_addr": f"32'h{MEMORY_BASE + 0x80:08x}",
    "hart_id": f"32'h{DRIVEN_HART_ID:08x}",
    "fetch_enable": "1'b1",
    "ext_events": f"{len(CLUSTER_EVENTS)}'d0",
}
"""Inputs that stay."""

_OWN = ("irq", "irq_ack", "irq_id", "core_sleep")
_BUSES = ("instr__", "data__")


def core_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the core, by name."""
    program = core_program(design.core)
    ports = design.ports
    name = design.top
    return {
        "obi_port.v": template("obi_port.v"),
        "obi_memory.v": template("obi_memory.v"),
        f"{design.identifier}_tb.v": fill(
            "core_tb.v",
            module=design.module,
            top=name,
            top_name=design.identifier,
            results=len(program.expected),
            results_at=RESULTS_AT // WORD_BYTES,
            interrupts=INTERRUPTS,
            words=MEMORY_WORDS,
            base=f"{MEMORY_BASE:08x}",
            device=f"{DEVICE_BASE:08x}",
            nowhere=f"{NOWHERE:08x}",
            half_period=SIMULATED_NS // 2,
            watchdog=_CYCLES_PER_WORD * sum(word != 0 for word in program.image),
            path="tb",
            wires=_wires(ports),
            connections=connections(ports, _connection),
        ),
        f"{name}_program.hex": sparse_hex(program.image),
        f"{name}_program.lst": program.listing,
        f"{name}_expected.hex": hex_words(program.expected),
        f"{name}_expected.lst": described_testbench(program.expected, program.texts),
    }


def described_testbench(words: Sequence[int], texts: Sequence[str]) -> str:
    """Results by number, with what they are."""
    rows = enumerate(zip(words, texts, strict=True), start=1)
    return "".join(f"{number:5}  {word:08x}  {text}\n" for number, (word, text) in rows)


def _net(port: Port) -> str:
    """The testbench's name of a port: buses have one underscore there."""
    return port.name.replace("__", "_")


def _is_used(port: Port) -> bool:
    return port.name in _OWN or port.name.startswith(_BUSES)


def _wires(ports: tuple[Port, ...]) -> str:
    lines = [f"    wire {port.range:7}{_net(port)};" for port in ports if _is_used(port)]
    lines += ["    wire        ended, outside;", "    wire [31:0] code;"]
    return "\n".join(lines) + "\n"


def _connection(port: Port) -> str:
    if _is_used(port):
        return _net(port)
    if port.is_input and port.name not in _DRIVEN:
        raise ConfigError(f"inputs of the core must be known to its testbench, not {port.name}")
    return _DRIVEN.get(port.name, f"{port.width}'d0") if port.is_input else ""


def sparse_hex(image: Sequence[int]) -> str:
    """A ``$readmemh`` file of a memory with its gaps left out."""
    lines, gap = hex_words(()), True
    for place, word in enumerate(image):
        if word and gap:
            lines += f"@{place:x}\n"
        # short gaps are written as zeros
        gap = not word and (gap or not any(image[place : place + _SHORTEST_GAP]))
        lines += "" if gap else f"{word:08x}\n"
    return lines


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
            connections=connections(design.ports, lambda port: port.name),
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
