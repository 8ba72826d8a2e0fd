"""The CPUs of LiteX: what its command makes of them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.flow
SIMULATED = ("litex_sim", "--cpu-type", "xpulpnn", "--cpu-variant")


def litex(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "xpulpnn_sim", "litex", *words]
    given = {**os.environ, **environment}
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, env=given)


def test_core_is_part_of_a_system(tmp_path: Path) -> None:
    words = "xpulpnn_cu+debug --no-compile --csr-json csr.json --with-jtagremote --output-dir system"
    done = litex(tmp_path, *SIMULATED, *words.split())
    assert done.returncode == 0, done.stdout + done.stderr
    system = json.loads((tmp_path / "csr.json").read_text())
    places = {name: memory["base"] for name, memory in system["memories"].items()}
    assert places == {"rom": 0, "sram": 0x0100_0000, "csr": 0xF000_0000, "debug": 0x1A11_0000}
    verilog = (tmp_path / "system/gateware/sim.v").read_text()
    ports = r"\.(ibus|dbus|sbus)__(adr|dat_w|dat_r|sel|cyc|stb|we|cti|bte|ack|err)\b"
    assert len(set(re.findall(ports, verilog))) == 3 * 11
    connected = dict(re.findall(r"\.(\w+) +\((.*)\)", verilog))
    jtag = ("tck_clk", "jtag_tck"), ("tms", "jtag_tms"), ("tdi", "jtag_tdi"), ("tdo", "jtag_tdo"), ("tck_rst", "1'd0")
    assert dict(jtag).items() <= connected.items()
    # a reset of the system is none of the debug module, which asks for one
    assert (connected["system_reset"], connected["rst"]) == ("(sys_rst | xpulpnn_reset)", "(~xpulpnn_powered)")
    assert re.search(r"if \(\(xpulpnn_ndmreset & \(~\w+\)\)\) begin\s+sys_rst <= 1'd1;", verilog)
    head = re.sub(r"\n// +", " ", (tmp_path / "system/core-wishbone.v").read_text()[:4000])
    settings = ("core.mac_load_cu = true", "core.shifter = steps", "core.late_results = true", "core.debug = true")
    for setting in (*settings, "icache_ways = 1", "prefetch = false"):
        assert setting in head


VARIANTS = """
from types import SimpleNamespace
from litex.build.lattice import LatticeECP5Platform
from xpulpnn.bus.core import CoreOnBus
from xpulpnn.debug.dtm import FpgaDtm, JtagDtm
from xpulpnn_sim.publishing.litex.cpu.core import Xpulpnn, XpulpnnCluster
ecp5 = "LFE5U-25F-6BG381C"
for variant, device in ("standard", ecp5), ("xpulpnn3+debug", "SIM"), ("xpulpnn3+debug", ecp5):
    simulated = device == "SIM"
    platform = SimpleNamespace(device=device) if simulated else LatticeECP5Platform(device, [], toolchain="trellis")
    cpu = Xpulpnn(platform, variant)
    cpu.set_reset_address(0)
    core = cpu.config().core
    built = CoreOnBus(cpu.config(), "wishbone", transport=JtagDtm if simulated else FpgaDtm)
    ports = built.signature.members.items()
    ins = [name for name, member in ports if not member.is_signature and member.flow.name == "In"]
    connected = {name[2:] for name in cpu.cpu_params if name.startswith("i_") and "__" not in name} - {"clk", "rst"}
    outs = {name[2:] for name in cpu.cpu_params if name.startswith("o_") and "__" not in name}
    same = connected - {"tck_clk", "tck_rst"} == set(ins) and outs <= set(dict(ports))
    print(variant, core.debug, core.mac_load_pair, len(cpu.periph_buses), same, "jtdi" in connected)
for variant in ("standard", "cluster3_2", "cluster_bf4"):
    cpu = XpulpnnCluster(None, variant)
    config = cpu.config()
    fpga = config.core.late_results, config.core.regfile, config.icache_ways, config.prefetch
    print(variant, config.cores, config.banks, config.core.mac_load_pair, "-DCORES=2 " in cpu.gcc_flags, *fpga)
print(platform.toolchain._synth_opts, platform.toolchain._pnr_opts, sep="|")
platform.toolchain._pnr_opts = ""
XpulpnnCluster(platform, "cluster2_2")
print(platform.toolchain._pnr_opts)
"""


def test_variants_and_options_of_synthesis() -> None:
    # in a process of its own, as compiling LiteX warns
    done = subprocess.run([sys.executable, "-c", VARIANTS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "standard False False 2 True False",
        "xpulpnn3+debug True True 3 True False",
        "xpulpnn3+debug True True 3 True True",
        "standard 8 16 False False True lut-ram 1 False",
        "cluster3_2 2 8 True True True lut-ram 1 False",
        "cluster_bf4 8 32 False False True lut-ram 1 False",
        "-nowidelut |--placer-heap-timingweight 30 ",
        "--placer-heap-timingweight 30 --placer-heap-critexp 3 ",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.here"], "SCRIPT must be a command of LiteX or a module, not nothing.here"),
        ([*SIMULATED, "xpulpnn3"], "error: a RISC-V GCC must be installed for the software of LiteX: apt-get install"),
        ([*SIMULATED, "xpulpnn9"], "error: --cpu-variant must be one of standard, "),
        (
            [*SIMULATED, "xpulpnn3", "--with-jtagremote"],
            "error: --cpu-variant must end with +debug for --with-jtagremote, not be xpulpnn3",
        ),
    ],
)
def test_wrong_words(tmp_path: Path, words: list[str], message: str) -> None:
    done = litex(tmp_path, *words, PATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
