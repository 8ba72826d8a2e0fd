"""``xpulpnn completion``: scripts that complete the command line in a shell."""

from dataclasses import field
from typing import Literal

from xpulpnn_sim.cli.common import OK
from xpulpnn_sim.cli.options import arguments, command
from xpulpnn_sim.cli.tree import PROGRAM, app


@arguments
class CompletionOptions:
    """Options of the command."""

    shell: Literal["bash", "zsh", "fish"] = field(kw_only=False)
    """The shell to complete in."""


@command
def completion_command(options: CompletionOptions) -> int:
    """Print the script."""
    print(app().generate_completion(prog_name=PROGRAM, shell=options.shell))
    return OK
