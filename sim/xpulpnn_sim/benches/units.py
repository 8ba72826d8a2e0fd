"""The hardware units that have a bench: how each is built and what its bench is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from amaranth.hdl import Const
from amaranth.lib import data, wiring

from xpulpnn.cluster.axi.cluster import ClusterAxi
from xpulpnn.cluster.demux import CoreDemux
from xpulpnn.cluster.dma.unit import Dma
from xpulpnn.cluster.event_unit.unit import EventUnit
from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.cluster.icache.unit import InstructionCache
from xpulpnn.cluster.peripherals.bus import PeripheralBus
from xpulpnn.cluster.peripherals.control import ClusterControl
from xpulpnn.cluster.peripherals.timer import ClusterTimer
from xpulpnn.cluster.tcdm.tcdm import Tcdm
from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.core.backend import Backend
from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import CsrOp, ExCtrl, HwLoopOp, IdCtrl, LsuCtrl, PairCtrl, Unit, control_fields
from xpulpnn.core.core import Core
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.decoder import Decoder
from xpulpnn.core.div import DivCtrl, Divider, div_control
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.hwloops import HwLoops
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.mult import MultCtrl, mult_control
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.core.product_unit import ProductUnit
from xpulpnn.core.quantiser import Quantiser, QuantiserCtrl
from xpulpnn.core.regfile import RegFile
from xpulpnn.core.requantiser import RequantiseCtrl, Requantiser, requantise_control
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.core.wide_mult import multiplier_of
from xpulpnn.dotp.ctrl import DotpCtrl, dotp_control
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.dotp.widener import WeightWidener
from xpulpnn.isa.cluster import BLOCK_BYTES, CONTROL, DMA_LENGTH_BITS, EVENT_UNIT, EVENT_UNIT_BYTES, TIMER
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled, find
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.benches.bridge_units import bridge_units
from xpulpnn_sim.benches.debug_units import debug_units
from xpulpnn_sim.benches.launcher_data import configured
from xpulpnn_sim.benches.runner import SIMULATORS

ControlledRow = tuple[str, str, dict[str, int]]  # Mnemonic, operands and values of the control ports
RowControl = Callable[[Insn], Mapping[str, Any] | None]
"""Fields of a unit's control word for an instruction, None for one that it does not execute."""


@dataclass(frozen=True, slots=True)
class BenchedUnit:
    """A unit and its bench."""

    bench: str  # the bench is the module `bench_<bench>` of this package; the top module is called the same
    make: Callable[[], wiring.Component]  # builds the component
    simulators: Sequence[str]  # where the bench runs
    told: Mapping[str, Any]  # data for the bench
    rows: Callable[[], Sequence[ControlledRow]] | None  # makes those of the instruction table, if it wants any

    def emit(self) -> EmittedVerilog:
        """Verilog and ports."""
        return emit(self.make(), self.bench, config={})

    def describe(self) -> dict[str, Any]:
        """Everything that the bench is told."""
        return {**self.told, **({} if self.rows is None else {"rows": self.rows()})}


def _plain(bench: str, make: Callable[[], wiring.Component], *simulators: str, **told: Any) -> BenchedUnit:
    """A unit without a configuration, whose bench is told ``told``."""
    return BenchedUnit(bench, make, simulators or SIMULATORS, told, None)


def _configured(
    bench: str,
    component: Callable[[Any], wiring.Component],
    design: str,
    *simulators: str,
    rows: Callable[[Any], Sequence[ControlledRow]] | None = None,
    **told: Any,
) -> BenchedUnit:
    """A unit of a preset with settings, which its bench is told beside ``told``."""
    config = configured(design)
    make_rows = None if rows is None else partial(rows, config)
    unit = _plain(bench, lambda: component(config), *simulators, design=design, **told)
    return replace(unit, rows=make_rows)


def _control_port(shape: type[data.Struct], fields: Mapping[str, Any], port: str = "ctrl") -> dict[str, int]:
    """A control word, from field values with dotted names, by its port."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, leaf = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return {port: Const.cast(shape.const(nested)).value}


def _words(config: CoreConfig) -> list[Insn]:
    return [insn for insn in enabled(config.extensions, config.widths) if insn.size == WORD_BYTES]


def _controlled(
    shape: type[data.Struct], control: RowControl, port: str = "ctrl"
) -> Callable[[CoreConfig], list[ControlledRow]]:
    """Makes the 32-bit rows of a configuration that a unit executes, with their control words."""

    def rows(config: CoreConfig) -> list[ControlledRow]:
        executed = [(insn, fields) for insn in _words(config) if (fields := control(insn)) is not None]
        return [(insn.mnemonic, insn.operands, _control_port(shape, fields, port)) for insn, fields in executed]

    return rows


def _part(name: str, applies: Callable[[Insn], bool]) -> RowControl:
    """The fields of one part of the decoder's control word, for the rows that ``applies`` selects."""

    def control(insn: Insn) -> Mapping[str, Any] | None:
        if not applies(insn):
            return None
        prefix, fields = f"{name}.", control_fields(insn).items()
        return {key.removeprefix(prefix): value for key, value in fields if key.startswith(prefix)}

    return control


def _mult_rows(config: CoreConfig) -> list[ControlledRow]:
    return [
        (name, operands, {**control, "requantise": int(find(name, operands).requantises)})
        for name, operands, control in _controlled(MultCtrl, mult_control)(config)
    ]


def _decoded_rows(config: CoreConfig) -> list[ControlledRow]:
    """The 32-bit rows of a configuration with all control words that they are decoded to."""
    shapes: dict[str, type[data.Struct]] = {"ctrl": IdCtrl}
    shapes |= {"quantise": QuantiserCtrl} if config.qnt else {}
    shapes |= {"requantise": RequantiseCtrl} if config.requantise else {}
    shapes |= {"pair": PairCtrl} if config.mac_load_pair else {}
    rows: list[ControlledRow] = []
    for insn in _words(config):
        words: dict[str, dict[str, Any]] = {port: {} for port in shapes}
        for name, value in control_fields(insn).items():
            port, dot, field_name = name.partition(".")
            # what belongs to no port of its own is a field of the main one
            place, key = (port, field_name) if dot and port in words else ("ctrl", name)
            words[place][key] = value
        controls = {port: _control_port(shapes[port], fields)["ctrl"] for port, fields in words.items()}
        rows.append((insn.mnemonic, insn.operands, controls))
    return rows


_FULL = "xpulpnn-full"  # the preset with every row the hardware can execute
_EVERYTHING = f"{_FULL} mac_load_cross=on mac_load_dot=on mac_load_pair=on mixed_weights=on requantise=on"
_EVERYTHING += " requantise_exact=on multiplier=dot-product"
_ARRAYS = "xpulpnn2 mac_load_pair=on requantise_exact=on multiplier=dot-product"
_INFERRED = f"{_FULL} multiplier=inferred shifter=inferred multipliers=replicated adders=inferred"
"""The naive structures, where the other units have those of the presets."""
_LATE = "xpulpnn2 late_results=on adders=inferred multipliers=signed multiplier=inferred regfile=lut-ram"

_EVERY_PAIR = 1 << 20
_SOME_PAIRS = 200


_DIRECTED = {"corners": 25, "places": XLEN}  # executions of a row with pairs of corners, and in which a bit decides


def _alu(name: str, component: Callable[[CoreConfig], wiring.Component]) -> dict[str, BenchedUnit]:
    """An ALU or a part of it, with fewer vectors in Icarus."""
    rows = _controlled(AluCtrl, alu_control)
    return {
        name: _configured("rows", component, _FULL, "verilator", rows=rows, vectors_per_row=20, **_DIRECTED),
        f"{name}-part": _configured("rows", component, _FULL, "icarus", rows=rows, vectors_per_row=5),
    }


def _dotp(settings: str, *simulators: str) -> BenchedUnit:
    rows, design = _controlled(DotpCtrl, dotp_control), f"xpulpnn mac_load_cu=on {settings}"
    told = {"vectors_per_row": 16, "corners": _DIRECTED["corners"]}
    return _configured("rows", lambda config: DotpUnit(config.dotp), design, *simulators, rows=rows, **told)


def _multicycle(
    component: Callable[[CoreConfig], wiring.Component],
    design: str,
    rows: Callable[[CoreConfig], Sequence[ControlledRow]],
    vectors: int,
    handshake: tuple[str, str] = ("start", "take"),
    **told: Any,
) -> BenchedUnit:
    told = {"vectors_per_row": vectors, "handshake": handshake, **_DIRECTED, **told}
    return _configured("multicycle", component, design, rows=rows, **told)


def _mult(multiplier: str, design: str = _FULL) -> BenchedUnit:
    return _multicycle(multiplier_of, f"{design} requantise=on multiplier={multiplier}", _mult_rows, 12)


def _wide_mult(multiplier: str) -> BenchedUnit:
    def rows(config: CoreConfig) -> list[ControlledRow]:
        return [(name, operands, {**control, "start": 1}) for name, operands, control in _mult_rows(config)]

    design = f"{_FULL} requantise=on requantise_exact=on multiplier={multiplier}"
    return _configured("rows", multiplier_of, design, rows=rows, vectors_per_row=24, **_DIRECTED)


def _product_rows(config: CoreConfig) -> list[ControlledRow]:
    products = [
        (name, operands, {"ctrl": 0, "requantise": 0, "dotp_accumulate": int(find(name, operands).accumulates)})
        for name, operands, _ in _controlled(DotpCtrl, dotp_control)(config)
    ]
    words = [(name, operands, {**control, "dotp_accumulate": 0}) for name, operands, control in _mult_rows(config)]
    return words + products


def _ex_stage(design: str) -> BenchedUnit:
    control = _part(
        "ex", lambda insn: insn.writes_rd | insn.is_branch | insn.is_store and not insn.op.startswith("csr")
    )
    told = {"corners": 0, "csr": _control_port(ExCtrl, {"unit": Unit.CSR})}
    return _multicycle(ExStage, design, _controlled(ExCtrl, control), 4, ("valid", "advance"), **told)


_LSU_ROWS = _controlled(LsuCtrl, _part("lsu", lambda insn: insn.is_load or insn.is_store), "ex_ctrl")


def _decoder(design: str) -> BenchedUnit:
    return _configured("decoder", Decoder, design, rows=_decoded_rows, vectors_per_row=3, neighbours=6)


def _requantiser(vectors: int, design: str, *simulators: str) -> BenchedUnit:
    rows = _controlled(RequantiseCtrl, lambda insn: requantise_control(insn) if insn.requantises else None)
    told = {"valid": _control_port(RequantiseCtrl, {"valid": True})["ctrl"], "vectors_per_row": vectors}
    return _configured("rows", Requantiser, design, *simulators, rows=rows, **told)


def _widener_rows(config: CoreConfig) -> list[ControlledRow]:
    """Mac&Loads of two products, whose weights it widens or passes."""
    rows: list[ControlledRow] = []
    for insn in filter(lambda insn: insn.is_pair, _words(config)):
        assert insn.fmt is not None
        ratio = 0 if insn.wgt_fmt is None else insn.wgt_fmt - insn.fmt
        told = {"fmt": insn.fmt.value, "part": insn.entry or 0, "is_signed": int(insn.a_signed)}
        rows.append((insn.mnemonic, insn.operands, told | {"half": int(ratio == 1), "quarter": int(ratio == 2)}))
    return rows


def _csr_file(design: str, *simulators: str) -> BenchedUnit:
    return _configured("csr_file", CsrFile, design, *simulators, ops={op.name: op.value for op in CsrOp})


def _event_unit(settings: str, simulator: str, episodes: int) -> BenchedUnit:
    return _configured("event_unit", EventUnit, f"cluster {settings}", simulator, episodes=episodes)


def _tcdm(cycles: int, settings: str, *simulators: str, others: int = 1) -> BenchedUnit:
    """A small memory with a host, or with as many masters beside the cores."""
    design = f"cluster cores=4 banks=4 tcdm_bytes=1024 rvfi=on {settings}"
    return _configured(
        "tcdm", lambda config: Tcdm(config, config.cores + others), design, *simulators, others=others, cycles=cycles
    )


def _obi_mux(
    make: Callable[[], wiring.Component], initiators: Sequence[str], places: Mapping[str, tuple[int, int]], **told: Any
) -> BenchedUnit:
    """``places``: first address and size of what each port leads to."""
    rows = [{"port": port, "base": base, "size": size} for port, (base, size) in places.items()]
    return _plain("obi_mux", make, initiators=list(initiators), places=rows, **told)


def _private_cache(design: str, simulator: str, *, late: bool = False) -> BenchedUnit:
    def make(config: ClusterConfig) -> PrivateCache:
        return PrivateCache(config, registered=late)

    return _configured("private_cache", make, design, simulator, late=late)


_BLOCKS = ((CONTROL, BLOCK_BYTES), (TIMER, BLOCK_BYTES), (EVENT_UNIT, EVENT_UNIT_BYTES))
_BUS_PLACES = {f"peripherals__{number}": block for number, block in enumerate(_BLOCKS)}
_SMALL_CACHES = "cluster cores=2 icache_private=64 icache_ways=2 icache_shared=256 icache_shared_banks=1"
# the plainest core: what it executes is the business of other benches
_SMALL_CLUSTER = "cluster-ri5cy xpulpv2=off cores=2 banks=4 tcdm_bytes=2048 icache_shared=512"

UNITS: Mapping[str, BenchedUnit] = {
    # in Icarus, which reads the same Verilog, one of several structures that are written with the same operators
    "nnrf-6": _plain("storage", lambda: NnRf(6), entries=6, weights=4),
    "nnrf-4": _plain("storage", lambda: NnRf(4), "verilator", entries=4, weights=4),
    "nnrf-8": _plain("storage", lambda: NnRf(8), "verilator", entries=8, weights=4),
    "nnrf-pairs": _plain(
        "storage", lambda: NnRf(8, pairs=True, reads_factor=True), "verilator", entries=8, weights=5, pairs=True
    ),
    "regfile": _plain("storage", RegFile),
    "regfile-array": _plain("storage", lambda: RegFile("array")),
    "regfile-lut-ram": _plain("storage", lambda: RegFile("lut-ram")),
    "regfile-lut-ram-pairs": _plain("storage", lambda: RegFile("lut-ram", pairs=True), "icarus", pairs=True),
    "regfile-pairs": _plain("storage", lambda: RegFile(pairs=True), "icarus", pairs=True),
    "regfile-array-pairs": _plain("storage", lambda: RegFile("array", pairs=True), "verilator", pairs=True),
    "dotp-shared": _dotp(""),
    "dotp-shared-inferred": _dotp("adders=inferred"),
    "dotp-register": _dotp("multipliers=replicated isolation=register"),
    "dotp-and": _dotp("multipliers=replicated isolation=and"),
    "dotp-and-inferred": _dotp("multipliers=replicated isolation=and adders=inferred", "verilator"),
    "dotp-none-inferred": _dotp("multipliers=replicated adders=inferred", "verilator"),
    "dotp-two-widths": _dotp("multipliers=replicated isolation=register widths=8,2", "verilator"),
    **_alu("alu", Alu),
    **_alu("simd-alu", SimdAlu),
    "mult": _mult("booth"),
    "mult-inferred": _mult("inferred"),
    "mult-late": _mult("inferred", _LATE),
    "mult-wide": _wide_mult("booth"),
    "mult-wide-inferred": _wide_mult("inferred"),
    "mult-dot-product": _configured("rows", ProductUnit, _ARRAYS, rows=_product_rows, vectors_per_row=24, **_DIRECTED),
    "div": _multicycle(lambda _: Divider(), _FULL, _controlled(DivCtrl, div_control), 40),
    "quantiser": _configured("quantiser", Quantiser, "xpulpnn qnt=on", operations=150),
    "quantiser-crumbs": _configured("quantiser", Quantiser, "xpulpnn qnt=on widths=16,8,2", "icarus", operations=60),
    "requantiser": _requantiser(400, "xpulpnn requantise=on"),
    "requantiser-exact": _requantiser(400, "xpulpnn requantise=on requantise_exact=on"),
    "requantiser-part": _requantiser(200, "xpulpnn requantise=on widths=16,8,2", "icarus"),
    "widener": _configured(
        "rows", lambda _: WeightWidener(), _EVERYTHING, "icarus", rows=_widener_rows, vectors_per_row=8
    ),
    "lsu": _configured("lsu", lambda _: Lsu(), _FULL, rows=_LSU_ROWS, vectors_per_row=8, idle={"ex_ctrl": 0}),
    "ex-stage": _ex_stage(f"{_FULL} mac_load_pair=on multiplier=dot-product"),
    "ex-stage-inferred": _ex_stage(_INFERRED),
    "decoder-ri5cy": _decoder("ri5cy"),
    "decoder-full": _decoder(f"{_EVERYTHING} qnt=on"),
    "compressed-decoder": _plain("compressed_decoder", CompressedDecoder, "verilator", stride=1),
    "compressed-decoder-part": _plain("compressed_decoder", CompressedDecoder, "icarus", stride=16),
    "prefetch": _plain("prefetch", PrefetchBuffer),
    "if-stage": _configured("if_stage", IfStage, f"{_FULL} mac_load_pair=on"),
    "hwloops": _plain("hwloops", HwLoops, ops={op.name: op.value for op in HwLoopOp}),
    "csr-file-counters": _csr_file("xpulpnn-full mac_load_pair=on performance_counters=on"),
    "csr-file-plain": _csr_file("ri5cy xpulpv2=off", "icarus"),
    "backend-full": _configured("backend", Backend, f"{_EVERYTHING} rvfi=on", "verilator", pairs=_EVERY_PAIR),
    "backend-ri5cy": _configured("backend", Backend, "ri5cy rvfi=on", "verilator", pairs=_SOME_PAIRS),
    "backend-2": _configured("backend", Backend, "xpulpnn2 rvfi=on", pairs=_SOME_PAIRS),
    "backend-cu": _configured("backend", Backend, "xpulpnn-cu rvfi=on", "verilator", pairs=_SOME_PAIRS),
    "core-2": _configured("core", Core, "xpulpnn2 rvfi=on", "icarus", part=4),
    "core-late": _configured("core", Core, f"{_LATE} rvfi=on", "icarus", part=4),
    "core-full": _configured("core", Core, f"{_EVERYTHING} rvfi=on", "verilator", part=1),
    "private-cache": _private_cache("cluster", "verilator"),
    "private-cache-plain": _private_cache("cluster icache_ways=1 prefetch=off", "icarus"),
    "private-cache-late": _private_cache("cluster icache_ways=1 prefetch=off", "icarus", late=True),
    "icache": _configured("icache", InstructionCache, "cluster cores=3", "verilator", far=1 << 13),
    "icache-small": _configured("icache", InstructionCache, _SMALL_CACHES, "icarus", far=1 << 6),
    "event-unit": _event_unit("", "icarus", 5),
    "event-unit-3": _event_unit("cores=3 mutexes=2 sw_events=3 dispatch_depth=2 core.debug=true", "verilator", 5),
    "event-unit-16": _event_unit("cores=16 barriers=3 mutexes=3 dispatch_depth=4 sw_events=5", "icarus", 2),
    "event-unit-1": _event_unit("cores=1 barriers=1 dispatch_depth=1 sw_events=1", "icarus", 2),
    "tcdm": _tcdm(400, ""),
    "tcdm-strict": _tcdm(400, "arbiter=strict bank_hash=on cores=5", "verilator", others=3),
    "tcdm-fixed": _tcdm(200, "arbiter=fixed rvfi=off banks=1", "icarus"),
    "tcdm-equal": _tcdm(300, "dma_priority=equal cores=8 banks=2", "verilator"),
    "tcdm-broadcast": _tcdm(400, "broadcast=on bank_hash=on tcdm_bytes=64", "icarus", others=5),
    "tcdm-late": _tcdm(400, "core.late_results=on broadcast=on", "verilator", others=3),
    "core-demux": _configured("core_demux", CoreDemux, "cluster"),
    "core-demux-late": _configured("core_demux", CoreDemux, "cluster2 core.late_results=on", "icarus"),
    "core-demux-dma": _configured("core_demux", CoreDemux, "cluster tcdm_bytes=1048576", "icarus"),
    "cluster-timer": _plain("cluster_timer", ClusterTimer),
    "cluster-control": _plain("cluster_control", lambda: ClusterControl(3), cores=3),
    "dma": _configured("dma", Dma, "cluster", "verilator", transfers=120, every=1, line=1 << DMA_LENGTH_BITS - 1),
    "dma-late": _configured(
        "dma", Dma, "cluster2 cores=3 core.late_results=on dma_transfers=5", "icarus", transfers=40, every=1, line=8192
    ),
    "peripheral-bus": _obi_mux(
        lambda: PeripheralBus(5, _BLOCKS),
        [f"initiators__{number}" for number in range(5)],
        _BUS_PLACES,
        outstanding=1,
        latency=2,
    ),
    "external-port": _obi_mux(
        lambda: ExternalPort(4),
        [f"cores__{number}" for number in range(4)],
        {"ext": (0, 1 << XLEN)},
        outstanding=4,
        latency=3,
    ),
    "cluster-axi": _configured("cluster_axi", ClusterAxi, f"{_SMALL_CLUSTER} core.late_results=on"),
    **{name: _plain(bench, make, **told) for name, (bench, make, told) in (bridge_units() | debug_units()).items()},
}
"""The units by name: how each is built, and what its bench is told."""
