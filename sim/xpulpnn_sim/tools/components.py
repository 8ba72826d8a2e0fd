# amaranth: UnusedElaboratable=no
"""Components that can be generated, by their names on the command line."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from amaranth.lib import wiring

from xpulpnn.bus.core import BUSES, CoreOnBus
from xpulpnn.cells.reset_sync import ReleasedInStep
from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.cluster import ClusterAxi
from xpulpnn.cluster.axi.host import AxiHost
from xpulpnn.cluster.cluster import Cluster
from xpulpnn.cluster.debug import ClusterDebug
from xpulpnn.cluster.dma.unit import Dma
from xpulpnn.cluster.event_unit.unit import EventUnit
from xpulpnn.cluster.icache.unit import InstructionCache
from xpulpnn.cluster.ports import DmaPortSignature, RefillSignature
from xpulpnn.cluster.tcdm.tcdm import Tcdm
from xpulpnn.config import EXT_DATA_BITS, ClusterConfig, CoreConfig
from xpulpnn.core.backend import Backend
from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.decoder import Decoder
from xpulpnn.core.div import Divider
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.gated_core import core_of
from xpulpnn.core.obi import ObiSignature
from xpulpnn.core.quantiser import Quantiser
from xpulpnn.core.requantiser import Requantiser
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.core.wide_mult import multiplier_of
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.core_debug import CoreDebug
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.module import DebugModule
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.errors import ConfigError, require
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn.wishbone.cluster import ClusterWishbone
from xpulpnn.xif.config import XifConfig
from xpulpnn.xif.coprocessor import Coprocessor
from xpulpnn_sim.tools.component_names import XIF
from xpulpnn_sim.tools.on_bus import ClusterOnWishbone, CoreBehindBus


def _nnrf(config: CoreConfig) -> wiring.Component:
    require(config.mac_load, "mac_load_nn or mac_load_cu must be true for nnrf, not both false", ConfigError)
    return NnRf(config.nnrf_entries, pairs=config.mac_load_pair, reads_factor=config.reads_factor)


def _icache(config: ClusterConfig) -> wiring.Component:
    if not config.icache_private:
        raise ConfigError("icache_private must be the size of each core's cache in bytes for icache, not 0")
    return InstructionCache(config)


TOPS: Mapping[str, Callable[[CoreConfig], wiring.Component]] = {
    "dotp": lambda config: DotpUnit(config.dotp),
    "nnrf": _nnrf,
    "simd-alu": SimdAlu,
    "mult": multiplier_of,
    "ex-stage": ExStage,
    "backend": Backend,
    "core": core_of,
    "core-debug": lambda config: CoreDebug(replace(config, debug=True)),
}
"""Constructors of core components, by name on the command line."""

_UNITS: Mapping[str, Callable[[CoreConfig], wiring.Component]] = {
    **{f"core-on-{bus}": partial(CoreBehindBus, bus=bus) for bus in BUSES},
    **{f"core-on-{bus}-clint": partial(CoreBehindBus, bus=bus, clint=True) for bus in BUSES},
    "compressed-decoder": lambda _config: CompressedDecoder(),
    "decoder": Decoder,
    "div": lambda _config: Divider(),
    "quantiser": Quantiser,
    "requantiser": Requantiser,
}
"""Constructors of core units that are proved or simulated but not generated."""

CLUSTER_TOPS: Mapping[str, Callable[[ClusterConfig], wiring.Component]] = {
    "cluster": Cluster,
    "tcdm": lambda config: Tcdm(config, config.masters),
    "event-unit": EventUnit,
    "dma": Dma,
    "icache": _icache,
    "cluster-axi": ClusterAxi,
    "cluster-debug": lambda config: ClusterDebug(replace(config, core=replace(config.core, debug=True))),
    "axi-ext": lambda _config: AxiBridge(ObiSignature()),
    "axi-dma": lambda config: AxiBridge(DmaPortSignature(), config.ext_data_bits),
    "axi-refill": lambda _config: AxiBridge(RefillSignature(), EXT_DATA_BITS),
    "axi-host": lambda config: AxiHost(config.host_id_bits),
    "cluster-wishbone": ClusterWishbone,
    **{f"core-{bus}": partial(CoreOnBus, bus=bus) for bus in BUSES},
}
"""Constructors of cluster components, by name on the command line."""

_CLUSTER_UNITS: Mapping[str, Callable[[ClusterConfig], wiring.Component]] = {"cluster-on-wishbone": ClusterOnWishbone}
"""Constructors of cluster designs that are simulated but not generated."""

DEBUG_TOPS: Mapping[str, Callable[[DebugConfig], wiring.Component]] = {"dm": DebugModule, "jtag-dtm": JtagDtm}
"""Constructors of debug components, by name on the command line."""

XIF_TOPS: Mapping[str, Callable[[XifConfig], wiring.Component]] = {XIF: Coprocessor}
"""Constructor of the coprocessor, by name on the command line."""

AnyConfig = CoreConfig | ClusterConfig | DebugConfig | XifConfig


def component_of(name: str, config: AnyConfig) -> wiring.Component:
    if isinstance(config, ClusterConfig):
        return {**CLUSTER_TOPS, **_CLUSTER_UNITS}[name](config)
    if isinstance(config, DebugConfig):
        return DEBUG_TOPS[name](config)
    if isinstance(config, XifConfig):
        return XIF_TOPS[name](config)
    return {**TOPS, **_UNITS}[name](config)


def emit_top(name: str, config: AnyConfig, *, reset_sync: bool = False, **options: Any) -> EmittedVerilog:
    """Emit a component as the module ``name``; the other options are those of :func:`xpulpnn.verilog.emit`."""
    if reset_sync and isinstance(config, CoreConfig):
        config = replace(config, test_en=True)
    elif reset_sync and isinstance(config, ClusterConfig):
        config = replace(config, core=replace(config.core, test_en=True))
    component = component_of(name, config)
    used = {field: getattr(config, field) for field in getattr(component, "USED", ())}
    component = ReleasedInStep(component) if reset_sync else component
    return emit(component, name.replace("-", "_"), config=used or config, **options)
