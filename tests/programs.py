"""Programs from assembly text, with memory of their own for data and the words that end them; what commands wrote."""

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xpulpnn.isa.machine import DATA_BASE, ENTRY, TEXT_BASE
from xpulpnn_sim.reference.programs.elf import Executable, Segment, functions_of
from xpulpnn_sw.assembly.asm import assemble

TOHOST, FROMHOST = DATA_BASE + 0x800, DATA_BASE + 0x808
CONSTANTS = f".equ tohost, {TOHOST}\n.equ fromhost, {FROMHOST}\n.equ data, {DATA_BASE}\n"


LOOPING = """
_start: li x5, 7
    li x8, data
    li x9, 100
loop: addi x9, x9, -1
    bne x9, x0, loop
    sw x5, 4(x8)
    csrrs x6, mhartid, x0
    sw x6, 8(x8)
"""
"""206 instructions that leave 7 and the number of the hart in memory."""


def encode_line(text: str) -> int:
    (word,) = assemble(text).words
    return word


def program_of(source: str, vectors: str = "", data: bytes = b"", data_bytes: int = 0x1000) -> Executable:
    """A program at ENTRY whose labels are functions, behind a table of vectors.

    These may jump to ``table``, the first of them, and to the label ``handler`` of the program, if it has one.
    """
    assembled = assemble(CONSTANTS + source, ENTRY)
    labels = {name: value for name, value in assembled.labels.items() if value >= ENTRY}
    known = f".equ table, {TEXT_BASE}\n.equ handler, {labels.get('handler', TEXT_BASE)}\n"
    table = assemble(CONSTANTS + known + vectors, TEXT_BASE).to_bytes()
    code = table.ljust(ENTRY - TEXT_BASE, b"\0") + assembled.to_bytes()
    segments = (Segment(DATA_BASE, data, data_bytes), Segment(TEXT_BASE, code, len(code)))
    symbols = labels | {"tohost": TOHOST, "fromhost": FROMHOST}
    functions = functions_of(labels, TEXT_BASE + len(code))
    return Executable(Path("program.elf"), ENTRY, segments, TOHOST, FROMHOST, symbols, functions)


def printing(descriptor: int) -> str:
    """Assembly text that writes three bytes, the last of which is no character, and waits until they are taken."""
    return f"""
        li x8, data
        li x5, 64; sw x5, 0(x8)
        li x5, {descriptor}; sw x5, 8(x8)
        li x5, data+64; sw x5, 16(x8)
        li x5, 3; sw x5, 24(x8)
        li x5, 0xff0a41; sw x5, 64(x8)
        li x31, tohost; sw x8, 0(x31)
    wait: li x6, fromhost
        lw x6, 0(x6)
        beq x6, x0, wait
        li x5, 1; sw x5, 0(x31)
    """


def run_printing(run: Callable[[int], int], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Text of the program that ``run`` passes on to standard output and to that for errors."""
    assert run(1) == 0
    assert capfdbinary.readouterr().out == b"A\n\xff"
    assert run(2) == 0
    captured = capfdbinary.readouterr()
    assert captured.out == b""
    assert captured.err.startswith(b"A\n\xff")


def read_results(path: Path) -> list[Any]:
    return json.loads(path.read_text())["results"]


def plots_of(page: str) -> Any:
    text = page.partition('id="plots">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(text)))
