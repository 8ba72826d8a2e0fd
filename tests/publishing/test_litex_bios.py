"""LiteX's BIOS on the simulated core answers what is typed, and a program takes interrupts; a build of some minutes."""

import os
import pty
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

pytestmark = [pytest.mark.flow, pytest.mark.skipif("SLOW_EXAMPLES" not in os.environ, reason="takes minutes")]

ROOT = Path(__file__).parents[2]
XPULPNN = [sys.executable, "-m", "xpulpnn_sim"]
SYSTEM = ["litex", "litex_sim", "--cpu-type", "xpulpnn", "--cpu-variant", "xpulpnn3", "--output-dir", "system"]
SYSTEM += ["--integrated-main-ram-size", "0x100000", "--threads", "1", "--jobs", "2"]
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


def test_bios_answers_and_interrupts_are_taken(tmp_path: Path) -> None:
    subprocess.run([*XPULPNN, *SYSTEM, "--no-compile"], cwd=tmp_path, check=True, capture_output=True)
    program = tmp_path / "program/loaded.bin"
    sources = ROOT / "examples/litex/interrupts.c"
    make = ["make", "-f", str(ROOT / "examples/litex/Makefile"), f"XPULPNN={' '.join(XPULPNN)}", "BUILD=system"]
    subprocess.run([*make, f"SOURCES={sources}", "NETWORK=program"], cwd=tmp_path, check=True, capture_output=True)
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
