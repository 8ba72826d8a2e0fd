"""Runs of many images: nothing is run twice after an interrupt, nothing of another job taken; means and answers."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from tests.programs import plots_of

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import picture, read_png
from xpulpnn_sim.cosimulation.networks.job import (
    FOLDER,
    Item,
    Job,
    NetworkOutcome,
    NetworkTarget,
    NetworkTask,
    prepare_network,
    run_items,
    run_job,
)
from xpulpnn_sim.cosimulation.networks.page import is_picture, write_network_page
from xpulpnn_sim.cosimulation.networks.summary import mean_of, summary_records
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layers.layer import LinearLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.network import Network, Stage

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
            record=record, reports=[], answer=item.image % 2, reference=0, score=9, checked=self.case(item).checked
        )


def job(*, weight: int = 1, stops_at: int = IMAGES, check: str = "first", stalls: float = 0.0) -> FakeJob:
    task = NetworkTask(network=network(weight), inputs=np.arange(4 * IMAGES).reshape(IMAGES, 4))
    fake = FakeJob(
        tasks=[task],
        targets=[NetworkTarget(config=preset("xpulpnn"), machine=Machine(grant_stalls=stalls))],
        check=check,
    )
    fake.stops_at, fake.ran = stops_at, []
    return fake


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path))
    return tmp_path / FOLDER


def run(job: FakeJob, **manner):
    reported = []
    result = run_job(job, jobs=1, done=lambda item, outcome: reported.append((item.image, outcome.answer)), **manner)
    assert [image for image, _ in sorted(reported)] == [item.image for item in result.outcomes]
    return result


def test_compiling_is_told_before_it_begins(monkeypatch):
    events = []
    monkeypatch.setattr(
        "xpulpnn_sim.cosimulation.networks.job.model_library", lambda *_: events.append("the compiler runs")
    )
    prepare_network(job(), describe=events.append)
    assert events == ["compiling the model", "the compiler runs"]


@pytest.mark.flow
def test_an_interrupted_run_goes_on(cache):
    result = run(job(stops_at=3))
    assert (len(result.outcomes), result.complete) == (3, False)
    again = job()
    result = run(again)
    assert (again.ran, result.complete) == ([3, 4], True)
    assert [outcome.record["cycles"] for outcome in result.outcomes.values()] == [100, 101, 102, 103, 104]
    assert [outcome.answer for outcome in result.outcomes.values()] == [0, 1, 0, 1, 0]
    assert [outcome.checked for outcome in result.outcomes.values()] == [True, False, False, False, False]
    # what has been made use of is forgotten, and run when it is asked for again
    result.journal.remove()
    assert not list(cache.iterdir())
    later = job()
    run(later)
    assert later.ran == list(range(IMAGES))


@pytest.mark.flow
def test_more_images_go_on_from_fewer():
    few = job(stops_at=2)
    run(few)
    more = job()
    more.tasks = [replace(more.tasks[0], inputs=few.tasks[0].inputs[1:])]
    run(more)
    # the first image of these was the second of those, and not checked
    assert more.ran == [0, 1, 2, 3]


OTHERS = {"weights": {"weight": 2}, "memory": {"stalls": 0.5}, "check": {"check": "all"}}


@pytest.mark.parametrize("case", OTHERS)
def test_another_job_takes_nothing(case):
    run(job(stops_at=3))
    other = job(**OTHERS[case])
    run(other)
    # of the first image every retirement is checked either way
    assert other.ran == ([1, 2, 3, 4] if case == "check" else [0, 1, 2, 3, 4])


def test_a_call_on_another_machine_runs_its_images():
    outcomes = run_items([Item(0, 0, 1), Item(0, 0, 4)], job())
    assert [outcome.record["cycles"] for outcome in outcomes] == [101, 104]


def test_images_whose_process_is_lost_are_named():
    lost = job()

    def crash(item):
        raise CallError("its process must end by itself, not be killed by SIGKILL")

    lost.run = crash
    with pytest.raises(ToolError, match=r"^images 0 to 0: its process must end by itself, not be killed by SIGKILL$"):
        run(lost)


@pytest.mark.flow
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


def outcome(cycles: int, answer: int, *, wrong: int = 0, wall_s: float = 1.0) -> NetworkOutcome:
    layer = {
        "name": "only",
        "layer": "4:2:raw",
        "precision": "8x8xi32",
        "variant": "nn_4x1",
        "folded": False,
        "cycles": cycles - 10,
        "macs": 1000,
        "macs_per_cycle": 0.0,
        "stalls": {"jump": cycles // 10},
        "weight_bytes": 8,
        "result_bytes": 8,
        "read": 40,
        "written": 8,
        "mismatches": wrong,
    }
    plan = [{"name": "only.weights", "address": 64, "bytes": 8, "first": 0, "last": 0}]
    record = {
        "kernel": "net",
        "cores": 1,
        "macs": 1000,
        "cycles": cycles,
        "stalls": {"jump": cycles // 10},
        "code_bytes": 300,
        "data_bytes": 400,
        "layers": [layer],
        "plan": plan,
        "mismatches": wrong,
        "wall_s": wall_s,
        "sim_cycles_per_s": round(cycles / wall_s),
    }
    return NetworkOutcome(record=record, reports=[], answer=answer, reference=answer, score=1234, checked=not wrong)


def labelled() -> Job:
    samples = np.zeros((4, 2, 2), np.uint8)
    samples[1] = [[1, 2], [3, 255]]
    task = NetworkTask(
        network=network(),
        inputs=np.zeros((4, 4), np.int64),
        labels=np.array([0, 1, 1, 1]),
        classes=("cat", "dog"),
        samples=samples,
    )
    target = NetworkTarget(config=preset("xpulpnn"), machine=Machine(), title="a core")
    return Job(tasks=[task], targets=[target])


OUTCOMES = [outcome(100, 0), outcome(200, 0, wrong=3), outcome(300, 1, wall_s=0.5), outcome(120, 1)]


def summarised(count: int = 4):
    return summary_records(labelled(), {Item(0, 0, image): OUTCOMES[image] for image in range(count)})


def test_means_extremes_and_sums():
    (record,) = summarised()
    assert (record["cycles"], record["cycles_least"], record["cycles_most"]) == (180, 100, 300)
    assert record["mismatches"] == 3
    (layer,) = record["layers"]
    assert (layer["cycles"], layer["cycles_least"], layer["cycles_most"]) == (170, 90, 290)
    assert (layer["stalls"], layer["macs_per_cycle"], layer["mismatches"]) == ({"jump": 18}, 5.8824, 3)
    assert (record["wall_s"], record["sim_cycles_per_s"]) == (3.5, round(720 / 3.5))
    assert (record["images"], record["checked_images"]) == (4, 3)


def test_answers():
    (record,) = summarised()
    assert (record["right"], record["accuracy"], record["same_as_reference"]) == (3, 0.75, 4)
    assert [(row["name"], row["images"], row["right"], row["other"], row["count"]) for row in record["classes"]] == [
        ("cat", 1, 1, "", 0),
        ("dog", 3, 2, "cat", 1),
    ]
    assert [(run["image"], run["label"], run["answer"]) for run in record["runs"]] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 1, 1),
        (3, 1, 1),
    ]


def test_images_that_were_not_run_do_not_count():
    (record,) = summarised(2)
    assert (record["images"], record["right"], record["accuracy"]) == (2, 1, 0.5)
    # nor need those that were be the first ones
    (record,) = summary_records(labelled(), {Item(0, 0, image): OUTCOMES[image] for image in (2, 3)})
    assert (record["images"], record["right"]) == (2, 2)


def test_what_differs_and_is_no_number():
    values = [{"a": 1, "b": [1, 2.5], "c": "x"}, {"a": 2, "b": [4, 3.0], "c": "y"}, {"a": 2, "b": [1, 3.0], "c": "x"}]
    assert mean_of(values) == {"a": 2, "b": [2, 2.8333], "c": "x"}
    assert mean_of([[1], [1, 2]]) == [1]


@pytest.mark.flow
def test_the_page_is_complete_and_the_same_again(tmp_path):
    job, shown = labelled(), summarised()
    texts = []
    for name in ("one.html", "two.html"):
        write_network_page(tmp_path / name, job, shown, command="xpulpnn net", conditions=["Run by hand <&>."])
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    page = texts[0].partition('<script type="application/gzip"')[0]
    for text in (
        "3 of 4 images right, 75.00 %",
        "180 (100 to 300)",
        "Run by hand &lt;&amp;&gt;.",
        '<td class="text">cat (1)</td>',
    ):
        assert text in page
    # a row for each label
    confusion = next(plot for plot in plots_of(texts[0]) if plot["name"] == "answers-0")["variants"][""]
    assert confusion["data"][0]["z"] == [[1, 0], [1, 2]]
    # the wrong one first
    first = page.index("labelled dog")
    assert first < page.index('alt="image 0"')
    assert page.count("<img") == 4
    assert 'src="http' not in page
    assert "link" not in page.partition("<main>")[0].partition("</style>")[2]


def test_pictures(tmp_path):
    samples = np.array([[0, 300], [-1, 7], [9, 255]])
    for values in (samples, np.stack([samples, samples, samples], axis=-1)):
        path = tmp_path / "one.png"
        content = picture(values).partition("base64,")[2]
        path.write_bytes(base64.b64decode(content))
        assert read_png(path).reshape(values.shape).tolist() == np.clip(values, 0, 255).tolist()
    assert is_picture(np.zeros((2, 2)))
    assert not any(is_picture(np.zeros(shape)) for shape in ((4,), (2, 2, 2), (1, 9, 1)))
