"""Hardware configurations and their named presets.

Configurations are frozen dataclasses; every constructor of a component takes one. An impossible combination raises
:class:`~xpulpnn.errors.ConfigError` on construction, before any hardware is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from xpulpnn.errors import ConfigError, require
from xpulpnn.field_values import check_choices
from xpulpnn.isa.cluster import ICACHE_LINE_BYTES, MAX_CORES
from xpulpnn.isa.csr import TRIGGERS, CsrGroup
from xpulpnn.isa.debug import IDCODE
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import NNRF_ENTRIES, NNRF_PARAMETERS, NNRF_WEIGHTS, SECOND_PAIR, WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled

Multipliers = Literal["replicated", "signed", "shared"]
Isolation = Literal["none", "and", "register"]
Adders = Literal["inferred", "carry-save"]
Multiplier = Literal["inferred", "booth", "dot-product"]
Shifter = Literal["inferred", "steps"]
RegFileStorage = Literal["flip-flops", "array", "lut-ram"]
Arbiter = Literal["counter", "strict", "fixed"]
DmaPriority = Literal["low", "equal"]
Memories = Literal["behavioural", "ports"]

ALL_WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
XPULPV2_WIDTHS = frozenset({16, 8})

EXT_DATA_BITS = 64
OMITTED_IF_DEFAULT: Mapping[str, bool] = {"omit_default": True}
"""Metadata of a field that the description of a configuration omits while the field has its default value."""

TCDM_SPACE = 1 << 20  # Bytes of the address range of the TCDM.


@dataclass(frozen=True, slots=True, kw_only=True)
class DotpConfig:
    """Structure of the dot-product unit."""

    widths: frozenset[int] = ALL_WIDTHS  #: Element widths in bits, a non-empty subset of {16, 8, 4, 2}.
    #: multipliers: One set of multipliers per width (XpulpNN paper, section IV-B), or one array for all widths;
    #:   ``signed`` is a set per width of plain signed products, for multiplier blocks of FPGAs; needs inferred adders.
    multipliers: Multipliers = "shared"
    #: isolation: Gating of the inputs of idle multipliers, with one set per width: none, AND gates, or an operand
    #:   register per width that is enabled only for that width.
    isolation: Isolation = "none"
    #: adders: Sums left to the synthesis tool, one per set of multipliers, which includes the accumulator; or
    #:   explicit carry-save trees that share one final parallel-prefix adder with the accumulator.
    adders: Adders = "carry-save"

    def __post_init__(self) -> None:
        if not self.widths or not self.widths <= ALL_WIDTHS:
            shown = ",".join(map(str, sorted(self.widths, reverse=True))) or "an empty set"
            raise ConfigError(f"widths must be a non-empty set out of 16,8,4,2, not {shown}")
        check_choices(self)
        if self.multipliers == "signed" and self.adders != "inferred":
            raise ConfigError("adders must be inferred with signed multipliers, not carry-save")
        if self.multipliers == "shared" and self.isolation != "none":
            rule = "isolation must be none with shared multipliers, whose masks isolate"
            raise ConfigError(f"{rule}, not {self.isolation}")

    @property
    def formats(self) -> tuple[ElemFmt, ...]:
        return tuple(fmt for fmt in ElemFmt if fmt.width in self.widths)


_EXTENSIONS: Mapping[str, tuple[Extension, str]] = {
    "xpulpv2": (Extension.XPULPV2, "xpulpv2"),
    "xpulpnn": (Extension.XPULPNN, "xpulpv2"),
    "mac_load_nn": (Extension.XPULPML_NN, "xpulpnn"),
    "mac_load_cu": (Extension.XPULPML_CU, "xpulpnn"),
    "qnt": (Extension.XPULPQNT, "xpulpnn"),
    "mac_load_cross": (Extension.XPULPML_CROSS, "mac_load_nn"),
    "mac_load_dot": (Extension.XPULPML_DOT, "mac_load_nn"),
    "mac_load_pair": (Extension.XPULPML_PAIR, "mac_load_nn"),
    "mixed_weights": (Extension.XPULPML_MIXED, "mac_load_pair"),
    "requantise": (Extension.XPULPRQ, "mac_load_nn"),
    "requantise_exact": (Extension.XPULPRQ_EXACT, "requantise"),
    "debug": (Extension.SDEXT, "debug"),
}
"""The extension of the instruction set that each field adds, and another field that must then be true as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """Configuration of a core, and of each of its stages and units on its own."""

    xpulpv2: bool = True  #: Post-increment memory access, hardware loops, scalar DSP, SIMD on 16 and 8 bit.
    xpulpnn: bool = True  #: SIMD on 4 and 2 bit; needs ``xpulpv2``.
    mac_load_nn: bool = True  #: Mac&Load with both factors from the NN-RF (``pv.mlsdot*``); needs ``xpulpnn``.
    mac_load_cu: bool = False  #: Compute&Update Mac&Load (``pv.cusdot*``); needs ``xpulpnn``.
    #: qnt: Threshold quantisation (``pv.qnt``) to the widths 4 and 2; needs ``xpulpnn`` and one of these widths.
    qnt: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: mac_load_cross: Mac&Load of the nn form also with both update bits, which reload the activation that the product
    #:   does not use; needs ``mac_load_nn``.
    mac_load_cross: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: mac_load_dot: Mac&Load of the nn form without accumulation (``pv.mldot*``); needs ``mac_load_nn``.
    mac_load_dot: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: mac_load_pair: Mac&Load of one weight with two activations, two sums at a time (``pv.mlsduo*``, ``pv.mlduo*``);
    #:   needs ``mac_load_nn``.
    mac_load_pair: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: mixed_weights: Mac&Load of two products also with weights of half or a quarter of the activations' width
    #:   (``pv.mlsduo*.b.n0`` and others); needs ``mac_load_pair``.
    mixed_weights: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: requantise: Requantisation by a factor, a summand and a shift (``pv.rqld``, ``pv.rqu``, ``pv.rqs``) to the
    #:   widths 8, 4 and 2; needs ``mac_load_nn`` and one of these widths.
    requantise: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: requantise_exact: Requantisation also by a product of 64 bits, rounded once, with a zero point (``pv.rqxu``,
    #:   ``pv.rqxs``), and a multiplier that makes such a product in one cycle; needs ``requantise``.
    requantise_exact: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: dotp: Structure of the dot-product unit. Its widths are the SIMD widths of the whole core.
    dotp: DotpConfig = field(default_factory=DotpConfig)
    #: multiplier: Structure of the 32 x 32 bit multiplier: one product and sum left to the synthesis tool, or Booth
    #:   recoding with carry-save trees and parallel-prefix adders; or none of its own, as the arrays of the two
    #:   dot-product units multiply words too, which needs ``mac_load_pair``, 16-bit lanes and shared multipliers with
    #:   carry-save adders.
    multiplier: Multiplier = "booth"
    #: shifter: Structure of the shifter: a shift per lane of every format, the format choosing among them; or one row
    #:   of multiplexers per power of two, partitioned for all formats.
    shifter: Shifter = "steps"
    #: regfile: Storage of the general-purpose registers; ``array`` is for simulators, ``lut-ram`` for FPGAs.
    regfile: RegFileStorage = "flip-flops"
    #: late_results: Results other than word additions and logic are registered behind EX and written from WB like
    #:   loaded words: the next instruction waits a cycle for them. For FPGAs; without ``qnt`` and multiplier
    #:   ``dot-product``.
    late_results: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    performance_counters: bool = False  #: Adds the PULP performance counters (guide, "Performance counters").
    #: debug: Debug mode after the RISC-V debug specification: halting, stepping and resuming by a debug module.
    debug: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: triggers: Triggers of debug mode, 0 to 2: addresses of instructions, loads or stores at which the core halts.
    triggers: int = field(default=TRIGGERS, metadata=OMITTED_IF_DEFAULT)
    #: idcode: IDCODE of the JTAG port of a core or cluster with a debug module, an odd number of 32 bits.
    idcode: int = field(default=IDCODE, metadata=OMITTED_IF_DEFAULT)
    #: nn_csrs: The words of the NN-RF are CSRs too, which programs and debuggers may save and restore; needs Mac&Load.
    nn_csrs: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: clock_gate: The clock of a core stops while ``core_sleep`` is high, by the module ``xpulpnn_clock_gate``.
    clock_gate: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: test_en: A port of that name bypasses clock gates and the resets that a debug module makes; for scan tests.
    test_en: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    rvfi: bool = False  #: Adds the retirement port; for verification, absent from product Verilog.

    def __post_init__(self) -> None:
        check_choices(self)
        require(0 <= self.triggers <= TRIGGERS, f"triggers must be 0 to {TRIGGERS}, not {self.triggers}", ConfigError)
        if self.nn_csrs and not self.mac_load:
            raise ConfigError("mac_load_nn or mac_load_cu must be true with nn_csrs, not false")
        for name, (_, needed) in _EXTENSIONS.items():
            if getattr(self, name) and not getattr(self, needed):
                raise ConfigError(f"{needed} must be true with {name}, not false")
        narrow = self.dotp.widths - XPULPV2_WIDTHS
        shown = ",".join(map(str, sorted(self.dotp.widths, reverse=True)))
        if self.qnt and not narrow:
            raise ConfigError(f"widths must include 4 or 2 with qnt, not only {shown}")
        if self.requantise and self.dotp.widths.isdisjoint({8, 4, 2}):
            raise ConfigError(f"widths must include 8, 4 or 2 with requantise, not only {shown}")
        if self.multiplier == "dot-product":
            self._require_word_arrays()
        if self.late_results and self.qnt:
            raise ConfigError("qnt must be false with late_results, not true")
        if self.late_results and self.multiplies_by_dotp:
            raise ConfigError("multiplier must be inferred or booth with late_results, not dot-product")
        if narrow and not self.xpulpnn:
            raise ConfigError(f"widths must be a set out of 16,8 without xpulpnn, not {shown}")

    def _require_word_arrays(self) -> None:
        dotp = self.dotp
        for name, value, needed in (
            ("mac_load_pair", self.mac_load_pair, True),
            ("multipliers", dotp.multipliers, "shared"),
            ("adders", dotp.adders, "carry-save"),
            ("the widest of widths", max(dotp.widths), 16),
        ):
            if value != needed:
                value_text = str(needed).lower() if isinstance(needed, bool) else needed
                raise ConfigError(f"{name} must be {value_text} with multiplier dot-product, not {str(value).lower()}")

    @property
    def extensions(self) -> frozenset[Extension]:
        return BASE_EXTENSIONS | {extension for name, (extension, _) in _EXTENSIONS.items() if getattr(self, name)}

    @property
    def insns(self) -> tuple[Insn, ...]:
        """Instructions of the core, without second names."""
        return enabled(self.extensions, self.widths)

    @property
    def csr_groups(self) -> frozenset[CsrGroup]:
        optional = {
            CsrGroup.HWLOOP: self.xpulpv2,
            CsrGroup.PERFORMANCE: self.performance_counters,
            CsrGroup.DEBUG: self.debug,
            CsrGroup.TRIGGER: self.debug and self.triggers > 0,
            CsrGroup.NN_ACTIVATION: self.nn_csrs and self.mac_load_nn,
            CsrGroup.NN_WEIGHT: self.nn_csrs,
            CsrGroup.NN_PARAMETER: self.nn_csrs and self.requantise,
            CsrGroup.NN_PAIR: self.nn_csrs and self.mac_load_pair,
        }
        return frozenset({CsrGroup.BASE}) | {group for group, on in optional.items() if on}

    @property
    def idle_registers_rest(self) -> bool:
        """True if words of the prefetch buffer and bits of counters are clocked only when they may change."""
        return self.mac_load_pair

    @property
    def widths(self) -> frozenset[int]:
        """SIMD element widths in bits; empty without XpulpV2."""
        return self.dotp.widths if self.xpulpv2 else frozenset()

    @property
    def mac_load(self) -> bool:
        """True if the core has Mac&Load instructions of any form, and with them an NN-RF."""
        return self.mac_load_nn or self.mac_load_cu

    @property
    def core(self) -> "CoreConfig":
        """The configuration itself, so that ``config.core`` works for the configuration of a core and of a cluster."""
        return self

    @property
    def cores(self) -> int:
        """1, so that ``config.cores`` works for the configuration of a core and of a cluster."""
        return 1

    @property
    def nnrf_entries(self) -> int:
        """Number of words of the NN-RF without the second pair of activations: 6 with the nn form of Mac&Load, 8 with
        requantisation too, 4 with Compute&Update alone, 0 without Mac&Load.
        """
        if self.mac_load_nn:
            return NNRF_ENTRIES + NNRF_PARAMETERS * self.requantise
        return NNRF_WEIGHTS if self.mac_load_cu else 0

    @property
    def nn_addr_bits(self) -> int:
        last = SECOND_PAIR + 1 if self.mac_load_pair else self.nnrf_entries - 1
        return max(last, 0).bit_length()

    @property
    def multiplies_by_dotp(self) -> bool:
        """True if the multiplier arrays of the dot-product units also multiply words and half-words."""
        return self.multiplier == "dot-product"

    @property
    def late_result_names(self) -> tuple[str, ...]:
        """Names of the registered results of EX, from which WB selects."""
        if not self.late_results:
            return ()
        dotp = ["late_dotp"] if self.widths else []
        if self.has_late_formats:
            dotp = [f"late_dotp_{fmt.suffix}" for fmt in self.dotp.formats]
        return ("late_product", *dotp)

    @property
    def has_late_formats(self) -> bool:
        """True if the dot product of each element format is registered separately for WB."""
        return self.late_results and self.dotp.adders == "inferred" and self.dotp.multipliers == "signed"

    @property
    def has_whole_products(self) -> bool:
        """True if the multiplier computes a 64-bit product in one cycle."""
        return self.requantise_exact or self.multiplies_by_dotp

    @property
    def nn_wgt_addr_bits(self) -> int:
        """Bits of a weight entry's number, which also selects the requantisation factor if ``reads_factor``."""
        return (NNRF_WEIGHTS - 1).bit_length() + self.reads_factor

    @property
    def reads_factor(self) -> bool:
        """True if the requantisation factor is read through the weight port of the NN-RF."""
        return self.multiplies_by_dotp and self.requantise

    @property
    def dotp_operands_in_id(self) -> bool:
        """True if the ID/EX register holds the dot-product factors; else the dot-product unit does."""
        return self.dotp.isolation != "register"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Configuration of the cluster."""

    core: CoreConfig = field(default_factory=CoreConfig)  #: Configuration of every core.
    cores: int = 8  #: Number of cores, 1 to 16.
    tcdm_bytes: int = 128 * 1024  #: Size of the shared memory, a power of two of at least one word per bank.
    banks: int = 16  #: Word-interleaved banks of the shared memory, a power of two.
    #: arbiter: Winner among requests for one bank: chosen by a tree that a counter of grants steers, strictly the next
    #:   after the last winner, or always the lowest number.
    arbiter: Arbiter = "counter"
    bank_hash: bool = False  #: The bank is the word address exclusive-or its higher bits, instead of its low bits.
    broadcast: bool = False  #: Loads of one word at the same time are granted together.
    barriers: int = 2  #: Barriers of the event unit, 1 to 8.
    sw_events: int = 8  #: Software events of the event unit, 1 to 8.
    mutexes: int = 1  #: Mutexes of the event unit, 1 to 16.
    dispatch_depth: int = 8  #: Entries of the dispatch queue of the event unit, a power of two.
    #: icache_private: Bytes of each core's instruction cache, a power of two; 0: a fetch port per core instead of any
    #:   cache.
    icache_private: int = 512
    icache_ways: int = 4  #: Ways of every instruction cache, a power of two.
    prefetch: bool = True  #: Instruction caches fetch the next line ahead.
    #: icache_shared, icache_shared_banks: Bytes and single-port banks of the cache shared by all, powers of two.
    #:   Lines have 16 bytes; every way of each cache, and of each bank, has two at least.
    icache_shared: int = 4096
    icache_shared_banks: int = 2
    dma: bool = True  #: The cluster has a DMA engine.
    dma_transfers: int = 16  #: Identifiers of DMA transfers, 1 to 16.
    dma_priority: DmaPriority = "low"  #: DMA accesses to the TCDM yield to those of the cores (low) or not (equal).
    ext_data_bits: int = 64  #: Width of the DMA's external side: 64.
    #: clint: A core-local interruptor with a timer and software interrupts, in the cluster for all its cores; of a core
    #:   with Wishbone ports beside it.
    clint: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)
    #: host_id_bits: Width of the identifiers at the AXI4 port of the host, 1 to 32.
    host_id_bits: int = field(default=4, metadata=OMITTED_IF_DEFAULT)
    memories: Memories = "behavioural"  #: Banks of the TCDM as arrays, or as ports of the top for memory macros.
    rvfi: bool = False  #: Adds the retirement ports of all cores and the observation of the banks; for verification.

    def __post_init__(self) -> None:
        check_choices(self)
        limits = {"cores": MAX_CORES, "mutexes": 16, "dma_transfers": 16, "host_id_bits": XLEN}
        for name, most in {**limits, "barriers": 8, "sw_events": 8}.items():
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(f"{name} must be 1 to {most}, not {getattr(self, name)}")
        sizes = ("tcdm_bytes", "banks", "dispatch_depth", "icache_ways", "icache_shared", "icache_shared_banks")
        for name in sizes + (("icache_private",) if self.icache_private else ()):
            if getattr(self, name) < 1 or getattr(self, name).bit_count() != 1:
                raise ConfigError(f"{name} must be a power of two, not {getattr(self, name)}")
        least = 2 * self.icache_ways * ICACHE_LINE_BYTES
        for name, bytes_least in (("icache_private", least), ("icache_shared", least * self.icache_shared_banks)):
            if self.icache_private and getattr(self, name) < bytes_least:
                raise ConfigError(f"{name} must be at least {bytes_least}, not {getattr(self, name)}")
        if self.ext_data_bits != EXT_DATA_BITS:
            raise ConfigError(f"ext_data_bits must be {EXT_DATA_BITS}, not {self.ext_data_bits}")
        if not self.banks * WORD_BYTES <= self.tcdm_bytes <= TCDM_SPACE:
            raise ConfigError(
                f"tcdm_bytes must be at least a word for each of {self.banks} banks and at most {TCDM_SPACE}, "
                f"not {self.tcdm_bytes}"
            )

    @property
    def icache_private_sets(self) -> int:
        return self.icache_private // (self.icache_ways * ICACHE_LINE_BYTES)

    @property
    def icache_shared_sets(self) -> int:
        return self.icache_shared // (self.icache_shared_banks * self.icache_ways * ICACHE_LINE_BYTES)

    @property
    def bank_words(self) -> int:
        return self.tcdm_bytes // (self.banks * WORD_BYTES)

    @property
    def masters(self) -> int:
        """Number of TCDM ports: one per core, four of the DMA engine, one of the host."""
        return self.cores + (4 if self.dma else 0) + 1


_XPULPNN2 = CoreConfig(mac_load_cross=True, mac_load_dot=True, requantise=True)

PRESETS: Mapping[str, CoreConfig] = {
    "ri5cy": CoreConfig(xpulpnn=False, mac_load_nn=False, dotp=DotpConfig(widths=XPULPV2_WIDTHS)),
    "xpulpnn": CoreConfig(),
    "xpulpnn-cu": CoreConfig(mac_load_nn=False, mac_load_cu=True),
    "xpulpnn-full": CoreConfig(mac_load_cu=True),
    "xpulpnn2": _XPULPNN2,
    "xpulpnn3": replace(
        _XPULPNN2, mac_load_pair=True, mixed_weights=True, requantise_exact=True, multiplier="dot-product"
    ),
}
"""Named configurations: XpulpV2 baseline; the paper's core with nn form, Compute&Update, both; XpulpNN 2 and 3."""

DEFAULT_PRESET = "xpulpnn2"
"""Preset of a core, alone or in a cluster, if neither the user nor the program names a preset."""

BOTH_FORMS = "xpulpnn-full"
"""Preset with both forms of Mac&Load, used to repeat the papers and to check every instruction."""

CLUSTER_PRESETS: Mapping[str, ClusterConfig] = {
    "cluster": ClusterConfig(),
    "cluster-bf4": ClusterConfig(banks=32),
    "cluster-ri5cy": ClusterConfig(core=PRESETS["ri5cy"]),
    "cluster2": ClusterConfig(core=PRESETS["xpulpnn2"]),
    "cluster3": ClusterConfig(core=PRESETS["xpulpnn3"]),
}
"""Named clusters: eight cores on 16 banks, on 32 banks (banking factor 4), with XpulpV2 cores, with XpulpNN 2 cores,
and with XpulpNN 3 cores."""


def preset(name: str) -> CoreConfig:
    """Return the preset called ``name``; raise :class:`ConfigError` for an unknown name."""
    require(name in PRESETS, f"preset must be one of {', '.join(PRESETS)}, not {name}", ConfigError)
    return PRESETS[name]
