"""The LiteX CPUs ``xpulpnn``, a core with instruction cache, and ``xpulpnn_cluster``, whose core 0 is the host."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from litex.build.lattice.trellis import LatticeTrellisToolchain
from litex.soc.cores.cpu import CPU, CPU_GCC_TRIPLE_RISCV32
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import wishbone
from migen import FSM, Cat, ClockDomain, ClockSignal, If, Instance, NextState, ResetSignal, Signal

from xpulpnn.bus.core import CoreOnBus
from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig
from xpulpnn.debug.dtm import FpgaDtm
from xpulpnn.field_values import apply_settings
from xpulpnn.isa.cluster import CONTROL, Control
from xpulpnn.isa.debug import DEBUG_BASE, DEBUG_BYTES
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.exploration.flows import INFERRED
from xpulpnn_sim.tools.components import emit_top
from xpulpnn_sim.tools.files import write_text

_PREFIX = "xpulpnn_"
_STANDARD = "standard"
_DEBUG = "+debug"
_CACHE_BYTES = 4096
_BANKS_PER_CORE = 4
_CORE = {**INFERRED, "multipliers": "signed", "shifter": "steps", "regfile": "lut-ram", "late_results": "true"}
"""Settings of the cores that LiteX builds, chosen for FPGAs."""


def _for_fpga(config: ClusterConfig) -> ClusterConfig:
    # more ways and prefetch take 15 % of the LUT4 and do not speed up kernels
    return replace(config, core=apply_settings(config.core, _CORE), icache_ways=1, prefetch=False)


_FIRST_IRQ = 16  # of the core; LiteX's line 0
_OUT = ("adr", "dat_w", "sel", "cyc", "stb", "we", "cti", "bte")
_IN = ("dat_r", "ack", "err")


def _word(preset: str) -> str:
    """Return the name of a variant as a C identifier, since LiteX makes a macro of it."""
    return preset.replace("-", "_")


class _Generated(CPU):
    category = "softcore"
    family = "riscv"
    data_width = 32
    endianness = "little"
    gcc_triple = CPU_GCC_TRIPLE_RISCV32
    linker_output_format = "elf32-littleriscv"
    nop = "nop"
    io_regions: ClassVar = {0x8000_0000: 0x8000_0000}
    config: Callable[[], ClusterConfig]
    top = ""
    buses: ClassVar[tuple[str, ...]] = ()
    # wires dominate the paths, so the placer weighs timing more
    placement = "--placer-heap-timingweight 30 "

    def __init__(self, platform: Any, variant: str = _STANDARD):
        self.platform, self.variant = platform, variant
        toolchain = getattr(platform, "toolchain", None)
        if isinstance(toolchain, LatticeTrellisToolchain):
            # wide multiplexers made of LUT4 take 20 % more LUT4 and do not speed up the core
            toolchain._synth_opts += "-nowidelut "
            toolchain._pnr_opts += self.placement
        self.reset = Signal()
        self.periph_buses, self.memory_buses = [], []
        self.cpu_params = {"i_clk": ClockSignal("sys"), "i_rst": ResetSignal("sys") | self.reset}
        for name in self.buses:
            bus = wishbone.Interface(data_width=XLEN, address_width=XLEN, addressing="word", bursting=True)
            setattr(self, name, bus)
            self.periph_buses.append(bus)
            self.cpu_params |= {f"o_{name}__{field}": getattr(bus, field) for field in _OUT}
            self.cpu_params |= {f"i_{name}__{field}": getattr(bus, field) for field in _IN}

    @property
    def gcc_flags(self) -> str:
        """Return compiler options for LiteX's own software, which uses standard instructions only."""
        return f"-march=rv32imc_zicsr_zifencei -mabi=ilp32 -D__{self.name}__ "

    def set_reset_address(self, reset_address: int) -> None:
        self.reset_address = reset_address
        self.cpu_params["i_boot_addr"] = reset_address

    def emitted(self) -> EmittedVerilog:
        return emit_top(self.top, self.config(), prefix=_PREFIX)

    def do_finalize(self) -> None:
        path = Path(self.platform.output_dir or ".") / f"{self.top}.v"
        write_text(path, self.emitted().text)
        self.platform.add_source(str(path))
        self.specials += Instance(_PREFIX + self.top.replace("-", "_"), **self.cpu_params)


class Xpulpnn(_Generated):
    """A core with instruction cache; variants are the core presets, each with and without debug mode.

    Its debug module is reached through the JTAG port of an ECP5, or through the pads passed to :meth:`add_jtag`.
    """

    name = "xpulpnn"
    human_name = "xpulpnn"
    variants: ClassVar = [f"{name}{debug}" for debug in ("", _DEBUG) for name in (_STANDARD, *map(_word, PRESETS))]
    top = "core-wishbone"
    buses = "ibus", "dbus"

    def __init__(self, platform: Any, variant: str = _STANDARD):
        self.debug = variant.endswith(_DEBUG)
        self.by_fpga = self.debug and getattr(platform, "device", "").startswith("LFE5U")
        if self.debug:
            self.buses = (*self.buses, "sbus")
        super().__init__(platform, variant)
        self.interrupt = Signal(XLEN - _FIRST_IRQ)
        self.cpu_params |= {"i_hart_id": 0, "i_fetch_enable": 1, "i_irq": Cat(Signal(_FIRST_IRQ), self.interrupt)}
        if self.debug:
            self._add_debug()

    def _add_debug(self) -> None:
        # the debug module is not reset with the system
        self.powered = Signal()
        self.ndmreset = Signal()
        self.clock_domains.cd_debug = ClockDomain(reset_less=True)
        self.comb += self.cd_debug.clk.eq(ClockSignal("sys"))
        self.sync.debug += self.powered.eq(1)
        self.cpu_params |= {
            "i_system_reset": self.cpu_params["i_rst"],
            "i_rst": ~self.powered,
            "o_ndmreset": self.ndmreset,
            "i_tck_rst": 0,
        }
        if self.by_fpga:
            self._add_jtagg()
        else:
            self.cpu_params |= dict.fromkeys(("i_tck_clk", "i_tms", "i_tdi"), 0)

    def _add_jtagg(self) -> None:
        tck, tdi, shift, update, tdo = (
            Signal(name=f"jtag_{name}") for name in ("tck", "tdi", "shift", "update", "tdo")
        )
        chosen = Signal(2, name="jtag_chosen")
        self.specials += Instance(
            "JTAGG",
            o_JTCK=tck,
            o_JTDI=tdi,
            o_JSHIFT=shift,
            o_JUPDATE=update,
            o_JCE1=chosen[0],
            o_JCE2=chosen[1],
            i_JTDO1=tdo,
            i_JTDO2=tdo,
        )
        self.cpu_params |= {
            "i_tck_clk": ~tck,
            "i_jtdi": tdi,
            "i_jshift": shift,
            "i_jupdate": update,
            "i_jce": chosen,
            "o_jtdo": tdo,
        }

    def add_soc_components(self, soc: Any) -> None:
        if not self.debug:
            return
        soc.bus.add_region("debug", SoCRegion(origin=DEBUG_BASE, size=DEBUG_BYTES, linker=True))
        # a pulse of one cycle, as the reset may stop the clock
        self.ndmreset_before = Signal()
        self.sync.debug += self.ndmreset_before.eq(self.ndmreset)
        reset = soc.crg.rst if hasattr(soc.crg, "rst") else soc.crg.cd_sys.rst
        self.comb += If(self.ndmreset & ~self.ndmreset_before, reset.eq(1))

    def add_jtag(self, pads: Any) -> None:
        self.cpu_params |= {"i_tck_clk": pads.tck, "i_tms": pads.tms, "i_tdi": pads.tdi, "o_tdo": pads.tdo}

    def emitted(self) -> EmittedVerilog:
        if not self.by_fpga:
            return super().emitted()
        component = CoreOnBus(self.config(), "wishbone", transport=FpgaDtm)
        return emit(component, "core_wishbone", config=component.config, prefix=_PREFIX)

    @property
    def mem_map(self) -> Mapping[str, int]:
        """Return the addresses of LiteX's memories and registers."""
        return {"rom": 0, "sram": 0x0100_0000, "main_ram": 0x4000_0000, "csr": 0xF000_0000}

    def config(self) -> ClusterConfig:
        name = self.variant.removesuffix(_DEBUG).replace(_STANDARD, "xpulpnn2")
        core = next(config for preset, config in PRESETS.items() if _word(preset) == name)
        core = replace(core, debug=self.debug)
        return _for_fpga(ClusterConfig(core=core, icache_private=_CACHE_BYTES))


def _of_cores(config: ClusterConfig, cores: int) -> ClusterConfig:
    return replace(config, cores=cores, banks=min(config.banks, _BANKS_PER_CORE * cores))


_CLUSTERS = {
    _word(f"{name}-{cores}" if cores else name): _of_cores(_for_fpga(config), cores or config.cores)
    for name, config in CLUSTER_PRESETS.items()
    for cores in (0, 1, 2, 4, 8, 16)
}


class XpulpnnCluster(_Generated):
    """A cluster; core 0 runs the BIOS and starts the other cores with a program.

    Variants are the cluster presets, also with another number of cores: ``cluster3_2`` has two. LiteX's interrupts are
    not connected: its software polls.
    """

    name = "xpulpnn_cluster"
    human_name = "xpulpnn cluster"
    variants: ClassVar = [_STANDARD, *_CLUSTERS]
    top = "cluster-wishbone"
    buses = "refill", "ext", "dma"
    placement = _Generated.placement + "--placer-heap-critexp 3 "

    def __init__(self, platform: Any, variant: str = _STANDARD):
        super().__init__(platform, variant)
        self.cpu_params |= {"i_cluster_id": 0, "i_fetch_enable": 0, "i_events": 0}
        # the only external access writes the start of core 0
        request, granted = Signal(), Signal()
        self.submodules.fsm = fsm = FSM(reset_state="START")
        fsm.act("START", request.eq(1), If(granted, NextState("STARTED")))
        fsm.act("STARTED")
        self.cpu_params |= {
            "i_host__req": request,
            "o_host__gnt": granted,
            "i_host__addr": CONTROL + Control.FETCH_ENABLE,
            "i_host__we": 1,
            "i_host__be": (1 << WORD_BYTES) - 1,
            "i_host__wdata": 1,
        }

    @property
    def mem_map(self) -> Mapping[str, int]:
        """Return the addresses of LiteX's memories and registers; addresses below 0x1A000000 belong to the cluster."""
        return {"rom": 0x1A00_0000, "sram": 0x1C00_0000, "main_ram": 0x4000_0000, "csr": 0xF000_0000}

    @property
    def gcc_flags(self) -> str:
        """Return compiler options for LiteX's own software, whose start-up code starts all cores."""
        return f"{super().gcc_flags}-DCORES={self.config().cores} "

    def config(self) -> ClusterConfig:
        return _CLUSTERS["cluster2" if self.variant == _STANDARD else self.variant]


CPUS = {kind.name: kind for kind in (Xpulpnn, XpulpnnCluster)}  # The CPUs of this project, by their LiteX names
