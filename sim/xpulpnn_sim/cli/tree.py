"""Names and help texts of all commands; the module of a command is imported only when the command runs."""

import io
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from cyclopts import App, Parameter
from rich.console import Console

PROGRAM = "xpulpnn"


class Command(NamedTuple):
    """The module of a command, its help text, and the extra that it requires."""

    module: str
    text: str
    extra: str = "sim"


class Group(NamedTuple):
    """Commands with a common first word; ``default`` is called if no second word is given."""

    text: str
    default: str = ""


COMMANDS = {
    "doctor": Command(
        "doctor", "show each tool needed, its version, where it was found, and how to install what is missing", extra=""
    ),
    "generate": Command(
        "generate", "write the Verilog of a component and a description of its ports, configuration and names"
    ),
    "cosim kernel": Command("cosim_kernel", "run kernels; cosim KERNEL means cosim kernel KERNEL"),
    "cosim ulppack": Command("cosim_papers", "run products of operands packed into wide ones, and bit-serial ones"),
    "cosim bnn": Command("cosim_papers", "run the binarised vehicle classifier, random weights and a synthetic image"),
    "cosim cifar10": Command(
        "cosim_papers", "run the CIFAR-10 network of the PULP-NN paper, all layers in one program"
    ),
    "net run": Command(
        "network_runs", "run a network on the design, layer by layer; net FILE.json means net run FILE.json"
    ),
    "net import": Command("networks", "make a network out of a model of a training framework"),
    "net reference": Command(
        "network_runs", "count how many images a network classifies as labelled, by integers in numpy"
    ),
    "net generate": Command("networks", "write a network as a C program, which checks itself for examples"),
    "net explore": Command("net_explore", "find out which bits the layers of a model in floating point should have"),
    "bench": Command(
        "bench", "measure the papers' tables on the design, and show printed figures beside ours", extra="explore"
    ),
    "kernel": Command(
        "kernels",
        "write a kernel as an assembly function, its tensors, a plain C version and a main that compares them",
    ),
    "library": Command("kernels", "write the kernels as a library for C programs, with its header"),
    "pack": Command("kernels", "put the weights of a trained layer into the order of a kernel, as C arrays or npz"),
    "cc": Command("cc", "compile C and assembly to an ELF program for the core"),
    "objdump": Command("objdump", "show what programs, objects and libraries hold, with all instructions by name"),
    "run": Command("run", "run a program on the design, cycle by cycle"),
    "debug": Command("debug", "debug a program on the design with gdb, which runs and stops it"),
    "iss": Command("programs", "run a program on the instruction-set simulator; an instruction counts as a cycle"),
    "verify random": Command(
        "verify_random", "run random programs in lock step with the simulator; verify means verify random"
    ),
    "verify cluster": Command("verify_clusters", "run random programs on all cores of a cluster"),
    "verify kernels": Command(
        "verify_kernels", "run layers of a few pixels and channels with every kernel, variant, precision and rule"
    ),
    "verify litmus": Command("verify_clusters", "run litmus tests of the memory on all cores of a cluster"),
    "verify c": Command(
        "verify_instructions",
        "compile random C programs with and without the loop pass, and for this machine; compare their results",
    ),
    "verify costs": Command(
        "verify_instructions", "measure every cycle cost on the core and compare it with the documented one"
    ),
    "verify vectors": Command("verify_instructions", "execute single-instruction vectors and report mismatches"),
    "verify coverage": Command(
        "verify_random",
        "count what random programs reach: crosses of instructions, hazards and waits, lines and bits of the Verilog",
    ),
    "explore": Command(
        "explore",
        "show area, timing, energy and cycles of configurations side by side, with open tools",
        extra="explore",
    ),
    "prove units": Command("prove_units", "prove units equal to their definitions", extra="explore"),
    "prove emitter": Command(
        "prove_modules", "prove each module of the emitted Verilog equal to its RTLIL", extra="explore"
    ),
    "prove instructions": Command(
        "prove_instructions",
        "prove instructions of the core against the statements of the instruction table, with memories of any timing",
        extra="explore",
    ),
    "prove pipeline": Command(
        "prove_core", "prove what must hold between instructions, with memories of any timing", extra="explore"
    ),
    "prove cluster": Command(
        "prove_modules", "prove what the arbiters and the event unit of a cluster promise", extra="explore"
    ),
    "prove riscv-formal": Command("prove_core", "run the checks of riscv-formal on the emitted core", extra="explore"),
    "litex": Command(
        "litex",
        "run a command or a board of LiteX, which then knows the CPUs xpulpnn and xpulpnn_cluster",
        extra="litex",
    ),
    "mutate units": Command(
        "mutate",
        "put faults into hardware units, and see which their benches miss; mutate UNIT means mutate units UNIT",
        extra="bench",
    ),
    "mutate core": Command(
        "mutate",
        "put faults into a whole core, and see which of them programs in lock step with the simulator miss",
        extra="bench",
    ),
    "completion": Command("completion", "print a script that completes this command line in a shell", extra=""),
}
"""Commands and groups by name; the function of ``verify c`` is ``verify_c_command``."""

GROUPS = {
    "cosim": Group("run kernels on the design, check every instruction and result, and show the cycles", "kernel"),
    "net": Group("import networks, run them on the design, count what they classify as labelled", "run"),
    "verify": Group("compare the design with the simulator, instruction by instruction", "random"),
    "prove": Group("prove what the hardware does, for all inputs"),
    "mutate": Group("put faults into the hardware, and see which of them its checks miss", "units"),
}


@cache
def app() -> App:
    top = App(
        name=PROGRAM,
        help="Quantised-neural-network hardware for RISC-V: generate, run, check.",
        version=lambda: f"{PROGRAM} {version(PROGRAM)}",
        default_parameter=Parameter(negative=(), allow_leading_hyphen=True, show_choices=True, show_default=_shown),
        help_format="plaintext",
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    groups = {name: App(name=name, help=sentence(group.text)) for name, group in GROUPS.items()}
    for words, command in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        if group and group not in top:
            top.command(groups[group])
        function = f"{words.replace(' ', '_').replace('-', '_')}_command"
        path = f"xpulpnn_sim.cli.{command.module}:{function}"
        (groups[group] if group else top).command(path, name=name, help=sentence(command.text))
    return top


def _shown(default: object) -> object:
    return None if default is False or default in ("", ()) else default


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


_SIMILARITY = 0.75  # similarity (0 to 1) above which a word counts as misspelt


def expanded(words: Sequence[str]) -> list[str]:
    """Insert the default command of a group, unless the words name a command, possibly misspelt."""
    if not words or words[0] not in GROUPS or words[1:2] in (["--help"], ["-h"]):
        return list(words)
    group, *rest = words
    names = [name.removeprefix(f"{group} ") for name in COMMANDS if name.startswith(f"{group} ")]
    is_named = rest and (rest[0] in names or _is_misspelt(rest[0], names))
    default = GROUPS[group].default
    return list(words) if not default or is_named else [group, default, *rest]


def _is_misspelt(word: str, names: Sequence[str]) -> bool:
    return bool(get_close_matches(word, names, 1, _SIMILARITY)) and not Path(word).exists()


def command_name(words: Sequence[str]) -> str:
    names = (" ".join(words[:2]), " ".join(words[:1]))
    return next((name for name in names if name in COMMANDS), "")


_COLUMNS = 88


def commands() -> str:
    """Return the section of every command for the guide, with the help text in 88 columns."""
    texts = {name: io.StringIO() for name in COMMANDS}
    for name, text in texts.items():
        app().help_print(name.split(), console=Console(file=text, width=_COLUMNS))
    return "\n".join(f"## {name}\n\n```text\n{text.getvalue().rstrip()}\n```\n" for name, text in texts.items())
