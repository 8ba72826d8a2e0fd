"""Reference of the command line, from its help."""

import contextlib
import io
import os

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.tree import COMMANDS

_COLUMNS = "100"


def help_text(command: str) -> str:
    """Return the help of a command as it is printed on a terminal of 100 columns."""
    text = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        with contextlib.redirect_stdout(text):
            cli.main([*command.split(), "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return text.getvalue().rstrip()


def commands() -> str:
    """Return a section for every command."""
    return "\n".join(f"## {name}\n\n```text\n{help_text(name)}\n```\n" for name in COMMANDS)
