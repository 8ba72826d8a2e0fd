"""The wrapper of a design with a repeated module: what the simulator makes of its instances."""

import os
import re
import subprocess
from dataclasses import replace

import pytest
from tests.designs import PAIR

from xpulpnn_sim.cosimulation.model.build import ALIKE_FLAGS, CONTROL_FILE, TOP
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, cluster_rig
from xpulpnn_sim.tools.verilator import require_verilator

pytestmark = pytest.mark.cosim


def test_all_cores_run_the_same_function_once_a_cycle(tmp_path):
    rig = replace(
        cluster_rig(*cached_emission("cluster", replace(PAIR, rvfi=True, memories="ports"), both_edges=True)),
        both_edges=True,
    )
    for name, text in {"design.v": rig.verilog, **rig.sources()}.items():
        (tmp_path / name).write_text(text)
    root = require_verilator()
    command = (str(root / "bin" / "verilator"), "--cc", "-O3", *ALIKE_FLAGS, "-Wno-fatal", "-Wno-lint", "-Wno-style")
    done = subprocess.run(
        (*command, "--top-module", TOP, "-Mdir", "obj", CONTROL_FILE, f"{TOP}.sv", "design.v"),
        cwd=tmp_path,
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    # a loop through bits of one variable would be evaluated until nothing changes any more
    assert "UNOPTFLAT" not in done.stdout + done.stderr
    text = "".join(path.read_text() for path in (tmp_path / "obj").glob("*.cpp"))
    functions = set(re.findall(r"^void V\w+_core\w*nba\w+DOT__core(\d)__\d+\(", text, re.MULTILINE))
    assert functions == {"0"}
