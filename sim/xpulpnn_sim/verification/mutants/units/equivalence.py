"""Proofs about the mutants of a unit: equal for all inputs, equal for what occurs in a core, or a counterexample."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xpulpnn.config import CoreConfig
from xpulpnn_sim.benches.core_units import FULL
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.proofs.units.mutant_proof import EQUIVALENT as EQUAL
from xpulpnn_sim.proofs.units.mutant_proof import (
    EVERYWHERE,
    REACHED,
    Alone,
    Answered,
    Comparison,
    Held,
    Judge,
    Occurring,
    Situation,
)
from xpulpnn_sim.proofs.units.mutated_gates import MutatedGates
from xpulpnn_sim.proofs.units.situations import OCCURRING
from xpulpnn_sim.tools.abc import find_abc
from xpulpnn_sim.tools.netlists import NetlistModule
from xpulpnn_sim.verification.mutants.units.mutants import MutatedUnit

_SEEN_WITH: Mapping[str, Sequence[str]] = {
    "req": ("addr", "we", "be", "beats"),
    "rvalid": ("rdata", "err"),
    "arvalid": ("arid", "araddr", "arlen", "arsize", "arburst", "arlock", "arcache", "arprot"),
    "awvalid": ("awid", "awaddr", "awlen", "awsize", "awburst", "awlock", "awcache", "awprot"),
    "wvalid": ("wdata", "wstrb", "wlast"),
}
"""Last parts of the names of ports: what says that there is something, and what goes with it."""

_WRITTEN = ("req", "we", "wdata")
_ASKED = ("addr", "we", "be", "wdata", "beats")
_PAYLOAD = "payload"

_OF_UNITS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "prefetch": {"valid": ("word", "error")},
    "hwloops": {"if_back": ("if_start",), "id_valid": ("hold", "wrong", "id_next")},
    "quantiser": {"request": ("address",), "done": ("result",)},
}
"""The same for benches of units whose ports have names of their own."""


_ALLOWED: Mapping[str, Sequence[Mapping[str, set[int]]]] = {"prefetch": ({"take": {0}}, {"valid": {1}})}
"""Values of ports by benches of units, of which some are there in every cycle."""

_ALONE = ("core_demux", "funnelled")  # benches of units whose initiators have one request outstanding at most


def handshakes_of(bench: str, inputs: Collection[str], outputs: Collection[str]) -> Occurring:
    """When each output is looked at, and which inputs stay or come only after others."""
    pairs = list(_pairs(outputs)) + [
        ({guard: {1}}, tuple(payload)) for guard, payload in _OF_UNITS.get(bench, {}).items()
    ]
    guarded = {name for _, payload in pairs for name in payload}
    always = tuple(name for name in outputs if name not in guarded)
    held = [
        Held(words=tuple(f"{bundle}{part}" for part in _ASKED if f"{bundle}{part}" in inputs), during=name, until=gnt)
        for name in inputs
        for bundle in [name.removesuffix("req")]
        for gnt in [(f"{bundle}gnt",)]
        if name.endswith("__req") and gnt[0] in outputs
    ]
    answered = [Answered(**port) for port in _ports(outputs, inputs)]
    alone = [Alone(**port) for port in _ports(inputs, outputs)] if bench in _ALONE else []
    allowed = _ALLOWED.get(bench, [{}])
    looks = [({}, always), *pairs] if pairs or bench in _ALLOWED else []
    return Occurring(
        situations=[Situation(values={**some, **values}, outputs=seen) for values, seen in looks for some in allowed],
        held=held,
        answered=answered,
        alone=alone,
    )


def _ports(asking: Collection[str], answering: Collection[str]) -> Iterator[dict[str, str]]:
    """Request, grant and answer of the OBI ports with the request among ``asking``, if an answer is to one request."""
    for name in asking:
        bundle = name.removesuffix("req")
        port = {"request": name, "grant": f"{bundle}gnt", "answer": f"{bundle}rvalid"}
        several = f"{bundle}beats" in asking
        if name.endswith("__req") and not several and {port["grant"], port["answer"]} <= set(answering):
            yield port


def _pairs(outputs: Collection[str]) -> Iterator[tuple[dict[str, set[int]], tuple[str, ...]]]:
    """Values of ports, and the outputs that they let be looked at."""
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


EQUIVALENT, LEGAL, DIFFERENT, UNDECIDED = "equivalent", "legal", "different", "undecided"
"""Outcomes: no difference for any inputs; none for inputs that occur; a counterexample; none of these in time."""

_SHOWN_PORTS = 12

_EVERYTHING = replace(FULL, mac_load_cu=True, requantise=True)
"""Whose control words occur; a core with less has some of them."""

_OCCURS: Mapping[str, tuple[str, CoreConfig]] = {
    "alu": ("alu", FULL),
    "mult": ("mult", _EVERYTHING),
    "mult-inferred": ("mult", _EVERYTHING),
    "div": ("div", FULL),
    "lsu": ("lsu", FULL),
    "requantiser": ("requantiser", _EVERYTHING),
    **{
        f"dotp-{structure}": ("dotp", _EVERYTHING)
        for structure in ("shared", "shared-inferred", "register", "and", "and-inferred", "none-inferred")
    },
}
"""Units about whose inputs something is known: name of what occurs at them, and in which core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Verdict of a proof about a mutant."""

    verdict: str  # see EQUIVALENT
    example: str = ""  # with the verdict `different`: inputs that show it


class Prover:
    """Compares the mutants of a unit with it."""

    def __init__(self, name: str, unit: MutatedUnit, netlist: NetlistModule, timeout_s: float) -> None:
        self._gates = MutatedGates(netlist, [mutant.number for mutant in unit.mutants])
        if name in _OCCURS:
            what, config = _OCCURS[name]
            occurring = OCCURRING[what](config)
        else:
            outputs = [port["name"] for port in unit.design.manifest["ports"] if port["direction"] == "output"]
            occurring = handshakes_of(UNITS[name].bench, unit.inputs, outputs)
        self._judge = Judge(gates=self._gates, abc=find_abc(), timeout_s=timeout_s, occurring=occurring)

    def is_identical(self, number: int) -> bool:
        """Return whether a mutant has the gates of the unit, equal gates being one."""
        return not self._gates.differences(number)

    def prove(self, number: int) -> Proof:
        """Compare a mutant; raises :class:`ToolError` if ABC fails."""
        found = self._judge.compare(number)
        if found.verdict == EQUAL:
            for_all = found.scope == EVERYWHERE or (found.scope == REACHED and not self._judge.assumes)
            return Proof(verdict=EQUIVALENT if for_all else LEGAL)
        return Proof(verdict=found.verdict, example=_shown(found) if found.example else "")


def _shown(found: Comparison) -> str:
    """Words that are not 0 in the last cycle of a counterexample, and a bit that is wrong then."""
    cycles: Sequence[Mapping[str, int]] = found.example
    given = [f"{name}={value:#x}" for name, value in cycles[-1].items() if value]
    more = ["..."] if len(given) > _SHOWN_PORTS else []
    what = " ".join([*given[:_SHOWN_PORTS], *more]) or "all inputs 0"
    return f"cycle {len(cycles)}: {what}: {found.signal} ({found.scope})"
