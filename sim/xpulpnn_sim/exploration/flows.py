"""Steps of a point: run a synthesis flow, measure cycles of a kernel on the RTL, or estimate its energy on gates."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from xpulpnn.config import ClusterConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn.errors import InputError, LayerError, XpulpnnError, require
from xpulpnn.field_values import apply_settings
from xpulpnn.isa.machine import Interrupt
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import check_cluster_case, run_kernel
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sim.exploration.asic import AsicFlow
from xpulpnn_sim.exploration.cluster_flow import ClusterFlow, extract_module
from xpulpnn_sim.exploration.energy.programs import GENERAL_CODE, SLEEP_CYCLES, general_code, sleeping
from xpulpnn_sim.exploration.fpga import DEVICE_FAMILIES, FpgaFlow
from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.library import SCRIPTS, Library, load_corners
from xpulpnn_sim.exploration.memories import memory_table
from xpulpnn_sim.exploration.options import FLOWS, SMALL_LAYERS, ExploreOptions
from xpulpnn_sim.exploration.placement import Placer, default_row_um
from xpulpnn_sim.exploration.results import Configuration, EmittedDesign, Flow, cached_flow, emit_design
from xpulpnn_sim.exploration.space import WHOLE_CLUSTERS, plain_key
from xpulpnn_sim.exploration.task import PointStep, StepOutcome
from xpulpnn_sim.tools.component_names import CLUSTER_NAMES
from xpulpnn_sim.tools.name_lists import select_names
from xpulpnn_sim.tools.yosys import find_yosys
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import ConvLayer, Layer, MatmulLayer

WINDOW_CYCLES = 4096  # default number of clock cycles whose switching is counted
_WIDTHS = ("16", "8", "4", "2")
_PARTS = 3
FASTEST = "fastest"  # the fastest variant that a configuration can run
_MOST_CYCLES = 1 << 40
_ONE_CORE = "The program runs on one core of the cluster, by itself; nothing else of the cluster is in it."


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    layer: Layer  # convolution or MatMul
    bits: int  # operand width
    variant: str  # implementation, or FASTEST

    @property
    def kernel(self) -> str:
        return "conv" if isinstance(self.layer, ConvLayer) else "matmul"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``KERNEL:BITS[:VARIANT[:LAYER]]``; raise :class:`InputError`."""
        parts = text.split(":", _PARTS)
        if len(parts) < 2:
            raise InputError(f"kernel must be KERNEL:BITS[:VARIANT[:LAYER]] such as matmul:8, not {text or 'empty'}")
        kernel, bits, variant = [*parts, FASTEST][:_PARTS]
        for what, value, known in (
            ("kernel", kernel, tuple(SMALL_LAYERS)),
            ("bits", bits, _WIDTHS),
            ("variant", variant, (FASTEST, *VARIANTS)),
        ):
            require(value in known, f"{what} of kernel must be one of {', '.join(known)}, not {value or 'empty'}")
        written = parts[_PARTS] if len(parts) > _PARTS else SMALL_LAYERS[kernel]
        try:
            layer = ConvLayer.parse(written) if kernel == "conv" else MatmulLayer.parse(written)
        except LayerError as error:
            raise InputError(f"kernel {text}: {error}") from None
        return cls(layer=layer, bits=int(bits), variant=variant)

    def __str__(self) -> str:
        return f"{self.kernel}:{self.bits}:{self.variant}:{self.layer}"

    def for_config(self, config: Configuration) -> Self:
        """Return the kernel with FASTEST replaced by the fastest variant that ``config`` runs; InputError if none."""
        if self.variant != FASTEST:
            return self
        named = (replace(self, variant=name) for name in reversed(list(VARIANTS)))
        fastest = next((spec for spec in named if not spec.obstacle(config)), None)
        if fastest is None:
            raise InputError(f"no variant of it computes with {self.bits} bit on this configuration")
        return fastest

    def case(self, config: Configuration) -> Case:
        assert not isinstance(config, DebugConfig | XifConfig)
        return Case(
            layer=self.layer,
            precision=find_kernel(self.kernel).uniform(self.bits),
            variant=self.variant,
            config=simulated(replace(config, rvfi=False)),
            machine=Machine(max_cycles=_MOST_CYCLES) if isinstance(config, ClusterConfig) else Machine(),
        )

    def obstacle(self, config: Configuration) -> str:
        """Return why a configuration cannot run the kernel; empty if it can."""
        try:
            case = self.for_config(config).case(config)
            (check_cluster_case if isinstance(config, ClusterConfig) else Case.check)(case)
        except XpulpnnError as error:
            return str(error)
        return ""


def kernel_step(spec: KernelSpec) -> PointStep:
    return PointStep(str(spec), "kernels", partial(dict[str, str], kernel=str(spec)), partial(_run_kernel, spec))


def _run_kernel(spec: KernelSpec, design: EmittedDesign) -> StepOutcome:
    result = run_kernel(spec.case(design.config))
    wrong = result.record["mismatches"]
    error = f"results must equal the reference, not differ {wrong} times" if wrong else ""
    return StepOutcome(result=result.record, error=error)


SLEEP, SLEEP_GATED = "sleep", "sleep behind a clock gate"
PROGRAMS = {"general": (GENERAL_CODE,), "sleep": (SLEEP, SLEEP_GATED)}  # programs of options for energies


def energy_step(
    library: Library, spec: KernelSpec | str, *, core: bool = False, yosys: str = "", window: int = WINDOW_CYCLES
) -> PointStep:
    """Return the step for the energy of a kernel, on the back end alone unless ``core``, or of a named program."""
    run = partial(_run_energy, library, spec, core=core, yosys=yosys, window=window)
    settings = partial(_energy_settings, library, core=core, yosys=yosys, window=window)
    return PointStep(f"energy of {spec}", "energies", settings, run)


def _energy_settings(library: Library, *, core: bool, yosys: str, window: int) -> dict[str, str]:
    described = {"library": library.sha256, **library.wire_settings}
    return {**find_yosys(yosys).tools, **described, "core": str(core), "window": str(window)}


def _run_energy(
    library: Library, spec: KernelSpec | str, design: EmittedDesign, *, core: bool, yosys: str, window: int
) -> StepOutcome:
    from xpulpnn_sim.exploration.energy.cluster import cluster_workload
    from xpulpnn_sim.exploration.energy.estimate import estimate_energy, kernel_workload, program_workload

    assert not isinstance(design.config, DebugConfig | XifConfig)
    config = design.config.core
    if isinstance(spec, KernelSpec):
        config = design.config
        case = replace(spec.case(config), config=config)
        if isinstance(config, ClusterConfig):
            workload = cluster_workload(case, memory_table(library))
        else:
            workload = kernel_workload(case, "core" if core else "backend")
    elif spec == GENERAL_CODE:
        workload = program_workload(general_code(), config, Machine())
    else:
        config = replace(config, clock_gate=spec == SLEEP_GATED)
        woken = Machine(irqs=((SLEEP_CYCLES, Interrupt.EXTERNAL),))
        workload = program_workload(sleeping(spec, Interrupt.EXTERNAL), config, woken)
    result, files, known = estimate_energy(config, workload, library, window, yosys)
    if isinstance(design.config, ClusterConfig) and workload.top != "cluster":
        result = replace(result, conditions=[_ONE_CORE, *result.conditions])
    return StepOutcome(result=result, cached=known, files=files)


INFERRED: Mapping[str, str] = {"multipliers": "replicated", "adders": "inferred", "multiplier": "inferred"}
"""Structures for FPGAs, whose tools infer DSP blocks and carry chains only from plain operators."""

_NS_MHZ = 1e3
_CLOCK = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+) *(?P<unit>ns|mhz|)", re.IGNORECASE)


def parse_clock(text: str) -> float:
    """Parse ``5``, ``5ns`` or ``200MHz`` to a period in ns; raise :class:`InputError`."""
    match = _CLOCK.fullmatch(text.strip())
    number = float(match["number"]) if match else 0.0
    if match is None or not number:
        raise InputError(f"clock must be a positive period in ns or a frequency such as 200MHz, not {text or 'empty'}")
    return _NS_MHZ / number if match["unit"].lower() == "mhz" else number


def flow_step(flow: Flow, fixed: Collection[str] = ()) -> PointStep:
    """Return the step that runs a synthesis flow; for ECP5, it changes structures that are not in ``fixed``."""
    structures = {key: value for key, value in INFERRED.items() if flow.name == "ecp5" and key not in fixed}
    name = f"{flow.name}-{flow.script}" if flow.script else flow.name
    return PointStep(name, "flows", partial(_flow_settings, flow, structures), partial(_run_flow, flow, structures))


def _flow_settings(flow: Flow, structures: Mapping[str, str]) -> dict[str, str]:
    return {**flow.settings(), **structures}


def _run_flow(flow: Flow, structures: dict[str, str], design: EmittedDesign) -> StepOutcome:
    is_part = design.top in CLUSTER_NAMES and design.top not in WHOLE_CLUSTERS
    changed = extract_module(design, design.module) if is_part else design
    if structures:
        changed = emit_design(design.top, apply_settings(design.config, structures))
    output, hit = cached_flow(flow, changed)
    if not structures or changed.code == design.code:
        return StepOutcome(result=output.result, cached=hit, files=output.files)
    listed = ", ".join(f"{key}={value}" for key, value in structures.items())
    text = f"Structures: {listed}, as this FPGA wants them, whatever the preset has; settings can choose others."
    result = replace(output.result, structures=structures, conditions=[text, *output.result.conditions])
    return StepOutcome(result=result, cached=hit, files={f"{design.top}.v": changed.verilog, **output.files})


def libraries(options: ExploreOptions) -> list[Library]:
    """Return the libraries of the corners, the one to map for first; the built-in library without a file."""
    corners = load_corners(options.liberty) if options.liberty else [generic_library()]
    for corner in corners:
        corner.memory_files = options.memories
    memory_table(corners[0])
    if not options.placement:
        return corners
    placer = Placer(
        row_um=options.row_height or default_row_um(corners[0].ge_area),
        utilisation=options.utilisation,
        wire_ff_um=options.wire_capacitance,
        seeds=options.seeds,
    )
    return [corner.with_placement(placer) for corner in corners]


def flow_steps(options: ExploreOptions) -> list[PointStep]:
    names = select_names(options.flow or ("asic" if options.liberty else "builtin"), FLOWS, "flow")
    require(options.liberty or "asic" not in names, "liberty must be given for the flow asic")
    other = next((name for name in names if name != "asic"), None)
    require(not options.placement or other is None, f"flow must be asic with placement, not {other}")
    script = "both" if options.paper else options.script or SCRIPTS[0]
    clock_ns, top = None if options.clock is None else parse_clock(options.clock), options.component
    chosen = [text.partition("=")[0].strip() for text in (*options.settings, *options.sweep)]
    if options.search is not None and not options.sweep:
        chosen += INFERRED
    flows: list[Flow] = []
    for name in names:
        if name in DEVICE_FAMILIES:
            require(top not in CLUSTER_NAMES, f"flow must be asic or builtin for {top}, not {name}")
            flows.append(FpgaFlow(name, options.seeds, clock_ns=clock_ns, yosys=options.yosys))
            continue
        corners = libraries(replace(options, liberty=()) if name == "builtin" else options)
        cells, *others = [corner.with_wires(options.wire_load) for corner in corners]
        keep = top in WHOLE_CLUSTERS
        for script_name in SCRIPTS if script == "both" else (script,):
            settings = {"repeat": options.repeat, "clock_ns": clock_ns, "yosys": options.yosys, "keep": keep}
            flow = AsicFlow(cells, name, script_name, other_corners=others, **settings)
            flows.append(ClusterFlow(flow) if keep else flow)
    return [flow_step(flow, [*map(plain_key, chosen)]) for flow in flows]
