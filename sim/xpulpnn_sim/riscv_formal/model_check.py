"""One check as a graph of gates, and the bounded model checker of ABC on it."""

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.riscv_formal.aiger import Aiger, output_bits, read_aiger, read_witness
from xpulpnn_sim.riscv_formal.gates import GATES
from xpulpnn_sim.riscv_formal.suite import Check, Suite
from xpulpnn_sim.riscv_formal.testbench import MODULE, top_text
from xpulpnn_sim.yosys import Yosys

PASSED, FAILED, UNDECIDED = "passes", "FAILS", "time is up"
"""Outcomes of a check."""

ABC_PROGRAMS = ("berkeley-abc", "yosys-abc", "abc")

_TOP = "rvfi_testbench"
_GRACE_S = 120.0
"""Time beyond the limit in which ABC may read, simplify and end."""

_SCRIPT = """read_verilog -sv -formal {includes} check.sv
read_rtlil {gates}
setattr -mod -set keep_hierarchy 1 {module}
hierarchy -check -top {top}
select -set small * {module} %d
proc @small
flatten @small
opt_clean @small
select -set small {top}
opt -full -nodffe -nosdff @small
chformal -cover -remove @small
{lower}chformal -early @small
opt_clean @small
techmap @small
opt -fast -nodffe -nosdff @small
dffunmap @small
setundef -undriven -anyseq @small
aigmap @small
opt_clean @small
setattr -mod -unset keep_hierarchy {module}
expose {top}/w:rvfi_* {top}/w:wrapper.seen_*
flatten
opt_clean -purge
setundef -undriven -zero
write_aiger -zinit -map check.map check.aig
"""
_LOWER = "async2sync @small\nchformal -lower @small\n"
"""What a Yosys needs that keeps properties as cells with their trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a check.

    Parameters
    ----------
    name : str
        The check.
    verdict : str
        See :data:`PASSED`.
    cycle : int
        Last cycle in which the check looked: of a check that fails the one in which it does, of one without a verdict
        the last that was searched to its end, or -1.
    seconds : float
        Time of ABC.
    trace : sequence of mapping
        Signals by name in each cycle from reset to where the check fails; empty if it does not.
    """

    name: str
    verdict: str
    cycle: int
    seconds: float
    trace: Sequence[Mapping[str, int]] = ()


def find_abc() -> str:
    """Path of ABC; raises :class:`ToolError` with what to install if it is not there."""
    for name in ABC_PROGRAMS:
        found = shutil.which(name)
        if found:
            return found
    raise ToolError("abc must be installed: apt-get install berkeley-abc")


def build_graph(
    check: Check, suite: Suite, manifest: Mapping[str, Any], folder: Path, gates: Path, yosys: Yosys
) -> Aiger:
    """The check and the core as one graph, in files ``check.*`` of ``folder``; raises :class:`ToolError`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in check.files:
        (folder / Path(name).name).write_text(suite.text(name))
    (folder / "check.sv").write_text(top_text(check, manifest))
    # the wheel does not follow links out of the folder that it runs in
    (folder / GATES).unlink(missing_ok=True)
    (folder / GATES).hardlink_to(gates)
    script = _SCRIPT.format(
        includes="-I.", gates=GATES, module=MODULE, top=_TOP, lower=_LOWER if keeps_triggers(yosys) else ""
    )
    yosys.run(script, folder, what=check.name, results=["check.aig", "check.map"], name="check")
    graph = read_aiger(folder / "check.aig")
    (folder / "bad.aig").write_bytes(graph.without_outputs())
    return graph


def keeps_triggers(yosys: Yosys) -> bool:
    """Whether this Yosys keeps properties as cells with their trigger: from version 0.37 on."""
    number = re.match(r"0\.(\d+)", yosys.tools["yosys"])
    return number is None or int(number[1]) >= 37


def search(check: Check, graph: Aiger, folder: Path, abc: str, timeout_s: float) -> Outcome:
    """Search for inputs that make the check fail.

    Parameters
    ----------
    check : Check
        The check.
    graph : Aiger
        As :func:`build_graph` returned it.
    folder : Path
        Where it left its files.
    abc : str
        Program.
    timeout_s : float
        Seconds for the search.

    Raises
    ------
    ToolError
        If ABC says neither that it found something nor that there is nothing.
    """
    frames = check.cycle + 1
    commands = (
        f"read_aiger bad.aig; fold; strash; dc2; bmc3 -g -v -F {frames} -T {timeout_s:.0f}; write_cex -a example.aiw"
    )
    (folder / "example.aiw").unlink(missing_ok=True)
    began = time.monotonic()
    try:
        done = subprocess.run(
            [abc, "-c", commands],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s + _GRACE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        text = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
    seconds = time.monotonic() - began
    (folder / "abc.log").write_text(text)
    searched = [int(number) for number in re.findall(r"^ *(\d+) \+ :", text, re.MULTILINE)]
    deepest = max(searched, default=-1)
    asserted = re.search(r"was asserted in frame (\d+)", text)
    if asserted:
        witness = read_witness((folder / "example.aiw").read_text(), graph.inputs)
        trace = replay(graph, witness, (folder / "check.map").read_text())
        return Outcome(name=check.name, verdict=FAILED, cycle=int(asserted[1]), seconds=seconds, trace=trace)
    if deepest >= check.cycle:
        return Outcome(name=check.name, verdict=PASSED, cycle=check.cycle, seconds=seconds)
    if seconds >= timeout_s:
        last = deepest if check.any_cycle else -1
        return Outcome(name=check.name, verdict=UNDECIDED, cycle=last, seconds=seconds)
    raise ToolError(f"abc must be able to search {check.name}: {_last_line(text)}")


def replay(graph: Aiger, witness: Sequence[Sequence[int]], names: str) -> list[dict[str, int]]:
    """Values of all signals shown in each cycle of an example."""
    bits = output_bits(names)
    return [
        {name: sum(outputs[index] << bit for bit, index in places.items()) for name, places in bits.items()}
        for outputs in graph.run(witness)
    ]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
