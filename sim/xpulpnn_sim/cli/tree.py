"""The tree of commands; the module of a command is imported when it runs."""

import io
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from cyclopts import App, Parameter
from rich.console import Console

PROGRAM = "xpulpnn"


class Leaf(NamedTuple):
    """A command: the extra of this project that installs what it needs, what it does, and its examples."""

    module: str  # in this package, imported when the command runs
    extra: str
    text: str
    examples: list[list[str]]  # what one would type, and what it does


class _Group(NamedTuple):
    """Commands that share their first word, and which of them is meant where the second is none of them."""

    text: str
    usual: str


_TABLE = """
doctor: show each tool needed, its version, where it was found, and how to install what is missing
  xpulpnn doctor  # what is there, what is missing and how to install it
  xpulpnn doctor --json build/tools.json  # the same for scripts
generate: write the Verilog of a component and a description of its ports, configuration and names
  xpulpnn generate dotp -o build/rtl  # build/rtl/dotp.v and dotp.json
  xpulpnn generate ex-stage --preset ri5cy -o build/rtl  # the EX stage of the baseline
  xpulpnn generate dotp --set widths=8,4 --set multipliers=replicated  # another structure
cosim kernel [sim]: run kernels; cosim KERNEL means cosim kernel KERNEL
  xpulpnn cosim conv  # the papers' layer: all widths, the variants of the XpulpNN paper
  xpulpnn cosim matmul --layer 8x40x6 --bits 4 --variant nn_4x4  # one small MatMul
  xpulpnn cosim conv --engine core --bits 8 --variant nn_4x4 --grant-stalls 0.2  # on the whole core
  xpulpnn cosim conv --bits 2 --variant nn_4x4 --cores 1,8 --report build/cores.html  # shared by eight cores
cosim ulppack [sim] in cosim_papers: run products of operands packed into wide ones, and bit-serial ones
  xpulpnn cosim ulppack  # products of packed operands, bit-serial and ordinary ones side by side
  xpulpnn cosim ulppack --weights 3 --activations 3 --signed --isa xpulpv2  # one pair of widths
  xpulpnn cosim ulppack --sweep all --report build/ulppack.html  # the maps and curves of the ULPPACK paper
cosim bnn [sim] in cosim_papers: run the binarised vehicle classifier, random weights and a synthetic image
  xpulpnn cosim bnn --popcount hardware --cores 1,8  # the binarised vehicle classifier, then shared by eight cores
cosim cifar10 [sim] in cosim_papers: run the CIFAR-10 network of the PULP-NN paper, all layers in one program
  xpulpnn cosim cifar10 --bits 8+4  # the CIFAR-10 network layer by layer, random weights
  xpulpnn cosim cifar10 --bits 8 --cores 1,8 --report build/net.html  # shared by eight cores; its memory
net run [sim] in network_runs: run a network on the design, layer by layer; net FILE.json means net run FILE.json
  xpulpnn net digits.json  # a network for a random input, on one core
  xpulpnn net run digits.json --images pictures --cores 1,8  # for images with labels, also on eight cores
net import [sim] in networks: make a network out of a model of a training framework
  xpulpnn net import model.tflite -o build/model.json  # a quantised model as layers of integers
  xpulpnn net import model.onnx -o build/model.json --quantise 4 --images calibration.npz  # a model in floating \
point, quantised here
net reference [sim] in network_runs: count how many images a network classifies as labelled, by integers in numpy
  xpulpnn net reference digits.json --images t10k-images-idx3-ubyte  # how many are right
net generate [sim] in networks: write a network as a C program, which checks itself for examples
  xpulpnn net generate digits.json -o build/digits --build  # a C program, compiled
net explore [sim]: find out which bits the layers of a model in floating point should have
  xpulpnn net explore model.onnx --images labelled.npz --floor 98  # the fastest bits that are right often enough
bench [explore]: measure the papers' tables on the design, and show printed figures beside ours
  xpulpnn bench --report build/papers.html  # all tables of the papers, and a page with plots
  xpulpnn bench --table xpulpnn --quick  # the rows of one table that take seconds
kernel [sim] in kernels: write a kernel as an assembly function, its tensors, a plain C version and a main that \
compares them
  xpulpnn kernel conv --bits 4 -o build/conv  # a convolution as a function, with a main that tests it
  xpulpnn kernel matmul --layer 16x288x16 --bits 8 --variant nn_4x2 --no-build  # sources only
  xpulpnn kernel conv --bits 8 --variant cu_4x2 --preset xpulpnn-cu  # Compute&Update needs its core
library [sim] in kernels: write the kernels as a library for C programs, with its header
  xpulpnn library -o build/library  # headers, libxpulpnn.a and a table of its functions
  xpulpnn library --kernel conv+maxpool --precision 8x8x8+4x4x4 --preset ri5cy  # a few of them
  xpulpnn library --pulp-nn -o build/pulp_nn  # with the public names of PULP-NN, for its applications
pack [sim] in kernels: put the weights of a trained layer into the order of a kernel, as C arrays or npz
  xpulpnn pack conv 8x8x16:16x3x3 weights.npz --precision 4x4x4 -o build/layer.c  # layer.c and layer.h
  xpulpnn pack linear 512:64 weights.npz --requantise thresholds -o build/layer.npz  # for scripts
cc [sim]: compile C and assembly to an ELF program for the core
  xpulpnn cc hello.c -o hello.elf  # a program
  xpulpnn cc -O3 -Wall -I include main.c dot.S -lm -j 4 -o prog.elf  # options as of any C compiler
  xpulpnn cc -c conv.c pool.c -o libnn.a  # a library; then: xpulpnn cc main.c -L . -lnn
  xpulpnn cc -S --preset ri5cy dot.c  # assembly text for another core
  xpulpnn cc --cluster --cores 8 team.c -o team.elf  # for the cores of a cluster
  xpulpnn cc --headers build/sdk  # all that a build with plain GCC needs
objdump [sim]: show what programs, objects and libraries hold, with all instructions by name
  xpulpnn objdump prog.elf  # the code, with all instructions by name and the lines of the sources
  xpulpnn objdump prog.elf --function main --no-source  # one function
  xpulpnn objdump libnn.a --headers  # sections and symbols
run [sim]: run a program on the design, cycle by cycle
  xpulpnn run prog.elf  # on the core, cycle by cycle
  xpulpnn run prog.elf --profile  # where the cycles go
  xpulpnn run prog.elf --check all --grant-stalls 0.3 --irq-rate 0.001  # every instruction checked under stress
  xpulpnn run prog.elf --waves build/prog.fst --wave-window 1000:2000  # waveforms
  xpulpnn run prog.elf --jtag 9823  # for a debugger that is started by hand
debug [sim]: debug a program on the design with gdb, which runs and stops it
  xpulpnn debug prog.elf  # gdb before the first instruction
  xpulpnn debug prog.elf --batch --ex 'break main' --ex continue --ex 'info registers'  # commands alone
iss [sim] in programs: run a program on the instruction-set simulator; an instruction counts as a cycle
  xpulpnn iss prog.elf  # fast; an instruction counts as a cycle
  xpulpnn iss prog.elf --trace build/prog.txt --max-instructions 100000  # a line for every instruction
  xpulpnn iss prog.elf --dump result:64:build/result.bin  # memory after the run
  xpulpnn iss --cores 8 team.elf  # on eight cores, which take turns
verify random [sim]: run random programs in lock step with the simulator; verify means verify random
  xpulpnn verify --instructions 20000  # random programs in lock step with the simulator
  xpulpnn verify --preset all --seed 1000 --keep-going -o build/failures  # all presets, every failure kept
verify cluster [sim] in verify_clusters: run random programs on all cores of a cluster
  xpulpnn verify cluster --cores 4 --banks 4+8  # random programs of four cores
verify kernels [sim]: run layers of a few pixels and channels with every kernel, variant, precision and rule
  xpulpnn verify kernels --every 100  # one in a hundred combinations
  xpulpnn verify kernels --kernel pointwise --preset xpulpnn3 --passes 2  # all of a kernel on one core, twice
verify litmus [sim] in verify_clusters: run litmus tests of the memory on all cores of a cluster
  xpulpnn verify litmus --cores 4 --rounds 100  # what cores may see of each other's stores
verify c [sim] in verify_instructions: compile random C programs with and without the loop pass, and for this \
machine; compare their results
  xpulpnn verify c --programs 100 --levels 2  # a hundred C programs
verify costs [sim] in verify_instructions: measure every cycle cost on the core and compare it with the documented one
  xpulpnn verify costs  # every cycle cost of the pipeline, measured
verify vectors [sim] in verify_instructions: execute single-instruction vectors and report mismatches
  xpulpnn verify vectors vectors.jsonl.gz  # every vector on the back end
  xpulpnn verify vectors vectors.jsonl --engine golden --json build/vectors.json  # on the reference models
verify coverage [sim] in verify_random: count what random programs reach: crosses of instructions, hazards and waits, \
lines and bits of the Verilog
  xpulpnn verify coverage --preset xpulpnn2 --report build/coverage.html  # a page of what is reached
explore [explore]: show area, timing, energy and cycles of configurations side by side, with open tools
  xpulpnn explore --preset ri5cy,xpulpnn2 --kernel matmul:8  # two configurations side by side, each at its fastest
  xpulpnn explore --top dotp --sweep multipliers=shared,replicated --liberty cells.lib  # a sweep, your cells
  xpulpnn explore --top dotp --flow ecp5,ice40 --seeds 5  # on FPGAs
  xpulpnn explore --top cluster --sweep banks=16,32 --kernel conv:8:nn_4x4  # whole clusters, minutes each
prove units [explore]: prove units equal to their definitions
  xpulpnn prove units  # all structures of the dot-product unit against its definition
prove emitter [explore] in prove_modules: prove each module of the emitted Verilog equal to its RTLIL
  xpulpnn prove emitter --preset ri5cy  # the emitted Verilog against Amaranth's own
prove instructions [explore]: prove instructions of the core against the statements of the instruction table, with \
memories of any timing
  xpulpnn prove instructions 'pv.add.*'  # the packed additions
  xpulpnn prove instructions --self-test  # whether the proofs find wrong statements and faults
prove pipeline [explore] in prove_core: prove what must hold between instructions, with memories of any timing
  xpulpnn prove pipeline --list  # the properties, and what they leave out
  xpulpnn prove pipeline mac_load --preset xpulpnn2  # one of them
  xpulpnn prove pipeline --self-test  # whether they find faults put into the core
prove cluster [explore] in prove_modules: prove what the arbiters and the event unit of a cluster promise
  xpulpnn prove cluster  # what arbiters and event unit of the 8-core cluster promise
  xpulpnn prove cluster event-unit --set cores=16 --json build/proofs.json  # of another cluster
prove riscv-formal [explore] in prove_core: run the checks of riscv-formal on the emitted core
  xpulpnn prove riscv-formal --riscv-formal ~/riscv-formal --checks insn_add+pc_fwd  # two checks of the paper's core
  xpulpnn prove riscv-formal --preset ri5cy --jobs 4  # all checks, those of an earlier run as they came out
  xpulpnn prove riscv-formal --checks 'insn_c_*' --depth 12  # the compressed instructions, to cycle 12
litex [litex]: run a command or a board of LiteX, which then knows the CPUs xpulpnn and xpulpnn_cluster
  xpulpnn litex litex_sim --cpu-type xpulpnn --cpu-variant xpulpnn3 --integrated-main-ram-size 0x100000  # the BIOS
  xpulpnn litex litex_boards.targets.radiona_ulx3s --device LFE5U-85F --cpu-type xpulpnn --build  # a bitstream
mutate units [bench] in mutate: put faults into hardware units, and see which their benches miss; mutate UNIT \
means mutate units UNIT
  xpulpnn mutate units --list  # the units that have a bench
  xpulpnn mutate units dotp-shared --mutants 200  # faults in the dot-product unit, and those that nothing finds
  xpulpnn mutate units alu mult --mutants 1000 --json build/mutants.json  # going on where a run ended
mutate core [bench] in mutate: put faults into a whole core, and see which of them programs in lock step with the \
simulator miss
  xpulpnn mutate core --preset ri5cy --mutants 50  # faults in a whole core
completion in tree: print a script that completes this command line in a shell
  eval "$(xpulpnn completion bash)"  # in ~/.bashrc
  xpulpnn completion zsh > ~/.zfunc/_xpulpnn  # in a folder of fpath
  xpulpnn completion fish > ~/.config/fish/completions/xpulpnn.fish  # read by fish
"""


def _leaves(table: str) -> Iterator[tuple[str, Leaf]]:
    """Commands by their words, in a table of ``words [extra] in module: text``, each with lines of examples below it; a
    module that is not named is called like the command."""
    for entry in re.split(r"\n(?=\w)", table.strip()):
        head, *lines = entry.split("\n")
        found = re.fullmatch(r"(?P<name>[^[:]+?)(?: \[(?P<extra>\w+)\])?(?: in (?P<module>\w+))?: (?P<text>.*)", head)
        assert found is not None, head
        examples = [line.strip().split("  # ") for line in lines]
        module = found["module"] or re.sub("[ -]", "_", found["name"])
        yield found["name"], Leaf(module, found["extra"] or "", found["text"], examples)


COMMANDS = dict(_leaves(_TABLE))
"""Commands by their words."""

GROUPS = {
    "cosim": _Group("run kernels on the design, check every instruction and result, and show the cycles", "kernel"),
    "net": _Group("import networks, run them on the design, count what they classify as labelled", "run"),
    "verify": _Group("compare the design with the simulator, instruction by instruction", "random"),
    "prove": _Group("prove what the hardware does, for all inputs", ""),
    "mutate": _Group("put faults into the hardware, and see which of them its checks miss", "units"),
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
        place = f"xpulpnn_sim.cli.{leaf.module}:{re.sub('[ -]', '_', name)}_command"
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
    lines = [f"  {line}\n      {text}" for line, text in COMMANDS[name].examples]
    return "\n".join(["Examples:", *lines])


_ALIKE = 0.75  # likeness of words, 0 to 1, from which one is a misspelling of the other


def meant(word: str, names: Sequence[str]) -> bool:
    """Return whether a word is one of these names, or like one and no file."""
    return word in names or (bool(get_close_matches(word, names, 1, _ALIKE)) and not Path(word).exists())


def complete(words: Sequence[str]) -> list[str]:
    """The words with the usual command of a group where none is named."""
    if not words or words[0] not in GROUPS or words[1:2] in (["--help"], ["-h"]):
        return list(words)
    usual, own = GROUPS[words[0]].usual, [name.partition(" ")[2] for name in COMMANDS if name.startswith(words[0])]
    if not usual or any(meant(word, own) for word in words[1:2]):
        return list(words)
    return [words[0], usual, *words[1:]]


def leaf_of(words: Sequence[str]) -> str:
    """The name of the command that words call; empty if none."""
    names = (" ".join(words[:2]), " ".join(words[:1]))
    return next((name for name in names if name in COMMANDS), "")


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell to complete in.")], /
) -> None:
    """Print a script that completes the command line in a shell."""
    print(app().generate_completion(prog_name=PROGRAM, shell=shell))


_COLUMNS = 88


def commands() -> str:
    """Return a section of the guide for every command: its help as a terminal of 88 columns shows it."""
    texts = {name: io.StringIO() for name in COMMANDS}
    for name, text in texts.items():
        app().help_print(name.split(), console=Console(file=text, width=_COLUMNS))
    return "\n".join(f"## {name}\n\n```text\n{text.getvalue().rstrip()}\n```\n" for name, text in texts.items())
