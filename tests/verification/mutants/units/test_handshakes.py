"""What is known about the ports of a unit by their names."""

import pytest

from xpulpnn_sim.proofs.units.mutant_proof import Alone, Answered, Held, Situation
from xpulpnn_sim.verification.mutants.units.equivalence import handshakes_of

pytestmark = pytest.mark.unit

INPUTS = ("core__req", "core__addr", "ext__gnt", "ext__rvalid", "ext__rdata", "run__gnt", "run__rvalid")
OUTPUTS = ("core__gnt", "core__rvalid", "core__rdata", "ext__req", "ext__addr", "run__req", "run__beats", "busy")
PORT = {"request": "core__req", "grant": "core__gnt", "answer": "core__rvalid"}


def test_what_goes_with_requests_and_answers() -> None:
    found = handshakes_of("funnelled", INPUTS, OUTPUTS)
    assert found.situations[0].outputs == ("core__gnt", "core__rvalid", "ext__req", "run__req", "busy")
    assert list(found.situations[1:]) == [
        Situation(values={"core__rvalid": {1}}, outputs=("core__rdata",)),
        Situation(values={"ext__req": {1}}, outputs=("ext__addr",)),
        Situation(values={"run__req": {1}}, outputs=("run__beats",)),
    ]
    assert found.held == [Held(words=("core__addr",), during="core__req", until=("core__gnt",))]
    assert found.answered == [Answered(request="ext__req", grant="ext__gnt", answer="ext__rvalid")]
    assert found.alone == [Alone(**PORT)]


def test_initiators_of_other_benches_may_have_several_requests() -> None:
    assert not handshakes_of("icache", INPUTS, OUTPUTS).alone
