"""The hardware units that have a bench: how each is built and what its bench is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from amaranth.lib import data

from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.cluster import ClusterAxi
from xpulpnn.cluster.axi.refill import AxiRefill
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
from xpulpnn.config import EXT_DATA_BITS, ClusterConfig, CoreConfig, DotpConfig, Multiplier, preset
from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCtrl, AluResult, alu_control
from xpulpnn.core.backend import Backend
from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import CsrOp, ExCtrl, HwLoopOp, IdCtrl, LsuCtrl
from xpulpnn.core.control_rows import control_fields
from xpulpnn.core.core import Core
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.decoder import Decoder
from xpulpnn.core.div import DivCtrl, Divider, div_control
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.hwloops import HwLoops
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.mult import Mult, MultCtrl, mult_control
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.core.quantiser import Quantiser, QuantiserCtrl
from xpulpnn.core.regfile import RegFile
from xpulpnn.core.requantiser import RequantiseCtrl, Requantiser, requantise_control
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.dotp.ctrl import DotpCtrl, dotp_control
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.isa.cluster import BLOCK_BYTES, CONTROL, DMA_LENGTH_BITS, EVENT_UNIT, EVENT_UNIT_BYTES, TIMER
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled, find
from xpulpnn_sim.benches.benched import (
    BenchedUnit,
    ComponentMaker,
    ControlledRow,
    RowControl,
    constant_word,
    controlled_rows,
)
from xpulpnn_sim.benches.runner import SIMULATORS


def _plain(bench: str, make: ComponentMaker, *simulators: str, **told: Any) -> BenchedUnit:
    """A unit whose bench is told ``told``."""
    return BenchedUnit(bench, make, lambda: told, simulators)


def _icache(config: ClusterConfig, far: int, *simulators: str) -> BenchedUnit:
    """``far``: cycles in which the counters go on."""
    shared = {"shared": config.icache_shared, "banks": config.icache_shared_banks}
    data = {"cores": config.cores, "private": config.icache_private, "ways": config.icache_ways, "far": far, **shared}
    return _plain("icache", lambda: InstructionCache(config), *simulators, **data)


def _private_cache(config: ClusterConfig, *simulators: str) -> BenchedUnit:
    data = {"size": config.icache_private, "ways": config.icache_ways, "prefetch": config.prefetch}
    return _plain("private_cache", lambda: PrivateCache(config), *simulators, **data)


def _event_unit(episodes: int, *simulators: str, **fields: Any) -> BenchedUnit:
    make = partial(EventUnit, ClusterConfig(**fields))
    return _plain("event_unit", make, *simulators, cluster=fields, episodes=episodes)


def _tcdm(cycles: int, *simulators: str, others: int = 1, **settings: Any) -> BenchedUnit:
    """A small memory with a host, or with as many masters beside the cores."""
    chosen = {"cores": 4, "banks": 4, "tcdm_bytes": 1024, "rvfi": True} | settings
    config = ClusterConfig(**chosen)
    masters = config.cores + others
    return _plain("tcdm", lambda: Tcdm(config, masters), *simulators, config=chosen, masters=masters, cycles=cycles)


def _core_demux(*simulators: str, **settings: Any) -> BenchedUnit:
    return _plain("core_demux", partial(CoreDemux, ClusterConfig(**settings)), *simulators, config=settings)


def _dma(config: ClusterConfig, transfers: int, line: int, *simulators: str) -> BenchedUnit:
    """``line``: bytes of the longest line."""
    numbers = {"cores": config.cores, "identifiers": config.dma_transfers}
    counts = {"transfers": transfers, "commands": transfers // 8, "line": line}
    return _plain("dma", lambda: Dma(config), *simulators, **numbers, **counts)


def _axi(make: ComponentMaker, bits: int, *, writes: bool = True, runs: bool = False) -> BenchedUnit:
    return _plain("axi_bridge", make, *SIMULATORS, bits=bits, writes=writes, runs=runs, slack=1.2)


def _cluster_axi(*simulators: str, **settings: Any) -> BenchedUnit:
    # the plainest core: what it executes is the business of other benches
    config = ClusterConfig(core=_PLAIN, **settings)
    return _plain("cluster_axi", lambda: ClusterAxi(config), *simulators, config=settings)


def _funnelled(
    make: ComponentMaker, initiators: Sequence[str], places: Mapping[str, tuple[int, int]], **data: Any
) -> BenchedUnit:
    """``places``: first address and size of what each port leads to."""
    rows = [{"port": port, "base": base, "size": size} for port, (base, size) in places.items()]
    return _plain("funnelled", make, *SIMULATORS, initiators=list(initiators), places=rows, **data)


_BLOCKS = ((CONTROL, BLOCK_BYTES), (TIMER, BLOCK_BYTES), (EVENT_UNIT, EVENT_UNIT_BYTES))
_BUS_PLACES = {f"peripherals__{number}": block for number, block in enumerate(_BLOCKS)}
_PLAIN = replace(preset("ri5cy"), xpulpv2=False)
_CACHED = ClusterConfig()


FULL = preset("xpulpnn-full")  # the preset with every row the hardware can execute


def _part(name: str, applies: Callable[[Insn], bool]) -> RowControl:
    """The fields of one part of the decoder's control word, for the rows that ``applies`` selects."""

    def control(insn: Insn) -> Mapping[str, Any] | None:
        if not applies(insn):
            return None
        prefix = f"{name}."
        fields = control_fields(insn).items()
        return {key.removeprefix(prefix): value for key, value in fields if key.startswith(prefix)}

    return control


_SCALAR = (AluResult.COUNT, AluResult.CLIP, AluResult.CLIPU)
"""Results that the ALU makes around the part of it that works on lanes."""


def _lanes_control(insn: Insn) -> Mapping[str, Any] | None:
    control = alu_control(insn)
    return None if control is None or control.get("result") in _SCALAR else control


def _rows_unit(
    bench: str,
    make: ComponentMaker,
    shape: type[data.Struct],
    control: RowControl,
    vectors: int,
    config: CoreConfig = FULL,
    handshake: tuple[str, str] = ("start", "take"),
    simulators: Sequence[str] = SIMULATORS,
) -> BenchedUnit:

    def describe() -> Mapping[str, Any]:
        return {"rows": controlled_rows(config, shape, control), "vectors_per_row": vectors, "handshake": handshake}

    return BenchedUnit(bench, make, describe, simulators)


def _dotp(config: DotpConfig, *simulators: str) -> BenchedUnit:
    core = CoreConfig(mac_load_cu=True, dotp=config)
    return _rows_unit("dotp", lambda: DotpUnit(config), DotpCtrl, dotp_control, 16, core, simulators=simulators)


def _mult(structure: Multiplier) -> BenchedUnit:
    config = replace(FULL, requantise=True)

    def describe() -> Mapping[str, Any]:
        rows = [
            (name, operands, {**control, "requantise": int(find(name, operands).requantises)})
            for name, operands, control in controlled_rows(config, MultCtrl, mult_control)
        ]
        return {"rows": rows, "vectors_per_row": 12, "handshake": ("start", "take")}

    return BenchedUnit("multicycle", lambda: Mult(structure, requantises=True), describe)


def _ex_stage(config: CoreConfig) -> BenchedUnit:
    # rows whose value of rd EX makes from register and immediate operands
    control = _part("ex", lambda insn: insn.writes_rd and not insn.is_load and not insn.op.startswith("csr"))
    return _rows_unit("multicycle", lambda: ExStage(config), ExCtrl, control, 2, config, ("valid", "advance"))


def _decoder(name: str, **options: bool) -> BenchedUnit:
    config = replace(preset(name), **options)
    told = {"preset": name, "options": options, "vectors_per_row": 3, "neighbours": 6}
    return BenchedUnit("decoder", lambda: Decoder(config), lambda: {**told, "rows": _decoded_rows(config)})


def _decoded_rows(config: CoreConfig) -> list[ControlledRow]:
    """The 32-bit rows of a configuration with all control words that they are decoded to."""
    shapes: dict[str, type[data.Struct]] = {"ctrl": IdCtrl}
    shapes |= {"quantise": QuantiserCtrl} if config.qnt else {}
    shapes |= {"requantise": RequantiseCtrl} if config.requantise else {}
    rows: list[ControlledRow] = []
    for insn in enabled(config.extensions, config.widths):
        if insn.size == WORD_BYTES:
            words: dict[str, dict[str, Any]] = {port: {} for port in shapes}
            for name, value in control_fields(insn).items():
                port, dot, field = name.partition(".")
                # what belongs to no port of its own is a field of the main one
                place, key = (port, field) if dot and port in words else ("ctrl", name)
                words[place][key] = value
            controls = {port: constant_word(shapes[port], fields) for port, fields in words.items()}
            rows.append((insn.mnemonic, insn.operands, controls))
    return rows


def _backend(name: str, pairs: int, *simulators: str) -> BenchedUnit:
    config = replace(preset(name), rvfi=True)
    return _plain("backend", lambda: Backend(config), *simulators, preset=name, pairs=pairs)


def _core(name: str, programs: int, simulator: str) -> BenchedUnit:
    config = replace(preset(name), rvfi=True)
    return _plain("core", lambda: Core(config), simulator, preset=name, programs=programs)


def _lsu() -> Mapping[str, Any]:
    rows = controlled_rows(FULL, LsuCtrl, _part("lsu", lambda insn: insn.is_load or insn.is_store), "ex_ctrl")
    return {"rows": rows, "idle": {"ex_ctrl": 0}, "vectors_per_row": 8}


def _quantiser(operations: int, *simulators: str, **settings: Any) -> BenchedUnit:
    config = CoreConfig(qnt=True, **settings)
    rows = [insn.mnemonic for insn in enabled(config.extensions, config.widths) if insn.op == "pv.qnt"]
    return _plain("quantiser", lambda: Quantiser(config), *simulators, rows=rows, operations=operations)


def _requantiser(vectors: int, *simulators: str, **settings: Any) -> BenchedUnit:
    config = CoreConfig(requantise=True, **settings)

    def control(insn: Insn) -> Mapping[str, Any] | None:
        return requantise_control(insn) if insn.requantises else None

    def describe() -> Mapping[str, Any]:
        valid = constant_word(RequantiseCtrl, {"valid": True})
        return {"rows": controlled_rows(config, RequantiseCtrl, control), "valid": valid, "vectors_per_row": vectors}

    return BenchedUnit("requantiser", lambda: Requantiser(config), describe, simulators)


def _csr_file(config: CoreConfig, *simulators: str) -> BenchedUnit:
    names = {"groups": sorted(group.name for group in config.csr_groups), "ops": {op.name: op.value for op in CsrOp}}
    return _plain("csr_file", lambda: CsrFile(config), *simulators, **names)


_INFERRED_DOTP = DotpConfig(multipliers="replicated", adders="inferred")
_INFERRED = replace(FULL, multiplier="inferred", shifter="inferred", dotp=_INFERRED_DOTP)
"""The naive structures, where the other units have those of the presets."""

_OPTIONS = dict.fromkeys(("qnt", "mac_load_cross", "mac_load_dot", "requantise"), True)
"""Instructions that no preset of a paper has."""

_REGISTERED = DotpConfig(multipliers="replicated", isolation="register")
_EVERY_PAIR = 1 << 20
_SOME_PAIRS = 200

UNITS: Mapping[str, BenchedUnit] = {
    # in Icarus, which reads the same Verilog, one of several structures that are written with the same operators
    "nnrf-6": _plain("nnrf", lambda: NnRf(6), *SIMULATORS, entries=6),
    "nnrf-4": _plain("nnrf", lambda: NnRf(4), "verilator", entries=4),
    "nnrf-8": _plain("nnrf", lambda: NnRf(8), "verilator", entries=8),
    "regfile": BenchedUnit("regfile", RegFile),
    "regfile-array": BenchedUnit("regfile", lambda: RegFile("array")),
    "dotp-shared": _dotp(DotpConfig(), *SIMULATORS),
    "dotp-shared-inferred": _dotp(DotpConfig(adders="inferred"), *SIMULATORS),
    "dotp-register": _dotp(_REGISTERED, *SIMULATORS),
    "dotp-and": _dotp(replace(_REGISTERED, isolation="and"), *SIMULATORS),
    "dotp-and-inferred": _dotp(replace(_REGISTERED, isolation="and", adders="inferred"), "verilator"),
    "dotp-none-inferred": _dotp(_INFERRED_DOTP, "verilator"),
    "dotp-two-widths": _dotp(replace(_REGISTERED, widths=frozenset({8, 2})), "verilator"),
    "alu": _rows_unit("alu", lambda: Alu(FULL), AluCtrl, alu_control, 20, simulators=["verilator"]),
    "alu-part": _rows_unit("alu", lambda: Alu(FULL), AluCtrl, alu_control, 5, simulators=["icarus"]),
    "simd-alu": _rows_unit("alu", lambda: SimdAlu(FULL), AluCtrl, _lanes_control, 20, simulators=["verilator"]),
    "simd-alu-part": _rows_unit("alu", lambda: SimdAlu(FULL), AluCtrl, _lanes_control, 5, simulators=["icarus"]),
    "mult": _mult("booth"),
    "mult-inferred": _mult("inferred"),
    "div": _rows_unit("multicycle", Divider, DivCtrl, div_control, 40),
    "quantiser": _quantiser(150, *SIMULATORS),
    "quantiser-crumbs": _quantiser(60, "icarus", dotp=DotpConfig(widths=frozenset({16, 8, 2}))),
    "requantiser": _requantiser(400, *SIMULATORS),
    "requantiser-part": _requantiser(200, "icarus", dotp=DotpConfig(widths=frozenset({16, 8, 2}))),
    "lsu": BenchedUnit("lsu", Lsu, _lsu),
    "ex-stage": _ex_stage(FULL),
    "ex-stage-inferred": _ex_stage(_INFERRED),
    "decoder-ri5cy": _decoder("ri5cy"),
    "decoder-full": _decoder("xpulpnn-full", **_OPTIONS),
    "compressed-decoder": _plain("compressed_decoder", CompressedDecoder, "verilator", stride=1),
    "compressed-decoder-part": _plain("compressed_decoder", CompressedDecoder, "icarus", stride=16),
    "prefetch": BenchedUnit("prefetch", PrefetchBuffer),
    "if-stage": BenchedUnit("if_stage", lambda: IfStage(FULL)),
    "hwloops": _plain("hwloops", HwLoops, *SIMULATORS, ops={op.name: op.value for op in HwLoopOp}),
    "csr-file-counters": _csr_file(replace(FULL, performance_counters=True), *SIMULATORS),
    "csr-file-plain": _csr_file(_PLAIN, "icarus"),
    "backend-full": _backend("xpulpnn-full", _EVERY_PAIR, "verilator"),
    "backend-ri5cy": _backend("ri5cy", _SOME_PAIRS, "verilator"),
    "backend-2": _backend("xpulpnn2", _SOME_PAIRS, *SIMULATORS),
    "backend-cu": _backend("xpulpnn-cu", _SOME_PAIRS, "verilator"),
    "core-2": _core("xpulpnn2", 1, "icarus"),
    "core-full": _core("xpulpnn-full", 2, "verilator"),
    "private-cache": _private_cache(_CACHED, "verilator"),
    "private-cache-plain": _private_cache(replace(_CACHED, icache_ways=1, prefetch=False), "icarus"),
    "icache": _icache(replace(_CACHED, cores=3), 1 << 13, "verilator"),
    "icache-small": _icache(
        replace(_CACHED, cores=2, icache_private=64, icache_ways=2, icache_shared=256, icache_shared_banks=1),
        1 << 6,
        "icarus",
    ),
    "event-unit": _event_unit(5, "icarus", dma=True),
    "event-unit-3": _event_unit(5, "verilator", cores=3, mutexes=2, sw_events=3, dispatch_depth=2),
    "event-unit-16": _event_unit(2, "icarus", cores=16, barriers=3, mutexes=3, dispatch_depth=4, sw_events=5),
    "event-unit-1": _event_unit(2, "icarus", cores=1, barriers=1, dispatch_depth=1, sw_events=1),
    "tcdm": _tcdm(400, *SIMULATORS),
    "tcdm-strict": _tcdm(400, "verilator", arbiter="strict", bank_hash=True, cores=5, others=3),
    "tcdm-fixed": _tcdm(200, "icarus", arbiter="fixed", rvfi=False, banks=1),
    "tcdm-equal": _tcdm(300, "verilator", dma_priority="equal", cores=8, banks=2),
    "tcdm-broadcast": _tcdm(400, "icarus", broadcast=True, bank_hash=True, others=5, tcdm_bytes=64),
    "core-demux": _core_demux(*SIMULATORS),
    "core-demux-dma": _core_demux("icarus", dma=True, tcdm_bytes=1 << 20),
    "cluster-timer": BenchedUnit("cluster_timer", ClusterTimer),
    "cluster-control": _plain("cluster_control", lambda: ClusterControl(3), *SIMULATORS, cores=3),
    "dma": _dma(ClusterConfig(), 120, 1 << DMA_LENGTH_BITS - 1, "verilator"),
    "dma-small": _dma(ClusterConfig(cores=3, dma_transfers=5), 40, 8192, "icarus"),
    "peripheral-bus": _funnelled(
        lambda: PeripheralBus(5, _BLOCKS),
        [f"initiators__{number}" for number in range(5)],
        _BUS_PLACES,
        outstanding=1,
        latency=2,
    ),
    "external-port": _funnelled(
        lambda: ExternalPort(4),
        [f"cores__{number}" for number in range(4)],
        {"ext": (0, 1 << XLEN)},
        outstanding=4,
        latency=3,
    ),
    "axi-dma": _axi(lambda: AxiBridge(EXT_DATA_BITS), EXT_DATA_BITS, runs=True),
    "axi-ext": _axi(lambda: AxiBridge(XLEN), XLEN),
    "axi-refill": _axi(AxiRefill, EXT_DATA_BITS, writes=False),
    "cluster-axi": _cluster_axi(*SIMULATORS, cores=2, banks=4, tcdm_bytes=1 << 11, icache_shared=512),
}
"""The units by name: how each is built, and what its bench is told."""
