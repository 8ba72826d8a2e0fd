"""``xpulpnn generate``: Verilog of one component."""

import argparse
import json
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    OK,
    add_configuration,
    add_json,
    configuration,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.files import write_text
from xpulpnn_sim.tops import TOPS, emit_top


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("top", metavar="TOP", help=f"component: {', '.join(TOPS)}")
    add_configuration(parser, "xpulpnn")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("build"),
        metavar="DIR",
        help="folder of TOP.v and TOP.json (default build)",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write ``TOP.v`` and ``TOP.json``."""
    if arguments.top not in TOPS:
        raise InputError(f"TOP must be one of {', '.join(TOPS)}, not {arguments.top}")
    config = configuration(arguments)
    require_writable(arguments.json)
    require_folder(arguments.output, "--output")
    emitted = emit_top(arguments.top, config)
    verilog, manifest = (arguments.output / f"{arguments.top}.{suffix}" for suffix in ("v", "json"))
    write_text(verilog, emitted.text)
    write_text(manifest, json.dumps(emitted.manifest, indent=2) + "\n")
    output().print(f"{verilog} and {manifest}: module {emitted.manifest['top']}", markup=False, soft_wrap=True)
    write_json(arguments.json, {"top": arguments.top, "files": [str(verilog), str(manifest)]})
    return OK
