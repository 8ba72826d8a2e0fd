"""Tables and records of each core after a run on a cluster."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.harness.profile import MEANING
from xpulpnn_sim.harness.session import RunResult, stalls_of


def core_records(result: RunResult) -> list[dict[str, Any]]:
    """Instructions, stalls by cause, and cycles of what was under way at the end, of each core; empty if nothing was
    counted."""
    return [
        {
            "core": core,
            "instructions": int(account[:, WaitCause.NONE].sum()),
            "stalls": stalls_of(account, devices=True),
            "unfinished": result.cycles - int(account.sum()),
        }
        for core, account in enumerate(result.accounts)
    ]


def cores_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The same for people, without causes that no core met."""
    table = Table(box=None, title="cycles by core", title_justify="left")
    causes = [cause for cause in rows[0]["stalls"] if any(row["stalls"][cause] for row in rows)]
    for heading in ("core", "instructions", *(cause.replace("_", " ") for cause in causes), "unfinished"):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = (row["core"], row["instructions"], *(row["stalls"][cause] for cause in causes), row["unfinished"])
        table.add_row(*map(str, cells))
    meanings = {cause.replace("_", " "): MEANING[cause] for cause in causes}
    meanings["unfinished"] = "what the core waited for when the program ended"
    table.caption = "; ".join(f"{cause}: {meaning}" for cause, meaning in meanings.items())
    table.caption_justify = "left"
    return table
