"""Tables and records of each core after a run on a cluster."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cli.common import record_table
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads.profile import MEANING


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
    """Return the same for people, without causes that no core met."""
    causes = [cause for cause in rows[0]["stalls"] if any(row["stalls"][cause] for row in rows)]
    columns = {
        "core": "{[core]}",
        "instructions": "{[instructions]}",
        **{cause.replace("_", " "): f"{{[stalls][{cause}]}}" for cause in causes},
        "unfinished": "{[unfinished]}",
    }
    shown = record_table(columns, rows, title="cycles by core")
    meanings = {cause.replace("_", " "): MEANING[cause] for cause in causes}
    meanings["unfinished"] = "what the core waited for when the program ended"
    shown.caption = "; ".join(f"{cause}: {meaning}" for cause, meaning in meanings.items())
    shown.caption_justify = "left"
    return shown
