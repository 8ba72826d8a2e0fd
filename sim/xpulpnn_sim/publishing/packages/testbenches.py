"""Generate self-checking Verilog testbenches of the core, of units and of the cluster."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random

from xpulpnn.errors import ConfigError
from xpulpnn.isa import debug
from xpulpnn.isa.cluster import CONTROL, L2_BASE, Control
from xpulpnn.isa.csr import CLUSTER_EVENTS, csr_address
from xpulpnn.isa.machine import ENTRY, IRQ_PRIORITY, WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.publishing.packages.core_programs import DRIVEN_HART_ID, REGIONS, CoreProgram, core_programs
from xpulpnn_sim.publishing.packages.design import GENERATED, Design, Port, connections, fill, hex_words, listing
from xpulpnn_sim.publishing.packages.unit_vectors import UnitVector, unit_vectors
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS, TOHOST
from xpulpnn_sw.kernels.programs.cluster_check import OPERANDS, cluster_check
from xpulpnn_sw.kernels.programs.cluster_check import RESULTS_AT as CLUSTER_RESULTS_AT

# cycle limits with the fastest memory: of a program of a core for each word of the longest; for each core of a cluster
_CYCLES_PER_WORD, _CYCLES, _CYCLES_PER_CORE = 10, 20_000, 2000

_DRIVEN = {
    "boot_addr": f"32'h{ENTRY:08x}",
    "hart_id": f"32'h{DRIVEN_HART_ID:08x}",
    "fetch_enable": "1'b1",
    "ext_events": f"{len(CLUSTER_EVENTS)}'d0",
    "debug_req": "1'b0",
    "test_en": "1'b0",
    **dict.fromkeys(("debug_halt_addr", "debug_exception_addr"), "32'h1a110800"),
    **dict.fromkeys(("bus__gnt", "bus__rvalid", "bus__err"), "1'b0"),
    "bus__rdata": "32'd0",
}
"""Inputs of the core that the testbench keeps constant, with their Verilog values."""

_JTAG = ("tck_clk", "tck_rst", "tck_rst_n", "tms", "tdi", "tdo")
_OWN = ("irq", "irq_ack", "irq_id", "core_sleep", *_JTAG)
_BUSES = ("instr__", "data__")


def core_testbench(design: Design) -> dict[str, str]:
    programs, name = core_programs(design.config), design.top
    words = [address << XLEN | word for program in programs for address, word in program.words.items() if word]
    expected = [word for program in programs for word in program.expected]
    firsts = [0, *accumulate(size // WORD_BYTES for _, size in REGIONS)]
    regions = [(*region, first) for region, first in zip(REGIONS, firsts, strict=False)]
    bench = fill(
        "core_tb.v",
        design,
        programs=programs,
        words=words,
        expected=expected,
        lines=sum(1 << line for line in IRQ_PRIORITY),
        watchdog=_CYCLES_PER_WORD * max(len(program.words) for program in programs),
        wires=[(port.range, _net(port)) for port in design.ports if _is_used(port) and port.name != "irq"],
        connections=connections(design.ports, _connection),
        harts=1,
        first_hart=DRIVEN_HART_ID,
        pauses=True,
    )
    return {
        "obi_port.v": fill("obi_port.v", design),
        "obi_memory.v": fill(
            "obi_memory.v", design, tohost=TOHOST, size=firsts[-1], regions=regions, bus_errors=BUS_ERRORS
        ),
        f"{design.identifier}_tb.v": bench,
        **_debugger(design),
        f"{name}_programs.hex": hex_words(_descriptors(programs), 4 * XLEN),
        f"{name}_words.hex": hex_words(words, 2 * XLEN),
        f"{name}_programs.lst": "\n".join(program.listing(design.config) for program in programs),
        f"{name}_expected.hex": hex_words(expected),
        f"{name}_expected.lst": _described(expected, [text for program in programs for text in program.texts]),
    }


def _debugger(design: Design) -> dict[str, str]:
    command = debug.Command.TRANSFER | debug.COMMAND_WORD << debug.COMMAND_SIZE_LSB | csr_address("mhartid")
    return {"jtag_halts.v": fill("jtag_halts.v", design, debug=debug, read_hart=command)} if design.has_jtag else {}


def _descriptors(programs: Sequence[CoreProgram]) -> Iterator[int]:
    """Yield a word per program: whether interrupts come, address of results, and sums of results and words so far."""
    results = words = 0
    for program in programs:
        results += len(program.expected)
        words += sum(word != 0 for word in program.words.values())
        yield ((program.interrupts << XLEN | program.results_at) << XLEN | results) << XLEN | words


def _described(words: Sequence[int], texts: Sequence[str]) -> str:
    rows = enumerate(zip(words, texts, strict=True), start=1)
    lines = (f"{number:5}  {word:08x}  {text}\n" for number, (word, text) in rows)
    return "".join([f"{GENERATED}\n", *lines])


def _is_used(port: Port) -> bool:
    return port.name in _OWN or port.name.startswith(_BUSES)


def _connection(port: Port) -> str:
    if _is_used(port):
        return _net(port)
    if port.is_input and port.name not in _DRIVEN:
        raise ConfigError(f"inputs of the core must be known to its testbench, not {port.name}")
    return _DRIVEN.get(port.name, f"{port.width}'d0") if port.is_input else ""


def unit_testbench(design: Design) -> dict[str, str]:
    inputs = [port for port in design.ports if port.is_input and not port.is_clocking]
    outputs = [port for port in design.ports if not port.is_input]
    rows = unit_vectors(design.top, design.config, set(design.by_name))
    values = {"rows": rows, "inputs": inputs, "outputs": outputs}
    wired = connections(design.ports, lambda port: port.name)
    bits = sum(port.width for port in (*inputs, *outputs)) + len(outputs) + 1
    texts = (f"{number:5}  {_vector_text(row)}\n" for number, row in enumerate(rows, start=1))
    return {
        f"{design.identifier}_tb.v": fill("unit_tb.v", design, **values, connections=wired),
        f"{design.top}_vectors.hex": hex_words((_pack_vector(row, inputs, outputs) for row in rows), bits),
        f"{design.top}_vectors.lst": "".join([f"{GENERATED}\n", *texts]),
    }


def _pack_vector(row: UnitVector, inputs: Sequence[Port], outputs: Sequence[Port]) -> int:
    unknown = {*row.inputs, *row.expected} - {port.name for port in (*inputs, *outputs)}
    assert not unknown, unknown
    given = [(port, row.inputs.get(port.name, 0)) for port in inputs]
    given += [(port, row.expected.get(port.name, 0)) for port in outputs]
    assert all(0 <= value < 1 << port.width for port, value in given), given
    bits = [f"{value:0{port.width}b}" for port, value in given]
    bits += [f"{port.name in row.expected:b}" for port in outputs] + [f"{row.waits:b}"]
    return int("".join(reversed(bits)), 2)


def _vector_text(row: UnitVector) -> str:
    given = " ".join(f"{name}={value:x}" for name, value in row.inputs.items() if value)
    return f"{row.text}: {given or 'all 0'} -> {' '.join(f'{name}={value:x}' for name, value in row.expected.items())}"


def _net(port: Port) -> str:
    """Return the net of a port: ``bus_signal``, or for a port ``group__3__signal`` the vector ``group_signal``."""
    return re.sub(r"__(\d+__)?", "_", port.name, count=1)


_SEED = 20
_WORDS = 1 << 11  # of the memory outside the cluster
_CLUSTER_INPUTS = ("cluster_id", "boot_addr", "fetch_enable", "events", "host")  # variables of the testbench


def cluster_testbench(design: Design) -> dict[str, str]:
    config, rng = design.config, Random(_SEED)
    program = cluster_check(config, [rng.getrandbits(32) for _ in range(OPERANDS)])
    nets: dict[str, tuple[str, int]] = {}
    for port in (port for port in design.ports if not port.is_clocking):
        driven = port.is_input and port.name.partition("__")[0] in _CLUSTER_INPUTS
        nets[_net(port)] = "reg" if driven else "wire", nets.get(_net(port), ("", 0))[1] + port.width

    def connection(port: Port) -> str:
        name, element = _net(port), re.search(r"__(\d+)__", port.name)
        return _DRIVEN[name] if name == "test_en" else name + (part(int(element[1]), port.width) if element else "")

    def part(number: int, width: int) -> str:
        return f"[{number * width} +: {width}]"

    fetching = [("refill", 0, 64)] if config.icache_private else [("instr", core, 32) for core in range(config.cores)]
    bench = fill(
        "cluster_tb.v",
        design,
        config=config,
        program=program,
        results_at=CLUSTER_RESULTS_AT // WORD_BYTES,
        words=_WORDS,
        base=L2_BASE,
        return_register=CONTROL + Control.RETURN,
        watchdog=_CYCLES + _CYCLES_PER_CORE * config.cores,
        nets=nets,
        memory_ports=[("ext", 0, 32), *([("dma", 0, 64)] if config.dma else []), *fetching],
        part=part,
        connections=connections(design.ports, connection),
        harts=config.cores,
        first_hart=0,
        pauses=False,
    )
    texts = [*(f"sum of core {core}" for core in range(config.cores)), "sum of all"]
    return {
        f"{design.identifier}_tb.v": bench,
        **_debugger(design),
        f"{design.top}_program.hex": hex_words(program.image(_WORDS)),
        f"{design.top}_program.lst": listing(
            program.assembled, program.source, enabled(config.core.extensions, config.core.widths)
        ),
        f"{design.top}_expected.hex": hex_words(program.results),
        f"{design.top}_expected.lst": _described(program.results, texts),
        "obi_port.v": fill("obi_port.v", design),
        **({"sram.v": fill("sram.v", design)} if config.memories == "ports" else {}),
    }
