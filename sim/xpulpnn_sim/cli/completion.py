"""``xpulpnn completion``: shell completion of commands and options."""

from dataclasses import field
from typing import Literal

from xpulpnn_sim.cli.options import arguments, command
from xpulpnn_sim.cli.tree import PROGRAM, app


@arguments
class CompletionOptions:
    shell: Literal["bash", "zsh", "fish"] = field(kw_only=False)
    """The shell to complete in."""


@command("completion")
def completion_command(options: CompletionOptions) -> int:
    """
    eval "$(xpulpnn completion bash)"  # in ~/.bashrc
    xpulpnn completion zsh > ~/.zfunc/_xpulpnn  # in a folder of fpath
    xpulpnn completion fish > ~/.config/fish/completions/xpulpnn.fish  # read by fish
    """
    print(app().generate_completion(prog_name=PROGRAM, shell=options.shell))
    return 0
