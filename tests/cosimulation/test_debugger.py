"""Programs in the hands of a debugger: what ends a run, and a session of gdb and OpenOCD on the compiled core."""

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.schema import Event
from xpulpnn_sim.cosimulation.workloads.debugger import serving
from xpulpnn_sim.reference.programs.exits import Exit, Reason

PASS = Exit(Reason.PASS, 0, 0, None, "pass")


@pytest.mark.unit
def test_a_run_ends_when_program_and_debugger_have():
    told = []
    with serving(0, holds=True, tell=told.append) as debugger:
        assert debugger.settings(3) == {"jtag": debugger.listener.fileno() + 1, "held": 4}
        assert debugger.ended(Event(0), None) is None
        assert debugger.ended(Event.DEBUGGER_CAME, None) is None
        assert debugger.ended(Event(0), PASS) is None
        assert told == ["the program has ended: pass"]
        assert debugger.ended(Event.DEBUGGER_LEFT, None) is PASS


@pytest.mark.unit
def test_without_a_debugger_a_run_ends_with_its_program():
    with serving(0) as debugger:
        assert debugger.ended(Event(0), PASS) is PASS


@pytest.mark.unit
def test_a_port_that_is_taken_is_refused():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"^port must be a free one, not {port}: "), serving(port):
            pass


SOURCE = """
volatile int sum;
int twice(int x) { return 2 * x; }
int main(void) {
    for (int i = 0; i < 5; i++)
        sum += twice(i);
    asm volatile("traps: unimp");
    return sum != 20;
}
"""
SESSION = ("break twice", "continue", "print sum", "stepi", "watch sum", "continue", "print sum", "monitor reset halt")
SESSION += ("maintenance flush register-cache",)
SESSION += (
    "info registers pc",
    "hbreak *traps",
    "delete 1 2",
    "continue",
    "stepi",
    "print $mcause",
    "monitor shutdown",
)


def _terminated(line):
    """A session that is told to end leaves no process behind."""
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as session:
        assert any("_start" in text for text in session.stdout)
        children = Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text().split()
        assert len(children) == 2
        session.terminate()
        assert session.wait(60) == 128 + signal.SIGTERM
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


@pytest.mark.cosim
@pytest.mark.flow
def test_gdb_breaks_steps_watches_and_resets(tmp_path):
    for tool in ("openocd", "gdb-multiarch", "riscv64-unknown-elf-gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    (tmp_path / "sum.c").write_text(SOURCE)
    program, xpulpnn = tmp_path / "sum.elf", [sys.executable, "-m", "xpulpnn_sim"]
    options = ("-g", "-O1", "-fno-inline", "--preset", "ri5cy", "-o", program)
    line = [*xpulpnn, "cc", tmp_path / "sum.c", *options]
    subprocess.run(line, check=True, capture_output=True)
    words = [word for text in SESSION for word in ("--ex", text)]
    done = subprocess.run([*xpulpnn, "debug", program, "--batch", *words], capture_output=True, text=True, timeout=300)
    shown = done.stdout
    _terminated([*xpulpnn, "debug", program, "--batch", "--ex", "continue"])
    assert "Breakpoint 1, twice (x=x@entry=0)" in shown or "Breakpoint 1, twice (x=0)" in shown
    assert "$1 = 0" in shown
    assert "Hardware watchpoint 2: sum" in shown
    assert "New value = 2" in shown or "Breakpoint 1, twice" in shown
    assert "0x1c000080 <_start>" in shown
    # the step of an instruction that traps ends at the first of the handler
    assert "$3 = 2" in shown
