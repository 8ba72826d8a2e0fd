"""Proof that a mutant does what its unit does: equal outputs and next registers for all inputs and registers.

Registers are cut: what each holds becomes an input, what it takes over an output. Mutants that differ only in states
that are never reached are not proved equal.
"""

import tempfile
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.mutation.mutants import BASE, Mutant
from xpulpnn_sim.yosys import Yosys

EQUIVALENT, DIFFERENT, UNDECIDED = "equivalent", "different", "undecided"

_START_S = 60
_CUT = """flatten
memory_map
dffunmap
expose -dff -evert-dff
"""
_SCRIPT = """read_rtlil {base}
hierarchy -top {top}
{cut}rename {top} unit
design -stash unit
read_rtlil {base}
hierarchy -top {top}
{change}
{cut}rename {top} mutant
design -copy-from unit -as unit unit
miter -equiv -flatten unit mutant miter
hierarchy -top miter
opt -full
tee -q -o sat.txt sat -prove trigger 0 -timeout {timeout_s} miter
"""

METHOD = _SCRIPT + _CUT
"""What a proof follows from, beside the unit and the change."""


def compare(mutant: Mutant, top: str, base: Path, yosys: Yosys, timeout_s: int) -> str:
    """``equivalent``, ``different`` (in a state that may never be reached) or ``undecided``.

    Parameters
    ----------
    mutant : Mutant
        The change.
    top : str
        Name of the unit's module.
    base : Path
        Folder with the unit that was changed.
    yosys : Yosys
        Proves.
    timeout_s : int
        Seconds for the SAT solver.
    """
    text = _SCRIPT.format(base=BASE, top=top, cut=_CUT, change=mutant.command, timeout_s=timeout_s)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-mutant-") as name:
        folder = Path(name)
        (folder / BASE).write_bytes((base / BASE).read_bytes())
        try:
            yosys.run(text, folder, what=f"mutant {mutant.number}", results=["sat.txt"], timeout_s=timeout_s + _START_S)
        except ToolError:
            return UNDECIDED
        answer = (folder / "sat.txt").read_text()
    return EQUIVALENT if "SUCCESS!" in answer else DIFFERENT if "FAIL!" in answer else UNDECIDED
