"""Compare each emitted Verilog module with Amaranth's RTLIL of the same component."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from xpulpnn.emit.names import port_name
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.proofs.emitter import correspondence
from xpulpnn_sim.proofs.emitter.correspondence import ModuleLogic, NetDifference, Pair, Pin, Prover
from xpulpnn_sim.proofs.engine import solvers
from xpulpnn_sim.proofs.engine.clocked_gates import netlists
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.proofs.engine.outcomes import VACUOUS, Outcome
from xpulpnn_sim.proofs.engine.solvers import GaveUpError
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, UNDECIDED
from xpulpnn_sim.tools.yosys import find_yosys

_INSTANCE = re.compile(r"^\s*cell \\(?P<type>\S+) \\(?P<name>\S+)$", re.MULTILINE)
_RTLIL_HEAD = re.compile(r"^module \\\S+$", re.MULTILINE)
_PASSES = """proc
memory_collect
memory_map
dffunmap -ce-only
pmuxtree
bmuxmap
simplemap t:* t:$*latch* t:$sr %u %d
techmap t:$sh* t:$lt t:$le t:$gt t:$ge
simplemap t:* t:$*latch* t:$sr %u %d
clean
"""
# RTLIL is read before the Verilog, whose modules may have other ports: clean would drop what drives unknown ports.
_SCRIPT = f"""read_rtlil definition.il
{_PASSES}
design -stash definitions
read_verilog image.v
{_PASSES}
design -copy-from definitions *
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmissionSource:
    name: str  # Verilog module
    rtlil: str  # text of one module
    verilog: str  # text of one module
    instances: tuple[tuple[str, str], ...]  # name and module of each instance, in Verilog order
    ports: tuple[tuple[str, str, str], ...]  # module, port and direction of all submodules


def emission_sources(design: EmittedVerilog) -> list[EmissionSource]:
    """Return the modules of a design; a module that several components share occurs once for each distinct RTLIL."""
    modules = design.manifest["modules"]
    sources: list[EmissionSource] = []
    for name, described in modules.items():
        instances = tuple(described["instances"].items())
        ports = tuple(
            (module, port["name"], port["direction"])
            for module in dict.fromkeys(module for _, module in instances)
            for port in modules[module]["ports"]
        )
        sources += [
            EmissionSource(name=name, rtlil=rtlil, verilog=design.modules[name], instances=instances, ports=ports)
            for rtlil in design.rtlil[name]
        ]
    return sources


Elaborated = tuple[EmissionSource, ModuleLogic, ModuleLogic]  # source, logic of the RTLIL, and logic of the Verilog


def elaborate(sources: Sequence[EmissionSource]) -> Iterator[Elaborated]:
    """Yield the logic of the modules of a design; raise :class:`ToolError` if Yosys rejects RTLIL or Verilog."""
    definitions = [f"{source.name}$definition{number}" for number, source in enumerate(sources)]
    renamed = zip(definitions, sources, strict=True)
    rtlil = [_RTLIL_HEAD.sub(lambda _, new=new: f"module \\{new}", source.rtlil) for new, source in renamed]
    verilog = {source.name: source.verilog for source in sources}
    files = {"definition.il": "\n".join(rtlil), "image.v": "\n".join(verilog.values())}
    names = [*definitions, *(source.name for source in sources)]
    read = netlists(_SCRIPT, files, names, find_yosys(), "the emitted modules")
    for source, definition, image in zip(sources, read[: len(sources)], read[len(sources) :], strict=True):
        directions: dict[str, dict[str, str]] = {module: {} for _, module in source.instances}
        for module, port, direction in source.ports:
            directions[module][port] = direction
        yield source, ModuleLogic(definition, _rtlil_directions(directions)), ModuleLogic(image, directions)


def _rtlil_directions(directions: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {
        module: {port.removesuffix(end): direction for port, direction in ports.items() for end in ("_n", "_", "")}
        for module, ports in directions.items()
    }


def prove_emission(elaborated: Elaborated, *, timeout_s: float, initial: bool = True) -> Outcome:
    """Prove that RTLIL and Verilog of a module are equivalent, or find a difference.

    The facts of the outcome are ``bits`` (number of bits of outputs, registers and submodule inputs) and
    ``bits_by_sat`` (number that the SAT solver decided); ``reason`` and ``counterexample`` describe a difference.
    """
    began = time.monotonic()
    source, definition, _ = elaborated
    bits_by_sat = 0

    def prover(graph: GateGraph, pairs: Sequence[tuple[int, int]]) -> frozenset[int] | None:
        nonlocal bits_by_sat
        bits_by_sat = len(pairs)
        words = ([literal for literal, _ in pairs], [other for _, other in pairs])
        return solvers.prove_equal(graph, words, timeout_s=int(timeout_s), sweep=True)

    verdict, reason, difference = _compare(elaborated, initial, prover)
    if verdict == UNDECIDED:
        reason = f"the SAT solver must decide {bits_by_sat} bits in {timeout_s:g} s, but did not"
    given = ", ".join(f"{name}={value:#x}" for name, value in difference.given.items()) if difference else ""
    bits = sum(map(len, definition.outputs.values())) + len(definition.registers)
    example = difference and asdict(difference)
    return Outcome(
        name=source.name,
        verdict=verdict,
        seconds=time.monotonic() - began,
        method="same gates" + (f", SAT for {bits_by_sat} bits" if bits_by_sat else ""),
        parts=(reason + (f" when {given}" if given else ""),) if reason else (),
        facts={"bits": bits, "bits_by_sat": bits_by_sat, "reason": reason, "counterexample": example},
    )


def _compare(elaborated: Elaborated, initial: bool, prover: Prover) -> tuple[str, str, NetDifference | None]:
    _, definition, _ = elaborated
    try:
        difference = correspondence.net_difference(_task(elaborated, initial), prover)
    except _UnequalError as error:
        return DIFFERENT, str(error), None
    except GaveUpError:
        return UNDECIDED, "", None
    if difference is None:
        if any(definition.outputs.values()) or definition.registers:
            return EQUAL, "", None
        return VACUOUS, "it must have an output or a register, but has none", None
    alone = f" (no register of the Verilog is {', '.join(difference.alone)})" if difference.alone else ""
    text = f"{difference.signal} is {difference.actual:#x}, must be {difference.expected:#x}{alone}"
    return DIFFERENT, text, difference


class _UnequalError(Exception): ...


def _task(elaborated: Elaborated, initial: bool) -> correspondence.CorrespondenceTask:
    source, definition, image = elaborated
    names = _instances(source, image.instances)
    return correspondence.CorrespondenceTask(
        definition=definition,
        image=image,
        inputs=list(_pairs(definition.inputs, image.inputs, names, required=False)),
        outputs=list(_pairs(definition.outputs, image.outputs, names, required=True)),
        starts=initial,
    )


def _instances(source: EmissionSource, emitted: Mapping[str, str]) -> dict[str, str]:
    """Return the Verilog name of each instance in RTLIL; the empty name stands for the module itself."""
    written = {match["name"]: match["type"] for match in _INSTANCE.finditer(source.rtlil)}
    order = [name for name, _ in source.instances if name in emitted]
    if sorted(written.values()) != sorted(emitted.values()) or len(order) != len(emitted):
        raise _UnequalError(f"instances must be of {sorted(written.values())}, not of {sorted(emitted.values())}")
    if written == emitted:
        return {"": "", **{name: name for name in written}}
    names = {"": ""}
    for module in set(written.values()):
        instances = [name for name, kind in written.items() if kind == module]
        names.update(zip(instances, (name for name in order if emitted[name] == module), strict=True))
    return names


def _pairs(
    definition: Mapping[Pin, list[int]], image: Mapping[Pin, list[int]], names: Mapping[str, str], *, required: bool
) -> Iterator[Pair]:
    """Yield pairs of corresponding ports; without ``required``, ports of instances may lack a counterpart."""
    left = set(image)
    for (instance, port), nets in definition.items():
        if not nets:
            continue
        place = names[instance]
        # top ports may have single underscores, and an active-low reset
        spellings = [port_name(port)] + [port_name(port, "_")] * (not instance)
        candidates = [(place, name) for name in spellings + [f"{port}_n"] * port.endswith("rst")]
        pin = next((pin for pin in candidates if pin in image), None)
        if pin is None:
            if required or not instance:
                raise _UnequalError(f"port {port} of {instance or 'the module'} must be connected")
            continue
        if len(image[pin]) != len(nets):
            where = instance or "the module"
            raise _UnequalError(f"{pin[1]} of {where} must have {len(nets)} bits, not {len(image[pin])}")
        left.discard(pin)
        yield Pair(definition=(instance, port), image=pin, inverted=pin[1] == f"{port}_n")
    if left:
        instance, port = min(left)
        raise _UnequalError(f"{port} of {instance or 'the module'} must exist in the RTLIL")
