# amaranth: UnusedElaboratable=no
"""Benched hardware units: how each is built, and the parameters of its bench."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import wiring

from xpulpnn.ahb.bridge import AhbBridge
from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.host import AxiHost
from xpulpnn.cluster.demux import CoreDemux
from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.cluster.peripherals.bus import PeripheralBus
from xpulpnn.cluster.peripherals.clint import CoreLocalInterruptor
from xpulpnn.cluster.peripherals.control import ClusterControl
from xpulpnn.cluster.peripherals.timer import ClusterTimer
from xpulpnn.cluster.ports import LINE_OFFSET_BITS, DmaPortSignature, LineSignature, RefillSignature
from xpulpnn.cluster.tcdm.tcdm import Tcdm
from xpulpnn.component import PortSignature
from xpulpnn.config import EXT_DATA_BITS, ClusterConfig, CoreConfig
from xpulpnn.core.alu import Alu
from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import CsrOp, ExCtrl, HwLoopOp, Unit
from xpulpnn.core.core import Core
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.hwloops import HwLoops
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.core.regfile import RegFile
from xpulpnn.core.requantiser import RequantiseCtrl
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.module import DebugModule
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.widener import WeightWidener
from xpulpnn.errors import ConfigError, require
from xpulpnn.isa.cluster import BLOCK_BYTES, CONTROL, DMA_LENGTH_BITS, EVENT_UNIT, EVENT_UNIT_BYTES, TIMER
from xpulpnn.isa.machine import XLEN
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn.wishbone.bridge import WishboneBridge
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.benches.launcher_data import configured
from xpulpnn_sim.benches.vectors import controls
from xpulpnn_sim.benches.vectors.controls import RowsOf, control_port
from xpulpnn_sim.tools.components import component_of

Need = tuple[Callable[[Any], bool], str]
"""What a configuration must be for a unit and its bench: a condition, and in words."""

_DESIGNS: Mapping[type, str] = {CoreConfig: "core", ClusterConfig: "cluster", XifConfig: "coprocessor"}

_COUNTS = ("vectors_per_row", "operations", "cycles", "episodes", "transfers", "accesses", "scans", "pairs")
"""Parameters of benches that say how much they try."""


@dataclass(frozen=True, slots=True)
class BenchedUnit:
    bench: str  # the bench is the module `bench_<bench>` of this package; the top module has the same name
    component: Callable[..., wiring.Component]  # builds the component, of a configuration if `design` is not empty
    parameters: Mapping[str, Any]  # data for the bench
    design: str = ""  # configuration: a preset name followed by settings
    rows: RowsOf | None = None  # makes the rows of the instruction table, if needed
    needs: Sequence[Need] = ()

    @property
    def config(self) -> Any:
        return configured(self.design)

    @property
    def count(self) -> str:
        """Name of the parameter that sets the number of test cases of the bench; empty if that number is fixed."""
        return next((name for name in _COUNTS if type(self.parameters.get(name)) is int), "")

    def make(self) -> wiring.Component:
        return self.component(self.config) if self.design else self.component()

    def emit(self) -> EmittedVerilog:
        return emit(self.make(), self.bench, config={})

    def describe(self) -> dict[str, Any]:
        described = {**self.parameters, **({"design": self.design} if self.design else {})}
        if self.rows is not None:
            described["rows"] = [(insn.mnemonic, insn.operands, ports) for insn, ports in self.rows(self.config)]
        return described

    def with_configuration(self, preset: str, settings: Sequence[str] = ()) -> "BenchedUnit":
        """Return the unit of another configuration, or of its own with other settings if ``preset`` is empty.

        Raises :class:`~xpulpnn.errors.ConfigError` if that configuration has no such unit, or one without a bench.
        """
        require(self.design, "it has no configuration", ConfigError)
        own = self.design.split()
        words = [preset, *(word for word in own if word.startswith("rvfi="))] if preset else own
        design = " ".join([*words, *settings])
        config, changed = configured(design), replace(self, design=design)
        if type(config) is not type(self.config):
            raise ConfigError(f"it is in a {_DESIGNS[type(self.config)]}")
        for holds, text in self.needs:
            require(holds(config), f"it needs {text}", ConfigError)
        own, other = (type(unit.make()).__name__ for unit in (self, changed))
        if own != other:
            known = (name for name, unit in UNITS.items() if unit.design and type(unit.make()).__name__ == other)
            raise ConfigError(f"a {other} is there instead, the unit {next(known, other)}")
        return changed


Make = str | Callable[..., wiring.Component]
"""Name of a component of a configuration in :mod:`xpulpnn_sim.tools.components`, or a function that builds one."""


def _unit(
    bench: str,
    component: Make,
    design: str = "",
    *,
    rows: RowsOf | None = None,
    needs: Sequence[Need] = (),
    **parameters: Any,
) -> BenchedUnit:
    build = partial(component_of, component) if isinstance(component, str) else component
    return BenchedUnit(bench, build, parameters, design, rows, needs)


def _setting(name: str) -> Need:
    return (lambda config: bool(getattr(config, name)), f"`{name}=on`")


_RVFI: Sequence[Need] = [(lambda config: config.rvfi, "the retirement ports of `rvfi=on`")]
_BANKS: Sequence[Need] = [(lambda config: config.memories == "behavioural", "banks inside, `memories=behavioural`")]
_EX_STAGE: Sequence[Need] = [
    (lambda config: not config.late_results, "`late_results=off`"),
    (lambda config: config.dotp_operands_in_id, "another `isolation` than register"),
]
_ICACHE: Sequence[Need] = [
    (lambda config: bool(config.icache_private), "caches of the cores, `icache_private` above 0"),
    _setting("prefetch"),
    (
        lambda config: config.cores >= max(2, config.icache_shared_banks),
        "two cores or more, and no more banks of the shared cache than cores",
    ),
]
_DMA: Sequence[Need] = [
    (lambda config: min(config.cores, config.dma_transfers) > 1, "two cores and two transfers or more")
]

_FULL = "xpulpnn-full"  # preset with every row of the papers
_EVERYTHING = f"{_FULL} mac_load_cross=on mac_load_dot=on mac_load_pair=on mixed_weights=on requantise=on"
_EVERYTHING += " requantise_exact=on multiplier=dot-product"
_INFERRED = f"{_FULL} requantise=on multiplier=inferred shifter=inferred multipliers=replicated adders=inferred"
"""Structures that leave sums and products to synthesis; other units have the structures of the presets."""
_LATE = "xpulpnn2 late_results=on adders=inferred multipliers=signed multiplier=inferred regfile=lut-ram"

_EVERY_PAIR, _SOME_PAIRS = 1 << 20, 200  # largest numbers of dependent pairs
_CORNERS = 25  # executions of a row with pairs of corners
_DIRECTED: Mapping[str, Any] = {"corners": _CORNERS, "places": XLEN}  # and executions in which a single bit decides

_alu = partial(_unit, "rows", design=f"{_EVERYTHING} qnt=on", rows=controls.alu_rows, vectors_per_row=20, **_DIRECTED)


def _dotp(settings: str) -> BenchedUnit:
    design = f"xpulpnn mac_load_cu=on {settings}"
    parameters = {"vectors_per_row": 16, "corners": _CORNERS}
    return _unit("rows", "dotp", design, rows=controls.dotp_rows, needs=[_setting("xpulpv2")], **parameters)


def _multicycle(component: Make, design: str, rows: RowsOf, vectors: int) -> BenchedUnit:
    parameters = {"vectors_per_row": vectors, "handshake": ("start", "take"), **_DIRECTED}
    return _unit("multicycle", component, design, rows=rows, **parameters)


def _mult(multiplier: str, design: str = _FULL) -> BenchedUnit:
    return _multicycle("mult", f"{design} requantise=on multiplier={multiplier}", controls.mult_rows, 12)


def _wide_mult(multiplier: str) -> BenchedUnit:
    design = f"{_FULL} requantise=on requantise_exact=on multiplier={multiplier}"
    return _unit("rows", "mult", design, rows=controls.wide_mult_rows, vectors_per_row=24, **_DIRECTED)


def _ex_stage(design: str) -> BenchedUnit:
    csr = control_port(ExCtrl, {"unit": Unit.CSR})
    parameters = {"vectors_per_row": 4, "handshake": ("valid", "advance"), **_DIRECTED, "corners": 0, "csr": csr}
    return _unit("multicycle", "ex-stage", design, rows=controls.ex_rows, needs=_EX_STAGE, **parameters)


_requantiser = partial(
    _unit,
    "rows",
    "requantiser",
    needs=[_setting("requantise")],
    rows=controls.requantiser_rows,
    valid=control_port(RequantiseCtrl, {"valid": True})["ctrl"],
)
_decoder = partial(_unit, "decoder", "decoder", rows=controls.decoded_rows, vectors_per_row=3, neighbours=6)
_compressed_decoder = partial(_unit, "compressed_decoder", CompressedDecoder)
_backend = partial(_unit, "backend", "backend", needs=_RVFI)
_core = partial(_unit, "core", Core, needs=_RVFI)
_xif = partial(_unit, "xif", "xif", episodes=2, part=1)
_event_unit = partial(_unit, "event_unit", "event-unit")
_csr_file = partial(_unit, "csr_file", CsrFile, ops={op.name: op.value for op in CsrOp})


def _tcdm(cycles: int, settings: str, others: int = 1) -> BenchedUnit:
    design = f"cluster cores=4 banks=4 tcdm_bytes=1024 rvfi=on {settings}"
    return _unit(
        "tcdm", lambda config: Tcdm(config, config.cores + others), design, needs=_BANKS, others=others, cycles=cycles
    )


def _obi_mux(
    make: Make,
    initiators: str,
    number: int,
    places: Mapping[str, tuple[int, int]],
    **parameters: Any,
) -> BenchedUnit:
    blocks = [{"port": port, "base": base, "size": size} for port, (base, size) in places.items()]
    names = [f"{initiators}__{at}" for at in range(number)]
    return _unit("obi_mux", make, initiators=names, places=blocks, **parameters)


def _private_cache(settings: str, *, late: bool = False) -> BenchedUnit:
    return _unit("private_cache", partial(PrivateCache, registered=late), f"cluster {settings}", late=late)


def _bridge(bench: str, make: Make, signature: PortSignature, bits: int = XLEN, **parameters: Any) -> BenchedUnit:
    """Return a bridge from a port to a bus with this width of its data.

    ``shift`` is the logarithm of the bytes that addresses count, ``reads`` the accesses in a burst of AXI.
    """
    words = Shape.cast(signature.members["rdata"].shape).width // bits
    has = {name: member in signature.members for name, member in (("writes", "we"), ("runs", "beats"))}
    return _unit(bench, make, bits=bits, words=words, **{"shift": 0, "reads": 1, **has, **parameters})


def _axi(signature: PortSignature, bits: int = XLEN, **parameters: int) -> BenchedUnit:
    return _bridge("axi_bridge", partial(AxiBridge, signature, bits), signature, bits, **parameters)


def _wishbone(signature: PortSignature, *, registered: bool = False, **parameters: int) -> BenchedUnit:
    make = partial(WishboneBridge, signature, registered=registered)
    return _bridge("word_bridge", make, signature, late=int(registered), ahb=0, **parameters)


def _ahb(signature: PortSignature, **parameters: int) -> BenchedUnit:
    return _bridge("word_bridge", partial(AhbBridge, signature), signature, late=0, ahb=1, **parameters)


def _debug_module(harts: int) -> BenchedUnit:
    return _unit("debug_module", partial(DebugModule, DebugConfig(harts=harts)), harts=harts, flags=200, accesses=100)


_BLOCKS = ((CONTROL, BLOCK_BYTES), (TIMER, BLOCK_BYTES), (EVENT_UNIT, EVENT_UNIT_BYTES))
_BUS_PLACES = {f"peripherals__{number}": block for number, block in enumerate(_BLOCKS)}
_SMALL_CACHES = "cluster cores=2 icache_private=64 icache_ways=2 icache_shared=256 icache_shared_banks=1"
# the smallest core: other benches verify its instructions
_SMALL_CLUSTER = "cluster-ri5cy xpulpv2=off cores=2 banks=4 tcdm_bytes=2048 icache_shared=512"
_SMALL_DMA = "cluster2 cores=3 core.late_results=on dma_transfers=5"

UNITS: Mapping[str, BenchedUnit] = {
    "nnrf-6": _unit("storage", lambda: NnRf(6), entries=6, weights=4),
    "nnrf-4": _unit("storage", lambda: NnRf(4), entries=4, weights=4),
    "nnrf-8": _unit("storage", lambda: NnRf(8), entries=8, weights=4),
    "nnrf-pairs": _unit("storage", lambda: NnRf(8, pairs=True, reads_factor=True), entries=8, weights=5, pairs=True),
    "regfile": _unit("storage", RegFile),
    "regfile-array": _unit("storage", lambda: RegFile("array")),
    "regfile-lut-ram": _unit("storage", lambda: RegFile("lut-ram")),
    "regfile-lut-ram-pairs": _unit("storage", lambda: RegFile("lut-ram", pairs=True), pairs=True),
    "regfile-pairs": _unit("storage", lambda: RegFile(pairs=True), pairs=True),
    "regfile-array-pairs": _unit("storage", lambda: RegFile("array", pairs=True), pairs=True),
    "dotp-shared": _dotp(""),
    "dotp-shared-inferred": _dotp("adders=inferred"),
    "dotp-register": _dotp("multipliers=replicated isolation=register"),
    "dotp-and": _dotp("multipliers=replicated isolation=and"),
    "dotp-and-inferred": _dotp("multipliers=replicated isolation=and adders=inferred"),
    "dotp-none-inferred": _dotp("multipliers=replicated adders=inferred"),
    "dotp-two-widths": _dotp("multipliers=replicated isolation=register widths=8,2"),
    "alu": _alu(Alu),
    "simd-alu": _alu("simd-alu", needs=[_setting("xpulpv2")]),
    "mult": _mult("booth"),
    "mult-inferred": _mult("inferred"),
    "mult-late": _mult("inferred", _LATE),
    "mult-wide": _wide_mult("booth"),
    "mult-wide-inferred": _wide_mult("inferred"),
    "mult-dot-product": _unit("rows", "mult", "xpulpnn3", rows=controls.product_rows, vectors_per_row=24, **_DIRECTED),
    "div": _multicycle("div", _FULL, controls.div_rows, 40),
    "quantiser": _unit("quantiser", "quantiser", "xpulpnn qnt=on", needs=[_setting("qnt")], operations=150),
    "quantiser-crumbs": _unit(
        "quantiser", "quantiser", "xpulpnn qnt=on widths=16,8,2", needs=[_setting("qnt")], operations=60
    ),
    "requantiser": _requantiser("xpulpnn requantise=on", vectors_per_row=400),
    "requantiser-exact": _requantiser("xpulpnn requantise=on requantise_exact=on", vectors_per_row=400),
    "requantiser-part": _requantiser("xpulpnn requantise=on widths=16,8,2", vectors_per_row=200),
    "widener": _unit(
        "rows",
        lambda _: WeightWidener(),
        "xpulpnn3",
        rows=controls.widener_rows,
        needs=[_setting("mixed_weights")],
        vectors_per_row=8,
    ),
    "lsu": _unit("lsu", lambda _: Lsu(), _FULL, rows=controls.lsu_rows, vectors_per_row=8, idle={"ex_ctrl": 0}),
    "ex-stage": _ex_stage(f"{_FULL} mac_load_pair=on multiplier=dot-product"),
    "ex-stage-inferred": _ex_stage(_INFERRED),
    "decoder-ri5cy": _decoder("ri5cy"),
    "decoder-full": _decoder(f"{_EVERYTHING} qnt=on"),
    "compressed-decoder": _compressed_decoder(stride=1),
    "compressed-decoder-part": _compressed_decoder(stride=16),
    "prefetch": _unit("prefetch", PrefetchBuffer),
    "if-stage": _unit("if_stage", IfStage, f"{_FULL} mac_load_pair=on"),
    "hwloops": _unit("hwloops", HwLoops, ops={op.name: op.value for op in HwLoopOp}),
    "csr-file-counters": _csr_file("xpulpnn-full mac_load_pair=on performance_counters=on"),
    "csr-file-plain": _csr_file("ri5cy xpulpv2=off"),
    "backend-full": _backend(f"{_EVERYTHING} rvfi=on", pairs=_EVERY_PAIR),
    "backend-ri5cy": _backend("ri5cy rvfi=on", pairs=_SOME_PAIRS),
    "backend-2": _backend("xpulpnn2 rvfi=on", pairs=_SOME_PAIRS),
    "backend-cu": _backend("xpulpnn-cu rvfi=on", pairs=_SOME_PAIRS),
    "core-2": _core("xpulpnn2 rvfi=on", part=4),
    "core-late": _core(f"{_LATE} rvfi=on", part=4),
    "core-full": _core(f"{_EVERYTHING} rvfi=on", part=1),
    "private-cache": _private_cache(""),
    "private-cache-plain": _private_cache("icache_ways=1 prefetch=off"),
    "private-cache-late": _private_cache("icache_ways=1 prefetch=off", late=True),
    "icache": _unit("icache", "icache", "cluster cores=3", needs=_ICACHE, far=1 << 13),
    "icache-small": _unit("icache", "icache", _SMALL_CACHES, needs=_ICACHE, far=1 << 6),
    "event-unit": _event_unit("cluster", episodes=5),
    "event-unit-3": _event_unit("cluster cores=3 mutexes=2 sw_events=3 dispatch_depth=2 core.debug=true", episodes=5),
    "event-unit-16": _event_unit("cluster cores=16 barriers=3 mutexes=3 dispatch_depth=4 sw_events=5", episodes=2),
    "event-unit-1": _event_unit("cluster cores=1 barriers=1 dispatch_depth=1 sw_events=1", episodes=2),
    "tcdm": _tcdm(400, ""),
    "tcdm-strict": _tcdm(400, "arbiter=strict bank_hash=on cores=5", others=3),
    "tcdm-fixed": _tcdm(200, "arbiter=fixed rvfi=off banks=1"),
    "tcdm-equal": _tcdm(300, "dma_priority=equal cores=8 banks=2"),
    "tcdm-broadcast": _tcdm(400, "broadcast=on bank_hash=on tcdm_bytes=64", others=5),
    "tcdm-late": _tcdm(400, "core.late_results=on broadcast=on", others=3),
    "core-demux": _unit("core_demux", CoreDemux, "cluster"),
    "core-demux-late": _unit("core_demux", CoreDemux, "cluster2 core.late_results=on clint=on"),
    "core-demux-dma": _unit("core_demux", CoreDemux, "cluster tcdm_bytes=1048576"),
    "cluster-timer": _unit("cluster_timer", ClusterTimer),
    "clint": _unit("clint", lambda: CoreLocalInterruptor(3), harts=3),
    "cluster-control": _unit("cluster_control", lambda: ClusterControl(3), cores=3),
    "dma": _unit("dma", "dma", "cluster", needs=_DMA, transfers=120, every=1, line=1 << DMA_LENGTH_BITS - 1),
    "dma-late": _unit("dma", "dma", _SMALL_DMA, needs=_DMA, transfers=40, every=1, line=8192),
    "peripheral-bus": _obi_mux(
        lambda: PeripheralBus(5, _BLOCKS), "initiators", 5, _BUS_PLACES, outstanding=1, latency=2
    ),
    "external-port": _obi_mux(lambda: ExternalPort(4), "cores", 4, {"ext": (0, 1 << XLEN)}, outstanding=4, latency=3),
    "cluster-axi": _unit("cluster_axi", "cluster-axi", f"{_SMALL_CLUSTER} core.late_results=on", needs=_BANKS),
    "xif": _xif("xif version=1.0 memory=obi requantise=exact"),
    "xif-lanes": _xif("xif accumulators=off"),
    "xif-cv32e40x": _xif("cv32e40x memory=xif requantise=plain"),
    "xif-cv32e40x-port": _xif("cv32e40x memory=obi dots=1 queue=3"),
    "xif-cv32e40px": _xif("cv32e40px memory=obi requantise=exact"),
    "xif-cve2": _xif("cve2 memory=obi"),
    "xif-cva6": _xif("cva6"),
    "axi-dma": _axi(DmaPortSignature(), EXT_DATA_BITS),
    "axi-ext": _axi(ObiSignature()),
    "axi-refill": _axi(RefillSignature(), EXT_DATA_BITS, reads=2),
    "axi-fetches": _axi(InstructionPortSignature()),
    "axi-lines": _axi(LineSignature(), shift=LINE_OFFSET_BITS),
    "axi-host": _unit("axi_host", partial(AxiHost, 4)),
    "wishbone": _wishbone(ObiSignature()),
    "wishbone-registered": _wishbone(ObiSignature(), registered=True),
    "wishbone-instr": _wishbone(InstructionPortSignature()),
    "wishbone-lines": _wishbone(LineSignature(), shift=LINE_OFFSET_BITS),
    "wishbone-lines-registered": _wishbone(LineSignature(), shift=LINE_OFFSET_BITS, registered=True),
    "wishbone-refill": _wishbone(RefillSignature()),
    "wishbone-dma": _wishbone(DmaPortSignature()),
    "ahb": _ahb(ObiSignature()),
    "ahb-instr": _ahb(InstructionPortSignature()),
    "ahb-lines": _ahb(LineSignature(), shift=LINE_OFFSET_BITS),
    "dm": _debug_module(1),
    "dm-3": _debug_module(3),
    "dm-8": _debug_module(8),
    "jtag-dtm": _unit("jtag_dtm", partial(JtagDtm, DebugConfig()), idcode=DebugConfig().idcode, scans=60),
}
"""The units by name: how each is built, and the parameters of its bench."""
