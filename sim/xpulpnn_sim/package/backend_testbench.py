"""The testbench of the back end: a stream of instructions, a data memory, and what the ports must say."""

from xpulpnn.errors import ConfigError
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.package.backend_stream import (
    CSR_ADDR_BITS,
    CSR_OP_BITS,
    CSR_PATTERN,
    ROW_BITS,
    VALUE_BITS,
    WORD_BITS,
    backend_stream,
)
from xpulpnn_sim.package.core_testbench import SIMULATED_NS, described, sparse_hex
from xpulpnn_sim.package.design import CLOCK, RESETS, Design, Port
from xpulpnn_sim.package.listing import hex_words, little_endian_words
from xpulpnn_sim.package.memory_map import DEVICE_BASE, MEMORY_BASE, MEMORY_WORDS, NOWHERE, OPERANDS_AT, RESULTS_AT
from xpulpnn_sim.package.template import fill, template

_FAILED = "insn__payload__error"
"""Input of back ends that know of failed fetches."""

_DRIVEN = {
    "insn__valid": "offered",
    "insn__payload__word": "word",
    "insn__payload__pc": "pc",
    "insn__payload__compressed": "compressed",
    "hold": "1'b0",
    "csr__rdata": "csr_answer",
    _FAILED: "failed",
}
_UNUSED = ("info__", "rvfi__", "events__", "flow__")
_SYSTEM_BITS, _CAUSE_BITS = 3, 5


def backend_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the back end, by name."""
    stream = backend_stream(design.core, fetch_errors=_FAILED in design.by_name)
    image = [0] * MEMORY_WORDS
    operands = little_endian_words(stream.checks.operands)
    image[OPERANDS_AT // WORD_BYTES : OPERANDS_AT // WORD_BYTES + len(operands)] = operands
    results = stream.checks.results
    expected = [check.expected & WORD_MASK for check in results if isinstance(check.expected, int)]
    assert len(expected) == len(results)
    return {
        "obi_port.v": template("obi_port.v"),
        "obi_memory.v": template("obi_memory.v"),
        f"{design.identifier}_tb.v": fill(
            "backend_tb.v",
            module=design.module,
            top=design.top,
            top_name=design.identifier,
            count=len(stream.entries),
            results=len(expected),
            results_at=RESULTS_AT // WORD_BYTES,
            words=MEMORY_WORDS,
            value_bits=VALUE_BITS,
            csr_pattern=f"{CSR_PATTERN:08x}",
            csr_pad=VALUE_BITS - CSR_ADDR_BITS - CSR_OP_BITS - 1 - WORD_BITS,
            system_pad=VALUE_BITS - _SYSTEM_BITS,
            trap_pad=VALUE_BITS - _CAUSE_BITS,
            target_pad=VALUE_BITS - WORD_BITS,
            base=f"{MEMORY_BASE:08x}",
            device=f"{DEVICE_BASE:08x}",
            nowhere=f"{NOWHERE:08x}",
            half_period=SIMULATED_NS // 2,
            path="tb",
            wires=_wires(design.ports),
            connections=",\n".join(f"        .{port.name}({_connection(port)})" for port in design.ports),
        ),
        f"{design.top}_stream.hex": hex_words((entry.row for entry in stream.entries), ROW_BITS),
        f"{design.top}_stream.lst": "".join(f"{text}\n" for text in stream.texts),
        f"{design.top}_memory.hex": sparse_hex(image),
        f"{design.top}_expected.hex": hex_words(expected),
        f"{design.top}_expected.lst": described(expected, [check.text for check in results]),
    }


def _net(port: Port) -> str:
    return port.name.replace("__", "_")


def _is_used(port: Port) -> bool:
    return not (port.is_clocking or port.name in _DRIVEN or port.name.startswith(_UNUSED))


def _wires(ports: tuple[Port, ...]) -> str:
    lines = [f"    wire {port.range:7}{_net(port)};" for port in ports if _is_used(port)]
    return "\n".join([*lines, "    wire        outside;"]) + "\n"


def _connection(port: Port) -> str:
    if port.name == CLOCK:
        return "clk"
    if port.name in RESETS:
        return "~rst" if RESETS[port.name] else "rst"
    if port.name in _DRIVEN:
        return _DRIVEN[port.name]
    if _is_used(port):
        if port.is_input and not port.name.startswith("data__"):
            raise ConfigError(f"inputs of the back end must be known to its testbench, not {port.name}")
        return _net(port)
    return f"{port.width}'d0" if port.is_input else ""
