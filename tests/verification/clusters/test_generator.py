"""Random programs for several harts, and outcomes of litmus tests that sequential consistency allows."""

import re
from dataclasses import replace
from itertools import chain
from random import Random

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.reference.golden.dma import moves, word_count
from xpulpnn_sim.verification.clusters import program as clusters
from xpulpnn_sim.verification.clusters.generator import generate_cluster
from xpulpnn_sim.verification.clusters.litmus import MARK, TESTS, LitmusProgram
from xpulpnn_sim.verification.clusters.program import Phase, SharedBlocks
from xpulpnn_sim.verification.random.memory_run import aimed_lines

FOUR = ClusterConfig(core=preset("ri5cy"), cores=4)
BASE = replace(FOUR.core, xpulpv2=False)


def kinds(blocks: tuple[ProgramBlock, ...]) -> set[str]:
    return {block.kind for block in blocks} | {kind for block in blocks for kind in kinds(block.children)}


def everything(programs) -> tuple[set[str], set[str]]:
    """Kinds of the phases and of the blocks of programs."""
    phases = [phase for program in programs for phase in program.phases]
    return {phase.kind for phase in phases}, set().union(*(kinds(part) for phase in phases for part in phase.parts))


@pytest.mark.flow
def test_a_seed_decides_everything():
    program = generate_cluster(FOUR, 7)
    assert program.text() == generate_cluster(FOUR, 7).text()
    assert program.text() != generate_cluster(FOUR, 8).text()
    executable = program.executable()
    assert executable.tohost == program.tohost
    assert {function.name for function in executable.functions} >= {"hart0", "hart1", "hart2", "hart3", "exception"}


@pytest.mark.flow
def test_everything_comes():
    programs = [generate_cluster(FOUR, seed, budget=2000) for seed in range(12)]
    met, kinds = everything(programs)
    assert met == {"registers", "nothing", "barrier", "event", "tasks", "timer"}
    assert kinds >= {"transfer", "event unit", "shared view", "own event", "registers", "window: shared test&set"}
    assert kinds >= {"counts 0", "counts 1", "counts 2", "counts 3", "memory", "branch", "trap"}
    assert {program.l2_tohost for program in programs} == {False, True}


@pytest.mark.flow
def test_what_is_not_there_is_not_used():
    config = replace(FOUR, dma=False, sw_events=1, barriers=1)
    met, kinds = everything([generate_cluster(config, seed) for seed in range(6)])
    assert not (met | kinds) & {"barrier", "transfer", "own event"}


@pytest.mark.flow
def test_counters_are_those_of_the_blocks_left():
    counted = (ProgramBlock("counts 1", ("nop",)), ProgramBlock("counts 3", ("nop",)), ProgramBlock("counts 1", ()))
    counting = ProgramBlock("around", (), counted)
    program = replace(generate_cluster(FOUR, 0), phases=(Phase("one", ((counting,), (), (), (counting,))),))
    assert program.counts() == {1: 4, 3: 2}


@pytest.mark.flow
def test_random_instructions_spare_the_identifiers_of_transfers():
    draw = Draw(Random(1), preset("xpulpnn2"))
    lines = chain.from_iterable((*aimed_lines(draw), *draw.through_memory("a0")) for _ in range(200))
    offsets = {int(text) for line in lines for text in re.findall(r"(\d+)\(sp\)", line)}
    assert max(offsets) == clusters.SLOT - WORD_BYTES


@pytest.mark.flow
def test_transfers_stay_in_their_pieces():
    pieces = (clusters.ARENA, clusters.SHARED_PIECE, clusters.L2_ARENA, clusters.L2_SHARED_PIECE)
    shared = SharedBlocks(Draw(Random(1), FOUR.core), FOUR)
    seen = set()
    for _ in range(400):
        lines = shared.transfer(()).head
        words = [int(line.removeprefix("li s1, "), 0) for line in lines if line.startswith("li s1, ")]
        while words:
            count = word_count(words[0])
            command, words = words[:count], words[count:]
            seen.add(command[0] >> 17)
            sources, targets = moves(command)
            assert len(np.unique(targets)) == len(targets)
            assert not np.intersect1d(sources, targets).size
            for side in (sources, targets):
                assert any(base <= side.min() and side.max() < base + size for base, size in pieces)
    # both directions, lines on either side, told or not
    assert len(seen) > 12


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: generate_cluster(replace(FOUR, tcdm_bytes=0x8000), 0), "tcdm_bytes must be at least 65536, not 32768"),
        (lambda: generate_cluster(replace(FOUR, core=BASE), 0), "xpulpv2 must be true for programs of several harts, "),
        (lambda: LitmusProgram(BY_NAME["IRIW"], replace(FOUR, cores=2), 10), "cores must be at least 4 for IRIW, not "),
        (lambda: LitmusProgram(BY_NAME["IRIW"], FOUR, 1001), "rounds must be 1 to 1000, not 1001"),
    ],
)
def test_clusters_that_cannot_run_them(make, message):
    with pytest.raises(InputError, match=f"^{message}"):
        make()
