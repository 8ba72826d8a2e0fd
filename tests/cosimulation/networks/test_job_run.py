"""Runs of many images: nothing is run twice after an interrupt, nothing of another job is taken."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.job import (
    FOLDER,
    Item,
    Job,
    NetworkOutcome,
    NetworkTarget,
    NetworkTask,
    run_items,
    run_job,
)
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layers.convolution import LinearLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.network import Network, Stage

pytestmark = pytest.mark.unit

IMAGES = 5


def network(weight: int = 1) -> Network:
    tensors = LayerTensors(activations=np.zeros(4, np.int64), weights=np.full((2, 4), weight))
    layer = LinearLayer(inputs=4, outputs=2, raw=True)
    stage = Stage(name="only", layer=layer, precision=Precision.uniform(8).accumulators, tensors=tensors)
    return Network(name="net", stages=(stage,))


class FakeJob(Job):
    """Outcomes by the number of the image; what was run is on record."""

    stops_at = IMAGES
    ran: list[int]

    def run(self, item: Item) -> NetworkOutcome:
        if item.image >= self.stops_at:
            raise KeyboardInterrupt
        self.ran.append(item.image)
        record = {"cycles": 100 + item.image, "mismatches": 0}
        return NetworkOutcome(
            record=record, reports=[], answer=item.image % 2, reference=0, checked=self.is_checked(item)
        )


def job(*, weight: int = 1, stops_at: int = IMAGES, check: str = "first", stalls: float = 0.0) -> FakeJob:
    task = NetworkTask(network=network(weight), inputs=np.arange(4 * IMAGES).reshape(IMAGES, 4))
    found = FakeJob(
        tasks=[task],
        targets=[NetworkTarget(config=preset("xpulpnn"), machine=Machine(grant_stalls=stalls))],
        check=check,
    )
    found.stops_at, found.ran = stops_at, []
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path))
    return tmp_path / FOLDER


def run(one: FakeJob, **manner):
    told = []
    found = run_job(one, jobs=1, done=lambda item, outcome: told.append((item.image, outcome.answer)), **manner)
    assert [image for image, _ in sorted(told)] == [item.image for item in found.outcomes]
    return found


def test_an_interrupted_run_goes_on(cache):
    found = run(job(stops_at=3))
    assert (len(found.outcomes), found.complete) == (3, False)
    again = job()
    found = run(again)
    assert (again.ran, found.complete) == ([3, 4], True)
    assert [one.record["cycles"] for one in found.outcomes.values()] == [100, 101, 102, 103, 104]
    assert [one.answer for one in found.outcomes.values()] == [0, 1, 0, 1, 0]
    assert [one.checked for one in found.outcomes.values()] == [True, False, False, False, False]
    # what has been made use of is forgotten, and run when it is asked for again
    found.journal.remove()
    assert not list(cache.iterdir())
    later = job()
    run(later)
    assert later.ran == list(range(IMAGES))


def test_more_images_go_on_from_fewer():
    few = job(stops_at=2)
    run(few)
    more = job()
    more.tasks = [replace(more.tasks[0], inputs=few.tasks[0].inputs[1:])]
    run(more)
    # the first image of these was the second of those, and not checked
    assert more.ran == [0, 1, 2, 3]


OTHERS = {
    "weights": {"weight": 2},
    "memory": {"stalls": 0.5},
    "check": {"check": "all"},
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_job_takes_nothing(case):
    run(job(stops_at=3))
    other = job(**OTHERS[case])
    run(other)
    # of the first image every retirement is checked either way
    assert other.ran == ([1, 2, 3, 4] if case == "check" else [0, 1, 2, 3, 4])


def test_a_call_on_another_machine_runs_its_images():
    found = run_items([Item(0, 0, 1), Item(0, 0, 4)], job())
    assert [outcome.record["cycles"] for outcome in found] == [101, 104]


def test_images_whose_process_is_lost_are_named():
    lost = job()

    def crash(item):
        raise CallError("its process must end by itself, not be killed by SIGKILL")

    lost.run = crash
    with pytest.raises(ToolError, match=r"^images 0 to 0: its process must end by itself, not be killed by SIGKILL$"):
        run(lost)


def test_what_was_found_before_an_error_stays(cache):
    first = job()
    original = first.run

    def failing(item):
        if item.image == 2:
            raise ToolError("no model")
        return original(item)

    first.run = failing
    with pytest.raises(ToolError, match=r"^no model$"):
        run(first)
    second = job()
    run(second)
    assert second.ran == [2, 3, 4]
