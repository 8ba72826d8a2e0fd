"""Outcomes that sequential consistency allows, against those of the literature."""

import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.verification.clusters.litmus import MARK, TESTS, LitmusProgram

pytestmark = pytest.mark.unit

BY_NAME = {test.name: test for test in TESTS}

FORBIDDEN = {
    "SB": {(0, 0, 1, 1)},
    "MP": {(1, 0, 1, 1)},
    "LB": {(1, 1, 1, 1)},
    "S": {(1, 2, 1)},
    "R": {(0, 1, 2)},
    "2+2W": {(1, 1)},
    "WRC": {(1, 1, 0, 1, 1)},
    "IRIW": {(1, 0, 1, 0, 1, 1)},
    "CoRR": {(1, 0, 2), (2, 1, 2), (2, 0, 2)},
    "CoWW": {(1, 1), (2, 1), (1, 3)},
    "TAS": {(0, 0, MARK, MARK), (MARK, MARK, MARK, MARK)},
}
"""Reads thread after thread, then x and y; as the literature has them."""


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_outcomes(name):
    test = BY_NAME[name]
    allowed = test.allowed()
    assert not allowed & FORBIDDEN[name]
    assert set(test.forbidden(dict.fromkeys([*allowed, *FORBIDDEN[name]], 1))) == FORBIDDEN[name]


def test_allowed_outcomes():
    assert BY_NAME["SB"].allowed() == {(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 1)}
    assert BY_NAME["TAS"].allowed() == {(0, MARK, MARK, MARK), (MARK, 0, MARK, MARK)}
    # every pair of values, but both readers seeing one write without the other, each another one
    assert len(BY_NAME["IRIW"].allowed()) == 15
    assert BY_NAME["SB"].shown((0, 1, 1, 1)) == "0:r0=0 1:r0=1 x=1 y=1"
    assert BY_NAME["TAS"].shown((0, MARK, MARK, MARK)) == "0:r0=0 1:r0=-1 1:r1=-1 x=-1"


BAD = [(2, 10, "cores must be at least 4 for IRIW, not 2"), (4, 1001, "rounds must be 1 to 1000, not 1001")]


@pytest.mark.parametrize(("cores", "rounds", "message"), BAD)
def test_bad_input(cores, rounds, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        LitmusProgram(BY_NAME["IRIW"], ClusterConfig(core=preset("ri5cy"), cores=cores), rounds)
