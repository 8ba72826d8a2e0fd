"""Programs from assembly text, and runs with everything that a check of them takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.programs import program_of

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.checks.retirements import Checker
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.model import U32, Block
from xpulpnn_sim.cosimulation.workloads import program_run
from xpulpnn_sim.reference.bare.program import elf_bytes
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.retirements import Records

END = "\nli x31, tohost; li x30, 1; sw x30, 0(x31)\n"


@pytest.fixture
def core_program() -> Callable[..., Executable]:
    """A program from assembly text at ENTRY, its labels as functions, that ends well unless told otherwise.

    All entries of the vector table jump to ``vectors``: "handler", a label of the text; "0": the first entry; empty:
    they are illegal instructions.
    """

    def build(source: str, *, vectors: str = "0", end: str = END) -> Executable:
        target = {"": "", "0": "jal x0, table\n", "handler": "jal x0, handler\n"}[vectors]
        return program_of(source + end, target * 32)

    return build


@pytest.fixture
def core_elf(core_program: Callable[..., Executable], tmp_path: Path) -> Callable[..., Path]:
    def build(source: str, **options: str) -> Path:
        path = tmp_path / "program.elf"
        path.write_bytes(elf_bytes(core_program(source, **options)))
        return path

    return build


class Recording(NamedTuple):
    """Retirements of a hart, the granted accesses (an array of GRANT), and the interrupt lines at each retirement."""

    records: Records
    grants: NDArray[Any]
    lines: U32


class Recorder(Checker):
    """Stands for the check of a run: keeps the blocks and finds nothing."""

    def __init__(self) -> None:
        self.blocks: list[Recording] = []

    def __call__(self, block: Block) -> None:
        self.blocks.append(Recording(block.records().copy(), block.grants.copy(), block.lines().copy()))


@pytest.fixture(scope="session")
def recorded() -> Callable[[Executable, CoreConfig, Machine], Recording]:
    """Retirements that the checks get of a run that ends well."""

    def record(program: Executable, config: CoreConfig, machine: Machine) -> Recording:
        recorder = Recorder()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program_run, "retirement_check", lambda *arguments, **options: recorder)
            result = program_run.run_program(program, config, machine, check=True)
        assert result.exit.ok, result.exit.text
        return Recording(*map(np.concatenate, zip(*recorder.blocks, strict=True)))

    return record
