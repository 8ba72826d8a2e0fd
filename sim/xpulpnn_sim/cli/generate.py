"""``xpulpnn generate``: write Verilog of one component."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from xpulpnn.config import DEFAULT_PRESET
from xpulpnn.errors import InputError
from xpulpnn.verilog import EmittedVerilog, Reset, Separator
from xpulpnn.xif.config import XifConfig
from xpulpnn.xif.wrappers import WRAPPERS, wrapper
from xpulpnn_sim.cli.common import finish, pick, progress_bar, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import AnyPreset, Json, NewFolder, Seconds, arguments, command
from xpulpnn_sim.publishing.packages.design import DEFAULT_CLOCK_NS, GENERATED, Design, description, digest_of
from xpulpnn_sim.tools.component_names import ALL_TOPS
from xpulpnn_sim.tools.components import emit_top
from xpulpnn_sim.tools.files import abridged, require_ours, write_texts

DEFAULT_PREFIX = "xpulpnn_"  # default prefix of module names


@arguments
class GenerateOptions(Configuration, Json):
    top: Annotated[str, Parameter(choices=ALL_TOPS, show_choices=True)] = field(kw_only=False)
    """Component to write; docs/integration.md says what each is; mult is the unit of both dot products of xpulpnn3."""
    preset: AnyPreset = DEFAULT_PRESET
    """Configuration to start from; that of a core also gives a cluster of such cores; xif and on are for TOP xif."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build")
    """Folder of TOP.v and TOP.json."""
    prefix: str = DEFAULT_PREFIX
    """Prefix of the names of all modules, so that one design can contain two."""
    reset: Reset = "sync"
    """sync: rst, active high, at the clock edge; async-low: rst_n, active low, at once."""
    reset_sync: bool = False
    """With async-low: rst_n may rise at any time; xpulpnn_reset_sync releases the reset at an edge of clk."""
    initial: Literal["on", "off"] = "on"
    """Registers also have initial values, which FPGAs and simulators support."""
    separator: Separator = "__"
    """Text between the two parts of a port name of the top module, such as instr__req; __ with --package."""
    split: bool = False
    """One file per module, and TOP.f with their names, instead of TOP.v; not with --package."""
    package: bool = False
    """An IP package instead: Verilog, testbenches, constraints, scripts for synthesis, FuseSoC and IP-XACT files."""
    clock: Annotated[Seconds, Parameter(metavar="NS")] = DEFAULT_CLOCK_NS
    """Period in nanoseconds that the constraints of the package ask for."""


def command_line(options: GenerateOptions) -> str:
    """Return the command that generates the same files, without their folder."""
    words = ["xpulpnn", "generate", options.top, "--preset", options.preset]
    words += [word for setting in options.settings for word in ("--set", setting)]
    words += ["--prefix", options.prefix, "--reset", options.reset, "--initial", options.initial]
    words += ["--reset-sync"] if options.reset_sync else []
    words += ["--separator", options.separator] if options.separator != "__" else []
    words += ["--split"] if options.split else []
    words += ["--package", "--clock", f"{options.clock:g}"] if options.package else []
    return shlex.join(words)


def emitted_top(options: GenerateOptions) -> EmittedVerilog:
    if not options.package and options.clock != DEFAULT_CLOCK_NS:
        raise InputError("--clock must come with --package, whose constraints have it, not alone")
    if options.package and options.split:
        raise InputError("--split must be without --package, which always has one file per module")
    if options.package and options.separator != "__":
        raise InputError(f"--separator must be __ with --package, whose testbench has it, not {options.separator}")
    if options.reset_sync and options.reset != "async-low":
        raise InputError(f"--reset must be async-low with --reset-sync, not {options.reset}")
    how = {**pick(options, "prefix", "reset", "reset_sync", "separator"), "command": command_line(options)}
    emitted = emit_top(options.top, options.for_top(options.top), initial=options.initial == "on", **how)
    modules = emitted.manifest["modules"]
    inner = modules[emitted.manifest["top"]]["instances"].get("inner", "")
    if options.reset_sync and all(port["name"] != "rst_n" for port in modules[inner]["ports"]):
        raise InputError(f"TOP must have a reset with --reset-sync, which {options.top} has not")
    return emitted


@command("generate")
def generate_command(options: GenerateOptions) -> int:
    """
    xpulpnn generate dotp -o build/rtl  # build/rtl/dotp.v and dotp.json
    xpulpnn generate ex-stage --preset ri5cy -o build/rtl  # the EX stage of the baseline
    xpulpnn generate dotp --set widths=8,4 --set multipliers=replicated  # another structure
    xpulpnn generate xif --preset cv32e40x -o build/xif  # a coprocessor for CV32E40X, and its wrapper
    """
    stale = _stale(options)
    with progress_bar(f"emitting {options.top}", None):
        emitted = emitted_top(options)
        files = (_package if options.package else _plain)(options, emitted)
    _require_known(options, files)
    written, module = write_texts(options.output, files, stale), emitted.manifest["top"]
    if removed := [name for name in stale if not (options.output / name).exists()]:
        tell(f"removed, of an earlier run: {abridged(removed)}")
    shown = options.output / f"{options.top}.{'f' if options.split else 'v'} and {options.output / options.top}.json"
    package = f"{options.output / 'README.md'}: package of module {module}, {len(files)} files"
    tell(package if options.package else f"{shown}: module {module}")
    return finish(options.json, {"top": options.top, "files": written})


def _plain(options: GenerateOptions, emitted: EmittedVerilog) -> dict[str, str]:
    """Return the Verilog, its description and, for the coprocessor of a preset, the wrapper for the preset's core."""
    top, config = options.top, options.for_top(options.top)
    files = emitted.files() if options.split else {f"{top}.v": emitted.text}
    for path, names in _listings(options.output).items():
        for name in [name for name in files if name in names and path.stem != top]:
            files[name] = _shared(options.output / name, files[name], path.stem)
    files |= {f"{top}.f": "".join(f"{name}\n" for name in files)} if options.split else {}
    if isinstance(config, XifConfig) and options.preset in WRAPPERS:
        module, is_async = emitted.manifest["top"], options.reset == "async-low"
        text = wrapper(options.preset, config, module, is_async=is_async, separator=options.separator)
        files[f"{top}_{options.preset}.sv"] = f"{emitted.header}\n{text}"
    return files | description(emitted, f"{top}.json", files)


def _shared(path: Path, text: str, top: str) -> str:
    """Return the text of a module of another ``top`` in the folder, which may differ from ``text`` in its head only."""
    present = path.read_text(errors="replace") if path.is_file() else text
    if present.partition("\n\n")[2] != text.partition("\n\n")[2]:
        rule = f"--output must be a folder where {top} has no other {path.name}"
        raise InputError(f"{rule}, not {path.parent}: give another folder or another --prefix")
    return present


def _listings(folder: Path) -> dict[Path, dict[str, str]]:
    """Return the descriptions of earlier runs in a folder, with the files that each lists."""
    return {path: _listed(path) for pattern in ("*.json", "doc/*.json") for path in folder.glob(pattern)}


def _stale(options: GenerateOptions) -> list[str]:
    """Return the files of an earlier run with this TOP; raise :class:`InputError` if others are in the way."""
    folder, top, what = options.output, options.top, "files" if options.package else "package"
    earlier = _listings(folder)
    refused = [path for path in earlier if (path.stem != top if options.package else path.parent != folder)]
    if others := [path.stem for path in refused if earlier[path]]:
        raise InputError(f"--output must be a folder without the {what} of {others[0]}, not {folder}")
    own = {path: names for path, names in earlier.items() if path.stem == top}
    there = {folder / name: None for names in own.values() for name in names if (folder / name).is_file()}
    edited = _edited(folder, there)
    fixed = ("README.md", "Makefile") if options.package else (f"{top}.json", *([] if options.split else [f"{top}.v"]))
    require_ours(folder, [folder / name for name in fixed], edited)
    kept = {folder / name for path, names in earlier.items() if path not in own for name in names}
    return [str(path.relative_to(folder)) for path in (*there, *own) if path not in kept]


def _edited(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Return the files that are not as one of the descriptions in the folder lists them."""
    listed = {(folder / name, digest) for names in _listings(folder).values() for name, digest in names.items()}
    return [path for path in paths if (path, digest_of(path.read_text(errors="replace"))) not in listed]


def _require_known(options: GenerateOptions, files: dict[str, str]) -> None:
    """Raise :class:`InputError` if a file to be replaced by another text may have been changed by hand."""
    paths = {options.output / name: text for name, text in files.items() if Path(name).name != f"{options.top}.json"}
    other = [path for path, text in paths.items() if path.is_file() and path.read_text(errors="replace") != text]
    require_ours(options.output, [], _edited(options.output, other))


def _listed(description: Path) -> dict[str, str]:
    """Return the files, with their digests, that a description of an earlier run lists; none of other JSON files."""
    try:
        record = json.loads(description.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    names: Iterable[str] = record["files"] if isinstance(record, dict) and GENERATED in record.values() else ()
    # of an earlier version, a list
    digests = names if isinstance(names, dict) else dict.fromkeys(names, "")
    return {name: digest for name, digest in digests.items() if ".." not in Path(name).parts}


def _package(options: GenerateOptions, emitted: EmittedVerilog) -> dict[str, str]:
    # testbench vectors need numpy, plain Verilog does not
    from xpulpnn_sim.publishing.packages.assemble import package_files

    config = options.for_top(options.top)
    return package_files(Design(options.top, config, emitted, options.clock, command_line(options)))
