"""``xpulpnn generate``: Verilog of one component."""

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn.verilog import RESETS, EmittedVerilog
from xpulpnn_sim.commands.cluster_options import configuration_of
from xpulpnn_sim.commands.common import (
    OK,
    add_configuration,
    add_json,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.files import write_text
from xpulpnn_sim.package.assemble import DEFAULT_CLOCK_NS, PACKAGED, write_package
from xpulpnn_sim.package.design import Design
from xpulpnn_sim.top_names import ALL_TOPS
from xpulpnn_sim.tops import emit_top

DEFAULT_PREFIX = "xpulpnn_"
"""Begins the names of the modules that ``generate`` writes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("top", metavar="TOP", help=f"component: {', '.join(ALL_TOPS)}")
    add_configuration(parser, clusters=True)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("build"),
        metavar="DIR",
        help="folder of TOP.v and TOP.json (default build)",
    )
    parser.add_argument(
        "--prefix",
        default=DEFAULT_PREFIX,
        metavar="P",
        help=f"begins the name of every module, so that two designs fit into one (default {DEFAULT_PREFIX})",
    )
    parser.add_argument(
        "--reset",
        default="sync",
        metavar="KIND",
        help="sync: rst, active high, at the clock edge (default); async-low: rst_n, active low, at once",
    )
    parser.add_argument(
        "--initial",
        default="on",
        metavar="on|off",
        help="whether registers have initial values too, as FPGAs and simulators know them (default on)",
    )
    parser.add_argument(
        "--split", action="store_true", help="one file per module, and TOP.f with their names, instead of TOP.v"
    )
    parser.add_argument(
        "--package",
        action="store_true",
        help="an IP package instead: Verilog, testbench, constraints, scripts for synthesis, FuseSoC and IP-XACT files",
    )
    parser.add_argument(
        "--clock",
        type=float,
        default=DEFAULT_CLOCK_NS,
        metavar="NS",
        help=f"period in nanoseconds that the constraints of the package ask for (default {DEFAULT_CLOCK_NS:g})",
    )
    add_json(parser)


def _one_of(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{option} must be {' or '.join(known)}, not {value}")


def command_line(arguments: argparse.Namespace) -> str:
    """The command that gives the same text, without what says where it goes."""
    words = ["xpulpnn", "generate", arguments.top, "--preset", arguments.preset]
    words += [word for setting in arguments.settings for word in ("--set", setting)]
    words += ["--prefix", arguments.prefix, "--reset", arguments.reset, "--initial", arguments.initial]
    return shlex.join(words)


def emitted_top(arguments: argparse.Namespace) -> EmittedVerilog:
    """The Verilog that the options ask for."""
    if arguments.top not in ALL_TOPS:
        raise InputError(f"TOP must be one of {', '.join(ALL_TOPS)}, not {arguments.top}")
    if arguments.package and arguments.top not in PACKAGED:
        raise InputError(f"TOP must be one of {', '.join(PACKAGED)} with --package, not {arguments.top}")
    _one_of("--reset", arguments.reset, RESETS)
    _one_of("--initial", arguments.initial, ("on", "off"))
    return emit_top(
        arguments.top,
        configuration_of(arguments.top, arguments),
        prefix=arguments.prefix,
        reset=arguments.reset,
        initial=arguments.initial == "on",
        command=command_line(arguments),
    )


def run(arguments: argparse.Namespace) -> int:
    """Write ``TOP.v``, or a file per module and ``TOP.f``, and ``TOP.json``; or an IP package."""
    if not 0 < arguments.clock < float("inf"):
        raise InputError(f"--clock must be a positive number of nanoseconds, not {arguments.clock:g}")
    emitted = emitted_top(arguments)
    require_writable(arguments.json)
    require_folder(arguments.output, "--output")
    top = arguments.top
    if arguments.package:
        return _package(arguments, emitted)
    if arguments.split:
        files = emitted.files()
        files[f"{top}.f"] = "".join(f"{name}\n" for name in files)
        shown = f"{len(emitted.modules)} files, {arguments.output / f'{top}.f'}"
    else:
        files = {f"{top}.v": emitted.text}
        shown = str(arguments.output / f"{top}.v")
    files[f"{top}.json"] = json.dumps(emitted.manifest, indent=2) + "\n"
    for name, text in files.items():
        write_text(arguments.output / name, text)
    manifest = arguments.output / f"{top}.json"
    output().print(f"{shown} and {manifest}: module {emitted.manifest['top']}", markup=False, soft_wrap=True)
    write_json(arguments.json, {"top": top, "files": [str(arguments.output / name) for name in files]})
    return OK


def _package(arguments: argparse.Namespace, emitted: EmittedVerilog) -> int:
    """Write the IP package."""
    command = f"{command_line(arguments)} --package --clock {arguments.clock:g}"
    design = Design(arguments.top, configuration_of(arguments.top, arguments), emitted, arguments.clock, command)
    files = write_package(design, arguments.output)
    readme = arguments.output / "README.md"
    output().print(f"{readme}: package of module {design.module}, {len(files)} files", markup=False, soft_wrap=True)
    write_json(arguments.json, {"top": arguments.top, "files": [str(path) for path in files]})
    return OK
