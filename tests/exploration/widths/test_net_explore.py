"""``xpulpnn net explore``, and the bits that ``net import`` takes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.exploration.widths import exploration
from xpulpnn_sim.exploration.widths.exploration import Evaluation
from xpulpnn_sim.exploration.widths.studied_model import NetworkRun, StudiedModel
from xpulpnn_sim.reference.golden.network import Agreement, run_reference
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sw.networks.importers.onnx_file import OnnxModel, import_onnx
from xpulpnn_sw.networks.importers.registry import ImportOptions, request_of
from xpulpnn_sw.networks.network_file import read_network

CORE = ["--preset", "xpulpnn-full"]


def split(model: Path, *more: str) -> list[str]:
    images = str(model.parent / "images.npz")
    return ["net", "explore", str(model), "--images", images, "--calibrate", "10", "--decide", "30", *more]


@pytest.mark.cosim
@pytest.mark.usefixtures("own_store")
def test_front_of_all_assignments(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Accuracies are those of networks imported with the same bits, cycles those of a run."""
    folder = model.parent
    record, page = folder / "found.json", folder / "found.html"
    command = split(model, *CORE, "--bits", "8,2", "--floor", "90")
    output = ["-o", str(folder / "out"), "--report", str(page), "--json", str(record)]
    assert cli.main([*command, "--verify", "9", *output]) == 0
    result = read_results(record)[0]
    # weights of 8 bits for the image in any case, four ways for each of the other two layers
    assert (len(result["points"]), result["layers"]) == (16, ["first", "second", "third"])
    images = np.load(folder / "images.npz")
    options = {"name": "small", "images": images["images"][:10]}
    for point in result["points"][::3]:
        described = import_onnx(model, ImportOptions(**options, quantise=request_of(point["bits"])))
        scores = run_reference(described.network, described.batch(images["images"][10:40]))[-1]
        assert point["right"] == (scores.reshape(30, -1).argmax(axis=1) == images["labels"][10:40]).sum()
    cycles = [point["cycles"] for point in result["front"]]
    assert cycles == sorted(cycles)
    assert min(cycles) == min(point["cycles"] for point in result["points"])
    assert max(point["right"] for point in result["points"]) == result["front"][-1]["right"]
    fast = next(point for point in result["front"] if point["right"] >= 27)
    assert result["chosen"] == fast["bits"]
    # the widest one is there as well, whether it is on the front or not
    assert "8,8,8" in [point["bits"] for point in [*result["front"], *([result["widest"]] if result["widest"] else [])]]
    for point in result["front"]:
        assert abs(point["prediction_error"]) < 0.02
        name = point["bits"].replace(",", "_").replace("/", "a")
        described = read_network(folder / "out" / f"small_{name}.json")
        scores = run_reference(described.network, described.batch(images["images"][40:]))[-1]
        assert point["test_right"] == (scores.reshape(20, -1).argmax(axis=1) == images["labels"][40:]).sum()
        assert f">{point['bits']}<" in page.read_text()
    assert f"fastest with 90 % of the images that decide: {result['chosen']}" in capsys.readouterr().out
    # again, with everything from disk but whole networks
    monkeypatch.setattr(StudiedModel, "study", pytest.fail)
    again = folder / "again.json"
    assert cli.main([*command, "--verify", "0", "--json", str(again)]) == 0
    assert read_results(again)[0]["points"] == result["points"]


@pytest.mark.flow
def test_processes_give_what_one_gives(model: Path) -> None:
    proto = OnnxModel.read(model)
    images = read_images(model.parent / "images.npz")
    options = ImportOptions(name="small", images=images.samples[:10])
    calibration, config = proto.calibration(options), preset("xpulpnn-full")
    studied = StudiedModel(onnx=proto, calibration=calibration, options=options, images=images, config=config)
    assignments = studied.space((4, 8)).uniform()
    with executor(2) as pool:
        studies = list(
            Evaluation(studied, pool, lambda points, runs: None).evaluate(studied, StudiedModel.study, assignments)
        )
    assert studies == [studied.study(widths) for widths in assignments]
    assert len({study.layers for study in studies}) == 2


@pytest.mark.usefixtures("own_store")
@pytest.mark.flow
def test_a_wrong_result_of_the_design_fails(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def measure(studied: StudiedModel, widths: Any) -> NetworkRun:
        layers = tuple((key, 100, 10) for key in studied.study(widths).layers)
        return NetworkRun(cycles=300, layers=layers, reports=("third[0]: expected 1, got 2 (1 wrong results)",))

    monkeypatch.setattr(StudiedModel, "measure", measure)
    monkeypatch.setattr(exploration, "model_library", lambda top, config: None)
    assert cli.main(split(model, *CORE, "--bits", "8")) == 1
    assert "third[0]: expected 1, got 2" in capsys.readouterr().out


EXPLORE = "net explore small.onnx --images images.npz --calibrate 10 --json found.json --decide"
IMPORT = "net import small.onnx"


@pytest.mark.flow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{EXPLORE} 50", "--images must be 60 at least, 10 for ranges and 50 that decide, and some for the "),
        (f"{EXPLORE} 30 --floor 101", 'Invalid value "101.0" for --floor. It must be 0 to 100 percent.'),
        (f"{EXPLORE} 30 --bits 8,3", "--bits must be a list out of 8,4,2, not 3"),
        (f"{EXPLORE} 30 --test-limit 4", "--test-limit must come with --test, not alone"),
        (f"{EXPLORE} 30 --test other.npz", "--test must be of the size of --images (8, 8), not (4, 4)"),
        (f"{EXPLORE} 30 --cores 0", 'Invalid value "0" for --cores. It must be 1 to 16.'),
        (f"{EXPLORE} 30 --jobs 0", 'Invalid value "0" for --jobs. It must be at least 1.'),
        (f"{EXPLORE} 30 --preset none", 'Invalid value "none" for --preset. '),
        (f"{IMPORT} --quantise 8", "--quantise must come with --images, not alone"),
        (f"{IMPORT} --images images.npz", "--images must come with --quantise or --fast, not alone"),
        (f"{IMPORT} --quantise 6 --images images.npz", "widths of 2, 4, 8, or two of them as 4/8, not 6"),
        (f"{IMPORT} --quantise 8,4 --images images.npz", "3 layers with weights (first, second, third), not 2"),
        (f"{IMPORT} --quantise 8,last=4 --images images.npz", "must name one of first, second, third, not last"),
    ],
)
def test_errors(model, monkeypatch, refused, command, message):
    monkeypatch.chdir(model.parent)
    np.savez("other.npz", images=np.zeros((3, 4, 4), np.uint8), labels=np.zeros(3, int))
    assert message in refused(*command.split(), "-o", "out/net.json")
    assert not [path for path in Path().rglob("*.json") if path.is_file()]


@pytest.mark.flow
def test_models_that_are_quantised_already(model: Path, refused: Any) -> None:
    onnx: Any = pytest.importorskip("onnx")
    proto = onnx.ModelProto.FromString(model.read_bytes())
    proto.graph.node[1].op_type = "Quant"
    proto.graph.node[1].name = "steps"
    model.write_bytes(proto.SerializeToString())
    assert "model must be in floating point, not have a quantiser: Quant steps" in refused(*split(model))
    (model.parent / "model.tflite").write_bytes(b"\0\0\0\0TFL3")
    assert "model must be ONNX in floating point, not TFLite" in refused(*split(model.parent / "model.tflite"))


@pytest.mark.flow
@pytest.mark.parametrize(
    ("bits", "precisions"),
    [
        ("4", ["8x8x4", "4xu4x4", "4x4x4", "4xu4x4", "4x4xi32"]),
        ("8,4,2", ["8x8x4", "4xu4x4", "4x4x2", "2xu2x2", "2x2xi32"]),
        ("8,second=2/4", ["8x8x4", "4xu4x4", "4x2x8", "8xu8x8", "8x8xi32"]),
    ],
)
def test_import_with_bits_of_every_layer(model: Path, bits: str, precisions: list[str]) -> None:
    folder = model.parent
    images = ["--images", str(folder / "images.npz")]
    assert cli.main(["net", "import", str(model), "-o", str(folder / "net.json"), "--quantise", bits, *images]) == 0
    layers = json.loads((folder / "net.json").read_text())["layers"]
    assert [layer["precision"] for layer in layers] == precisions
    # quantisers of the importer's own may have their steps where the fastest rule has them
    assert not any("requantise" in layer for layer in layers)


@pytest.mark.flow
def test_import_says_how_near_the_network_is(model: Path, capsys: Any) -> None:
    onnx_reference: Any = pytest.importorskip("onnx.reference")
    folder = model.parent
    images = np.load(folder / "images.npz")["images"][:20]
    record, target = folder / "import.json", folder / "net.json"
    options = ["--quantise", "8", "--images", str(folder / "images.npz"), "--limit", "20", "--json", str(record)]
    assert cli.main(["net", "import", str(model), "-o", str(target), *options]) == 0
    # samples are 0..1 for the model, whose colours come first
    given = images.reshape(*images.shape[:3], -1).transpose(0, 3, 1, 2)[:, np.newaxis].astype(np.float32) / 255
    evaluator = onnx_reference.ReferenceEvaluator(str(model))
    name = evaluator.input_names[0]
    expected = np.concatenate([evaluator.run(None, {name: image})[0] for image in given])
    described = read_network(target)
    actual = run_reference(described.network, described.batch(images))[-1].reshape(expected.shape)
    same = int((actual.argmax(axis=1) == expected.argmax(axis=1)).sum())
    correlation = float(np.corrcoef(actual.ravel(), expected.ravel())[0, 1])
    said = read_results(record)[0]["agreement"]
    assert (said["same"], said["images"]) == (same, 20)
    assert said["correlation"] == pytest.approx(correlation)
    line = f"correlation of results {correlation:.4f}, same answer for {same} of 20 images"
    assert line in capsys.readouterr().out


@pytest.mark.flow
@pytest.mark.parametrize(("correlation", "status"), [(0.95, 0), (0.8, 0), (0.3, 1)])
def test_import_of_a_network_that_is_far_from_its_model(model, monkeypatch, capsys, correlation, status):
    monkeypatch.setattr(
        "xpulpnn_sim.cli.networks.agreement", lambda *_: Agreement(correlation=correlation, same=3, images=9)
    )
    target, images = model.parent / "net.json", str(model.parent / "images.npz")
    command = ["net", "import", str(model), "-o", str(target), "--quantise", "8", "--images", images]
    assert cli.main(command) == status
    printed = capsys.readouterr()
    assert "same answer for 3 of 9 images" in printed.out
    assert ("warning: results are far from the model's" in printed.err) == (correlation < 0.9)
    assert target.exists()
