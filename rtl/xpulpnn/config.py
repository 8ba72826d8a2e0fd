"""Hardware configurations and their named presets.

Configurations are frozen dataclasses; every constructor of a component takes one. An impossible combination raises
:class:`~xpulpnn.errors.ConfigError` on construction, before any gate exists.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from xpulpnn.errors import ConfigError
from xpulpnn.isa.csr import CsrGroup
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension
from xpulpnn.isa.machine import NNRF_ENTRIES, NNRF_WEIGHTS

Multipliers = Literal["replicated", "shared"]
Isolation = Literal["none", "and", "register"]
Adders = Literal["inferred", "carry-save"]
Multiplier = Literal["inferred", "booth"]

ALL_WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
XPULPV2_WIDTHS = frozenset({16, 8})


def _choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DotpConfig:
    """Structure of the dot-product unit.

    Parameters
    ----------
    widths : frozenset of int
        Element widths in bits, a non-empty subset of {16, 8, 4, 2}.
    multipliers : "replicated" or "shared"
        One set of multipliers per width (XpulpNN paper, section IV-B), or one array serving every width.
    isolation : "none", "and" or "register"
        How the idle regions are kept quiet: not at all, by AND gates at their inputs, or by an operand register per
        region that is enabled only for its own width.
    adders : "inferred" or "carry-save"
        Sums left to the synthesis tool, with replicated multipliers one per width including the accumulator; or
        explicit carry-save trees that share one final parallel-prefix adder with the accumulator.
    """

    widths: frozenset[int] = ALL_WIDTHS
    multipliers: Multipliers = "shared"
    isolation: Isolation = "none"
    adders: Adders = "carry-save"

    def __post_init__(self) -> None:
        if not self.widths or not self.widths <= ALL_WIDTHS:
            shown = ",".join(map(str, sorted(self.widths, reverse=True))) or "an empty set"
            raise ConfigError(f"widths must be a non-empty set out of 16,8,4,2, not {shown}")
        _choice("multipliers", self.multipliers, get_args(Multipliers))
        _choice("isolation", self.isolation, get_args(Isolation))
        _choice("adders", self.adders, get_args(Adders))
        if self.multipliers == "shared" and self.isolation == "register":
            raise ConfigError("isolation must be none or and with shared multipliers, not register")

    @property
    def formats(self) -> tuple[ElemFmt, ...]:
        """The element formats of ``widths``, widest first."""
        return tuple(fmt for fmt in ElemFmt if fmt.width in self.widths)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """Configuration of the EX stage, back end and core.

    Parameters
    ----------
    xpulpv2 : bool
        Post-increment memory access, hardware loops, scalar DSP, SIMD on 16 and 8 bit.
    xpulpnn : bool
        SIMD on 4 and 2 bit; needs ``xpulpv2``.
    mac_load_nn : bool
        Mac&Load with both factors from the NN-RF (``pv.mlsdot*``); needs ``xpulpnn``.
    mac_load_cu : bool
        Compute&Update Mac&Load (``pv.cusdot*``); needs ``xpulpnn``.
    dotp : DotpConfig
        Structure of the dot-product unit. Its widths are the SIMD widths of the whole core.
    multiplier : "inferred" or "booth"
        Structure of the 32 x 32 bit multiplier: one product and sum left to the synthesis tool, or Booth recoding with
        carry-save trees and parallel-prefix adders.
    performance_counters : bool
        Adds the PULP performance counters (ISA.md section 10).
    rvfi : bool
        Adds the retirement port; for verification, absent from product Verilog.
    """

    xpulpv2: bool = True
    xpulpnn: bool = True
    mac_load_nn: bool = True
    mac_load_cu: bool = False
    dotp: DotpConfig = field(default_factory=DotpConfig)
    multiplier: Multiplier = "booth"
    performance_counters: bool = False
    rvfi: bool = False

    def __post_init__(self) -> None:
        if self.xpulpnn and not self.xpulpv2:
            raise ConfigError("xpulpv2 must be true with xpulpnn, not false")
        _choice("multiplier", self.multiplier, get_args(Multiplier))
        for name in ("mac_load_nn", "mac_load_cu"):
            if getattr(self, name) and not self.xpulpnn:
                raise ConfigError(f"xpulpnn must be true with {name}, not false")
        narrow = self.dotp.widths - XPULPV2_WIDTHS
        if narrow and not self.xpulpnn:
            shown = ",".join(map(str, sorted(self.dotp.widths, reverse=True)))
            raise ConfigError(f"widths must be a set out of 16,8 without xpulpnn, not {shown}")

    @property
    def extensions(self) -> frozenset[Extension]:
        """The enabled extensions."""
        optional = {
            Extension.XPULPV2: self.xpulpv2,
            Extension.XPULPNN: self.xpulpnn,
            Extension.XPULPML_NN: self.mac_load_nn,
            Extension.XPULPML_CU: self.mac_load_cu,
        }
        return BASE_EXTENSIONS | {ext for ext, on in optional.items() if on}

    @property
    def csr_groups(self) -> frozenset[CsrGroup]:
        """The groups of CSRs that exist."""
        optional = {CsrGroup.HWLOOP: self.xpulpv2, CsrGroup.PERFORMANCE: self.performance_counters}
        return frozenset({CsrGroup.BASE}) | {group for group, on in optional.items() if on}

    @property
    def widths(self) -> frozenset[int]:
        """SIMD element widths in bits; empty without XpulpV2."""
        return self.dotp.widths if self.xpulpv2 else frozenset()

    @property
    def mac_load(self) -> bool:
        """Whether any Mac&Load form, hence the NN-RF, is present."""
        return self.mac_load_nn or self.mac_load_cu

    @property
    def nnrf_entries(self) -> int:
        """Words in the NN-RF: 6 with the nn form, 4 with Compute&Update alone, else 0."""
        return NNRF_ENTRIES if self.mac_load_nn else NNRF_WEIGHTS if self.mac_load_cu else 0

    @property
    def nn_addr_bits(self) -> int:
        """Bits of an NN-RF entry number."""
        return max(self.nnrf_entries - 1, 0).bit_length()

    @property
    def dotp_operands_in_id(self) -> bool:
        """Whether the ID/EX register holds the dot-product factors; else the dot-product unit does, per region."""
        return self.dotp.isolation != "register"


PRESETS: Mapping[str, CoreConfig] = {
    "ri5cy": CoreConfig(
        xpulpnn=False,
        mac_load_nn=False,
        dotp=DotpConfig(widths=XPULPV2_WIDTHS),
    ),
    "xpulpnn": CoreConfig(),
    "xpulpnn-cu": CoreConfig(mac_load_nn=False, mac_load_cu=True),
    "xpulpnn-full": CoreConfig(mac_load_cu=True),
}
"""Named configurations: the XpulpV2 baseline, the paper's core (nn form), the C&U form, both forms."""


def preset(name: str) -> CoreConfig:
    """The preset called ``name``; raises :class:`ConfigError` for an unknown one."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"preset must be one of {', '.join(PRESETS)}, not {name}") from None


def _parse_bool(key: str, text: str) -> bool:
    try:
        return {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}[text.lower()]
    except KeyError:
        raise ConfigError(f"{key} must be true or false, not {text}") from None


def _parse_widths(key: str, text: str) -> frozenset[int]:
    try:
        return frozenset(int(part) for part in text.replace("+", ",").split(","))
    except ValueError:
        raise ConfigError(f"{key} must be a list of widths such as 16,8,4,2, not {text}") from None


def with_setting(config: CoreConfig, key: str, text: str) -> dict[str, Any]:
    """Parse one ``KEY=VALUE`` setting of the command line.

    Returns a nested mapping for :func:`apply_settings`. Keys of :class:`DotpConfig` may be written with or without
    the prefix ``dotp.``.
    """
    name = key.removeprefix("dotp.").replace("-", "_")
    if name == "widths":
        return {"dotp": {name: _parse_widths(key, text)}}
    if name in {f.name for f in fields(DotpConfig)}:
        return {"dotp": {name: text}}
    if name == "multiplier":
        return {name: text}
    if not key.startswith("dotp.") and name in {f.name for f in fields(CoreConfig)} - {"dotp"}:
        return {name: _parse_bool(key, text)}
    known = sorted(({f.name for f in fields(CoreConfig)} - {"dotp"}) | {f.name for f in fields(DotpConfig)})
    raise ConfigError(f"setting must be one of {', '.join(known)}, not {key}")


def apply_settings(config: CoreConfig, settings: Mapping[str, str]) -> CoreConfig:
    """``config`` with ``KEY=VALUE`` settings applied together; raises :class:`ConfigError`."""
    core: dict[str, Any] = {}
    dotp: dict[str, Any] = {}
    for key, text in settings.items():
        change = with_setting(config, key, text)
        dotp |= change.pop("dotp", {})
        core |= change
    return replace(config, dotp=replace(config.dotp, **dotp), **core)
