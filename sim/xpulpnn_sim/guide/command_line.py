"""Reference of the command line, from its parsers."""

import contextlib
import io
import os

from xpulpnn_sim import cli

_COLUMNS = "100"


def help_text(command: str) -> str:
    """Return the help of a command as it is printed on a terminal of 100 columns."""
    text = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        with contextlib.redirect_stdout(text):
            cli.main([command, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return text.getvalue().rstrip()


def commands() -> str:
    """A section for every subcommand."""
    return "\n".join(f"## {name}\n\n```text\n{help_text(name)}\n```\n" for name in cli.COMMANDS)
