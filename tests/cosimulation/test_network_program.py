"""Networks as C programs: what they compute is what the reference does, and they notice when it is not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.random_graphs import random_graph

from xpulpnn.config import PRESETS, ClusterConfig, CoreConfig
from xpulpnn.errors import LayerError, ToolError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks import network_program as module
from xpulpnn_sim.cosimulation.networks.network_program import Inputs, NetworkProgram, network_program, program_options
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import load, load_for
from xpulpnn_sim.reference.programs.exits import Exit
from xpulpnn_sw.networks.network import Network, Scaling
from xpulpnn_sw.networks.network_file import NetworkBuilder, read_network
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.build import build

pytestmark = pytest.mark.cosim

DIGITS = Path(__file__).parents[2] / "examples/digits"
CORE = PRESETS["xpulpnn"]
LIMIT = 5_000_000

Config = CoreConfig | ClusterConfig


def program_of(seed: int, config: Config, images: int = 2) -> NetworkProgram:
    """A random network with inputs that it makes of images."""
    network, values = random_graph(seed, images=images)
    samples, scaling = values, Scaling()
    if set(np.unique(values)) == {-1, 1}:
        samples, scaling = (values + 1) // 2, Scaling(multiply=2, add=-1)
    elif values.min() < 0:
        samples, scaling = values + 128, Scaling(subtract=(128,) * values.shape[-1])
    return c_program(network, Inputs(values=values, samples=samples, scaling=scaling), config)


def c_program(network: Network, inputs: Inputs, config: Config, core: str = "xpulpnn") -> NetworkProgram:
    return network_program(network, inputs, config, core=core, settings=f"--preset {core}")


def built(program: NetworkProgram, folder: Path, config: Config, compiler: str | None = None) -> Path:
    for name, text in program.texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    options = program_options(config, include=(folder / "include",), extra=("-Wall", "-Wextra", "-Werror"))
    build([folder / name for name in program.sources], folder / "x.elf", compiler=compiler, options=options)
    return folder / "x.elf"


def run(path: Path, config: Config) -> tuple[Exit, str]:
    printed: list[bytes] = []
    kind = ClusterSession if isinstance(config, ClusterConfig) else IssSession
    session = kind(load_for(path, config, ()), config, output=lambda output: printed.append(output.data))
    return session.run(LIMIT), b"".join(printed).decode()


def printed(program: NetworkProgram, folder: Path, config: Config) -> str:
    """What a program prints that ends well."""
    end, text = run(built(program, folder, config), config)
    assert end.ok, text
    return text


@pytest.fixture(params=compilers.COMPILERS)
def compiler(request: pytest.FixtureRequest) -> str:
    try:
        compilers.find_compiler(request.param)
    except ToolError:
        pytest.skip(f"{request.param} is not installed")
    return request.param


# additions, branches, filters of each channel, values around maps, elements of one bit
@pytest.mark.parametrize(("seed", "cores"), [(47, 1), (49, 3)])
def test_random_networks(seed: int, cores: int, tmp_path: Path):
    config = ClusterConfig(core=CORE, cores=cores) if cores > 1 else CORE
    program = program_of(seed, config)
    assert "input.c" in program.sources
    # the model that net run takes
    assert cores == 1 or "run $(CORE) --cores 3 --icache 512 $<\n" in program.texts["Makefile"]
    text = printed(program, tmp_path, config)
    assert text.endswith("0 wrong layers, 0 wrong scores\n")
    names = [layer.stage.name for layer in program.network.layers]
    assert [line.split()[0] for line in text.splitlines()[1 : len(names) + 1]] == names


def test_what_has_no_room_in_the_tcdm_is_used_where_it_is(tmp_path: Path):
    """In the least TCDM that has room for stacks: maps, buffers and weights of both kinds, inside and outside."""
    config = ClusterConfig(core=CORE, cores=2, tcdm_bytes=4096)
    program = program_of(20, config)
    plan = program.network.plan
    assert plan.weights_outside
    assert plan.outside
    assert plan.pieces
    printed(program, tmp_path, config)


@pytest.mark.parametrize("name", ["xpulpnn", "xpulpnn3"])
def test_a_layer_of_one_pixel(name: str, tmp_path: Path):
    """It has the function of another variant, with weights narrower than its inputs."""
    rng, config, builder = np.random.default_rng(2), PRESETS[name], NetworkBuilder("pixel")
    arrays = {"weights": rng.integers(-8, 8, (8, 1, 1, 8)), "shift": np.array(3)}
    builder.add("only", "pointwise", "1x1x8:8", "8x4x8", arrays, requantise="shift")
    inputs = Inputs(values=rng.integers(0, 256, (2, 1, 1, 8)))
    text = printed(c_program(builder.finish().network, inputs, config, name), tmp_path, config)
    assert text.endswith("0 wrong layers, 0 wrong scores\n")


def test_more_results_than_a_stack_has_room_for(tmp_path: Path):
    config = ClusterConfig(core=CORE, cores=2)
    builder, weights = NetworkBuilder("wide"), np.random.default_rng(4).integers(-100, 100, (640, 16))
    builder.add("last", "linear", "16:640:raw", "8x8xi32", {"weights": weights})
    network = builder.finish()
    inputs = Inputs(values=network.random_input(0)[np.newaxis])
    printed(c_program(network.network, inputs, config), tmp_path, config)


def test_digits_on_the_core(compiler: str, tmp_path: Path):
    """The scores in the program's own memory, beside those of the reference."""
    config = PRESETS["xpulpnn-full"]
    described = read_network(DIGITS / "digits4.json")
    values = described.random_input(3)[np.newaxis]
    inputs = Inputs(values=values, labels=np.array([7]))
    program = network_program(described.network, inputs, config, core="", settings="", classes=described.labels)
    path = built(program, tmp_path, config, compiler)
    text: list[bytes] = []
    result = run_program(
        load(path), simulated(config), Machine(max_cycles=100_000), output=lambda output: text.append(output.data)
    )
    assert result.exit.ok, result.exit.text
    answer = int(run_reference(described.network, values)[-1].argmax())
    line = rf"^example 0: {answer} \({described.labels[answer]}\), labelled {described.labels[7]}, \d+ cycles, 0 wrong"
    assert re.search(line, b"".join(text).decode(), re.MULTILINE)


FAULTS = {
    "a weight": ("weights.c", r"(weights = \{\s+)0x(.{8})", r"\g<1>~0x\g<2>"),
    "a map over another": ("network.c", r"at_depthwise1_output = \d+", "at_depthwise1_output = at_conv0_output"),
    "an expected score": ("examples.h", r"(scores = \{-?)", r"\g<1>1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault: str, tmp_path: Path):
    """The program is right without its fault: see the first of the random networks."""
    program = program_of(47, CORE, images=1)
    name, pattern, replacement = FAULTS[fault]
    program.texts[name], count = re.subn(pattern, replacement, program.texts[name], count=1)
    assert count == 1
    end, text = run(built(program, tmp_path, CORE), CORE)
    assert end.code == 1
    assert ("results must be those of the reference" in text) != (fault == "an expected score")


def test_memory_grows_with_a_network(monkeypatch: pytest.MonkeyPatch):
    builder = NetworkBuilder("large")
    arrays = {"weights": np.ones((2048, 2048), np.int8), "shift": np.array(1)}
    builder.add("row", "linear", "2048:2048", "8x8x8", arrays, requantise="shift")
    network = builder.finish().network
    inputs = Inputs(values=np.zeros((1, 2048), int))
    program = c_program(network, inputs, ClusterConfig(core=CORE, cores=4))
    assert program.ram == 5 << 20
    assert " --ram 5M $(CFLAGS)" in program.texts["Makefile"]
    monkeypatch.setattr(module, "MAX_ROM", 4 << 20)
    message = r"^program must be at most 4194304 bytes, not \d+: weights 42\d+, .* of large, in the memory of code .*$"
    with pytest.raises(LayerError, match=message):
        c_program(network, inputs, CORE)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Files, record, and a program that the Makefile and the line of the README build too, in a shell that knows no
    xpulpnn."""
    scripts = Path(sys.executable).parent
    path = [place for place in os.environ["PATH"].split(os.pathsep) if place != str(scripts)]
    monkeypatch.setenv("PATH", os.pathsep.join([str(scripts), *path]))
    folder, record = tmp_path / "program", tmp_path / "record.json"
    words = ["net", "generate", str(DIGITS / "digits2.json"), "-o", str(folder), "--json", str(record)]
    assert cli.main([*words, "--build"]) == 0
    captured = capsys.readouterr()
    assert "--specialise writes faster ones" in captured.err
    assert "690,055 instead of 1,176,000 cycles" in " ".join((folder / "README.md").read_text().split())
    printed = captured.out.split()
    assert {str(folder / name) for name in ("network.c", "main.c", "Makefile", "plan.svg", "network.elf")} < {*printed}
    assert record.read_text().count('"function"') == 2
    assert run(folder / "network.elf", PRESETS["xpulpnn2"])[0].ok
    (folder / "network.elf").unlink()
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    make = ["make", "-s", "-C", str(folder)]
    assert subprocess.run(make, check=False, capture_output=True, text=True).stderr == ""
    assert run(folder / "network.elf", PRESETS["xpulpnn2"])[0].ok
    (folder / "main.c").rename(folder / "application.c")
    (line,) = re.findall(r"^\S+ cc .*$", (folder / "README.md").read_text(), re.MULTILINE)
    subprocess.run(line, shell=True, cwd=folder, check=True)
    assert run(folder / "application.elf", PRESETS["xpulpnn2"])[0].ok


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seed -1", 'Invalid value "-1" for --seed. It must be at least 0.'),
        ("--compiler tcc --build", 'Invalid value "tcc" for --compiler. Choose from: "gcc", "zig", "clang".'),
        ("--compiler gcc", "--compiler must come with --build, not alone with gcc"),
        ("--images labelled.npz", "labels of images must be 0..9, not 10, in labelled.npz"),
    ],
)
def test_what_is_refused(words, message, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("labelled.npz", images=np.zeros((1, 8, 8), np.uint8), labels=np.array([10]))
    folder = tmp_path / "program"
    assert message in refused("net", "generate", DIGITS / "digits2.json", "-o", folder, *words.split())
    assert not folder.exists()
