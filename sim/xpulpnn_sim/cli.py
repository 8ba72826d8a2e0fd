"""The command line ``xpulpnn``."""

import argparse
import os
import sys
from collections.abc import Sequence

from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.commands import (
    cc,
    check_vectors,
    cosim,
    costs,
    doctor,
    equivalence,
    explore,
    generate,
    iss,
    kernel,
    run,
    verify,
)
from xpulpnn_sim.commands.common import Parser

COMMANDS = (doctor, generate, cosim, check_vectors, kernel, cc, run, iss, verify, costs, explore, equivalence)
"""Modules with NAME, HELP, ``add_arguments(parser)`` and ``run(arguments) -> int``."""

BAD_INPUT = 2
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    top = Parser(prog="xpulpnn", description="Quantised-neural-network hardware for RISC-V: generate, run, check.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        sub = commands.add_parser(command.NAME, help=command.HELP, description=f"{command.HELP}.")
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand: 0 = done and correct, 1 = a check failed, 2 = bad input or missing tool, told in one line."""
    try:
        arguments = parser().parse_args(argv)
        return arguments.run(arguments)
    except XpulpnnError as error:
        return _report(str(error), BAD_INPUT)
    except BrokenPipeError:
        # the reader of our output has gone; keep the interpreter from complaining while it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT
    except OSError as error:
        return _report(f"{error.filename or 'file'} must be accessible, not failing with: {error.strerror}", BAD_INPUT)
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except SystemExit as done:
        # --help
        return int(done.code or 0)


def _report(text: str, code: int) -> int:
    line = " ".join(text.split())
    print(f"error: {line}", file=sys.stderr)
    return code
