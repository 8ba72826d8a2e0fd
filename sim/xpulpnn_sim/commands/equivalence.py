"""``xpulpnn equivalence``: units against their definitions, emitted Verilog against its RTLIL."""

import argparse
from itertools import groupby
from typing import Any

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.commands import equivalence_emitter, equivalence_units
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_json,
    comma_list,
    configuration,
    output,
    progress_bar,
    require_writable,
    write_json,
)
from xpulpnn_sim.formal.dotp import ALL_SIGNS
from xpulpnn_sim.formal.equivalence import DIFFERENT, METHODS, UNDECIDED, Comparison, check, structures
from xpulpnn_sim.harness.models import cached_emission

DOTP, EMITTER = "dotp", "emitter"
WHAT = (DOTP, EMITTER, *equivalence_units.UNITS, "all")
"""What can be proved."""

_TITLE = "each structure against rd * accumulate + the sum of sign or zero extended products"
_SIGNS = "signs: of factor a (rs1) and b (rs2), u unsigned, s signed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=WHAT,
        default=DOTP,
        help="dotp (default): each structure of the dot-product unit against its definition; emitter: each module of "
        "the emitted Verilog against Amaranth's RTLIL of the same component; mult: every operation of the multiplier; "
        "div: the divider; quantiser: pv.qnt, for any thresholds and memory; requantiser: pv.rq*; decoder: every "
        "32-bit word against the instruction table; compressed: every 16-bit word; cluster: arbiters and event unit; "
        "all: everything but the emitter in one table; each but dotp with --preset all for every preset",
    )
    add_configuration(parser)
    equivalence_emitter.add_arguments(parser)
    parser.add_argument(
        "--formats",
        default="all",
        metavar="LIST",
        help="dotp: element formats out of h,b,n,c (default: all configured)",
    )
    parser.add_argument(
        "--method",
        default="",
        metavar="LIST",
        help=f"dotp: methods out of {','.join(METHODS)}, all of which run (default: the first one that decides)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds for one method on one operation, or for one module (default 120)",
    )
    parser.add_argument(
        "--all-widths", action="store_true", help="dotp: also units with every subset of the configured element widths"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails if a structure is different or could not be decided by any method."""
    require_writable(arguments.json)
    if arguments.timeout <= 0:
        raise InputError(f"--timeout must be positive, not {arguments.timeout:g}")
    if arguments.what == EMITTER:
        _require_defaults(arguments, ("formats", "all"), ("method", ""), ("all_widths", False))
        return equivalence_emitter.run(arguments)
    _require_defaults(arguments, *equivalence_emitter.DEFAULTS)
    if arguments.what != DOTP:
        _require_defaults(arguments, ("formats", "all"), ("method", ""), ("all_widths", False))
        return equivalence_units.run(arguments)
    config = configuration(arguments)
    methods = comma_list(arguments.method, METHODS, "--method") if arguments.method else []
    suffixes = comma_list(arguments.formats, [fmt.suffix for fmt in config.dotp.formats], "--formats")
    formats = [fmt for fmt in ElemFmt if fmt.suffix in suffixes]
    fixed = [text.partition("=")[0].removeprefix("dotp.").replace("-", "_") for text in arguments.settings]
    found = structures(config, fixed, widths=arguments.all_widths)
    outcomes: list[Comparison] = []
    operations = sum(len({*one.dotp.formats}.intersection(formats)) for one in found.values()) * len(ALL_SIGNS)
    with progress_bar("structures", operations) as (progress, task):
        for label, one in found.items():
            verilog, manifest = cached_emission("dotp", one)

            def advance(share: float, label: str = label) -> None:
                progress.update(task, description=f"{label} {share:.0%}")

            for fmt in (fmt for fmt in one.dotp.formats if fmt in formats):
                for signs in ALL_SIGNS:
                    progress.update(task, description=f"{label} {fmt.suffix} {signs}")
                    outcomes += check(
                        verilog,
                        manifest,
                        structure=label,
                        formats=[fmt],
                        signs=[signs],
                        methods=methods,
                        timeout_s=arguments.timeout,
                        advance=advance,
                    )
                    progress.advance(task)
    console = output()
    console.print(_table(outcomes))
    console.print(_SIGNS, soft_wrap=True)
    for outcome in outcomes:
        if outcome.verdict == DIFFERENT:
            what = outcome.counterexample or "the result must stay until the next operation, not change"
            text = f"{outcome.structure} {outcome.fmt.suffix} {outcome.signs}: {what}"
            console.print(text, markup=False, soft_wrap=True)
    write_json(arguments.json, [_record(outcome) for outcome in outcomes])
    return OK if _all_shown(outcomes) else FAILED


def _require_defaults(arguments: argparse.Namespace, *defaults: tuple[str, object]) -> None:
    """Refuse options that mean nothing for what is proved."""
    for name, default in defaults:
        if getattr(arguments, name) != default:
            option = name.replace("_", "-")
            raise InputError(f"--{option} must be left out for {arguments.what}, not given")


def _all_shown(outcomes: list[Comparison]) -> bool:
    """Whether no operation is different and each was decided by a method, the others having given up."""
    operations: dict[tuple[str, ElemFmt, str], set[str]] = {}
    for outcome in outcomes:
        operations.setdefault((outcome.structure, outcome.fmt, str(outcome.signs)), set()).add(outcome.verdict)
    return all(DIFFERENT not in verdicts and verdicts != {UNDECIDED} for verdicts in operations.values())


def _table(outcomes: list[Comparison]) -> Table:
    table = Table(box=None, title=_TITLE, title_justify="left")
    for heading in ("structure", "format", "signs", "method", "covered", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")

    def row(outcome: Comparison) -> tuple[str, ...]:
        return (outcome.structure, outcome.fmt.suffix, outcome.method, outcome.covered, outcome.verdict)

    for (structure, suffix, method, covered, verdict), group in groupby(sorted(outcomes, key=_order), key=row):
        same = list(group)
        signs = " ".join(str(outcome.signs) for outcome in same)
        table.add_row(structure, suffix, signs, method, covered, f"{sum(one.seconds for one in same):.1f}", verdict)
    return table


def _order(outcome: Comparison) -> tuple[Any, ...]:
    return (outcome.structure, outcome.fmt, METHODS.index(outcome.method), outcome.covered, outcome.verdict)


def _record(outcome: Comparison) -> dict[str, Any]:
    example = outcome.counterexample
    return {
        "structure": outcome.structure,
        "format": outcome.fmt.suffix,
        "signs": str(outcome.signs),
        "method": outcome.method,
        "covered": outcome.covered,
        "seconds": round(outcome.seconds, 3),
        "verdict": outcome.verdict,
        "counterexample": example
        and {
            "rs1": example.operands.rs1,
            "rs2": example.operands.rs2,
            "rd": example.operands.rd,
            "accumulate": example.operands.accumulate,
            "expected": example.expected,
            "result": example.result,
        },
    }
