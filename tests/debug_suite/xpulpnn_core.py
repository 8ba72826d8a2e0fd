"""One core of xpulpnn as a target of the end-to-end debug tests of riscv-tests."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import targets

RAM, RAM_BYTES = 0x8000_0000, 1 << 15
ENTRY = 0x1C00_0080
HERE = Path(__file__).parent


class Simulation:
    def __init__(self, *options: str) -> None:
        self.log = Path(tempfile.mkstemp(prefix="xpulpnn-", suffix=".log")[1])
        program = self.log.with_suffix(".elf")
        layout = (
            "-march=rv32i",
            "-mabi=ilp32",
            "-nostdlib",
            f"-Wl,-Ttext={ENTRY:#x}",
            f"-Wl,-Tdata={ENTRY + 0x1000:#x}",
        )
        subprocess.run(["riscv64-unknown-elf-gcc", *layout, HERE / "idle.S", "-o", program], check=True)
        os.environ["WORK_AREA"] = f"{RAM:#x}"
        python = os.environ.get("XPULPNN_PYTHON", sys.executable)
        line = [python, "-m", "xpulpnn_sim", "run", str(program), "--jtag", "0", "--ram", f"{RAM:#x}:1M", *options]
        self.lognames = [str(self.log)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while self.process.poll() is None:
            match = re.search(r"served at port (\d+)", self.log.read_text())
            if match:
                os.environ["REMOTE_BITBANG_HOST"], os.environ["REMOTE_BITBANG_PORT"] = "localhost", match[1]
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
    # a core alone has no timer; triggers are mcontrol alone, and the debugger's
    support_mcontrol = False
    supports_clint_mtime = False
    support_mcontrol6 = support_icount = support_itrigger = support_etrigger = False
    implements_page_virtual_memory = False
    # OpenOCD 0.12 has no memory_sample
    support_memory_sampling = False

    skip_tests = [
        # gdb steps, and OpenOCD 0.12 refuses the second breakpoint at one address that it then asks for
        "ProgramSwWatchpoint",
        # OpenOCD 0.12 hands no files of the host to programs
        "SemihostingFileio",
        # needs the CLINT's mtime
        "SmpSimultaneousRunHalt",
        # need atomic instructions
        "MulticoreRunAllHaltOne",
        "MulticoreRtosSwitchActiveHartTest",
    ]

    def server(self, test):
        # the suite speaks to a newer OpenOCD
        old = " ".join(
            f"--command 'proc {name} {{what value}} {{{name}_$what $value}}'" for name in ("gdb", "tcl", "telnet")
        )
        self.server_cmd = f"openocd {old}"
        return super().server(test)

    def create(self):
        return Simulation("--preset", "xpulpnn2")
