"""Tables of networks."""

import pytest
from rich.console import Console

from xpulpnn_sim.cli.network_runs import layer_table

pytestmark = pytest.mark.unit

CAUSES = ("fetch", "jump", "branch", "load_use", "misaligned", "loop", "sync", "bank_conflict", "barrier", "external")


def record(count: int):
    stalls = {cause: 0 if number >= count else (number + 1) * 1000 for number, cause in enumerate(CAUSES)}
    layer = {
        **dict.fromkeys(("name", "layer", "precision", "variant"), "x"),
        "folded": False,
        **dict.fromkeys(("cycles", "cycles_least", "cycles_most"), 123),
        "macs": 10,
        "macs_per_cycle": 1.0,
        "stalls": stalls,
        "mismatches": 0,
    }
    return {"kernel": "net", "cores": 8, "images": 1, "stalls": stalls, "layers": [layer]}


def shown(count: int) -> tuple[list[str], list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(layer_table(record(count)))
    _, headings, row = capture.get().splitlines()
    return headings.split()[7:], row.split()[7:]


@pytest.mark.parametrize(("count", "own", "others"), [(8, CAUSES[:8], ()), (10, CAUSES[3:], (6000,))])
def test_the_least_of_many_causes_share_a_column(count, own, others):
    headings, row = shown(count)
    assert headings == [*own, *(["others"] if others else []), "errors"]
    assert row == [*(str(1000 * (CAUSES.index(cause) + 1)) for cause in own), *map(str, others), "0"]
