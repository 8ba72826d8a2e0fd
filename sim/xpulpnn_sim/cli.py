"""The command line ``xpulpnn``."""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.commands.common import INTERRUPTED, Parser
from xpulpnn_sim.commands.examples import epilog

COMMANDS = {
    "doctor": ("", "show each tool needed, its version, where it was found, and how to install what is missing"),
    "generate": ("", "write the Verilog of a component and a description of its ports, configuration and names"),
    "cosim": ("sim", "run kernels on the design, check every instruction and result, and show the cycles"),
    "net": (
        "sim",
        "import networks, run them on the design layer by layer, and count what they classify as labelled",
    ),
    "bench": ("explore", "measure the papers' tables on the design, and show printed figures beside ours"),
    "check-vectors": ("sim", "execute single-instruction vectors and report mismatches"),
    "kernel": (
        "sim",
        "write a kernel as an assembly function, its tensors, a plain C version and a main that compares them",
    ),
    "library": ("sim", "write the kernels as a library for C programs, with its header"),
    "pack": ("sim", "put the weights of a trained layer into the order of a kernel, as C arrays or npz"),
    "cc": ("sim", "compile C and assembly to an ELF program for the core"),
    "objdump": ("sim", "show what programs, objects and libraries hold, with all instructions by name"),
    "run": ("sim", "run a program on the design, cycle by cycle"),
    "iss": ("sim", "run a program on the instruction-set simulator; an instruction counts as a cycle"),
    "verify": ("sim", "run random programs in lock step with the simulator; the first failure is made minimal"),
    "costs": ("sim", "measure every cycle cost on the core and compare it with the documented one"),
    "explore": ("explore", "show area, timing, energy and cycles of configurations side by side, with open tools"),
    "equivalence": ("explore", "prove units equal to their definitions, and emitted Verilog to its RTLIL"),
    "prove": ("explore", "prove what the arbiters and the event unit of a cluster promise"),
    "formal": ("explore", "run checks of riscv-formal, or prove instructions on a core with memories of any timing"),
    "sequences": ("explore", "prove what must hold between instructions, with memories of any timing"),
    "mutate": ("bench", "put faults into hardware units, thousands if wanted, and see which their benches miss"),
    "completion": ("", "print a script that completes this command line in a shell"),
}
"""Extra of this project that installs what a subcommand needs, and what it does. Its module has
``add_arguments(parser)`` and ``run(arguments) -> int``; only the one that runs is imported."""

BAD_INPUT = 2

_ALLOCATED = 20_000
"""Live objects that come between two searches for garbage: what commands build, such as graphs of gates, mostly stays,
and searching it as often as Python does takes up to a sixth of their time."""


class _Version(argparse.Action):
    """Shows the version, which is looked up for that alone."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print it and end."""
        print(f"{parser.prog} {version('xpulpnn')}")
        parser.exit()


def parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser of all subcommands, with the options of the chosen one."""
    top = Parser(prog="xpulpnn", description="Quantised-neural-network hardware for RISC-V: generate, run, check.")
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and go")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for name, (_extra, text) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=f"{text}.")
        if name == chosen:
            module = import_module(f"xpulpnn_sim.commands.{name.replace('-', '_')}")
            module.add_arguments(sub)
            sub.formatter_class, sub.epilog = argparse.RawDescriptionHelpFormatter, epilog(name)
            sub.set_defaults(run=module.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand: 0 = done and correct, 1 = a check failed, 2 = bad input or missing tool, told in one line."""
    gc.set_threshold(_ALLOCATED)
    words = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        arguments = parser(chosen).parse_args(words)
        return arguments.run(arguments)
    except XpulpnnError as error:
        return _report(str(error), BAD_INPUT)
    except ModuleNotFoundError as error:
        return _report(_missing(error, str(chosen)), BAD_INPUT)
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


def _missing(error: ModuleNotFoundError, command: str) -> str:
    """What to install for a subcommand; raises ``error`` again if the missing module is our own."""
    module = (error.name or "").partition(".")[0]
    if module in ("", "xpulpnn", "xpulpnn_sim", "xpulpnn_sw"):
        raise error
    extra, _text = COMMANDS[command]
    where = f"'.[{extra}]'" if extra else "."
    return f"{module} must be installed for {command}, not missing: pip install {where}"


def _report(text: str, code: int) -> int:
    line = " ".join(text.split())
    print(f"error: {line}", file=sys.stderr)
    return code
