"""A terminal shows whole lines of commands that print while they work."""

import io
import os
import pty
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pyte
import pytest
from rich.console import Console
from tests.programs import printing, program_of

from xpulpnn_sim.cli import common
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.reference.bare.program import elf_bytes
from xpulpnn_sim.reference.golden import layers


class Terminal(pyte.Screen):
    def text(self) -> list[str]:
        return "\n".join(line.rstrip() for line in self.display).rstrip().split("\n")

    def read(self, descriptor: int) -> None:
        stream = pyte.ByteStream(self)
        try:
            while data := os.read(descriptor, 4096):
                stream.feed(data)
        except OSError:  # the other end is closed
            os.close(descriptor)


@contextmanager
def attached(monkeypatch: pytest.MonkeyPatch) -> Generator[Terminal]:
    """Both outputs go to a terminal, on which a bar is drawn 20 ms after everything else."""
    master, slave = pty.openpty()
    screen = Terminal(100, 40)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(common, "_QUIET_S", 0.02)
    reader = threading.Thread(target=screen.read, args=(master,))
    reader.start()
    try:
        with os.fdopen(slave, "w") as output, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", output)
            patch.setattr(sys, "stderr", output)
            yield screen
    finally:
        reader.join()


def shown(screen: Terminal, holds: Callable[[list[str]], bool]) -> list[str]:
    """The lines once something holds of them, at the latest after two seconds."""
    for _ in range(100):
        if holds(screen.text()):
            break
        time.sleep(0.02)
    return screen.text()


def test_a_bar_makes_room_for_lines_and_does_not_follow_a_part_of_one(monkeypatch):
    with attached(monkeypatch) as screen:
        with common.progress_bar("steps", 8) as bar:
            bar.advance(3)
            assert shown(screen, lambda lines: "3/8" in lines[-1])[0].startswith("steps ")
            common.pass_on(b"one\ntwo", error=False)
            time.sleep(0.1)
            assert shown(screen, lambda lines: len(lines) == 2) == ["one", "two"]
            common.tell("three")
            lines = shown(screen, lambda lines: len(lines) == 4)
            assert lines[:3] == ["one", "two", "three"]
            assert lines[3].startswith("steps ")
            common.pass_on(b"four", error=True)
        common.remark("five")
    assert screen.text() == ["one", "two", "three", "four", "five"]


NAMES = ("layer", "precision", "variant", "cycles", "cyc/sdotp", "paper", "MAC/cyc", "OPEF", "errors", "Mcyc/s")
ROW = ("16x16x32:64x3x3", "8x8x8", "xpulpv2_4x2", "2209587", "1.770", "1.783", "2.14", "0.57", "0", "0.5")
OTHER = ("16x16x32:64x3x3", "8x8x8", "nn_4x4", "1381835", "1.079", "1.080", "3.41", "0.94", "0", "0.6")


def test_a_bar_without_a_total_shows_none(monkeypatch):
    with attached(monkeypatch) as screen, common.progress_bar("instructions", None) as bar:
        bar.reach(7)
        assert "7/?" in shown(screen, lambda lines: "7/" in lines[-1])[0]


@pytest.mark.parametrize(("width", "tables"), [(40, 5), (60, 3), (80, 2), (200, 1)])
def test_narrow_terminals_show_further_columns_below(width, tables):
    console = Console(file=io.StringIO(), width=width)
    console.print(common.table(NAMES, [ROW, OTHER], notes=["OPEF: products"]))
    *lines, note = console.file.getvalue().splitlines()
    assert (note, len(lines)) == ("* OPEF: products", 3 * tables)
    assert all(len(line) <= width for line in lines)
    for row, cells in enumerate((NAMES, ROW, OTHER)):
        first, *others = [cell for line in lines[row::3] for cell in line.split()]
        assert first == cells[0]
        assert [cell for cell in others if cell != first] == [*cells[1:]]


@pytest.mark.cosim
@pytest.mark.parametrize("command", ["iss", "run"])
def test_programs_print_whole_lines(command, tmp_path, monkeypatch):
    waits = "_start: li x9, 500000\nagain: addi x9, x9, -1; bne x9, x0, again\n"
    prints = printing(1).replace("0xff0a41", "0x420a41")  # A, the end of the line, B
    program = tmp_path / "program.elf"
    program.write_bytes(elf_bytes(program_of(waits + prints)))
    with attached(monkeypatch) as screen:
        assert main([command, str(program), "--preset", "xpulpnn-full"]) == 0
    assert screen.text()[:2] == ["A", "B"]
    assert screen.text()[2].startswith("pass (")


@pytest.mark.cosim
def test_reports_of_kernels_are_whole(monkeypatch):
    right = layers.products
    monkeypatch.setattr(layers, "products", lambda *operands: right(*operands) + 1)
    arguments = ["cosim", "matmul", "--layer", "4x8x2", "--bits", "8", "--variant", "nn_4x2", "--check", "results"]
    with attached(monkeypatch) as screen:
        assert main(arguments) == 1
    assert screen.text()[0] == "matmul 4x8x2 8x8xi32 nn_4x2"
    assert screen.text()[1].startswith("output[0][0]: expected")
