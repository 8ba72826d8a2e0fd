"""One core of xpulpnn as a target of the end-to-end debug tests of riscv-tests."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import targets

RAM, RAM_BYTES = 0x8000_0000, 1 << 20
ENTRY = 0x1C00_0080


class Simulation:
    """The model under way, which serves a debugger."""

    def __init__(self, *options: str) -> None:
        self.log = Path(tempfile.mkstemp(prefix="xpulpnn-", suffix=".log")[1])
        program = os.environ["XPULPNN_DEBUG_PROGRAM"]
        python = os.environ.get("XPULPNN_PYTHON", sys.executable)
        line = [python, "-m", "xpulpnn_sim", "run", program, "--jtag", "0", "--ram", f"{RAM:#x}:1M", *options]
        self.lognames = [str(self.log)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(600):
            found = re.search(r"served at port (\d+)", self.log.read_text())
            if found:
                os.environ["REMOTE_BITBANG_HOST"], os.environ["REMOTE_BITBANG_PORT"] = "localhost", found[1]
                return
            time.sleep(0.1)
        raise RuntimeError(f"the model must serve a debugger, see {self.log}")

    def __del__(self) -> None:
        self.process.kill()
        self.process.wait()


class CoreHart(targets.Hart):
    xlen = 32
    ram = RAM
    ram_size = RAM_BYTES
    bad_address = RAM - 8
    instruction_hardware_breakpoint_count = 2
    reset_vectors = [ENTRY]
    link_script_path = "xpulpnn_core.lds"
    misa = 0x4080_1104


class XpulpnnCore(targets.Target):
    harts = [CoreHart()]
    openocd_config_path = "xpulpnn_core.cfg"
    timeout_sec = 60
    # a core alone has no timer, and there are no triggers of other kinds than mcontrol
    supports_clint_mtime = False
    support_mcontrol6 = support_icount = support_itrigger = support_etrigger = False
    implements_page_virtual_memory = False

    def create(self):
        return Simulation("--preset", "xpulpnn2")
