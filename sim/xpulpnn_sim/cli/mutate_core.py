"""``xpulpnn mutate core``: which mutants of the core programs in lock step with the simulator would miss."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from xpulpnn.config import PRESETS
from xpulpnn_sim.cli.common import OK, incomplete, output, tell, write_json
from xpulpnn_sim.cli.configurations import DEFAULT_PRESET, Configuration, Settings
from xpulpnn_sim.cli.mutate_units import MutationOptions, hunt, outcome_table, tell_survivors
from xpulpnn_sim.cli.options import Count, arguments, command, listed
from xpulpnn_sim.tools.yosys import find_abc, find_yosys
from xpulpnn_sim.verification.mutants import core_mutants
from xpulpnn_sim.verification.mutants.campaign import EQUIVALENT, LEGAL, Judged, Told, rows_of
from xpulpnn_sim.verification.random.trials import Plan

_NUMBERS = ("mutants", "random", "directed", "costs", EQUIVALENT, LEGAL, "alive")
_FOOT = (
    "found by random programs in lock step with the simulator, by directed programs, by the table of cycle costs; "
    "equivalent: proved to do what the core does; legal: proved for buses that answer what they have granted"
)


@arguments
class CoreMutationOptions(MutationOptions, Settings):
    """Options of the command."""

    preset: Annotated[tuple[str, ...], listed(tuple(PRESETS), "Cores")] = (DEFAULT_PRESET,)
    instructions: Count = 100_000
    """Retirements of random programs on each mutant."""

    def plan(self, name: str) -> Plan:
        """The plan of a preset's programs."""
        one = Configuration(preset=name, settings=self.settings)
        return Plan(config=one.core, label=one.command_words)

    def folder(self, name: str) -> Path:
        """The folder of a preset's verdicts."""
        words = (setting.replace("=", "-").replace("/", "-") for setting in self.settings)
        return self.output.resolve() / "-".join(["core", name, *words])


@command
def mutate_core_command(options: CoreMutationOptions) -> int:
    """Print the table and the survivors; survivors are no failure."""
    plans = {name: options.plan(name) for name in options.preset}
    if options.proof:
        find_abc()
    yosys = find_yosys(options.yosys)

    def search(name: str, told: Told) -> Sequence[Judged]:
        where, count = (options.folder(name), yosys), options.instructions
        return core_mutants.judge_core(
            plans[name], options.campaign, count, *where, resume=not options.fresh, told=told
        )

    found, is_complete = hunt(plans, options.output, search)
    output().print(outcome_table("core", _NUMBERS, {name: _counts(judged) for name, judged in found.items()}))
    tell(_FOOT)
    tell_survivors({name: sorted(judged, key=_place) for name, judged in found.items()})
    write_json(options.json, {"complete": is_complete, "cores": {name: _record(found[name]) for name in found}})
    return OK if is_complete else incomplete(f"{len(found)} of {len(plans)} cores")


def _place(each: Judged) -> tuple[str, int]:
    return each.mutant.source or "~", each.mutant.number


def _kind(each: Judged) -> str:
    """Column of a mutant."""
    if not each.killed:
        return "alive" if each.alive else each.proof
    known = {"random program": "random", "cycle costs": "costs"}
    return next((kind for start, kind in known.items() if each.test.startswith(start)), "directed")


def _counts(judged: Sequence[Judged]) -> dict[str, int]:
    counts = dict.fromkeys(_NUMBERS, 0) | {"mutants": len(judged)}
    for each in judged:
        counts[_kind(each)] += 1
    return counts


def _record(judged: Sequence[Judged]) -> dict[str, object]:
    return {**_counts(judged), "mutants": rows_of(judged)}
