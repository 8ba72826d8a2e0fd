"""Generate self-checking Verilog testbenches of the core, of units and of the cluster."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import ConfigError
from xpulpnn.isa.cluster import CONTROL, L2_BASE, Control
from xpulpnn.isa.csr import CLUSTER_EVENTS
from xpulpnn.isa.machine import ENTRY, IRQ_PRIORITY, WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.publishing.packages.core_programs import DRIVEN_HART_ID, REGIONS, CoreProgram, core_programs
from xpulpnn_sim.publishing.packages.debugger import before_reset, debugger, debugging, watchdog
from xpulpnn_sim.publishing.packages.design import Design, Port, connections, fill, hex_words, listing, template
from xpulpnn_sim.publishing.packages.unit_vectors import UnitVector, unit_vectors
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS, TOHOST
from xpulpnn_sw.kernels.programs.cluster_check import OPERANDS, cluster_check
from xpulpnn_sw.kernels.programs.cluster_check import RESULTS_AT as CLUSTER_RESULTS_AT

_CYCLES_PER_WORD = 40  # cycle limit per program word with the fastest memory

_SHORTEST_GAP = 16  # in words

_DRIVEN = {
    "boot_addr": f"32'h{ENTRY:08x}",
    "hart_id": f"32'h{DRIVEN_HART_ID:08x}",
    "fetch_enable": "1'b1",
    "ext_events": f"{len(CLUSTER_EVENTS)}'d0",
    "debug_req": "1'b0",
    **dict.fromkeys(("debug_halt_addr", "debug_exception_addr"), "32'h1a110800"),
    **dict.fromkeys(("bus__gnt", "bus__rvalid", "bus__err"), "1'b0"),
    "bus__rdata": "32'd0",
}
"""Inputs of the core that the testbench keeps constant, with their Verilog values."""

_JTAG = ("tck_clk", "tck_rst", "tck_rst_n", "tms", "tdi", "tdo")
_OWN = ("irq", "irq_ack", "irq_id", "core_sleep", *_JTAG)
_BUSES = ("instr__", "data__")


def core_testbench(design: Design) -> dict[str, str]:
    """Return the files of the folder ``tb`` for the core, by name."""
    programs, ports, name = core_programs(design.core), design.ports, design.top
    words = [address << XLEN | word for program in programs for address, word in program.words.items() if word]
    expected = [word for program in programs for word in program.expected]
    return {
        "obi_port.v": template("obi_port.v"),
        "obi_memory.v": _core_memory(design),
        f"{design.identifier}_tb.v": fill(
            "core_tb.v",
            design,
            programs=len(programs),
            words=len(words),
            results=len(expected),
            lines=f"{sum(1 << line for line in IRQ_PRIORITY):08x}",
            watchdog=watchdog(design, _CYCLES_PER_WORD * len(words)),
            wires=_wires(ports),
            connections=connections(ports, _connection),
            before_reset=before_reset(design),
            **debugging(design, 1, DRIVEN_HART_ID, pauses=True),
        ),
        **debugger(design),
        f"{name}_programs.hex": hex_words(_descriptors(programs), 4 * XLEN),
        f"{name}_words.hex": hex_words(words, 2 * XLEN),
        f"{name}_programs.lst": "\n".join(program.listing(design.core) for program in programs),
        f"{name}_expected.hex": hex_words(expected),
        f"{name}_expected.lst": described_testbench(expected, [text for program in programs for text in program.texts]),
    }


def _descriptors(programs: Sequence[CoreProgram]) -> Iterator[int]:
    """Yield a word per program: whether interrupts come, address of results, end index of results and of words."""
    results = words = 0
    for program in programs:
        results += len(program.expected)
        words += sum(word != 0 for word in program.words.values())
        yield ((program.interrupts << XLEN | program.results_at) << XLEN | results) << XLEN | words


def _core_memory(design: Design) -> str:
    """Return the Verilog memory for the programs, which holds all address regions in one array."""
    places: list[str] = []
    size = 0
    for base, length in REGIONS:
        inside = f"address - 32'h{base:08x} < 32'h{length:x}"
        places.append(f"            if ({inside}) place = 32'd{size} + ((address - 32'h{base:08x}) >> 2);")
        size += length // WORD_BYTES
    bad = [f"            address - 32'h{base:08x} < 32'h{length:x}" for base, length in BUS_ERRORS]
    return fill(
        "obi_memory.v",
        design,
        tohost=f"{TOHOST:08x}",
        size=size,
        places="\n".join(places),
        bad=" ||\n".join(bad),
    )


def described_testbench(words: Sequence[int], texts: Sequence[str]) -> str:
    """Return a text that lists the number, word and meaning of each result."""
    rows = enumerate(zip(words, texts, strict=True), start=1)
    return "".join(f"{number:5}  {word:08x}  {text}\n" for number, (word, text) in rows)


def _is_used(port: Port) -> bool:
    return port.name in _OWN or port.name.startswith(_BUSES)


def _wires(ports: tuple[Port, ...]) -> str:
    lines = [f"    wire {port.range:7}{_net(port)};" for port in ports if _is_used(port) and port.name != "irq"]
    lines.append("    wire        ended, outside;")
    return "\n".join(lines) + "\n"


def _connection(port: Port) -> str:
    if _is_used(port):
        return _net(port)
    if port.is_input and port.name not in _DRIVEN:
        raise ConfigError(f"inputs of the core must be known to its testbench, not {port.name}")
    return _DRIVEN.get(port.name, f"{port.width}'d0") if port.is_input else ""


def sparse_hex(image: Sequence[int]) -> str:
    """Return the contents of a ``$readmemh`` file that leaves out long gaps of zeros."""
    lines, gap = hex_words(()), True
    for place, word in enumerate(image):
        if word and gap:
            lines += f"@{place:x}\n"
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
    """Return the files of the folder ``tb`` for a unit, by name."""
    inputs = [port for port in design.ports if port.is_input and not port.is_clocking]
    rows = unit_vectors(design.top, design.core, {port.name for port in design.ports})
    outputs = [port for port in design.ports if not port.is_input]
    wires = [_declared(port, port.name) for port in (*inputs, *outputs)]
    wires += [_declared(port, f"must_{port.name}") for port in outputs]
    has_done = any(port.name == "done" for port in outputs)
    return {
        f"{design.identifier}_tb.v": fill(
            "unit_tb.v",
            design,
            count=len(rows),
            inputs=sum(port.width for port in inputs),
            outputs=sum(port.width for port in outputs),
            checks=len(outputs),
            wires="\n".join(wires) + "\n",
            driven=_concatenation(port.name for port in inputs),
            musts=_concatenation(f"must_{port.name}" for port in outputs),
            connections=connections(design.ports, lambda port: port.name),
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
    """Return a Verilog concatenation of ``names``, the first of them in the least significant bits."""
    return "{" + ", ".join(reversed(list(names))) + "}"


def _packed(row: UnitVector, inputs: Sequence[Port], outputs: Sequence[Port]) -> int:
    """Pack the inputs and outputs of a vector into one number, as the testbench unpacks it."""
    unknown = {*row.inputs, *row.expected} - {port.name for port in (*inputs, *outputs)}
    assert not unknown, unknown
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


_ELEMENT = re.compile(r"(?P<group>\w+?)__(?P<place>\d+)__\w+")


@dataclass(frozen=True)
class _Nets:
    """Testbench nets: port ``group__3__signal`` is a slice of ``group_signal``, ``bus__signal`` is ``bus_signal``."""

    design: Design
    driven: Sequence[str] = ()  # arrays, buses and ports whose inputs are variables of the testbench

    def elements(self, group: str) -> int:
        matches = map(_ELEMENT.fullmatch, self.design.by_name)
        return len({match["place"] for match in matches if match is not None and match["group"] == group})

    def declarations(self) -> str:
        rows: dict[str, tuple[str, int]] = {}
        for port in self.design.ports:
            if port.is_clocking:
                continue
            name, group = _net(port), port.name.partition("__")[0]
            kind = "reg" if port.is_input and group in self.driven else "wire"
            rows[name] = kind, rows.get(name, (kind, 0))[1] + port.width
        # also one bit has a range, so that a testbench can index it with any number of cores
        lines = (f"    {kind:4} {f'[{width - 1}:0]':9} {name};" for name, (kind, width) in rows.items())
        return "\n".join(lines) + "\n"

    def connection(self, port: Port) -> str:
        match = _ELEMENT.fullmatch(port.name)
        name = _net(port)
        if match is None or self.elements(match["group"]) == 1:
            return name
        return f"{name}[{int(match['place']) * port.width} +: {port.width}]"


def _net(port: Port) -> str:
    return re.sub(r"__(\d+__)?", "_", port.name, count=1)


_SEED = 20
_WORDS = 1 << 11  # of the memory outside the cluster

_CYCLES_PER_CORE, _CYCLES = 2000, 20_000  # cycle limit with the fastest memory

_CLUSTER_INPUTS = ("cluster_id", "boot_addr", "fetch_enable", "events", "host")


def cluster_testbench(design: Design) -> dict[str, str]:
    """Return the files of the folder ``tb`` for the cluster, by name."""
    config = design.cluster
    rng = Random(_SEED)
    program = cluster_check(config, [rng.getrandbits(32) for _ in range(OPERANDS)])
    nets = _Nets(design, _CLUSTER_INPUTS)
    responders, writes = _outside(nets, config)
    insns = tuple(enabled(config.core.extensions, config.core.widths))
    texts = [*(f"sum of core {core}" for core in range(config.cores)), "sum of all"]
    files = {
        f"{design.identifier}_tb.v": fill(
            "cluster_tb.v",
            design,
            cores=config.cores,
            with_dma=" with the DMA engine" if config.dma else "",
            results=len(program.results),
            results_at=CLUSTER_RESULTS_AT // WORD_BYTES,
            words=_WORDS,
            base=f"{L2_BASE:08x}",
            return_value=f"{program.return_value:08x}",
            return_register=f"{CONTROL + Control.RETURN:08x}",
            watchdog=watchdog(design, _CYCLES + _CYCLES_PER_CORE * config.cores),
            wires=nets.declarations(),
            memories=f"{responders}\n{banks(nets, config)}",
            connections=connections(design.ports, nets.connection),
            writes=writes,
            **debugging(design, config.cores, 0),
        ),
        **debugger(design),
        f"{design.top}_program.hex": sparse_hex(program.image(_WORDS)),
        f"{design.top}_program.lst": listing(program.assembled, program.source, insns),
        f"{design.top}_expected.hex": hex_words(program.results),
        f"{design.top}_expected.lst": described_testbench(program.results, texts),
        "obi_port.v": template("obi_port.v"),
    }
    if config.memories == "ports":
        files["sram.v"] = template("sram.v")
    return files


_PORT = """\
    obi_port #(.WIDTH({width})) {name}_port{place} (
        .clk(clk), .rst(rst), .latency(latency[3:0]), .stall_percent(stall[6:0]), .seed(seed + {number}),
        .req({name}_req{bit}), .gnt({name}_gnt{bit}), .rvalid({name}_rvalid{bit}),
        .rdata({name}_rdata{bits}), .err({name}_err{bit}), .accept({accept}), .word({word}), .fails({fails})
    );
"""

_BANK = """\
    sram #(.WORDS({words})) bank{number} (
        .clk(clk), .req(banks_req{bit}), .we(banks_we{bit}), .be(banks_be{be}), .addr(banks_addr{addr}),
        .wdata(banks_wdata{data}), .rdata(banks_rdata{data})
    );
"""


def banks(nets: _Nets, config: ClusterConfig) -> str:
    """Return a Verilog memory for each external bank; empty if the banks are internal."""
    count = nets.elements("banks")
    addr = (config.bank_words - 1).bit_length()
    texts: list[str] = []
    for number in range(count):
        widths = {"bit": 1, "be": 4, "addr": addr, "data": 32}
        slices = {
            key: "" if count == 1 else f"[{number}]" if width == 1 else f"[{number * width} +: {width}]"
            for key, width in widths.items()
        }
        texts.append(_BANK.format(words=config.bank_words, number=number, **slices))
    return "\n".join(texts)


_WRITE = """\
        for (k = 0; k < {size}; k = k + 1)
            if ({name}_accept && {name}_we && {name}_be[k] && {name}_place < WORDS)
                mem[{name}_place{index}] <= {name}_wdata[8*k +: 8];"""


def _outside(nets: _Nets, config: ClusterConfig) -> tuple[str, str]:
    """Return the Verilog of memories that answer all ports of the cluster, and of their writes in a clocked process."""
    ports = {"ext": 32} | ({"dma": 64} if config.dma else {}) | ({"refill": 64} if config.icache_private else {})
    texts: list[str] = []
    writes: list[str] = []
    for number, (name, width) in enumerate(ports.items()):
        place, accept = f"{name}_place", f"{name}_accept"
        texts.append(f"    wire [31:0] {place} = ({name}_addr - BASE) >> 2;\n    wire        {accept};\n")
        word = f"mem[{place}]" if width == 32 else f"{{mem[{place} + 1], mem[{place}]}}"
        port = {"name": name, "width": width, "number": number, "accept": accept, "word": word}
        texts.append(_PORT.format(**port, place="", bit="", bits="", fails=f"{place} >= WORDS"))
        if name != "refill":
            index = "][8*k +: 8" if width == 32 else " + k / 4][8*(k % 4) +: 8"
            writes.append(_WRITE.format(name=name, size=width // 8, index=index))
    texts += [] if config.icache_private else [_fetch_ports(nets)]
    return "\n".join(texts), "\n".join(writes)


def _fetch_ports(nets: _Nets) -> str:
    count = nets.elements("instr")
    lines: list[str] = []
    for number in range(count):
        net = f"instr_place{number}"
        lines.append(f"    wire [31:0] {net} = (instr_addr[{32 * number} +: 32] - BASE) >> 2;\n")
        port = {"name": "instr", "width": 32, "number": number + 3, "accept": "", "word": f"mem[{net}]"}
        slices = {"bit": f"[{number}]", "bits": f"[{number * 32} +: 32]"}
        lines.append(_PORT.format(**port, **slices, place=number, fails=f"{net} >= WORDS"))
    return "".join(lines)
