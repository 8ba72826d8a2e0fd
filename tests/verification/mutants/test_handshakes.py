"""What is known about the ports of a unit by their names."""

import pytest

from xpulpnn_sim.proofs.units.mutant_proof import Held, Port, Situation
from xpulpnn_sim.verification.mutants.provers import handshakes_of

pytestmark = pytest.mark.unit

INPUTS = ("core__req", "core__addr", "ext__gnt", "ext__rvalid", "ext__rdata", "run__gnt", "run__rvalid")
OUTPUTS = ("core__gnt", "core__rvalid", "core__rdata", "ext__req", "ext__addr", "run__req", "run__beats", "busy")


def test_what_goes_with_requests_and_answers() -> None:
    found = handshakes_of("funnelled", INPUTS, OUTPUTS)
    assert found.situations[0].outputs == ("core__gnt", "core__rvalid", "ext__req", "run__req", "busy")
    assert list(found.situations[1:]) == [
        Situation(values={"core__rvalid": {1}}, outputs=("core__rdata",)),
        Situation(values={"ext__req": {1}}, outputs=("ext__addr",)),
        Situation(values={"run__req": {1}}, outputs=("run__beats",)),
    ]
    assert found.held == [Held(words=("core__addr",), during="core__req", until=("core__gnt",))]
    assert found.answered == [Port("ext__req", "ext__gnt", "ext__rvalid")]
    assert found.alone == [Port("core__req", "core__gnt", "core__rvalid")]


def test_initiators_of_other_benches_may_have_several_requests() -> None:
    assert not handshakes_of("icache", INPUTS, OUTPUTS).alone
