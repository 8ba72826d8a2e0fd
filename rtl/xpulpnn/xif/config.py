"""Configuration of the coprocessor for cores with CV-X-IF."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from xpulpnn.config import XPULPV2_WIDTHS, CoreConfig, DotpConfig
from xpulpnn.errors import ConfigError, require
from xpulpnn.field_values import apply_settings, check_choices
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn.isa.xif import XIF_ROWS
from xpulpnn.isa.xpulpnn import MAC_LOAD, SIMD

FORMATS = (ElemFmt.B, ElemFmt.N, ElemFmt.C)
OPCODES: Mapping[str, Mapping[str, str]] = {"pulp": {}, "custom": {SIMD: "0001011", MAC_LOAD: "0101011"}}
"""Major opcodes by the setting: those of the instruction table, or custom-0 and custom-1."""


@dataclass(frozen=True, kw_only=True)
class XifConfig:
    #: version: CV-X-IF before 1.0, with operands in the issue request; or 1.0, with a register interface.
    version: Literal["0.2", "1.0"] = "0.2"
    #: memory: Loads of ``pa.step``: none, by the memory interface of the core, or by an OBI port.
    memory: Literal["none", "xif", "obi"] = "none"
    dots: Literal["1", "2"] = "2"  #: Dot products at a time.
    #: requantise: Requantisation of accumulators: none; by a factor, a summand and a shift; also with a product of 64
    #:   bits. Needs two dot products at a time.
    requantise: Literal["none", "plain", "exact"] = "none"
    #: opcode: Opcodes 0x57 and 0x77, as in the instruction table, or custom-0 and custom-1.
    opcode: Literal["pulp", "custom"] = "pulp"
    accumulators: bool = True  #: Accumulators and activation words; without them only ``pv.*``.
    simd: bool = True  #: Packed-SIMD instructions ``pv.*`` that read two registers; without them only blocks.
    mixed_weights: bool = True  #: Weights of half or a quarter of the activations' width.
    queue: int = 2  #: Instructions that may wait, 2 or more.
    id_bits: int = 4  #: Width of instruction identifiers.
    #: commit_at_issue: The core may commit an instruction in the cycle of its issue.
    commit_at_issue: bool = True
    #: orphans: The core may drop an accepted instruction without a kill, and give its identifier to the next one; it
    #:   never commits at issue.
    orphans: bool = False
    #: load_when_oldest: Loads by the memory interface begin when the core waits for the result of the instruction,
    #:   which is withheld until the last load; loads by a port begin when the core takes the result.
    load_when_oldest: bool = True
    #: in_time: An instruction is accepted only when its result will be there as soon as the core waits for it: the core
    #:   repeats loads and stores behind an instruction that waits for its result, for ever if their responses are late.
    in_time: bool = False
    #: one_at_a_time: An instruction that writes a register is accepted only when no other is under way.
    one_at_a_time: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        if self.requantise != "none" and self.dots != "2":
            raise ConfigError(f"dots must be 2 with requantise, not {self.dots}")
        require(self.accumulators or self.simd, "simd must be true without accumulators, not false", ConfigError)
        for name in ("memory", "requantise"):
            if getattr(self, name) != "none" and not self.accumulators:
                raise ConfigError(f"accumulators must be true with {name}, not false")
        if self.memory == "xif" and self.version == "1.0":
            raise ConfigError("memory must be none or obi with version 1.0, not xif")
        require(2 <= self.queue <= 8, f"queue must be 2 to 8, not {self.queue}", ConfigError)
        require(1 <= self.id_bits <= 32, f"id_bits must be 1 to 32, not {self.id_bits}", ConfigError)

    @classmethod
    def of(cls, extensions: frozenset[Extension]) -> "XifConfig | None":
        """Return the coprocessor that programs with some extensions need, None without one."""
        if Extension.XIF not in extensions:
            return None
        rules = [Extension.XIF_RQ in extensions, Extension.XIF_RQ_EXACT in extensions]
        memory = "obi" if Extension.XIF_STEP in extensions else "none"
        return cls(memory=memory, requantise=("none", "plain", "exact")[sum(rules)])

    @cached_property
    def core(self) -> CoreConfig:
        """Configuration of the arithmetic units, which are those of a core."""
        requantises = self.requantise != "none"
        return CoreConfig(
            mac_load_pair=requantises,
            requantise=requantises,
            requantise_exact=self.requantise == "exact",
            multiplier="dot-product" if requantises else "booth",
            dotp=DotpConfig(widths=frozenset({16, 8, 4, 2} if requantises else {8, 4, 2})),
        )

    @property
    def extensions(self) -> frozenset[Extension]:
        """Extensions that programs may use; the packed-SIMD instructions are one extension of their own."""
        parts = {
            Extension.XIF_SIMD: self.simd,
            Extension.XIF_MIXED: self.accumulators and self.mixed_weights,
            Extension.XIF_PULP: self.opcode == "pulp",
            Extension.XIF_CUSTOM: self.opcode == "custom",
            Extension.XIF: self.accumulators,
            Extension.XIF_STEP: self.memory != "none",
            Extension.XIF_RQ: self.requantise != "none",
            Extension.XIF_RQ_EXACT: self.requantise == "exact",
        }
        return frozenset(extension for extension, present in parts.items() if present)

    @cached_property
    def insns(self) -> tuple[Insn, ...]:
        """The instructions that the coprocessor executes, with the opcodes of the configuration."""
        stateless = enabled(frozenset({Extension.XPULPV2, Extension.XPULPNN}), frozenset({8, 4, 2}))
        rows = [row for row in stateless if self.simd and _is_offered(row)]
        rows += [row for row in XIF_ROWS if row.extension in self.extensions]
        if not self.mixed_weights:
            rows = [row for row in rows if row.wgt_fmt is None]
        opcodes = OPCODES[self.opcode]
        return tuple(
            replace(row, pattern=row.pattern[:-7] + opcodes.get(row.pattern[-7:], row.pattern[-7:])) for row in rows
        )


def _is_offered(row: Insn) -> bool:
    """Return whether a packed-SIMD instruction reads only registers, and no old rd."""
    reads = row.reads <= {"rs1", "rs2"} and row.mode in (Op2Mode.VECTOR, Op2Mode.SC)
    return row.fmt in FORMATS and reads and row.op != "pv.qnt"


XIF_PRESETS: Mapping[str, XifConfig] = {
    "xif": XifConfig(),
    "cv32e40x": XifConfig(orphans=True, commit_at_issue=False, in_time=True),
    "cv32e40px": XifConfig(),
    "cve2": XifConfig(version="1.0", one_at_a_time=True),
    "cva6": XifConfig(version="1.0", opcode="custom", id_bits=3),
}
"""Named configurations: the interface as specified, and four cores with what differs from the specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XifHost(CoreConfig):
    """A core with RV32IMC and the coprocessor, as programs see both."""

    xpulpv2: bool = False
    xpulpnn: bool = False
    mac_load_nn: bool = False
    dotp: DotpConfig = field(default_factory=lambda: DotpConfig(widths=XPULPV2_WIDTHS))
    xif: XifConfig = field(default_factory=XifConfig)  #: Configuration of the coprocessor.

    @property
    def extensions(self) -> frozenset[Extension]:
        return BASE_EXTENSIONS | self.xif.extensions

    @property
    def widths(self) -> frozenset[int]:
        return frozenset({fmt.width for fmt in FORMATS})

    @property
    def insns(self) -> tuple[Insn, ...]:
        return (*enabled(BASE_EXTENSIONS, frozenset()), *self.xif.insns)

    @classmethod
    def of(cls, settings: Mapping[str, str], preset: str = "xif") -> "XifHost":
        """Return the host of a coprocessor with some settings changed."""
        return cls(xif=apply_settings(xif_preset(preset), settings))


HOST_NAME = "xif"
"""Name of such a core, before the settings of the coprocessor, where cores are named by presets."""


def xif_preset(name: str) -> XifConfig:
    """Return the configuration called ``name``; raise :class:`ConfigError` for an unknown name."""
    require(name in XIF_PRESETS, f"preset must be one of {', '.join(XIF_PRESETS)} for xif, not {name}", ConfigError)
    return XIF_PRESETS[name]
