"""What a run on a cluster tells about each core."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.harness.profile import MEANING
from xpulpnn_sim.harness.session import RunResult, stalls_of


def core_records(result: RunResult) -> list[dict[str, Any]]:
    """Instructions and stalls by cause of each core; empty if nothing was counted."""
    return [
        {
            "core": core,
            "instructions": int(account[:, WaitCause.NONE].sum()),
            "stalls": stalls_of(account, devices=True),
        }
        for core, account in enumerate(result.accounts)
    ]


def cores_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The same for people, without causes that no core met."""
    table = Table(box=None, title="cycles by core", title_justify="left")
    causes = [cause for cause in rows[0]["stalls"] if any(row["stalls"][cause] for row in rows)]
    for heading in ("core", "instructions", *(cause.replace("_", " ") for cause in causes)):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = (row["core"], row["instructions"], *(row["stalls"][cause] for cause in causes))
        table.add_row(*map(str, cells))
    table.caption = "; ".join(f"{cause.replace('_', ' ')}: {MEANING[cause]}" for cause in causes)
    table.caption_justify = "left"
    return table
