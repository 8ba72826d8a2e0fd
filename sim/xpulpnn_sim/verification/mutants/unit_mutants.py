"""Put all mutants of a unit into a design with an input that selects one; run the unit's bench on each mutant."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from amaranth.utils import exact_log2

import xpulpnn_sim.benches.agents
import xpulpnn_sim.benches.vectors
from xpulpnn.cluster.axi.bridge import OUTSTANDING
from xpulpnn.cluster.ports import RUN_BYTES
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, XLEN
from xpulpnn_sim.benches.launcher_data import configured
from xpulpnn_sim.benches.runner import ports_of, require_passed, run_bench
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.proofs.mutants import mutant_comparison
from xpulpnn_sim.proofs.mutants.mutant_comparison import Handshake, InputCase, InputConstraints, StableInputs
from xpulpnn_sim.proofs.mutants.mutated_gates import SELECT, read_mutated
from xpulpnn_sim.proofs.mutants.unit_constraints import CONSTRAINTS
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sim.tools.yosys import Yosys, find_abc
from xpulpnn_sim.verification.mutants import judgement
from xpulpnn_sim.verification.mutants.judgement import Judged, Mutant, MutantProver, MutationSettings, Progress, Proof

_SEEN_WITH: Mapping[str, Sequence[str]] = {
    "req": ("addr", "we", "be", "beats"),
    "rvalid": ("rdata", "err"),
    "arvalid": ("arid", "araddr", "arlen", "arsize", "arburst", "arlock", "arcache", "arprot"),
    "awvalid": ("awid", "awaddr", "awlen", "awsize", "awburst", "awlock", "awcache", "awprot"),
    "wvalid": ("wdata", "wstrb", "wlast"),
}
"""By last part of the port name: request or valid signals, with the signals that matter only while they are 1."""

_WRITTEN = ("req", "we", "wdata")
_REQUEST = ("addr", "we", "be", "wdata", "beats")
_PAYLOAD = "payload"

_HALF_WORD = tuple(f"word[{place}]" for place in range(HALF_BITS))

_OF_UNITS: Mapping[str, Sequence[tuple[Mapping[str, set[int]], Sequence[str]]]] = {
    # of a compressed instruction the upper half means nothing
    "prefetch": (({"valid": {1}}, (*_HALF_WORD, "error")), ({"valid": {1}, "compressed": {0}}, ("word",))),
    "hwloops": (({"if_back": {1}}, ("if_start",)), ({"id_valid": {1}}, ("hold", "wrong", "id_next"))),
    "quantiser": (({"start": {1}}, ("done",)), ({"request": {1}}, ("address",)), ({"done": {1}}, ("result",))),
    "word_bridge": (
        ({"bus__stb": {1}}, [f"bus__{name}" for name in ("adr", "we", "sel", "cti", "dat_w")]),
        ({"bus__htrans": {2, 3}}, [f"bus__{name}" for name in ("haddr", "hwrite", "hsize", "hburst")]),
    ),
    "axi_bridge": (({"axi__rvalid": {1}}, ("axi__rready",)), ({"axi__bvalid": {1}}, ("axi__bready",))),
    "decoder": (({"illegal": {0}}, ("ctrl", "quantise", "requantise", "pair")),),
}
"""For units with other port names, by bench: port values, and the ports or bits that matter only with these values."""

_ALLOWED: Mapping[str, Sequence[Mapping[str, set[int]]]] = {
    "prefetch": ({"take": {0}}, {"valid": {1}}),
    "quantiser": ({"granted": {0}}, {"request": {1}}),
    # nothing leaves ID with a fault, and while what was counted is given back
    "hwloops": ({"fault": {0}, "gives_back": {0}}, {"id_leaves": {0}}),
}
"""Port values, by bench of a unit; in every cycle at least one of the listed sets of values is present."""

_HELD: Mapping[str, StableInputs] = {"quantiser": StableInputs(("crumbs", "pixels", "middle"), "start", ("done",))}
"""Inputs that are stable during an operation, by bench of a unit."""

_RUN = RUN_BYTES * BYTE_BITS // EXT_DATA_BITS  # transfers of a run at most

_UNDER_WAY: dict[str, str] = dict.fromkeys(("axi-dma", "axi-ext"), "order.level")
_UNDER_WAY |= dict.fromkeys(("axi-refill", "axi-fetches", "axi-lines"), "under_way")
"""Registers that count outstanding transfers, by unit; while the register is 0, the unit gets no responses."""

# benches of units whose initiators ask for words by their byte addresses
_WORDS = ["axi_bridge", "core_demux", "debug_module", "dma", "event_unit", "obi_mux", "icache", "private_cache", "tcdm"]

_ALONE = ("core_demux", "obi_mux")  # benches of units whose initiators have one request outstanding at most


def handshakes_of(bench: str, inputs: Collection[str], outputs: Collection[str], bits: int = XLEN) -> InputConstraints:
    """Return constraints: when each output is observed, and which inputs are stable or depend on others."""
    pairs = list(_qualified_outputs(outputs)) + [
        (values, tuple(name for name in payload if name.partition("[")[0] in outputs))
        for values, payload in _OF_UNITS.get(bench, ())
    ]
    guarded = {name for _, payload in pairs for name in payload}
    always = tuple(name for name in outputs if name not in guarded)
    held = [
        StableInputs(tuple(f"{bundle}{part}" for part in _REQUEST if f"{bundle}{part}" in inputs), name, gnt)
        for name in inputs
        for bundle in [name.removesuffix("req")]
        for gnt in [(f"{bundle}gnt",)]
        if name.endswith("__req") and gnt[0] in outputs
    ]
    held += [_HELD[bench]] if bench in _HELD else []
    alone = list(_ports(inputs, outputs)) if bench in _ALONE else []
    rows = [_ALLOWED[bench]] if bench in _ALLOWED else []
    requests = [name.removesuffix("req") for name in inputs if name.endswith("__req")]
    rows += [({f"{bundle}req": {0}}, *_bursts(bundle)) for bundle in requests if f"{bundle}beats" in inputs]
    rows += [
        ({f"{bundle}req": {0}}, {f"{bundle}addr[{bit}]": {0} for bit in range(exact_log2(bits // BYTE_BITS))})
        for bundle in requests
        if bench in _WORDS and f"{bundle}addr" in inputs
    ]
    looks = [({}, always), *(look for look in pairs if look[1])] if pairs else []
    return InputConstraints(
        [InputCase(values, seen) for values, seen in looks],
        always=rows,
        stable=held,
        answered=list(_ports(outputs, inputs)),
        exclusive=alone,
    )


def _bursts(bundle: str) -> Iterator[Mapping[str, set[int]]]:
    """Yield the bursts that stay in an aligned block: address bits of the first beat, and possible numbers of beats."""
    low = exact_log2(EXT_DATA_BITS // BYTE_BITS)
    for place in range(_RUN):
        bits = {f"{bundle}addr[{low + bit}]": {place >> bit & 1} for bit in range(exact_log2(_RUN))}
        yield {**bits, f"{bundle}beats": {*range(1, _RUN - place + 1)}}


def _ports(requesting: Collection[str], answering: Collection[str]) -> Iterator[Handshake]:
    """Yield the OBI handshakes whose request is in ``requesting``, except those with several responses to a request."""
    for name in requesting:
        bundle = name.removesuffix("req")
        port = Handshake(name, f"{bundle}gnt", f"{bundle}rvalid")
        several = f"{bundle}beats" in requesting
        if name.endswith("__req") and not several and {*port[1:]} <= set(answering):
            yield port


def _qualified_outputs(outputs: Collection[str]) -> Iterator[tuple[dict[str, set[int]], tuple[str, ...]]]:
    """Yield conditions such as ``valid`` = 1, each with the outputs that are observed only while it holds."""
    for name in outputs:
        bundle, _, last = name.rpartition("__")
        if bundle and last in _SEEN_WITH:
            payload = tuple(f"{bundle}__{part}" for part in _SEEN_WITH[last] if f"{bundle}__{part}" in outputs)
            if payload:
                yield {name: {1}}, payload
        if bundle and last == _WRITTEN[0] and f"{bundle}__{_WRITTEN[2]}" in outputs:
            yield {f"{bundle}__{part}": {1} for part in _WRITTEN[:2]}, (f"{bundle}__{_WRITTEN[2]}",)
        if bundle and last == "valid":
            payload = tuple(other for other in outputs if other.startswith(f"{bundle}__{_PAYLOAD}__"))
            if payload:
                yield {name: {1}}, payload


_SHOWN_PORTS = 12

_OCCURS: Mapping[str, Sequence[str]] = {
    "alu": ("alu",),
    "simd-alu": ("simd-alu",),
    "mult": ("mult", "mult-inferred", "mult-late", "mult-wide", "mult-wide-inferred", "mult-dot-product"),
    "div": ("div",),
    "lsu": ("lsu",),
    "requantiser": ("requantiser", "requantiser-exact"),
    "widener": ("widener",),
    "dotp": tuple(name for name in UNITS if name.startswith("dotp-")),
    "nnrf": ("nnrf-6", "nnrf-pairs"),
    "ex-stage": ("ex-stage",),
}
"""Units whose possible inputs are known, by the name of the constraints on these inputs."""

_CORES = {"nnrf-6": "xpulpnn", "nnrf-pairs": "xpulpnn3"}  # around units that have no configuration


def occurring_at(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> InputConstraints:
    unit = UNITS[name]
    for what, units in _OCCURS.items():
        if name in units:
            return CONSTRAINTS[what](configured(_CORES.get(name, unit.design)))
    constraints = handshakes_of(unit.bench, inputs, outputs, unit.parameters.get("bits", XLEN))
    answers = [port for port in ("axi__rvalid", "axi__bvalid") if name in _UNDER_WAY and port in inputs]
    some = {*range(1, OUTSTANDING + 1)}
    rows = [({port: {0}}, {_UNDER_WAY[name]: some}) for port in answers]
    return replace(constraints, always=[*constraints.always, *rows])


def _compared(judge: mutant_comparison.MutantComparer, waiting: Sequence[Mutant]) -> Iterator[tuple[Mutant, Proof]]:
    for mutant in waiting:
        comparison = judge.compare(mutant.number)
        verdict = comparison.verdict
        if verdict == judgement.EQUIVALENT and comparison.scope != mutant_comparison.UNCONSTRAINED:
            is_legal = judge.assumes or comparison.scope != mutant_comparison.REACHABLE
            verdict = judgement.LEGAL if is_legal else judgement.EQUIVALENT
        yield mutant, Proof(verdict=verdict, example=_shown(comparison) if comparison.counterexample else "")


def _shown(comparison: mutant_comparison.MutantComparison) -> str:
    """Format the last cycle of a counterexample: the inputs that are not 0, and the wrong signal."""
    cycles: Sequence[Mapping[str, int]] = comparison.counterexample
    given = [f"{name}={value:#x}" for name, value in cycles[-1].items() if value]
    more = ["..."] if len(given) > _SHOWN_PORTS else []
    what = " ".join([*given[:_SHOWN_PORTS], *more]) or "all inputs 0"
    return f"cycle {len(cycles)}: {what}: {comparison.signal} ({comparison.scope})"


_PLACES_PER_MUTANT = 2


def judge_unit(
    unit: str,
    settings: MutationSettings,
    bench_seed: int,
    folder: Path,
    yosys: Yosys,
    *,
    resume: bool,
    progress: Progress,
) -> list[Judged]:
    benched = UNITS[unit]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / judgement.RESULT).unlink(missing_ok=True)
    emitted = benched.emit()
    top, width = emitted.manifest["top"], settings.count.bit_length()
    commands = judgement.find_places(
        benched.make(), top, folder, yosys, places=_PLACES_PER_MUTANT * settings.count, seed=settings.seed
    )
    lines = judgement.places(commands)[: settings.count]
    mutants = tuple(judgement.mutant_of(number, line) for number, line in enumerate(lines, start=1))
    changed = judgement.apply_all(mutants, lambda mutant: f"{SELECT} {width} {mutant.number}", top, folder, yosys)
    inputs, outputs = ports_of(emitted, "input"), ports_of(emitted, "output")
    ports = [*emitted.manifest["ports"], {"name": SELECT, "direction": "input", "width": width, "meaning": ""}]
    manifest = {**emitted.manifest, "ports": ports}
    design = replace(emitted, modules={top: f"{judgement.LINT_OFF}\n{changed}"}, manifest=manifest)
    verdicts, proofs = (Results(folder / name, fresh=not resume) for name in ("verdicts", "proofs"))
    bench_settings = {"bench": f"xpulpnn_sim.benches.bench_{benched.bench}", "inputs": inputs, **benched.describe()}
    facts = json.dumps([bench_settings, bench_seed, settings.limit_s], default=list)
    key = digest(design.text, facts)
    prover = None
    if settings.proof_s:
        changes = {mutant.number: mutant.command for mutant in mutants}
        gates = read_mutated(folder / judgement.BASE, top, changes, yosys)
        occurring = occurring_at(unit, inputs, outputs)
        whole = cache(lambda: read_mutated(folder / judgement.BASE, top, changes, yosys, whole_memories=True))
        proof = mutant_comparison.MutantComparer(
            gates=gates,
            abc=find_abc(),
            timeout_s=settings.proof_s,
            constraints=occurring,
            moves_rows=lambda number: whole().moves_rows(number),
        )
        prover = MutantProver(mutants, proofs, key, settings.proof_s, lambda _: gates, partial(_compared, proof))
    benches = digest(xpulpnn_sim.benches, xpulpnn_sim.benches.agents, xpulpnn_sim.benches.vectors)

    def run(waiting: Sequence[int]) -> None:
        work = {"mutants": waiting, "jobs": settings.jobs, "limit_s": settings.limit_s, "select": SELECT}
        outcome = run_bench(
            design,
            unit,
            "verilator",
            cache=folder.parent / "models",
            results=folder / "bench",
            seed=bench_seed,
            data={**bench_settings, **work, "verdicts": str(verdicts.folder.absolute()), "key": key, "tests": benches},
            module="mutants",
        )
        require_passed(outcome, unit, "verilator", bench_seed)

    # the number of the unit itself is 0
    return judgement.judge(mutants, verdicts, key, benches, run, prover, progress, also=[0])
