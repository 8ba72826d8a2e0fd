"""Programs in the hands of a debugger: what ends a run, and a session of gdb and OpenOCD on the compiled core."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.schema import HART_STATUS, Event
from xpulpnn_sim.cosimulation.workloads.debugger import serving
from xpulpnn_sim.reference.programs.exits import Exit, Reason

PASS = Exit(Reason.PASS, 0, 0x1000, None, "pass")
LOOP = Exit(Reason.ENDLESS_LOOP, 0, 0x1000, None, "loop")


def harts(retired=0, pc=0):
    states = np.zeros(2, HART_STATUS)
    states[1]["retired"], states[1]["pc"], states[1]["next_pc"] = retired, pc, pc
    return states


def test_a_run_ends_when_program_and_debugger_have():
    messages = []
    with serving(0, holds=True, tell=messages.append) as debugger:
        assert debugger.settings(3) == {"jtag": debugger.listener.fileno() + 1, "held": 4}
        assert debugger.ended(Event(0), None, {}, harts()) is None
        assert debugger.ended(Event.DEBUGGER_CAME, None, {}, harts()) is None
        assert debugger.ended(Event(0), PASS, {"source": "a.c:1"}, harts()) is None
        assert messages == ["the program has ended: pass\nsource: a.c:1"]
        assert debugger.ended(Event.DEBUGGER_LEFT, None, {}, harts()) is PASS


AGAIN = {
    "not halted yet": ([(Event.CYCLE_LIMIT, 20_000, 0x1004)], 1),
    "continued": ([(Event.DEBUGGER_RESTS, 0, 0x1004), (Event.CYCLE_LIMIT, 20_000, 0x1004)], 2),
    "continued soon": ([(Event.CYCLE_LIMIT, 20_000, 0x1004)] * 16, 2),
    "stepped": ([(Event.DEBUGGER_RESTS, 0, 0x1004), (Event.CYCLE_LIMIT, 9, 0x1004)], 1),
    "begun anew": ([(Event.DEBUGGER_RESTS, 0, 0x1004), (Event.CYCLE_LIMIT, 20_000, 0x1204)], 1),
}


@pytest.mark.parametrize("case", AGAIN)
def test_a_program_that_has_ended_is_halted_whenever_it_loops_there(case):
    chunks, count = AGAIN[case]
    halts, messages, retired = [], [], 0
    with serving(0, tell=messages.append) as debugger:
        debugger.ended(Event.DEBUGGER_CAME, None, {}, harts())
        debugger.halt = lambda: halts.append(1)
        debugger.ended(Event.CYCLE_LIMIT, None, {}, harts(20_000, 0x1004))
        assert halts == []
        debugger.ended(Event(0), PASS, {}, harts(20_000, 0x1000))
        for events, executed, pc in chunks:
            retired += executed
            assert debugger.ended(events, None, {}, harts(20_000 + retired, pc)) is None
        assert len(halts) == count
        assert messages == ["the program has ended: pass"] * count


def test_without_a_debugger_a_run_ends_with_its_program_but_waits_for_one_for_ever():
    with serving(0) as debugger:
        assert debugger.ended(Event.ENDLESS_LOOP, LOOP, {}, harts()) is None
        assert debugger.ended(Event(0), PASS, {}, harts()) is PASS


def test_a_port_that_is_taken_is_refused():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"^port must be a free one, not {port}: "), serving(port):
            pass


PAGE = (Path(__file__).parents[2] / "docs" / "debug.md").read_text()
SUMS = re.search(r":caption: sums\.c\n\n(.*?)```", PAGE, re.DOTALL)[1]
TYPED = re.findall(r"^\(gdb\) (.*)", PAGE, re.MULTILINE)
OTHER = """
volatile int sum;
int main(void) {
    for (int i = 0; i < 5; i++)
        sum += 2 * i;
    asm volatile("traps: unimp");
    return sum != 20;
}
"""
BEHIND = ("monitor reset halt", "info registers pc", "delete", "hbreak *traps")
BEHIND += ("continue", "stepi", "print $mcause", "info threads", "monitor shutdown")
WAITS = "volatile int stop; int main(void) { while (!stop); return 3; }"
LONG = "XPULPNN_DEBUG_TESTS" in os.environ


XPULPNN = [sys.executable, "-m", "xpulpnn_sim"]


def compiled(folder, name, text, *options):
    for tool in ("openocd", "gdb-multiarch", "riscv64-unknown-elf-gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    (folder / "build").mkdir(exist_ok=True)
    (folder / f"{name}.c").write_text(text)
    line = [*XPULPNN, "cc", "-g", "-O0", f"{name}.c", *options, "-o", f"build/{name}.elf"]
    subprocess.run(line, check=True, capture_output=True, cwd=folder)


@pytest.mark.cosim
@pytest.mark.flow
@pytest.mark.parametrize(("number", "engine"), [(signal.SIGHUP, ()), (signal.SIGINT, ()), (signal.SIGINT, ("--iss",))])
def test_signals_to_a_session(number, engine, tmp_path):
    """No process stays. Ctrl-C, which reaches gdb too, halts the program; its end halts it again and gives the code."""
    compiled(tmp_path, "waits", WAITS, "--preset", "ri5cy")
    words = ["continue", "print 7", "set var stop = 1", "continue", "print 8", "continue", "print 9"]
    line = [*XPULPNN, "debug", "build/waits.elf", "--preset", "ri5cy", *engine, "--batch"]
    line += [word for text in words for word in ("--ex", text)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True) as session:
        assert any("_start" in text for text in session.stdout)
        children = Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text().split()
        assert len(children) == 2 - len(engine)
        time.sleep(1)
        (os.killpg if number == signal.SIGINT else os.kill)(session.pid, number)
        try:
            assert session.wait(60) == (1 if number == signal.SIGINT else 128 + number)
        except subprocess.TimeoutExpired:
            os.killpg(session.pid, signal.SIGKILL)
            raise
        shown = session.stdout.read()
    assert re.findall(r"^\$\d = (\d)", shown, re.MULTILINE) == (["7", "8", "9"] if number == signal.SIGINT else [])
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


FAILS = """#include <xpulpnn.h>
unsigned data[4] = {0x00010001};
void (*volatile where)(void) = (void (*)(void))data;
int grow(int n) { volatile char block[200]; block[n % 200] = n; return grow(n + 1) + block[0]; }
int called(int deep) { if (deep == 2) return xp_lw_rr(0, 4); if (deep) grow(0); else where(); return 1; }
int main(void) { return called(DEEP) + 1; }
"""
WILD = (
    r"ended: illegal instruction at 0x1\w+, coming from 0x\w+ \(called\+0x.*\nsource: fails.c:5\n"
    r".*<signal handler called>.* in called .* in main "
)
DEEP = (
    r"trap loop: .*again and again.*\nlast exception: store access fault at 0x\w+ \(grow\+0x\w+\), "
    r"address 0x0fff\w+: .*\nsource: fails.c:4\n"
    r"(?=gdb halts it|.* SIGABRT)"
)
HEADER = r"ended: load of 4 bytes outside memory: address 0x00000004, .*\nsource: fails.c:5\n"
ON_ISS = r"ended: stack overflow: .*\nsource: fails.c:4\n.* SIGSEGV.*\n#[0-9]{3,} .* in main "


@pytest.mark.cosim
@pytest.mark.flow
@pytest.mark.parametrize(
    ("deep", "told", "engine"),
    [
        (0, WILD, ()),
        (0, WILD, ("--iss",)),
        (1, DEEP, ()),
        (1, DEEP, ("--iss", "--bus-error", "0x0ff00000:1M")),
        (1, ON_ISS, ("--iss",)),
        (2, HEADER, ("--iss",)),
    ],
)
def test_a_program_that_fails_says_where_and_leads_to_the_prompt(deep, told, engine, tmp_path):
    compiled(tmp_path, "fails", FAILS, "--preset", "ri5cy", f"-DDEEP={deep}")
    line = [*XPULPNN, "debug", "build/fails.elf", "--preset", "ri5cy", *engine]  # gdb takes commands as at its prompt
    typed = {"input": "set pagination off\ncontinue\nbacktrace\nprint 7\n", "text": True}
    done = subprocess.run(line, **typed, capture_output=True, timeout=300, cwd=tmp_path)
    print(done.stdout, done.stderr)
    assert re.search(told + r".*\$\d = 7", done.stdout, re.DOTALL)


@pytest.mark.cosim
@pytest.mark.flow
@pytest.mark.parametrize(
    ("options", "harts"),
    [
        (("--preset", "ri5cy"), 0),
        *(
            pytest.param((*words, "--set", "nn_csrs=true"), harts, marks=pytest.mark.skipif(not LONG, reason="by hand"))
            for words, harts in [((), 0), (("--preset", "cluster2", "--cores", "8"), 8)]
        ),
    ],
)
def test_the_guides_session(options, harts, tmp_path):
    compiled(tmp_path, "sums", SUMS, *options)
    compiled(tmp_path, "other", OTHER, *options)
    words = [word for text in (*TYPED, *BEHIND) for word in ("--ex", text)]
    line = [*XPULPNN, "debug", "build/sums.elf", *options, "--batch"]
    done = subprocess.run([*line, *words], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    shown = done.stdout
    print(shown, done.stderr)
    assert "Breakpoint 1, main () at sums.c:4" in shown
    assert "Hardware watchpoint 2: total\n\nOld value = 1\nNew value = 3\n" in shown
    assert "csr_lpcount0   0x0" in shown
    assert ("$1 = 0" in shown) == ("nn_csrs=true" in options)
    assert "Breakpoint 3, main () at other.c:4" in shown
    # the step of an instruction that traps ends at the first of the handler
    assert "0x1c000080 <_start>" in shown
    assert re.search(r"^\$\d = 2$", shown, re.MULTILINE)
    assert [f"xpulpnn.cpu{hart}" in shown for hart in range(1, harts + 1)] == [True] * (harts - 1) + [False] * (
        harts > 0
    )


@pytest.mark.cosim
@pytest.mark.flow
def test_no_at_the_question_of_run_changes_nothing_and_what_is_outside_memory_is_no_zero(tmp_path):
    compiled(tmp_path, "fails", FAILS, "--preset", "ri5cy", "-DDEEP=1")
    asked = "import os, pty, sys; os.environ['TERM'] = 'dumb'; sys.exit(pty.spawn(sys.argv[1:]))"  # on a terminal
    words = ["break *xp_vector_exception", "continue", "up", "print block", "set var data[0] = 5", "run", "n"]
    line = [sys.executable, "-c", asked, *XPULPNN, "debug", "build/fails.elf", "--preset", "ri5cy"]
    done = subprocess.run(
        line,
        input="\n".join([*words, "print data[0] + 2", "quit", "y", ""]),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    print(done.stdout, done.stderr)
    assert re.search(r"Cannot access memory at address 0xff.*not restarted.*\$\d = 7", done.stdout, re.DOTALL)


WAITS_FOR_EVER = {"wfi": 'asm volatile("wfi");', "loop": "for (;;);"}


@pytest.mark.cosim
@pytest.mark.flow
@pytest.mark.parametrize("engine", [(), ("--iss",)])
@pytest.mark.parametrize("waits", WAITS_FOR_EVER)
def test_a_program_that_waits_for_ever_is_halted_each_time(waits, engine, tmp_path):
    compiled(tmp_path, "waits", f"int main(void) {{ {WAITS_FOR_EVER[waits]} return 0; }}", "--preset", "ri5cy")
    words = ["continue", "stepi", "set var $pc = main", "continue", "print 7"]
    line = [*XPULPNN, "debug", "build/waits.elf", "--preset", "ri5cy", *engine, "--batch"]
    line += [word for text in words for word in ("--ex", text)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    print(done.stdout, done.stderr)
    assert done.stdout.count("ended: endless loop at") >= 2
    assert "$1 = 7" in done.stdout
    assert done.returncode == 1


COUNTER = '#include <stdio.h>\nstatic volatile int counter = FIRST; int main(void) { printf("<%d>", ++counter); }'


@pytest.mark.cosim
@pytest.mark.flow
@pytest.mark.parametrize("engine", [(), ("--iss",)])
def test_run_starts_the_program_afresh_as_its_file_is_now(engine, tmp_path):
    for first, name in ((5, "counter"), (15, "rebuilt"), (25, "other")):
        compiled(tmp_path, name, COUNTER, "--preset", "ri5cy", f"-DFIRST={first}")
    words = [
        "continue",
        "backtrace",
        "start",
        "kill",
        "run",
        "shell cp build/rebuilt.elf build/counter.elf",
        "run",
        "file build/other.elf",
        "run",
    ]
    line = [*XPULPNN, "debug", "build/counter.elf", "--preset", "ri5cy", *engine, "--batch"]
    line += [word for text in words for word in ("--ex", text)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    print(done.stdout, done.stderr)
    assert re.findall(r"<(\d+)>", done.stdout) == ["6", "6", "16", "26"]
    assert done.stdout.count("the program has ended: pass") == 4
    assert engine or "in _start ()" in done.stdout
    assert "Backtrace stopped" not in done.stdout + done.stderr
    assert done.returncode == 0


SIMULATED = {
    "break 4": "Breakpoint 1 at 0x",
    "continue": "Breakpoint 1, main () at sums.c:4",
    "next": "3\t    for",
    "print total + 6": "$1 = 7",
    "set var $csr_nn0 = 9": "",
    "print $csr_nn0 + $mhartid": "$2 = 14",
    "set var $a0 = -1": "",
    "print/x $a0": "$3 = 0xffffffff",
    "info registers csr_lpcount0": "csr_lpcount0   0x0",
    "watch total": "Hardware watchpoint 2: total",
    "delete 1": "",
    "c": "Hardware watchpoint 2: total\n\nOld value = 1\nNew value = 3\n",
    "watch *(char (*)[100])&total": "\nWatchpoint 3: *(char (*)[100])&total",
    "delete": "",
    "stepi": "",
    "set var total = 4": "",
    "break 5": "Breakpoint 4",
    "continue 1": "Breakpoint 4, main () at sums.c:5",
    "print *(int *)0x30000000": "Cannot access memory at address 0x30000000",
    "cont": "[Inferior 1 (Remote target) exited with code 01]",
    "run": "Breakpoint 4, main () at sums.c:5",
}


@pytest.mark.cosim
@pytest.mark.flow
def test_a_session_on_the_simulator(tmp_path):
    compiled(tmp_path, "sums", SUMS)
    *texts, last = SIMULATED
    (tmp_path / "last commands").write_text(f"{last}\n")
    words = [word for text in texts for word in ("-ex", text)]
    line = [*XPULPNN, "debug", "build/sums.elf", "--iss", "--hart-id", "5", "--batch", *words, "-x", "last commands"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    shown = done.stdout + done.stderr
    assert [text for text in SIMULATED.values() if text not in shown] == []
    assert "the program has ended: fail: the program reports code 1 at" in shown
    assert shown.count("Breakpoint 4, main () at sums.c:5") == 2
    assert done.returncode == 0  # the program runs again
