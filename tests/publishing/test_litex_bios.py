"""LiteX's BIOS on the simulated core answers what is typed, and a program takes interrupts, that the BIOS starts or a
debugger loads by JTAG; builds of some minutes."""

import os
import pty
import shutil
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from xpulpnn_sim.cosimulation.workloads.debugger import CONFIGURATION

pytestmark = [pytest.mark.flow, pytest.mark.skipif("SLOW_EXAMPLES" not in os.environ, reason="takes minutes")]

ROOT = Path(__file__).parents[2]
XPULPNN = [sys.executable, "-m", "xpulpnn_sim"]
SYSTEM = ["litex", "litex_sim", "--cpu-type", "xpulpnn", "--cpu-variant", "xpulpnn3", "--output-dir", "system"]
SYSTEM += ["--integrated-main-ram-size", "0x100000", "--threads", "1", "--jobs", "2"]
JTAG = 44853  # port of LiteX's jtagremote
MAIN_RAM, PROMPT = 0x4000_0000, "litex\x1b[0m> "
TIMES, LETTERS, WORDS = 10_000, 100, 64  # of examples/litex/interrupts.c
PATIENCE_S = 1500
BASIS, PRIME, MASK = 2166136261, 16777619, 0xFFFF_FFFF


class Terminal:
    """A program on a terminal of its own, whose output is read up to what is awaited."""

    def __init__(self, controller: int) -> None:
        self._controller, self._seen = controller, ""

    def until(self, awaited: str) -> str:
        end = time.monotonic() + PATIENCE_S
        while awaited not in self._seen:
            assert time.monotonic() < end, f"{awaited} must come after {self._seen[-2000:]}"
            try:
                read = os.read(self._controller, 4096)
            except OSError:
                read = b""
            assert read, f"{awaited} must come after {self._seen[-2000:]}"
            self._seen += read.decode(errors="replace")
        before, _, self._seen = self._seen.partition(awaited)
        return before

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def answer(self, command: str) -> str:
        self.type(f"{command}\n")
        return self.until(PROMPT)


@contextmanager
def terminal(words: list[str], folder: Path) -> Iterator[Terminal]:
    controller, side = pty.openpty()
    running = subprocess.Popen(
        words, cwd=folder, stdin=side, stdout=side, stderr=side, start_new_session=True, close_fds=True
    )
    os.close(side)
    try:
        yield Terminal(controller)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, 9)
        running.wait()
        os.close(controller)


def drawn(state: int) -> int:
    state ^= state << 13 & MASK
    state ^= state >> 17
    return state ^ (state << 5 & MASK)


def hashed(values: Iterator[int] | bytes) -> int:
    result = BASIS
    for value in values:
        result = (result ^ value) * PRIME & MASK
    return result


def expected(letters: str) -> str:
    states = [33]
    for _ in range(WORDS + TIMES):
        states.append(drawn(states[-1]))
    total = 0
    for word in states[1 : WORDS + 1]:
        total = (total * 31 + word) & MASK
    timed = hashed(20 + (state >> 23) for state in states[WORDS + 1 :])
    return f"sum {total:08x}, timed {timed:08x}, spelled {hashed(letters.encode()):08x}, 0 wrong"


def compiled(system: list[str], folder: Path, source: Path, *words: str) -> Path:
    """Write a program for a system; returns the file for its memory, beside which its ELF file is."""
    subprocess.run([*XPULPNN, *system, "--no-compile"], cwd=folder, check=True, capture_output=True)
    make = ["make", "-f", str(ROOT / "examples/litex/Makefile"), f"XPULPNN={' '.join(XPULPNN)}", "BUILD=system"]
    make += [f"SOURCES={source}", "NETWORK=program", *words]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    return folder / "program/loaded.bin"


def test_bios_answers_and_interrupts_are_taken(tmp_path: Path) -> None:
    program = compiled(SYSTEM, tmp_path, ROOT / "examples/litex/interrupts.c")
    with terminal([*XPULPNN, *SYSTEM, "--ram-init", str(program)], tmp_path) as bios:
        assert "BIOS CRC passed" in bios.until("Press Q or ESC")
        bios.type("Q")
        bios.until(PROMPT)
        assert {"help", "crc", "mem_test"} <= set(bios.answer("help").split())
        crc = zlib.crc32(program.read_bytes())
        assert f"CRC32: {crc:08x}" in bios.answer(f"crc {MAIN_RAM:#x} {program.stat().st_size}")
        tested = bios.answer(f"mem_test {MAIN_RAM + 0x80000:#x} 0x2000")
        assert "Memtest OK" in tested
        bios.type(f"boot {MAIN_RAM:#x}\n")
        bios.until(f"type {LETTERS} letters")
        rng = Random(33)
        letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=LETTERS))
        for letter in letters:
            bios.type(letter)
            time.sleep(rng.random() / 20)
        counts = bios.until("sum ")
        assert f"{TIMES} timer interrupts" in counts
        assert f"sum {bios.until('wrong')}wrong" == expected(letters)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def debugger(folder: Path) -> Iterator[list[str]]:
    """OpenOCD at the JTAG port of litex_sim, and the command line of gdb for it."""
    port = free_port()
    words = [word for setting in (f"PORT {JTAG}", f"GDB_PORT {port}") for word in ("-c", f"set {setting}")]
    with (folder / "openocd.log").open("w") as log:
        server = subprocess.Popen(["openocd", *words, "-f", str(CONFIGURATION)], stdout=log, stderr=log)
    try:
        end = time.monotonic() + PATIENCE_S
        while f"Listening on port {port}" not in (seen := (folder / "openocd.log").read_text()):
            assert server.poll() is None, seen
            assert time.monotonic() < end, seen
            time.sleep(0.1)
        settings = ("pagination off", "confirm off", "architecture riscv:rv32", "osabi none", "remotetimeout 600")
        before = [*(f"set {setting}" for setting in settings), f"target extended-remote localhost:{port}"]
        yield ["gdb-multiarch", "-q", "-batch", *(word for text in before for word in ("-ex", text))]
    finally:
        server.terminate()
        server.wait()


LOADED = """
volatile unsigned total = 5;
__attribute__((noinline)) void done(void) { __asm__ volatile(""); }
int main(void) {
    for (unsigned i = 1; i <= 1000; ++i)
        total += i;
    done();
    for (;;)
        ;
}
"""
SESSION = """
file system/software/bios/bios.elf
printf "begins at %x\\n", $pc
hbreak main
continue
printf "%d bytes behind main\\n", (int) $pc - (int) main
stepi
printf "%d bytes behind main\\n", (int) $pc - (int) main
delete
file program/loaded.elf
load
set $pc = 0x40000000
break done
continue
printf "the total is %d\\n", *(int *) &total
monitor reset run
detach
"""
SAID = ("begins at 0\n", "\n0 bytes behind main\n", "\n2 bytes behind main\n", "\nthe total is 500505\n")


@pytest.mark.skipif(not (shutil.which("openocd") and shutil.which("gdb-multiarch")), reason="needs openocd and gdb")
def test_debugger_loads_a_program(tmp_path: Path) -> None:
    words = {"xpulpnn3": "xpulpnn3+debug", "0x100000": "0x8000"}  # the memory test is short
    system = [*(words.get(word, word) for word in SYSTEM), "--with-jtagremote"]
    source = tmp_path / "loaded.c"
    source.write_text(LOADED)
    compiled(system, tmp_path, source, "PLAIN=1")
    with terminal([*XPULPNN, *system], tmp_path) as bios:
        bios.until("BIOS CRC passed")
        with debugger(tmp_path) as gdb:
            (tmp_path / "session.gdb").write_text(SESSION)
            done = subprocess.run([*gdb, "-x", "session.gdb"], cwd=tmp_path, capture_output=True, text=True, check=True)
            assert [line for line in SAID if line not in done.stdout] == [], done.stdout + done.stderr
            # the system has been reset with the core
            bios.until("BIOS CRC passed")
            bios.until("Press Q or ESC")
            bios.type("Q")
            bios.until(PROMPT)
            assert "mem_test" in bios.answer("help")
