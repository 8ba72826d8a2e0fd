"""Random programs: reproducible, always ending, inside their memory, reaching every row."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from xpulpnn.config import PRESETS
from xpulpnn.xif.config import XifHost
from xpulpnn_sim.reference.bare.program import elf_bytes
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.verification.random.designs import random_machine, run_reference_core, shown_machine
from xpulpnn_sim.verification.random.generator import generate
from xpulpnn_sim.verification.random.program_runs import CoreSource, Coverage

FULL = PRESETS["xpulpnn-full"]
EVERYTHING = replace(FULL, qnt=True, mac_load_cross=True, mac_load_dot=True, requantise=True)
STEPS = 100_000
PROGRAMS = 24
"""Enough to reach every row of the largest configuration."""


def run_programs(config, seeds):
    """Coverage of some programs on the simulator, none of which may fail."""
    source = CoreSource(config=config)
    total = Coverage()
    for seed in seeds:
        case = source.case(seed)
        rate, executable = case.machine.irq_rate, case.program.executable()
        end, records, _ = run_reference_core(config, executable, limit=STEPS, irq_rate=rate, seed=seed)
        assert end.ok, f"seed {seed}: {end.text}"
        total.add(records, config)
    return total


@pytest.mark.flow
def test_programs_end_and_reach_every_row():
    coverage = run_programs(EVERYTHING, range(PROGRAMS))
    assert coverage.missing(EVERYTHING) == []
    assert set(coverage.traps) == {1, 2, 3, 5, 7, 11}
    assert len(coverage.interrupts) > 10
    assert coverage.loop_ends > 500
    assert coverage.misaligned > 100
    assert coverage.taken > 100
    # sums that are not clipped: shifts, factors and summands must fit each other
    assert coverage.inside > coverage.requantised / 4 > 100


@pytest.mark.flow
@pytest.mark.parametrize("preset", ["ri5cy", "xpulpnn-cu"])
def test_other_configurations_stay_inside_their_rows(preset):
    coverage = run_programs(PRESETS[preset], range(100, 102))
    assert not [name for (name, _), count in coverage.rows.items() if count and name.startswith(("pv.ml", "pv.rq"))]


@pytest.mark.flow
def test_programs_for_the_coprocessor_reach_every_row():
    host = XifHost.of({"memory": "obi", "requantise": "exact"})
    assert run_programs(host, range(PROGRAMS // 2)).missing(host) == []
    # the same rows with other opcodes
    run_programs(XifHost.of({"memory": "obi", "requantise": "exact", "opcode": "custom"}), range(2))


@pytest.mark.flow
def test_a_seed_is_a_program_whatever_the_hash_seed():
    code = (
        "from xpulpnn.config import PRESETS; from xpulpnn_sim.verification.random.generator import generate;"
        "print(generate(PRESETS['xpulpnn-full'], 7, interrupts=True).text())"
    )
    command = [sys.executable, "-c", code]
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in "12")
    first, second = (subprocess.run(command, env=env, capture_output=True, check=True).stdout for env in environments)
    assert first == second


def test_machines_differ_and_can_be_chosen():
    shown = Counter(shown_machine(random_machine(seed, {})) for seed in range(40))
    assert len(shown) > 15
    fixed = random_machine(3, {"grant_stalls": 0.25, "irq_rate": 0.0})
    assert (fixed.grant_stalls, fixed.irq_rate) == (0.25, 0.0)


def test_written_as_elf_and_read_back(tmp_path):
    executable = generate(FULL, 3, interrupts=True).executable()
    path = tmp_path / "program.elf"
    path.write_bytes(elf_bytes(executable))
    loaded = load(path)
    assert (loaded.entry, loaded.tohost) == (executable.entry, executable.tohost)
    assert [(part.address, part.data) for part in loaded.segments] == [
        (part.address, part.data.ljust(part.size, b"\0")) for part in executable.segments
    ]
    assert dict(loaded.symbols) == dict(executable.symbols)
    assert loaded.functions == executable.functions


def test_software_writes_the_top_bit_of_mepc():
    """No handler and no return does so."""
    texts = [generate(FULL, seed).text() for seed in range(PROGRAMS)]
    assert sum(len(re.findall(r"li t1, 0x[89a-f].{7}\n\s*csrr[ws] \w+, mepc, t1", text)) for text in texts) > 1
