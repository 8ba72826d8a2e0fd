"""The cache of compiled models, with the compiler replaced."""

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.harness import build
from xpulpnn_sim.harness.shim import ports, shim

pytestmark = pytest.mark.unit

PORTS = {
    "input": "clk rst insn__valid insn__payload__compressed data__gnt data__rvalid surplus",
    "input [31:0]": "insn__payload__word insn__payload__pc data__rdata",
    "output": "insn__ready jump__valid branch__valid data__req data__we trap__valid busy",
    "output [31:0]": "jump__target branch__target data__addr data__wdata",
    "output [4:0]": "trap__cause",
    "output [3:0]": "data__be",
}
BACKEND = (
    "module backend;\n"
    + "".join(f"  {kind} {name};\n" for kind, names in PORTS.items() for name in names.split())
    + "endmodule\n"
)


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Counts compilations; another process finishes the same model while this one compiles."""
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    runs = []

    def compile_model(command, folder, environment):
        runs.append(command)
        (folder / "model.so").write_text(f"model {len(runs)}")
        if len(runs) == 1:
            build.build_model(BACKEND)

    monkeypatch.setattr(build, "_run", compile_model)
    return runs


def test_simultaneous_builds_leave_one_model(compiler, tmp_path):
    library = build.build_model(BACKEND)
    assert len(compiler) == 2
    assert list(tmp_path.iterdir()) == [library]
    assert library.read_text() == "model 1"


def test_models_are_reused_until_something_changes(compiler):
    first = build.build_model(BACKEND)
    done = len(compiler)
    assert build.build_model(BACKEND) == first
    assert len(compiler) == done
    assert build.build_model(BACKEND, trace=True) != first
    assert build.build_model(BACKEND + "// changed\n") != first
    assert len(compiler) == done + 2


def test_failed_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    tool = tmp_path / "compiler"
    tool.write_text("#!/bin/sh\necho 'x.cpp:1: error: no such luck' >&2\nexit 1\n")
    tool.chmod(0o755)
    run = build._run
    monkeypatch.setattr(build, "_run", lambda _, *rest: run([str(tool)], *rest))
    with pytest.raises(ToolError) as caught:
        build.build_model(BACKEND)
    assert str(caught.value) == "verilator must be able to compile the model: x.cpp:1: error: no such luck"
    assert [entry.name for entry in tmp_path.iterdir()] == ["compiler"]


def test_cache_must_be_writable(monkeypatch):
    monkeypatch.setenv(build.CACHE_VARIABLE, "/proc/none")
    with pytest.raises(ToolError) as caught:
        build.cache_directory()
    assert str(caught.value) == "XPULPNN_CACHE must be a writable folder, not /proc/none"


def test_ports_are_read_from_the_verilog():
    assert ports(BACKEND)["trap__cause"] == ("output", 5)
    assert ports(BACKEND)["insn__payload__word"] == ("input", 32)
    with pytest.raises(ToolError):
        ports("module other;\nendmodule\n")


def test_shim_drives_what_it_knows_and_ties_the_rest():
    text = shim(BACKEND)
    assert ".insn__valid(drive[0])" in text
    assert ".surplus(1'd0)" in text
    assert "cosim_retire({" not in text
