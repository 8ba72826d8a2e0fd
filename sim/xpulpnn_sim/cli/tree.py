"""The tree of commands; the module of a command is imported when it runs."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

from cyclopts import App, Parameter

from xpulpnn_sim.cli.examples import EXAMPLES

PROGRAM = "xpulpnn"


class Leaf(NamedTuple):
    """A command: its module, the extra of this project that installs what it needs, and what it does."""

    module: str
    extra: str
    text: str


class Group(NamedTuple):
    """Commands that share their first word, and which of them is meant where the second is none of them."""

    text: str
    usual: str


COMMANDS: dict[str, Leaf] = {
    "doctor": Leaf(
        "doctor", "", "show each tool needed, its version, where it was found, and how to install what is missing"
    ),
    "generate": Leaf(
        "generate", "", "write the Verilog of a component and a description of its ports, configuration and names"
    ),
    "cosim kernel": Leaf("cosim", "sim", "run kernels; cosim KERNEL means cosim kernel KERNEL"),
    "cosim ulppack": Leaf(
        "cosim_ulppack", "sim", "run products of operands packed into wide ones, and bit-serial ones"
    ),
    "cosim bnn": Leaf("cosim_bnn", "sim", "run the binarised vehicle classifier, random weights and a synthetic image"),
    "cosim cifar10": Leaf(
        "cosim_cifar10", "sim", "run the CIFAR-10 network of the PULP-NN paper, all layers in one program"
    ),
    "net run": Leaf(
        "net_run",
        "sim",
        "run a network on the design, layer by layer; net FILE.json means net run FILE.json",
    ),
    "net import": Leaf("net_import", "sim", "make a network out of a model of a training framework"),
    "net reference": Leaf(
        "net_reference", "sim", "count how many images a network classifies as labelled, by integers in numpy"
    ),
    "net generate": Leaf("net_generate", "sim", "write a network as a C program, which checks itself for examples"),
    "net explore": Leaf(
        "net_explore", "sim", "find out which bits the layers of a model in floating point should have"
    ),
    "bench": Leaf("bench", "explore", "measure the papers' tables on the design, and show printed figures beside ours"),
    "kernel": Leaf(
        "kernel",
        "sim",
        "write a kernel as an assembly function, its tensors, a plain C version and a main that compares them",
    ),
    "library": Leaf("library", "sim", "write the kernels as a library for C programs, with its header"),
    "pack": Leaf("pack", "sim", "put the weights of a trained layer into the order of a kernel, as C arrays or npz"),
    "cc": Leaf("cc", "sim", "compile C and assembly to an ELF program for the core"),
    "objdump": Leaf("objdump", "sim", "show what programs, objects and libraries hold, with all instructions by name"),
    "run": Leaf("run", "sim", "run a program on the design, cycle by cycle"),
    "iss": Leaf("iss", "sim", "run a program on the instruction-set simulator; an instruction counts as a cycle"),
    "verify random": Leaf(
        "verify_random",
        "sim",
        "run random programs in lock step with the simulator; verify means verify random",
    ),
    "verify cluster": Leaf("verify_cluster", "sim", "run random programs on all cores of a cluster"),
    "verify litmus": Leaf("verify_litmus", "sim", "run litmus tests of the memory on all cores of a cluster"),
    "verify c": Leaf(
        "verify_c",
        "sim",
        "compile random C programs with and without the loop pass, and for this machine; compare their results",
    ),
    "verify costs": Leaf(
        "verify_costs", "sim", "measure every cycle cost on the core and compare it with the documented one"
    ),
    "verify vectors": Leaf("verify_vectors", "sim", "execute single-instruction vectors and report mismatches"),
    "verify coverage": Leaf(
        "verify_coverage",
        "sim",
        "count what random programs reach: crosses of instructions, hazards and waits, lines and bits of the Verilog",
    ),
    "explore": Leaf(
        "explore", "explore", "show area, timing, energy and cycles of configurations side by side, with open tools"
    ),
    "prove units": Leaf("prove_units", "explore", "prove units equal to their definitions"),
    "prove emitter": Leaf("prove_emitter", "explore", "prove each module of the emitted Verilog equal to its RTLIL"),
    "prove instructions": Leaf(
        "prove_instructions",
        "explore",
        "prove instructions of the core against the statements of the instruction table, with memories of any timing",
    ),
    "prove pipeline": Leaf(
        "prove_pipeline", "explore", "prove what must hold between instructions, with memories of any timing"
    ),
    "prove cluster": Leaf(
        "prove_cluster", "explore", "prove what the arbiters and the event unit of a cluster promise"
    ),
    "prove riscv-formal": Leaf("prove_riscv_formal", "explore", "run the checks of riscv-formal on the emitted core"),
    "mutate units": Leaf(
        "mutate_units",
        "bench",
        "put faults into hardware units, and see which their benches miss; mutate UNIT means mutate units UNIT",
    ),
    "mutate core": Leaf(
        "mutate_core",
        "bench",
        "put faults into a whole core, and see which of them programs in lock step with the simulator miss",
    ),
    "completion": Leaf("completion", "", "print a script that completes this command line in a shell"),
}
"""Commands by their words."""

GROUPS = {
    "cosim": Group("run kernels on the design, check every instruction and result, and show the cycles", "kernel"),
    "net": Group("import networks, run them on the design, count what they classify as labelled", "run"),
    "verify": Group("compare the design with the simulator, instruction by instruction", "random"),
    "prove": Group("prove what the hardware does, for all inputs", ""),
    "mutate": Group("put faults into the hardware, and see which of them its checks miss", "units"),
}


@cache
def app() -> App:
    """The whole command line."""
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
    groups = {name: App(name=name, help=_sentence(group.text)) for name, group in GROUPS.items()}
    for name, leaf in COMMANDS.items():
        word, _, rest = name.partition(" ")
        place = f"xpulpnn_sim.cli.{leaf.module}:run"
        if rest and word not in top:
            top.command(groups[word])
        target = groups[word] if rest else top
        target.command(place, name=rest or name, help=_sentence(leaf.text), help_epilogue=_examples(name))
    return top


def _shown(value: object) -> object:
    """A default as help shows it; nothing of one that means nothing."""
    return None if value is False or value in ("", ()) else value


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _examples(name: str) -> str:
    lines = [f"  {line}\n      {text}" for line, text in EXAMPLES.get(name, ())]
    return "\n".join(["Examples:", *lines]) if lines else ""


def complete(words: Sequence[str]) -> list[str]:
    """The words with the usual command of a group where none is named."""
    if not words or words[0] not in GROUPS or words[1:2] in (["--help"], ["-h"]):
        return list(words)
    known = {name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{words[0]} ")}
    usual = GROUPS[words[0]].usual
    if not usual or (len(words) > 1 and words[1] in known):
        return list(words)
    return [words[0], usual, *words[1:]]


def leaf_of(words: Sequence[str]) -> str:
    """The name of the command that words call; empty if none."""
    names = (" ".join(words[:2]), " ".join(words[:1]))
    return next((name for name in names if name in COMMANDS), "")
