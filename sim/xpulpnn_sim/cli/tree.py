"""Names, help texts and modules of all commands; a module is imported only when its command runs."""

import io
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from cyclopts import App, Parameter

PROGRAM = "xpulpnn"

COMMANDS = {
    "doctor": "show each tool needed, its version, where it was found, and how to install what is missing",
    "generate": "write the Verilog of a component and a description of its ports, configuration and names",
    "cosim kernel": "run kernels; cosim KERNEL means cosim kernel KERNEL",
    "cosim ulppack": "run products of operands packed into wide ones, and bit-serial ones",
    "cosim bnn": "run the binarised vehicle classifier, random weights and a synthetic image",
    "cosim cifar10": "run the CIFAR-10 network of the PULP-NN paper, all layers in one program",
    "net run": "run a network on the design, layer by layer; net FILE.json means net run FILE.json",
    "net import": "make a network out of a model of a training framework",
    "net reference": "count how many images a network classifies as labelled, by integers in numpy",
    "net generate": "write a network as a C program, which checks itself for examples",
    "net explore": "find out which bits the layers of a model in floating point should have",
    "bench": "measure the papers' tables on the design, and show printed figures beside ours",
    "kernel": "write a kernel as an assembly function, its tensors, a plain C version and a main that compares them",
    "library": "write the kernels as a library for C programs, with its header",
    "pack": "put the weights of a trained layer into the order of a kernel, as C arrays or npz",
    "cc": "compile C and assembly to an ELF program for the core",
    "objdump": "show what programs, objects and libraries hold, with all instructions by name",
    "run": "run a program on the design, cycle by cycle",
    "debug": "debug a program on the design with gdb, which runs and stops it",
    "iss": "run a program on the instruction-set simulator; an instruction counts as a cycle",
    "verify random": "run random programs in lock step with the simulator; verify means verify random",
    "verify cluster": "run random programs on all cores of a cluster",
    "verify unit": "run the cocotb benches of hardware units, on our Verilog, other Verilog or a netlist",
    "verify kernels": "run layers of a few pixels and channels with every kernel, variant, precision and rule",
    "verify litmus": "run litmus tests of the memory on all cores of a cluster",
    "verify c": "compile random C programs with and without the loop pass, and for this machine; compare their results",
    "verify arch": "run RISC-V's architecture tests, found by path, and compare their signatures",
    "verify costs": "measure every cycle cost on the core and compare it with the documented one",
    "verify vectors": "execute single-instruction vectors and report mismatches",
    "verify coverage": "count what random programs reach: crosses of instructions, hazards and waits, "
    "lines and bits of the Verilog",
    "explore": "show area, timing, energy and cycles of configurations side by side, with open tools",
    "prove units": "prove units equal to their definitions",
    "prove emitter": "prove each module of the emitted Verilog equal to its RTLIL",
    "prove instructions": "prove instructions of the core against the statements of the instruction table, "
    "with memories of any timing",
    "prove pipeline": "prove what must hold between instructions, with memories of any timing",
    "prove cluster": "prove what the arbiters and the event unit of a cluster promise",
    "prove coprocessor": "prove what the coprocessor promises to a core with CV-X-IF",
    "prove riscv-formal": "run the checks of riscv-formal on the emitted core",
    "litex": "run a command or a board of LiteX, which then knows the CPUs xpulpnn and xpulpnn_cluster",
    "mutate units": "put faults into hardware units, and see which their benches miss; "
    "mutate UNIT means mutate units UNIT",
    "mutate core": "put faults into a whole core, and see which of them programs in lock step with the simulator miss",
    "completion": "print a script that completes this command line in a shell",
}
"""Commands and their help texts; the function of ``verify c`` is ``verify_c_command``."""

_MODULES = {
    "cosim_papers": ("cosim ulppack", "cosim bnn", "cosim cifar10"),
    "network_runs": ("net run", "net reference"),
    "networks": ("net import", "net generate"),
    "kernels": ("kernel", "library", "pack"),
    "programs": ("iss",),
    "verify_clusters": ("verify cluster", "verify litmus"),
    "verify_instructions": ("verify arch", "verify c", "verify costs", "verify vectors"),
    "verify_random": ("verify coverage",),
    "prove_modules": ("prove emitter", "prove cluster", "prove coprocessor"),
    "prove_core": ("prove pipeline", "prove riscv-formal"),
    "mutate": ("mutate units", "mutate core"),
}
"""Commands by module, for modules that are not called like their command."""

EXTRAS = {
    **dict.fromkeys(("doctor", "completion"), ""),
    **dict.fromkeys(("bench", "explore", "prove"), "explore"),
    "litex": "litex",
    "mutate": "bench",
}
"""Extra that a command requires, by its first word; other commands require ``sim``."""

GROUPS = {
    "cosim": "run kernels on the design, check every instruction and result, and show the cycles",
    "net": "import networks, run them on the design, count what they classify as labelled",
    "verify": "compare the design with the simulator, instruction by instruction",
    "prove": "prove what the hardware does, for all inputs",
    "mutate": "put faults into the hardware, and see which of them its checks miss",
}
"""Common first words of commands, and their help texts."""

_DEFAULTS = {"cosim": "kernel", "net": "run", "verify": "random", "mutate": "units"}
"""Command of a group that runs if the second word names no command."""


@cache
def app() -> App:
    top = App(
        name=PROGRAM,
        help="Quantised-neural-network hardware for RISC-V: generate, run, check.",
        version=lambda: f"{PROGRAM} {own_version()}",
        default_parameter=Parameter(negative=(), allow_leading_hyphen=True, show_choices=True, show_default=_shown),
        help_format="plaintext",
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    groups = {name: App(name=name, help=sentence(text)) for name, text in GROUPS.items()}
    modules = {words: module for module, commands in _MODULES.items() for words in commands}
    for words, text in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        if group and group not in top:
            top.command(groups[group])
        own = words.replace(" ", "_").replace("-", "_")
        path = f"xpulpnn_sim.cli.{modules.get(words, own)}:{own}_command"
        (groups[group] if group else top).command(path, name=name, help=sentence(text))
    return top


def own_version() -> str:
    from importlib.metadata import version

    return version(PROGRAM)


def _shown(default: object) -> object:
    return None if default is False or default in ("", ()) else default


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


_SIMILARITY = 0.75  # similarity (0 to 1) above which a word counts as misspelt


def with_default_command(words: Sequence[str]) -> list[str]:
    """Insert the default command of a group, unless the words name a command, possibly misspelt."""
    if not words or words[0] not in GROUPS or words[1:2] in (["--help"], ["-h"]):
        return list(words)
    group, *rest = words
    names = [name.removeprefix(f"{group} ") for name in COMMANDS if name.startswith(f"{group} ")]
    similar = get_close_matches(rest[0], names, 1, _SIMILARITY) if rest else []
    is_named = similar and (rest[0] in names or not Path(rest[0]).exists())
    default = _DEFAULTS.get(group)
    return list(words) if not default or is_named else [group, default, *rest]


def command_name(words: Sequence[str]) -> str:
    names = (" ".join(words[:2]), " ".join(words[:1]))
    return next((name for name in names if name in COMMANDS), "")


_COLUMNS = 88


def commands() -> str:
    """Return the section of every command for the guide, with the help text in 88 columns."""
    from rich.console import Console

    texts = {name: io.StringIO() for name in COMMANDS}
    for name, text in texts.items():
        app().help_print(name.split(), console=Console(file=text, width=_COLUMNS))
    return "\n".join(f"## {name}\n\n```text\n{text.getvalue().rstrip()}\n```\n" for name, text in texts.items())
