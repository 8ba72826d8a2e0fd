"""Proof that a mutant of a core does what the core does, from the gates of all mutants together.

Of a mutant only what its change reaches has gates of its own; with them come those outputs and next values of registers
that may differ. First they must be equal whatever the registers hold. Where they are not, they must be equal in all
states that the core reaches from reset: as long as a mutant has not differed, its state is that of the core, so that it
is enough to look at the core's states. A mutant that may take another state is not equivalent in this sense, even if
nobody ever sees that state.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.core_mutation.aig import Aig, Builder, read_aiger, write_aiger
from xpulpnn_sim.yosys import Yosys

EQUIVALENT, UNREACHABLE, DIFFERENT, UNDECIDED = "equivalent", "unreachable", "different", "undecided"
"""Verdicts: no difference, whatever the registers hold; none in a state that the core reaches; one in such a state; not
decided.
"""

PROVED = frozenset({EQUIVALENT, UNREACHABLE})
"""Those of a mutant that does what the core does."""

_NEVER, _SOMETIMES = "1", "0"
"""How ABC tells whether an output can be true."""

_MEANING = {_NEVER: UNREACHABLE, _SOMETIMES: DIFFERENT}

_GATES = "gates.aig"
_SCRIPT = """read_rtlil {base}
{changes}
hierarchy -top {top}
memory_map
opt -full
setundef -undriven -zero
setundef -zero
techmap
opt
dffunmap
aigmap
write_aiger -symbols {gates}
"""
_ANYWHERE = "read_aiger miter.aig; strash; iprove; print_status"
# what a register without reset holds is an input
_REACHED = "read_aiger miter.aig; logic; undc; strash; zero; {engine} -T {timeout_s}; print_status"
METHOD = _SCRIPT + _ANYWHERE + _REACHED
"""What a proof follows from, beside the core and the change."""

_SPARE_S = 20


def abc_program() -> str:
    """The program ABC; raises :class:`ToolError` without one."""
    for name in ("berkeley-abc", "yosys-abc", "abc"):
        found = shutil.which(name)
        if found:
            return found
    raise ToolError("berkeley-abc must be installed: apt-get install berkeley-abc")


class Gates:
    """The core with all its mutants as gates.

    Parameters
    ----------
    aig : Aig
        All of it; a mutant has an input that turns it on.
    enable : str
        What names of these inputs begin with; the number follows.
    """

    def __init__(self, aig: Aig, enable: str) -> None:
        self._aig = aig
        self._enables = {
            int(name.removeprefix(enable)): place + 1
            for place, name in enumerate(aig.inputs)
            if name.startswith(enable)
        }
        leaves = len(aig.inputs) + len(aig.latches)
        self._builder = Builder(leaves)
        off = dict.fromkeys(self._enables.values(), 0)
        self._base = [2 * variable for variable in range(leaves + 1)]
        for variable in off:
            self._base[variable] = 0
        self._fanout: dict[int, list[int]] = {}
        for place, (first, second) in enumerate(aig.gates):
            variable = leaves + 1 + place
            for literal in (first, second):
                self._fanout.setdefault(literal >> 1, []).append(variable)
            self._base.append(self._builder.both(self._of(first), self._of(second)))
        self._works = self._working()

    def _of(self, literal: int) -> int:
        return self._base[literal >> 1] ^ literal & 1

    def _working(self) -> list[int]:
        """Literals, in the file, of all outputs but those of the retirement port, and of the next values of registers
        that they depend on.
        """
        literals = [literal for name, literal in self._aig.outputs if not name.startswith("rvfi_")]
        first = 1 + len(self._aig.inputs)
        reached = set[int]()
        while True:
            cone = self._builder.cone([self._of(literal) for literal in literals])
            new = {variable - first for variable in cone if first <= variable < self._builder.first} - reached
            if not new:
                return literals
            reached |= new
            literals += [self._aig.latches[place][1] for place in sorted(new)]

    def difference(self, number: int) -> int:
        """Literal that is true where the mutant ``number`` is not as the core; constant if it can never be."""
        enable = self._enables.get(number)
        if enable is None:
            return 0
        changed, waiting, reached = {enable: 1}, [enable], set[int]()
        while waiting:
            for variable in self._fanout.get(waiting.pop(), ()):
                if variable not in reached:
                    reached.add(variable)
                    waiting.append(variable)
        for variable in sorted(reached):
            first, second = (
                changed.get(literal >> 1, self._base[literal >> 1]) ^ literal & 1
                for literal in self._aig.gates[variable - self._builder.first]
            )
            made = self._builder.both(first, second)
            if made != self._base[variable]:
                changed[variable] = made
        return self._builder.either(
            self._builder.differ(self._of(literal), changed[literal >> 1] ^ literal & 1)
            for literal in self._works
            if literal >> 1 in changed
        )

    def miters(self, number: int) -> tuple[Aig, Aig] | None:
        """Whether the mutant ``number`` differs, with free registers and with those that the core has from reset on;
        None if it never does.
        """
        literal = self.difference(number)
        if not literal:
            return None
        return self.miter(literal, states=False), self.miter(literal, states=True)

    def miter(self, literal: int, *, states: bool) -> Aig:
        """A network with one output, ``literal``, on inputs and registers, which have next values with ``states``."""
        aig, first = self._aig, 1 + len(self._aig.inputs)
        wanted = [literal]
        places: list[int] = []
        while True:
            cone = self._builder.cone(wanted)
            now = [variable - first for variable in cone if first <= variable < self._builder.first]
            if not states or now == places:
                break
            places = now
            wanted = [literal, *(self._of(aig.latches[place][1]) for place in places)]
        free = [variable for variable in cone if variable < (first if states else self._builder.first)]
        held = [first + place for place in places]
        gates = [variable for variable in cone if variable >= self._builder.first]
        place_of = {0: 0} | {variable: place for place, variable in enumerate([*free, *held, *gates], start=1)}

        def moved(old: int) -> int:
            return 2 * place_of[old >> 1] | old & 1

        return Aig(
            inputs=[""] * len(free),
            latches=[("", moved(self._of(aig.latches[place][1])), self._reset(place, moved)) for place in places],
            gates=[
                (moved(one), moved(other))
                for one, other in (self._builder.gates[variable - self._builder.first] for variable in gates)
            ],
            outputs=[("", moved(literal))],
        )

    def _reset(self, place: int, moved: Callable[[int], int]) -> int:
        """Value of a register after reset; one without is given by the literal of its own value."""
        own, value = 2 * (1 + len(self._aig.inputs) + place), self._aig.latches[place][2]
        return moved(own) if value > 1 else value


def gates_of(base: str, top: str, changes: Sequence[str], enable: str, folder: Path, yosys: Yosys) -> Gates:
    """The gates of a core with mutants.

    Parameters
    ----------
    base, top : str
        File of the core in ``folder``, and its module.
    changes : sequence of str
        Commands of Yosys that make the mutants.
    enable : str
        What names of the inputs begin with that turn them on.
    folder : Path
        Gets the files of Yosys.
    yosys : Yosys
        Makes the gates.
    """
    script = _SCRIPT.format(base=base, top=top, changes="\n".join(changes), gates=_GATES)
    yosys.run(script, folder, what="gates of the core", results=[_GATES], name="gates")
    return Gates(read_aiger((folder / _GATES).read_bytes()), enable)


def decide(miters: tuple[Aig, Aig] | None, timeout_s: int) -> str:
    """One of the verdicts of this module.

    Parameters
    ----------
    miters : tuple of Aig or None
        From :meth:`Gates.miters`.
    timeout_s : int
        Seconds for each of the searches.
    """
    if miters is None:
        return EQUIVALENT
    anywhere, reached = miters
    if _status(anywhere, _ANYWHERE, timeout_s) == _NEVER:
        return EQUIVALENT
    for engine in ("bmc3", "pdr"):
        status = _status(reached, _REACHED.format(engine=engine, timeout_s=timeout_s), timeout_s)
        if status in _MEANING:
            return _MEANING[status]
    return UNDECIDED


def _status(miter: Aig, script: str, timeout_s: int) -> str:
    with tempfile.TemporaryDirectory(prefix="xpulpnn-mutant-") as name:
        folder = Path(name)
        (folder / "miter.aig").write_bytes(write_aiger(miter))
        try:
            done = subprocess.run(
                [abc_program(), "-q", script],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=timeout_s + _SPARE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
    found = re.search(r"^Status = (-?\d)", done.stdout, re.MULTILINE)
    return found[1] if found else ""
