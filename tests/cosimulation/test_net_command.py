"""``xpulpnn net``: a network out of a file on the RTL."""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.programs import read_results
from tests.sw.networks.importers.tflite_models import NONE, Graph

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.networks import job
from xpulpnn_sim.cosimulation.networks.images import picture
from xpulpnn_sim.cosimulation.networks.job import Job

pytestmark = pytest.mark.cosim

LAYERS = [
    {"name": "first", "kernel": "conv", "layer": "4x4x3:4x3x3:image", "precision": "8x8x8", "requantise": "shift"},
    {"name": "last", "kernel": "linear", "layer": "64:2:raw", "precision": "8x8xi32"},
]


def bright(*sides):
    """Images that are bright on a side, 0 at the left."""
    halves = np.arange(4).reshape(4, 1) // 2
    return np.array([np.broadcast_to(90 * (halves == side), (4, 4, 3)) for side in sides], np.uint8)


def score():
    """A filter of ones meets 90s in three colours: rows 2, 3, 3, 2, columns 2, 2, 1, 0 from the bright side on."""
    columns = [[90 * 3 * rows * seen >> 5 for seen in (2, 2, 1, 0)] for rows in (2, 3, 3, 2)]
    return 4 * sum(left + near - far - right for left, near, far, right in columns)


@pytest.fixture
def network(tmp_path):
    """Answers 0 for what is brighter at the left, 1 for what is brighter at the right."""
    sides = np.tile(np.repeat([1, -1], 8), 4)
    arrays = {
        "first.weights": np.ones((4, 3, 3, 3), np.int8),
        "first.shift": np.array(5),
        "last.weights": np.stack([sides, -sides]),
    }
    np.savez(tmp_path / "sides.npz", **arrays)
    path = tmp_path / "sides.json"
    path.write_text(json.dumps({"name": "sides", "arrays": "sides.npz", "layers": LAYERS}))
    return path


def test_answers_and_record(network, tmp_path, capsys):
    for label, pixels in enumerate(bright(0, 1)):
        (tmp_path / f"side_{label}.png").write_bytes(b64decode(picture(pixels).partition("base64,")[2]))
    (tmp_path / "wrong_1.png").write_bytes((tmp_path / "side_0.png").read_bytes())
    records = tmp_path / "records.json"
    command = ["net", str(network), "--preset", "xpulpnn-full", "--images", str(tmp_path)]
    assert cli.main([*command, "--json", str(records), "--report", str(tmp_path / "net.html")]) == 0
    (result,) = read_results(records)
    assert [(run["label"], run["answer"], run["reference"], run["checked"]) for run in result["runs"]] == [
        (0, 0, 0, True),
        (1, 1, 1, False),
        (1, 0, 0, False),
    ]
    assert (result["mismatches"], result["right"], result["images"], result["complete"]) == (0, 2, 3, True)
    assert [layer["layer"] for layer in result["layers"]] == ["4x4x3:4x3x3:image", "64:2:raw"]
    assert [run["score"] for run in result["runs"]] == [score()] * 3
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    at = lines.index(["image", "answer", "score", "label"])
    rows = [[str(image), answer, f"{score():,}", label] for image, (answer, label) in enumerate(("00", "11", "01"))]
    assert lines[at + 1 : at + 4] == rows
    assert ["sides", "xpulpnn-full,", "one", f"{result['cycles']:,}"] in [line[:4] for line in lines]
    assert "2 of 3 images classified as labelled: 66.67%; 3 as the reference does" in shown
    assert "every retirement of the first image" in shown
    assert "PULP-NN" not in shown
    assert "sides on xpulpnn-full, one core" in (tmp_path / "net.html").read_text()


def test_an_interrupt_leaves_what_the_same_command_goes_on_from(network, tmp_path, capsys, monkeypatch):
    images = np.zeros((4, 4, 4, 3), np.uint8)
    # four that differ: two bright ones on each side
    images[:2, :, :2] = images[2:, :, 2:] = np.array([60, 90]).reshape(2, 1, 1, 1)
    np.savez(tmp_path / "some.npz", images=images, labels=np.array([0, 0, 1, 1]))
    words = ["net", str(network), "--preset", "xpulpnn-full", "--images", str(tmp_path / "some.npz"), "--jobs", "1"]
    words += ["--json", str(tmp_path / "record.json"), "--check", "none"]
    ran, run = [], Job.run

    def interrupted(self, item):
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(item.image)
        return run(self, item)

    monkeypatch.setattr(Job, "run", interrupted)
    assert cli.main(words) == 130
    assert "INCOMPLETE: interrupted after 2 of 4 runs; the same command goes on from there" in capsys.readouterr().out
    (record,) = read_results(tmp_path / "record.json")
    assert (record["images"], record["right"], record["complete"]) == (2, 2, False)
    ran.clear()
    monkeypatch.setattr(Job, "run", lambda self, item: ran.append(item.image) or run(self, item))
    assert cli.main(words) == 0
    (record,) = read_results(tmp_path / "record.json")
    assert (ran, record["images"], record["right"], record["complete"]) == ([2, 3], 4, 4, True)
    assert record["checked_images"] == 0


def test_a_difference_fails(network, capsys, monkeypatch):
    right = job.run_reference

    def wrong(*operands):
        *before, last = right(*operands)
        return [*before, last ^ 1]

    monkeypatch.setattr(job, "run_reference", wrong)
    assert cli.main(["net", str(network), "--preset", "xpulpnn-full"]) == 1
    shown = capsys.readouterr().out
    assert "sides, image 0\nlast[0]: expected " in shown


def test_a_network_that_stops_has_a_table_and_a_page(network, tmp_path, capsys, monkeypatch):
    """Without cycles there is no quotient."""
    build = job.build_network

    def stopping(case):
        built = build(case)
        first, *others = built.executable.segments
        texts = [replace(s, data=bytes(len(s.data))) if s.address >= TEXT_BASE else s for s in (first, *others)]
        built.executable = replace(built.executable, segments=tuple(texts))
        return built

    monkeypatch.setattr(job, "build_network", stopping)
    page = tmp_path / "page.html"
    words = ["net", str(network), "--preset", "xpulpnn-full", "--jobs", "1", "--report", str(page)]
    assert cli.main(words) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (row,) = (line for line in lines if line[:3] == ["sides", "xpulpnn-full,", "one"])
    assert row[3] == "0"
    assert "-" in row[4:]
    assert "0 cycles, 0.00 MAC/cycle" in page.read_text()


def test_reference(network, tmp_path, capsys):
    np.savez(tmp_path / "sides_seen.npz", images=bright(0, 1, 0), labels=np.array([0, 1, 1]))
    words = ["net", "reference", str(network), "--images", str(tmp_path / "sides_seen.npz")]
    assert cli.main([*words, "--json", str(tmp_path / "record.json")]) == 0
    (record,) = read_results(tmp_path / "record.json")
    assert (record["network"], record["images"], record["right"]) == ("sides", 3, 2)
    assert (record["answers"], record["labels"]) == ([0, 1, 0], [0, 1, 1])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "1", "1", "100.00", "-"] in lines
    assert ["1", "2", "1", "50.00", "0", "(1)"] in lines
    assert lines[-1][:-2] == ["2", "of", "3", "images", "classified", "as", "labelled:", "66.67%,"]
    assert cli.main([*words, "--limit", "2"]) == 0
    assert "2 of 2 images classified as labelled: 100.00%" in capsys.readouterr().out


def test_scores_of_images_without_labels(network, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "seen.npz", images=bright(0, 1))
    words = ["net", "reference", str(network), "--images", str(tmp_path / "seen.npz")]
    assert cli.main([*words, "--scores", "s.npz", "--json", str(tmp_path / "record.json")]) == 0
    (record,) = read_results(tmp_path / "record.json")
    assert record["answers"] == [0, 1]
    assert not {"labels", "right", "accuracy"} & record.keys()
    assert "2 images without labels" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load("s.npz")["scores"], score() * np.array([[1, -1], [-1, 1]]))


def test_import(tmp_path, capsys, monkeypatch):
    """A model whose input has a range, and colours of their own; what ends in an error writes nothing."""
    monkeypatch.chdir(tmp_path)
    quantised = [helper.make_node("QuantizeLinear", ["image", "scale", "zero"], ["codes"])]
    quantised.append(helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["map"]))
    layer = helper.make_node("Conv", ["map", "weights"], ["sums"], name="first")
    arrays = {"scale": np.float32(0.02), "zero": np.int8(-5), "weights": np.ones((2, 3, 2, 2), np.float32)}
    tensors = [numpy_helper.from_array(np.asarray(values), name) for name, values in arrays.items()]
    shapes = {"image": (1, 3, 4, 4), "sums": (1, 2, 3, 3)}
    image, sums = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    versions = [helper.make_opsetid("", 21)]
    for nodes, name in (
        ([*quantised, layer], "net"),
        ([*quantised, helper.make_node("LpNormalization", ["map"], ["sums"])], "no"),
    ):
        graph = helper.make_graph(nodes, "model", [image], [sums], tensors)
        model = helper.make_model(graph, opset_imports=versions, ir_version=10)
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
    options = ["--samples", "-1:1", "--mean", "-0.1,0,0.1", "--std", "1,0.5,2"]
    assert cli.main(["net", "import", "net.onnx", "-o", "net.json", *options]) == 0
    capsys.readouterr()
    written = json.loads((tmp_path / "net.json").read_text())
    assert [layer["layer"] for layer in written["layers"]] == ["4x4x3:2x2x2:p=0:image"]
    outputs = [
        ((sample * written["input"]["multiply"][colour] + written["input"]["add"][colour]) >> written["input"]["shift"])
        for sample, colour in ((0, 0), (255, 0), (127, 1), (200, 2))
    ]
    real = [(-1 + 0.1) / 1, (1 + 0.1) / 1, (127 / 127.5 - 1) / 0.5, (200 / 127.5 - 1 - 0.1) / 2]
    assert outputs == [round(value / 0.02) - 5 for value in real]
    assert cli.main(["net", "import", "no.onnx", "-o", "other.json"]) == 2
    assert capsys.readouterr().err == "error: operators of nodes must be known, not LpNormalization sums\n"
    assert not list(tmp_path.glob("other*"))


def test_the_fast_rule_of_tflite_tells_what_it_moves(tmp_path, capsys, monkeypatch):
    """A factor just below a half becomes one, which odd sums above 0 are rounded up by."""
    monkeypatch.chdir(tmp_path)
    g = Graph((1, 4), 1 - 2.0**-20, 0)
    weights = g.tensor("weights", (2, 4), data=np.array([[1, 0, 0, 127], [0, 1, 0, 127]], np.int8))
    options = {"FusedActivationFunction": NONE, "WeightsFormat": 0}
    g.operator("FULLY_CONNECTED", (g.input, weights, -1), (1, 2), 2.0, 0, **options)
    g.written(tmp_path / "net.tflite")
    np.savez("some.npz", images=(np.array([[[5, 7], [0, 0]], [[4, 3], [0, 0]]]) + 128).astype(np.uint8))
    words = ["net", "import", "net.tflite", "-o", "n.json", "--json", "import.json"]
    assert cli.main([*words, "--fast", "--images", "some.npz"]) == 0
    assert "moved codes, 2 images" in capsys.readouterr().out
    assert read_results(Path("import.json"))[0]["moved"] == [{"layer": "linear0", "codes": 4, "moved": 3, "most": 1}]
    assert cli.main([*words, "--fast", "--seed", "3"]) == 0
    assert "moved codes, 8 random inputs, seed 3" in " ".join(capsys.readouterr().out.split())
    assert cli.main(words) == 0
    assert "moved" not in read_results(Path("import.json"))[0]
    assert json.loads(Path("n.json").read_text())["layers"][0]["requantise"] == "exact"


BAD_INPUT = {
    "no file": ("none.json", "network none.json must be an existing file, and there is none of this name"),
    "no images": ("{} --images .", "images must be a folder of PNG files, not ."),
    "size": ("reference {} --images ../small.npz", "image must have the shape (4, 4, 3), not (4, 3)"),
    "label": ("run {} --images ../wrong.npz", "labels of images must be 0..1, not 2, in "),
    "no model": ("import none.onnx -o net.json", "none.onnx must be an existing file, and there is none"),
    "mean": ("import m.onnx -o n.json --mean 0.5;1", "--mean must be "),
    "alone": ("import none.onnx -o n.json --quantise 4", "--quantise must "),
    "images alone": ("import none.tflite -o n.json --images ..", "--images must come with --quantise or --fast, not "),
    "memory": ("{} --cores 4 --set tcdm_bytes=2048", "first: tiles must be at most the TCDM's 2048 bytes with "),
    "l2": ("{} --l2-bytes 3000", "code and data of sides must be at most the memory's 3000 bytes (--l2-bytes), not "),
    "check": ("{} --check some", 'Invalid value "some" for --check. Choose from: "first", "all", '),
    "library": ("{} --liberty none.lib", "--liberty must be an existing file, not none.lib"),
    "energy": ("{0} --liberty {0} --cores 4", "--liberty must come with one core"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(case, network, tmp_path, refused, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    images = np.zeros((2, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "few.npz", images=images)
    np.savez(tmp_path / "wrong.npz", images=images, labels=np.array([0, 2]))
    np.savez(tmp_path / "small.npz", images=images[..., 0, :], labels=np.array([0, 1]))
    words, message = BAD_INPUT[case]
    assert refused("net", *words.format(network).split()).startswith(message)
