"""``xpulpnn net``: networks out of files: imported, run on the design, computed by the reference."""

import argparse

from xpulpnn_sim.commands import net_explore, net_generate, net_import, net_reference, net_run
from xpulpnn_sim.commands.common import Parser

_ACTIONS = {
    "run": (net_run, "run a network on the design, layer by layer, every result compared with the reference"),
    "import": (net_import, "make a network out of a model of a training framework"),
    "reference": (net_reference, "count how many images a network classifies as labelled, by integers in numpy"),
    "generate": (net_generate, "write a network as a C program, which checks itself for examples"),
    "explore": (net_explore, "find out which bits the layers of a model in floating point should have"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with options of its own; a file in their place means the first."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
    if isinstance(parser, Parser):
        parser.usual_action = next(iter(_ACTIONS))
    for name, (module, text) in _ACTIONS.items():
        usual = f"; net FILE.json means net {name} FILE.json" if name == next(iter(_ACTIONS)) else ""
        one = actions.add_parser(name, help=f"{text}{usual}", description=f"{text}.")
        module.add_arguments(one)


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says."""
    module, _ = _ACTIONS[arguments.action]
    return module.run(arguments)
