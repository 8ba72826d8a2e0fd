"""``xpulpnn prove units dotp``: structures of the dot-product unit against their definition."""

from itertools import groupby, product
from typing import Annotated, Any

from rich.table import Table

from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.cli.command import arguments
from xpulpnn_sim.cli.common import finish, output, progress_bar, table, tell
from xpulpnn_sim.cli.option_groups import Configuration, Json, Timeout
from xpulpnn_sim.cli.values import Seconds, Words, listed
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.units.dotp import ALL_SIGNS
from xpulpnn_sim.proofs.units.equivalence import DIFFERENT, METHODS, UNDECIDED, Comparison, check, structures
from xpulpnn_sim.tools.lists import chosen

_TITLE = "each structure against rd * accumulate + the sum of sign or zero extended products"
_SIGNS = "signs: of factor a (rs1) and b (rs2), u unsigned, s signed"


@arguments
class ProductOptions(Configuration, Timeout, Json):
    """Options of proofs of the dot-product unit."""

    formats: Words = ()
    """dotp: element formats out of h, b, n, c (default: all configured)."""
    method: Annotated[tuple[str, ...], listed(METHODS, "dotp: methods, all of which run (default one decides)")] = ()
    timeout: Seconds = 120.0
    """Seconds for one method on one operation."""
    all_widths: bool = False
    """dotp: also units with every subset of the configured element widths."""


def prove_products(options: ProductOptions) -> int:
    """Print the table; fails if a structure is different or could not be decided by any method."""
    config = options.core
    suffixes = [fmt.suffix for fmt in config.dotp.formats]
    wanted = chosen("+".join(options.formats), suffixes, "--formats") if options.formats else suffixes
    formats = [fmt for fmt in ElemFmt if fmt.suffix in wanted]
    fixed = [text.partition("=")[0].removeprefix("dotp.").replace("-", "_") for text in options.settings]
    found = structures(config, fixed, widths=options.all_widths)
    outcomes: list[Comparison] = []
    operations = sum(len({*one.dotp.formats}.intersection(formats)) for one in found.values()) * len(ALL_SIGNS)
    with progress_bar("structures", operations) as bar:
        for label, one in found.items():
            verilog, manifest = cached_emission("dotp", one)

            def advance(share: float, label: str = label) -> None:
                bar.describe(f"{label} {share:.0%}")

            for fmt, signs in product((fmt for fmt in one.dotp.formats if fmt in formats), ALL_SIGNS):
                bar.describe(f"{label} {fmt.suffix} {signs}")
                outcomes += check(
                    verilog,
                    manifest,
                    structure=label,
                    formats=[fmt],
                    signs=[signs],
                    methods=options.method,
                    timeout_s=options.timeout,
                    advance=advance,
                )
                bar.advance()
    console = output()
    console.print(_table(outcomes))
    console.print(_SIGNS, soft_wrap=True)
    for outcome in outcomes:
        if outcome.verdict == DIFFERENT:
            what = outcome.counterexample or "the result must stay until the next operation, not change"
            text = f"{outcome.structure} {outcome.fmt.suffix} {outcome.signs}: {what}"
            tell(text)
    return finish(options.json, [_record(outcome) for outcome in outcomes], good=_all_shown(outcomes))


def _all_shown(outcomes: list[Comparison]) -> bool:
    """Say whether no operation is different and a method decided each, even if others gave up."""
    operations: dict[tuple[str, ElemFmt, str], set[str]] = {}
    for outcome in outcomes:
        operations.setdefault((outcome.structure, outcome.fmt, str(outcome.signs)), set()).add(outcome.verdict)
    return all(DIFFERENT not in verdicts and verdicts != {UNDECIDED} for verdicts in operations.values())


def _table(outcomes: list[Comparison]) -> Table:
    rows: list[tuple[object, ...]] = []

    def row(outcome: Comparison) -> tuple[str, ...]:
        return (outcome.structure, outcome.fmt.suffix, outcome.method, outcome.covered, outcome.verdict)

    for (structure, suffix, method, covered, verdict), group in groupby(sorted(outcomes, key=_order), key=row):
        same = list(group)
        signs = " ".join(str(outcome.signs) for outcome in same)
        seconds = f"{sum(one.seconds for one in same):.1f}"
        rows.append((structure, suffix, signs, method, covered, seconds, verdict))
    headings = ("structure", "format", "signs", "method", "covered", "seconds", "verdict")
    return table(headings, rows, title=_TITLE)


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
