"""When outputs of a unit are looked at: what goes with a request or an answer, while there is one.

Ports are bundles by their names: ``tcdm__0__req`` says when ``tcdm__0__addr`` means something. An initiator keeps what
it asks for until it is granted, and is answered only what was granted (OBI).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from xpulpnn_sim.proofs.units.mutant_proof import Alone, Answered, Held, Occurring, Situation

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
