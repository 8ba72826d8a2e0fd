"""What the subcommands that run a program share: its options, its output, dumps and profiles."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.cluster_program import cluster_windows, load_for
from xpulpnn_sim.commands.common import core_title, require_folder
from xpulpnn_sim.elf import Executable, Window, parse_number, parse_ram, windows
from xpulpnn_sim.exits import STDERR, Exit, Output
from xpulpnn_sim.trap_report import Trapped, describe
from xpulpnn_sim.trap_report import record as trap_record
from xpulpnn_sw.core_note import require_core

DEFAULT_LIMIT = 1_000_000_000
HART_LIMIT = 1 << 32
_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Dump:
    """A piece of memory to write into a file after the run."""

    address: int
    size: int
    path: Path


def add_program(parser: argparse.ArgumentParser, *, limit_options: Sequence[str], unit: str) -> None:
    """Add the program and the options of every run."""
    parser.add_argument("program", type=Path, metavar="PROG.elf", help="32-bit RISC-V executable")
    parser.add_argument(
        "--ram",
        action="append",
        default=[],
        metavar="BASE:SIZE",
        help="memory beside the program's segments, such as 0x80000000:1M; repeatable",
    )
    parser.add_argument(
        "--bus-error",
        action="append",
        default=[],
        metavar="BASE:SIZE",
        help="words that the bus answers with an error: fetch, load and store access faults; repeatable",
    )
    parser.add_argument(
        *limit_options,
        dest="limit",
        type=int,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"give up after N {unit} (default {DEFAULT_LIMIT})",
    )
    parser.add_argument("--hart-id", default="0", metavar="N", help="value of mhartid (default 0)")
    parser.add_argument(
        "--dump",
        action="append",
        default=[],
        metavar="ADDR:LEN:FILE",
        help="write LEN bytes of memory to FILE after the run; ADDR is a number or a symbol; repeatable",
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a line for every instruction")
    parser.add_argument("--profile", action="store_true", help=f"{unit} by function")


def load_program(
    arguments: argparse.Namespace, config: CoreConfig | ClusterConfig
) -> tuple[Executable, tuple[Window, ...]]:
    """The program and the memory beside it; raises :class:`InputError` also for bad limits, another core, and another
    number of cores."""
    if arguments.limit < 1:
        raise InputError(f"--max-cycles must be at least 1, not {arguments.limit}")
    ram = tuple(parse_ram(text) for text in arguments.ram)
    executable = load_for(arguments.program, config, ram)
    core = config.core if isinstance(config, ClusterConfig) else config
    require_core(executable.cores, core, str(executable.path), core_title(arguments))
    return executable, ram


def bus_errors(arguments: argparse.Namespace) -> tuple[Window, ...]:
    """The words that the bus answers with an error."""
    return tuple(parse_ram(text) for text in arguments.bus_error)


def hart_id(arguments: argparse.Namespace) -> int:
    """The value of ``--hart-id``."""
    try:
        number = int(arguments.hart_id, 0)
    except ValueError:
        number = -1
    if not 0 <= number < HART_LIMIT:
        raise InputError(f"--hart-id must be a number from 0 to {HART_LIMIT - 1}, not {arguments.hart_id}")
    return number


def dumps(
    arguments: argparse.Namespace,
    executable: Executable,
    ram: Sequence[Window],
    config: CoreConfig | ClusterConfig | None = None,
) -> tuple[Dump, ...]:
    """The pieces of memory to write; raises :class:`InputError` unless each can be."""
    is_cluster = isinstance(config, ClusterConfig)
    memory = cluster_windows(executable, config, ram) if is_cluster else windows(executable, ram)
    found: list[Dump] = []
    for text in arguments.dump:
        where, _, rest = text.partition(":")
        length, _, name = rest.partition(":")
        try:
            address = executable.symbols[where] if where in executable.symbols else parse_number(where)
            size = parse_number(length)
        except ValueError:
            address, size = 0, -1
        if size < 0 or not name:
            raise InputError(f"--dump must be ADDR:LEN:FILE with a number or symbol as ADDR, not {text}")
        if not any(base <= address and address + size <= base + extent for base, extent in memory):
            raise InputError(f"--dump must be inside memory, not 0x{address:08x} with {size} bytes")
        path = Path(name)
        require_file(path, "--dump")
        found.append(Dump(address, size, path))
    return tuple(found)


def require_file(path: Path | None, option: str) -> None:
    """Raise :class:`InputError` unless the file of an option can be created."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} must be a file, not the folder {path}")
    require_folder(path.parent, option)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary file that takes the place of ``path`` when it is complete, and goes away if it is not."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_FILE_MODE)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_dumps(pieces: Sequence[Dump], read: Callable[[int, int], bytes]) -> None:
    """Write every piece of memory."""
    for piece in pieces:
        with replacing(piece.path) as temporary:
            temporary.write_bytes(read(piece.address, piece.size))


def show(printed: Output) -> None:
    """Pass on what the program prints, byte by byte."""
    stream = sys.stderr if printed.descriptor == STDERR else sys.stdout
    stream.flush()
    stream.buffer.write(printed.data)
    stream.buffer.flush()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    executable: Executable
    exit: Exit
    trapped: Trapped | None  # the last exception
    config: CoreConfig
    core: str

    @property
    def exception(self) -> str:
        """The last exception in words, if the program did not succeed."""
        if self.trapped is None or self.exit.ok:
            return ""
        return describe(self.trapped, self.config, self.core, self.executable.symbol_at)


def report(ending: Ending, summary: str) -> None:
    """Tell how the run ended, on the error output: the other one is the program's."""
    sys.stdout.flush()
    print(f"{ending.exit.text} ({summary})", file=sys.stderr)
    if ending.exception:
        print(f"last exception: {ending.exception}", file=sys.stderr)


def end_record(ending: Ending) -> dict[str, Any]:
    """The end of a run for machines."""
    executable, ended = ending.executable, ending.exit
    found = ending.trapped if ending.exception else None
    exception = None if found is None else trap_record(found, ending.exception, executable.symbol_at)
    return {
        "program": str(executable.path),
        "reason": ended.reason.value,
        "code": ended.code,
        "pc": ended.pc,
        "symbol": executable.symbol_at(ended.pc),
        "address": ended.address,
        "text": ended.text,
        "exception": exception,
    }


OUTSIDE = "(no symbol)"


def by_function(executable: Executable, counts: Mapping[int, int]) -> list[dict[str, Any]]:
    """Counts by instruction address, summed for each function, the largest first."""
    sums: dict[tuple[str, int | None], int] = {}
    for pc, count in counts.items():
        function = executable.function_at(pc)
        key = (OUTSIDE, None) if function is None else (function.name, function.address)
        sums[key] = sums.get(key, 0) + count
    total = sum(sums.values())
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0][0]))
    return [
        {"symbol": name, "address": address, "count": count, "share": round(count / total, 4)}
        for (name, address), count in ordered
    ]


def profile_table(rows: Sequence[Mapping[str, Any]], unit: str) -> Table:
    """The counts of :func:`by_function` for people."""
    table = Table(box=None, title=f"{unit} by function", title_justify="left")
    table.add_column("function", no_wrap=True)
    table.add_column("address", justify="right")
    table.add_column(unit, justify="right")
    table.add_column("share", justify="right")
    for row in rows:
        address = "" if row["address"] is None else f"0x{row['address']:08x}"
        table.add_row(row["symbol"], address, str(row["count"]), f"{row['share']:.1%}")
    return table
