"""Searches for a sequence of inputs that makes a property fail: the bounded model checker of ABC."""

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.files import write_text
from xpulpnn_sim.riscv_formal.aiger import Named, read_witness
from xpulpnn_sim.sequencing.gates import PARTS, WRONG, Scene, build_graph, script, top_text
from xpulpnn_sim.sequencing.rules import Rule
from xpulpnn_sim.yosys import Yosys

PASSED, FAILED, UNDECIDED = "passes", "FAILS", "time is up"

_GRACE_S = 120.0
"""Time beyond the limit in which ABC may read, simplify and end."""

_RESULT, _WITNESS = "result.json", "example.aiw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a property.

    Parameters
    ----------
    name : str
        The property.
    verdict : str
        See :data:`PASSED`.
    cycle : int
        Of one that fails the cycle after reset in which it does, else the last one searched to its end, or -1.
    seconds : float
        Time of the search, without Yosys.
    parts : sequence of str
        What is wrong, if it fails.
    trace : sequence of mapping
        Signals by name in each cycle from reset to where it fails; empty if it does not.
    """

    name: str
    verdict: str
    cycle: int
    seconds: float
    parts: Sequence[str] = ()
    trace: Sequence[Mapping[str, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prover:
    """Searches with some tools, and keeps what it finds.

    Parameters
    ----------
    folder : Path
        Gets a folder for each property.
    yosys : Yosys
        Makes the gates.
    abc : str
        Searches.
    timeout_s : float
        Seconds for each search.
    resume : bool
        Whether an outcome in the folder counts, if it is about the same core, property and depth.
    """

    folder: Path
    yosys: Yosys
    abc: str
    timeout_s: float
    resume: bool = False

    def prove(self, rule: Rule, scene: Scene, depth: int) -> Outcome:
        """Search the cycles from reset to ``depth``; raises :class:`ToolError` if a tool fails."""
        folder = self.folder / rule.name
        text = "\n".join([*scene.modules.values(), top_text(rule, scene), script(rule, scene), repr(rule), str(depth)])
        key = hashlib.sha256(text.encode()).hexdigest()
        known = self._known(folder, key) if self.resume else None
        if known is not None:
            return known
        shutil.rmtree(folder, ignore_errors=True)
        graph = build_graph(rule, scene, folder, self.yosys)
        outcome = self._search(rule, graph, scene.parts[rule.name], folder, depth)
        record = {"key": key, "timeout_s": self.timeout_s, "outcome": asdict(outcome)}
        write_text(folder / _RESULT, json.dumps(record, default=list))
        return outcome

    def _known(self, folder: Path, key: str) -> Outcome | None:
        try:
            record = json.loads((folder / _RESULT).read_text())
            outcome = Outcome(**record["outcome"])
            if record["key"] != key or (outcome.verdict == UNDECIDED and record["timeout_s"] < self.timeout_s):
                return None
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return outcome

    def _search(self, rule: Rule, graph: Named, parts: Sequence[str], folder: Path, depth: int) -> Outcome:
        searched = replace(graph.graph, outputs=[graph.graph.outputs[graph.outputs[WRONG][0]]])
        (folder / "wrong.aig").write_bytes(searched.binary())
        (folder / _WITNESS).unlink(missing_ok=True)
        simplify = "strash; scleanup; dc2"
        commands = (
            f"read_aiger wrong.aig; {simplify}; bmc3 -g -v -F {depth + 1} -T {self.timeout_s:.0f}; "
            f"write_cex -a {_WITNESS}"
        )
        began = time.monotonic()
        text = self._run(commands, folder)
        seconds = time.monotonic() - began
        deepest = max((int(number) for number in re.findall(r"^ *(\d+) \+ :", text, re.MULTILINE)), default=-1)
        asserted = re.search(r"was asserted in frame (\d+)", text)
        if asserted:
            witness = read_witness((folder / _WITNESS).read_text(), searched.inputs)
            trace = _replay(graph, witness)
            wrong = [name for bit, name in enumerate(parts) if trace[-1][PARTS] >> bit & 1]
            cycle = int(asserted[1])
            return Outcome(name=rule.name, verdict=FAILED, cycle=cycle, seconds=seconds, parts=wrong, trace=trace)
        if deepest >= depth:
            return Outcome(name=rule.name, verdict=PASSED, cycle=deepest, seconds=seconds)
        if seconds >= self.timeout_s:
            return Outcome(name=rule.name, verdict=UNDECIDED, cycle=deepest, seconds=seconds)
        raise ToolError(f"abc must be able to search {rule.name}: see {folder}/abc.log")

    def _run(self, commands: str, folder: Path) -> str:
        limit = self.timeout_s + _GRACE_S
        try:
            done = subprocess.run(
                [self.abc, "-c", commands],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            text = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        (folder / "abc.log").write_text(text)
        return text


def _replay(graph: Named, witness: Sequence[Sequence[int]]) -> list[dict[str, int]]:
    """Values of the signals shown in each cycle of an example."""
    return [
        {name: sum(outputs[index] << bit for bit, index in bits.items()) for name, bits in graph.outputs.items()}
        for outputs in graph.graph.run(witness)
    ]
