"""The coprocessor's wrappers against interface types like those of the cores, and the example with CV32E40X."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from xpulpnn.errors import ConfigError
from xpulpnn.verilog import emit
from xpulpnn.xif.config import XIF_PRESETS
from xpulpnn.xif.coprocessor import Coprocessor
from xpulpnn.xif.wrappers import WRAPPERS, wrapper
from xpulpnn_sim.tools.yosys import require_verilator

EXAMPLE = Path(__file__).parents[2] / "examples/xif/system.sv"
_FLAGS = (
    "--lint-only",
    "-Wall",
    "-Wno-DECLFILENAME",
    "-Wno-PINCONNECTEMPTY",
    "-Wno-UNUSEDSIGNAL",
    "-Wno-MULTITOP",
    "-Wno-SYMRSVDWORD",
)

_BEFORE_1_0 = {
    "x_issue_req_t": "logic [31:0] instr; logic [3:0] id; logic [2:0][31:0] rs; logic [2:0] rs_valid;",
    "x_issue_resp_t": "logic accept, writeback, dualwrite; logic [2:0] dualread; logic loadstore, ecswrite, exc;",
    "x_commit_t": "logic [3:0] id; logic commit_kill;",
    "x_result_t": "logic [3:0] id; logic [31:0] data; logic [4:0] rd; logic we; logic [5:0] ecsdata; "
    "logic [2:0] ecswe; logic exc; logic [5:0] exccode; logic err, dbg;",
}
_FROM_1_0 = {
    "x_issue_req_t": "logic [31:0] instr, hartid; logic [{top}:0] id;",
    "x_issue_resp_t": "logic accept; logic [0:0] writeback; logic [2:0] register_read;",
    "x_register_t": "logic [31:0] hartid; logic [{top}:0] id; logic [2:0][31:0] rs; logic [2:0] rs_valid;",
    "x_commit_t": "logic [31:0] hartid; logic [{top}:0] id; logic commit_kill;",
    "x_result_t": "logic [31:0] hartid; logic [{top}:0] id; logic [31:0] data; logic [4:0] rd; logic [0:0] we;",
}
_CVA6 = {
    "x_compressed_resp_t": "logic [31:0] instr; logic accept;",
    "cvxif_req_t": "logic issue_valid, register_valid, commit_valid, result_ready; x_issue_req_t issue_req; "
    "x_register_t \\register ; x_commit_t commit;",
    "cvxif_resp_t": "logic compressed_ready, issue_ready, register_ready, result_valid; x_issue_resp_t issue_resp; "
    "x_compressed_resp_t compressed_resp; x_result_t result;",
}
_TYPES = {"cv32e40px": _BEFORE_1_0, "cve2": _FROM_1_0, "cva6": _FROM_1_0 | _CVA6}
_PARAMETERS = {"cva6": ("cvxif_req_t", "cvxif_resp_t")}


def _lint(folder: Path, top: str, *more: str) -> None:
    root = require_verilator()
    command = [str(root / "bin/verilator"), *_FLAGS, "--top-module", top, *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"VERILATOR_ROOT": str(root)})
    assert done.returncode == 0, done.stderr


def _write(folder: Path, host: str, memory: str) -> None:
    # less inside, with the same ports
    config = replace(XIF_PRESETS[host], memory=memory, simd=False, mixed_weights=False)
    (folder / "xif.v").write_text(emit(Coprocessor(config), "xif", prefix="xpulpnn_").text)
    (folder / "wrapper.sv").write_text(wrapper(host, config, "xpulpnn_xif"))


@pytest.mark.flow
@pytest.mark.parametrize(("host", "memory"), [*((host, "obi") for host in _TYPES), ("cve2", "none")])
def test_wrapper_fits_the_types_of_its_core(host, memory, tmp_path):
    _write(tmp_path, host, memory)
    fields = {name: text.replace("{top}", str(XIF_PRESETS[host].id_bits - 1)) for name, text in _TYPES[host].items()}
    types = "".join(f"typedef struct packed {{ {text} }} {name};\n" for name, text in fields.items())
    passed = ", ".join(f".{name}({name})" for name in _PARAMETERS.get(host, fields))
    # ports stay open: their directions and widths are those of the wrapper itself
    top = f"module top;\n{types}xpulpnn_xif_{host} #({passed}) wrapped();\nendmodule\n"
    (tmp_path / "top.sv").write_text(top)
    _lint(tmp_path, "top", "-Wno-PINMISSING", "top.sv", "wrapper.sv", "xif.v")


@pytest.mark.flow
@pytest.mark.parametrize("memory", ["xif", "obi"])
def test_system_of_the_example_is_clean(memory, tmp_path):
    host = pytest.importorskip("xpulpnn_sim.cosimulation.model.host")
    pytest.importorskip(host.PACKAGE, reason="needs pythondata-cpu-cv32e40x: pip install '.[xif]'")
    _write(tmp_path, "cv32e40x", memory)
    (tmp_path / "core.sv").write_text(host.core_sources())
    others = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-PINMISSING", "-Wno-PINNOTFOUND", "--timing"]
    text = EXAMPLE.read_text()
    if memory != "obi":
        text = "\n".join(line for line in text.splitlines() if ".obi_" not in line).replace(
            ".xif_result_if(xif),\n  );", ".xif_result_if(xif)\n  );"
        )
    (tmp_path / "system.sv").write_text(text)
    _lint(tmp_path, "system", "-DXPULPNN_IF_XIF=if_xif", *others, "core.sv", "wrapper.sv", "xif.v", "system.sv")


@pytest.mark.parametrize("host", WRAPPERS)
def test_other_interfaces_are_refused(host):
    other = {"0.2": "1.0", "1.0": "0.2"}[XIF_PRESETS[host].version]
    with pytest.raises(ConfigError, match=f"^version must be .* for {host}, not {other}$"):
        wrapper(host, replace(XIF_PRESETS[host], version=other), "xif")
    if host == "cv32e40px":
        with pytest.raises(ConfigError, match=f"^memory must be none or obi for {host}, not xif$"):
            wrapper(host, replace(XIF_PRESETS[host], memory="xif"), "xif")
