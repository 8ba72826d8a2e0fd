"""Programs from assembly text, and runs with everything that a check of them takes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sim.elf import Executable, Segment, functions_of
from xpulpnn_sim.harness import program_run
from xpulpnn_sim.harness.check import Findings
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.model import Block, Lines, Windows
from xpulpnn_sim.retirement import Records
from xpulpnn_sim.verify.elf_file import elf_bytes
from xpulpnn_sw.asm import assemble

DATA, TOHOST, FROMHOST = 0x1000_0000, 0x1000_0800, 0x1000_0808
DATA_BYTES = 0x1000
ENTRY = TEXT_BASE + 0x80
END = "\nli x31, tohost; li x30, 1; sw x30, 0(x31)\n"


@pytest.fixture
def core_program() -> Callable[..., Executable]:
    """A program from assembly text at ENTRY, its labels as functions, that ends well unless told otherwise.

    All entries of the vector table jump to ``vectors``, a label of the text; "0": to the first entry; empty: they are
    illegal instructions.
    """

    def build(source: str, *, vectors: str = "0", end: str = END) -> Executable:
        constants = f".equ tohost, {TOHOST}\n.equ fromhost, {FROMHOST}\n.equ data, {DATA}\n"
        assembled = assemble(constants + source + end, ENTRY)
        labels = {name: value for name, value in assembled.labels.items() if value >= ENTRY}
        jumps = f".equ handler, {labels.get(vectors, TEXT_BASE)}\n" + "jal x0, handler\n" * 32
        table = assemble(jumps if vectors else "", TEXT_BASE).to_bytes().ljust(ENTRY - TEXT_BASE, b"\0")
        code = table + assembled.to_bytes()
        functions = functions_of(labels, TEXT_BASE + len(code))
        segments = (Segment(DATA, b"", DATA_BYTES), Segment(TEXT_BASE, code, len(code)))
        symbols = labels | {"tohost": TOHOST, "fromhost": FROMHOST}
        return Executable(Path("program.elf"), ENTRY, segments, TOHOST, FROMHOST, symbols, functions)

    return build


@pytest.fixture
def core_elf(core_program: Callable[..., Executable], tmp_path: Path) -> Callable[..., Path]:
    """The same as a file."""

    def build(source: str, **options: str) -> Path:
        path = tmp_path / "program.elf"
        path.write_bytes(elf_bytes(core_program(source, **options)))
        return path

    return build


Recording = tuple[Records, NDArray[Any], Lines]
"""Retirements of a hart, the granted accesses (an array of GRANT), and the interrupt lines at each retirement."""


class Recorder:
    """Stands for the check of a run: keeps the blocks and finds nothing."""

    def __init__(self) -> None:
        self.blocks: list[Recording] = []

    def __call__(self, block: Block) -> Findings:
        self.blocks.append((block.records().copy(), block.grants.copy(), block.lines().copy()))
        return Findings()

    def finish(self, memory: Windows, retired: Sequence[int]) -> Findings:
        return Findings()


@pytest.fixture(scope="session")
def recorded() -> Callable[[Executable, CoreConfig, Machine], Recording]:
    """What the checks get of a run that ends well."""

    def record(program: Executable, config: CoreConfig, machine: Machine) -> Recording:
        recorder = Recorder()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program_run, "retirement_check", lambda *arguments, **options: recorder)
            result = program_run.run_program(program, config, machine, check=True)
        assert result.exit.ok, result.exit.text
        records, grants, lines = (np.concatenate(parts) for parts in zip(*recorder.blocks, strict=True))
        return records, grants, lines

    return record
