"""The hardware units that have a bench: how each is built and what its bench is told."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Const
from amaranth.lib import data, wiring

from xpulpnn.config import CoreConfig, DotpConfig, preset
from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
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
from xpulpnn.core.mult import Mult
from xpulpnn.core.mult_ctrl import MultCtrl, mult_control
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.core.regfile import RegFile
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.dotp.ctrl import DotpCtrl, dotp_control
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn.verilog import emit
from xpulpnn_sim.bench.runner import Design

FULL = preset("xpulpnn-full")
"""The preset with every row the hardware can execute."""

Row = tuple[str, str, dict[str, int]]
"""Mnemonic, operands and values of the control ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchedUnit:
    """A unit and its bench.

    Parameters
    ----------
    top : str
        Name of the top module.
    bench : str
        Module below ``xpulpnn_sim.bench``.
    make : callable
        Builds the component.
    describe : callable
        Makes the data for the bench.
    simulators : tuple of str
        Where the bench runs.
    """

    top: str
    bench: str
    make: Callable[[], wiring.Component]
    describe: Callable[[], Mapping[str, Any]] = dict
    simulators: tuple[str, ...] = ("verilator", "icarus")

    def design(self) -> Design:
        """The emitted Verilog with its ports."""
        emitted = emit(self.make(), self.top, config={})
        names: dict[str, list[str]] = {"input": [], "output": []}
        for port in emitted.manifest["ports"]:
            names[port["direction"]].append(port["name"])
        return Design(self.top, emitted.text, names["input"], names["output"])


def _constant(shape: type[data.Struct], fields: Mapping[str, Any]) -> int:
    """A control word from field values with dotted names."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, leaf = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return Const.cast(shape.const(nested)).value


def _rows(
    config: CoreConfig, port: str, shape: type[data.Struct], control: Callable[[Insn], Mapping[str, Any] | None]
) -> list[Row]:
    """The 32-bit rows of a configuration that a unit executes, with their control words."""
    rows: list[Row] = []
    for insn in enabled(config.extensions, config.widths):
        fields = control(insn) if insn.size == 4 else None
        if fields is not None:
            rows.append((insn.mnemonic, insn.operands, {port: _constant(shape, fields)}))
    return rows


def _part(name: str, applies: Callable[[Insn], bool]) -> Callable[[Insn], Mapping[str, Any] | None]:
    """The fields of one part of the decoder's control word, for the rows that ``applies`` selects."""

    def control(insn: Insn) -> Mapping[str, Any] | None:
        if not applies(insn):
            return None
        prefix = f"{name}."
        fields = control_fields(insn).items()
        return {key.removeprefix(prefix): value for key, value in fields if key.startswith(prefix)}

    return control


def _has_ex_result(insn: Insn) -> bool:
    """Whether the EX stage makes the value of rd from register and immediate operands."""
    return insn.writes_rd and not insn.is_load and not insn.op.startswith("csr")


def _accesses(insn: Insn) -> bool:
    return insn.is_load or insn.is_store


def _packed_alu_control(insn: Insn) -> Mapping[str, Any] | None:
    return alu_control(insn) if insn.op.startswith("pv.") and not insn.is_mac_load else None


def _unit(top: str, make: Callable[[], wiring.Component], rows: Callable[[], list[Row]], vectors: int) -> BenchedUnit:
    """A unit tested with table rows."""
    bench = {"simd_alu": "bench_alu", "divider": "bench_div"}.get(top, f"bench_{top}")
    return BenchedUnit(top=top, bench=bench, make=make, describe=lambda: {"rows": rows(), "vectors_per_row": vectors})


def _dotp(config: DotpConfig) -> BenchedUnit:
    core = CoreConfig(mac_load_cu=True, dotp=config)
    return _unit("dotp", lambda: DotpUnit(config), lambda: _rows(core, "ctrl", DotpCtrl, dotp_control), 16)


def _nnrf(entries: int) -> BenchedUnit:
    return BenchedUnit(
        top="nnrf", bench="bench_nnrf", make=lambda: NnRf(entries), describe=lambda: {"entries": entries}
    )


def _decoder(name: str) -> BenchedUnit:
    config = preset(name)
    return BenchedUnit(
        top="decoder",
        bench="bench_decoder",
        make=lambda: Decoder(config),
        describe=lambda: {
            "preset": name,
            "rows": _rows(config, "ctrl", IdCtrl, control_fields),
            "vectors_per_row": 3,
            "neighbours": 6,
        },
    )


def _backend(name: str, pairs: int, simulators: Iterable[str]) -> BenchedUnit:
    return BenchedUnit(
        top="backend",
        bench="bench_backend",
        make=lambda: Backend(replace(preset(name), rvfi=True)),
        describe=lambda: {"preset": name, "pairs": pairs, "words_per_row": 1},
        simulators=tuple(simulators),
    )


def _core(name: str, programs: int, simulators: Iterable[str]) -> BenchedUnit:
    return BenchedUnit(
        top="core",
        bench="bench_core",
        make=lambda: Core(replace(preset(name), rvfi=True)),
        describe=lambda: {"preset": name, "programs": programs},
        simulators=tuple(simulators),
    )


def _compressed_decoder(stride: int, simulators: Iterable[str]) -> BenchedUnit:
    return BenchedUnit(
        top="compressed_decoder",
        bench="bench_compressed_decoder",
        make=CompressedDecoder,
        describe=lambda: {"stride": stride},
        simulators=tuple(simulators),
    )


def _lsu() -> Mapping[str, Any]:
    return {
        "rows": _rows(FULL, "ex_ctrl", LsuCtrl, _part("lsu", _accesses)),
        "idle": {"ex_ctrl": 0},
        "vectors_per_row": 8,
    }


def _loop_ops() -> Mapping[str, Any]:
    return {"ops": {op.name: op.value for op in HwLoopOp}}


def _csr_file(config: CoreConfig, simulators: Iterable[str]) -> BenchedUnit:
    return BenchedUnit(
        top="csr_file",
        bench="bench_csr_file",
        make=lambda: CsrFile(config),
        describe=lambda: {
            "groups": sorted(group.name for group in config.csr_groups),
            "ops": {op.name: op.value for op in CsrOp},
        },
        simulators=tuple(simulators),
    )


_INFERRED = replace(FULL, multiplier="inferred", dotp=DotpConfig(multipliers="replicated", adders="inferred"))
"""The naive structures, where the other units have those of the presets."""

_REGISTERED = DotpConfig(multipliers="replicated", isolation="register")
_PLAIN = replace(preset("ri5cy"), xpulpv2=False)
_EVERY_PAIR = 1 << 20
_SOME_PAIRS = 200

UNITS: Mapping[str, BenchedUnit] = {
    "nnrf-6": _nnrf(6),
    "nnrf-4": _nnrf(4),
    "regfile": BenchedUnit(top="regfile", bench="bench_regfile", make=RegFile),
    "dotp-shared": _dotp(DotpConfig()),
    "dotp-shared-inferred": _dotp(DotpConfig(adders="inferred")),
    "dotp-register": _dotp(_REGISTERED),
    "dotp-and": _dotp(replace(_REGISTERED, isolation="and")),
    "dotp-and-inferred": _dotp(replace(_REGISTERED, isolation="and", adders="inferred")),
    "dotp-none-inferred": _dotp(_INFERRED.dotp),
    "dotp-two-widths": _dotp(replace(_REGISTERED, widths=frozenset({8, 2}))),
    "alu": _unit("alu", lambda: Alu(FULL), lambda: _rows(FULL, "ctrl", AluCtrl, alu_control), 6),
    "simd-alu": _unit("simd_alu", lambda: SimdAlu(FULL), lambda: _rows(FULL, "ctrl", AluCtrl, _packed_alu_control), 6),
    "mult": _unit("mult", lambda: Mult("booth"), lambda: _rows(FULL, "ctrl", MultCtrl, mult_control), 12),
    "mult-inferred": _unit("mult", lambda: Mult("inferred"), lambda: _rows(FULL, "ctrl", MultCtrl, mult_control), 12),
    "div": _unit("divider", Divider, lambda: _rows(FULL, "ctrl", DivCtrl, div_control), 40),
    "lsu": BenchedUnit(top="lsu", bench="bench_lsu", make=Lsu, describe=_lsu),
    "ex-stage": _unit(
        "ex_stage",
        lambda: ExStage(FULL),
        lambda: _rows(FULL, "ctrl", ExCtrl, _part("ex", _has_ex_result)),
        2,
    ),
    "ex-stage-inferred": _unit(
        "ex_stage",
        lambda: ExStage(_INFERRED),
        lambda: _rows(_INFERRED, "ctrl", ExCtrl, _part("ex", _has_ex_result)),
        2,
    ),
    "decoder-ri5cy": _decoder("ri5cy"),
    "decoder-full": _decoder("xpulpnn-full"),
    "compressed-decoder": _compressed_decoder(1, ["verilator"]),
    "compressed-decoder-part": _compressed_decoder(16, ["icarus"]),
    "prefetch": BenchedUnit(top="prefetch", bench="bench_prefetch", make=PrefetchBuffer),
    "if-stage": BenchedUnit(top="if_stage", bench="bench_if_stage", make=lambda: IfStage(FULL)),
    "hwloops": BenchedUnit(top="hwloops", bench="bench_hwloops", make=HwLoops, describe=_loop_ops),
    "csr-file-counters": _csr_file(replace(FULL, performance_counters=True), ["verilator", "icarus"]),
    "csr-file-plain": _csr_file(_PLAIN, ["icarus"]),
    "backend-full": _backend("xpulpnn-full", _EVERY_PAIR, ["verilator"]),
    "backend-ri5cy": _backend("ri5cy", _SOME_PAIRS, ["verilator"]),
    "backend-nn": _backend("xpulpnn", _SOME_PAIRS, ["verilator", "icarus"]),
    "backend-cu": _backend("xpulpnn-cu", _SOME_PAIRS, ["verilator"]),
    "core-ri5cy": _core("ri5cy", 1, ["icarus"]),
    "core-nn": _core("xpulpnn", 1, ["icarus"]),
    "core-full": _core("xpulpnn-full", 2, ["verilator"]),
}
"""The units by name."""
