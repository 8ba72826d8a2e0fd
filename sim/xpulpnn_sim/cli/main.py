"""The command line ``xpulpnn``."""

import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from inspect import BoundArguments
from io import TextIOWrapper
from itertools import pairwise
from tempfile import gettempdir
from typing import Any

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnusedCliTokensError

from xpulpnn.errors import InputError, XpulpnnError, unreadable
from xpulpnn.xif.config import XIF_PRESETS
from xpulpnn_sim.cli.common import FAILED, INTERRUPTED, RESULTS_ON_OUTPUT, TYPED, remark
from xpulpnn_sim.cli.tree import EXTRAS, PROGRAM, app, command_name, with_default_command
from xpulpnn_sim.tools.component_names import XIF
from xpulpnn_sim.tools.files import STANDARD_OUTPUT, path_of


def split_words(words: Sequence[str]) -> list[str]:
    first, *rest = words or [""]
    if first == "cc":
        from xpulpnn_sim.cli.cc_words import separate_cc_options

        return [first, *separate_cc_options(rest)]
    if first == "litex" and rest[:1] not in ([], ["--help"], ["-h"]):
        return [first, "--", *rest]
    if first == "debug":
        for at, (word, following) in enumerate(pairwise(rest)):
            if word == "-x":  # gdb's option for a file of commands
                rest[at : at + 2] = ["--ex", f"source {following}"]
        return [first, *rest]
    return list(words)


BAD_INPUT = 2
OUTPUT_CLOSED = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0 for success, 1 for a failed check, 2 for bad input or a missing tool."""
    # Amaranth warns of designs that an error or an interrupt leaves behind
    warnings.filterwarnings("ignore", ".* created but never used")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    typed = sys.argv[1:] if argv is None else list(argv)
    try:
        if (place := os.environ.get("TMPDIR")) and not os.access(place, os.W_OK):
            remark(f"TMPDIR must be a writable folder, not {place}: temporary files are in {gettempdir()}")
        return execute_command(typed)
    except XpulpnnError as error:
        if isinstance(messages := getattr(error, "messages", None), str):
            sys.stderr.write(messages.rstrip("\n") + "\n")  # compiler messages about generated sources
            return FAILED
        return _report(with_suggestion(str(error)), BAD_INPUT)
    except ImportError as error:
        return _report(_missing(error, command_name(with_default_command(split_words(typed)))), BAD_INPUT)
    except BrokenPipeError:
        # the reader of stdout has gone: avoid errors while Python flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except SystemExit as error:
        if error.code != 1:
            raise
        return OUTPUT_CLOSED  # rich has done the same
    except OSError as error:
        return _report(unreadable(path_of(error) or "output", error), BAD_INPUT)
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)


_WRITTEN = ("json", "report", "waves", "trace")  # options whose files are reported when written
_WAVES, _VIEWS = (".fst", ".vcd"), (".gtkw", ".filters")


def execute_command(typed: Sequence[str]) -> int:
    """Run the command and return its exit code; raise :class:`XpulpnnError` for bad input."""
    run, bound = parse_command(typed)
    typed_before = TYPED.set(tuple(typed))
    results_before = RESULTS_ON_OUTPUT.set(bound.kwargs.get("json") == STANDARD_OUTPUT)
    files = [path for name in _WRITTEN if (path := bound.kwargs.get(name)) and path != STANDARD_OUTPUT]
    before = {path: path.parent.is_dir() for path in files}
    started = time.time()
    try:
        code = run(*bound.args, **bound.kwargs) or 0
        for path in files:
            if path.is_file() and path.stat().st_mtime >= started - 1:
                views = [view.name for suffix in _VIEWS if (view := path.with_suffix(suffix)).exists()]
                with_views = f", with {' and '.join(views)} for GTKWave" if views and path.suffix in _WAVES else ""
                remark(f"{path} is written{with_views}{'' if before[path] else ', in a new folder'}")
        return code
    finally:
        TYPED.reset(typed_before)
        RESULTS_ON_OUTPUT.reset(results_before)


def parse_command(typed: Sequence[str]) -> tuple[Callable[..., int | None], BoundArguments]:
    """Return the command and its arguments; raise :class:`InputError` for words that are not understood."""
    words = with_default_command(split_words(typed)) or ["--help"]
    try:
        run, bound, _ = app().parse_args(words, verbose=False)
    except MissingArgumentError as error:
        if words[0] == "generate" and (chosen := XIF_PRESETS.keys() & set(words)):
            raise InputError(f"TOP must be given: {PROGRAM} generate {XIF} --preset {min(chosen)}") from None
        name = error.argument.name if error.argument else "a word"
        if error.argument and set(error.argument.names).intersection(words):
            raise InputError(f"{name} must be followed by its value") from None
        command = f"{PROGRAM} {command_name(words)}"
        raise InputError(f"{command} needs {name}: {command} --help shows examples") from None
    except UnusedCliTokensError as error:
        spare = " ".join(error.unused_tokens or [])
        raise InputError(f"{PROGRAM} {command_name(words)} takes no further word, not {spare}") from None
    except CoercionError as error:
        kind = _KINDS.get(error.target_type)
        if kind is None or error.token is None:
            raise InputError(_prefer_beginning(str(error))) from None
        raise InputError(f"{error.token.keyword or 'word'} must be {kind}, not {error.token.value}") from None
    except CycloptsError as error:
        raise InputError(_prefer_beginning(str(error))) from None
    return run, bound


_KINDS: dict[Any, str] = {int: "a whole number", float: "a number"}
_LISTED = re.compile(r"(?:one of|out of) (?P<known>\S.*), not (?P<given>[^\s,]+)")
_CHOICES = re.compile(r'(?P<rule>.*"(?P<given>[^"]+)" for .* Choose from: (?P<known>[^.]*)\.) Did you mean ".*')


def _prefer_beginning(text: str) -> str:
    """Suggest the choice that begins as the given word, if there is one, instead of the most similar choice."""
    match = _CHOICES.fullmatch(text)
    known = re.findall('"(.*?)"', match["known"]) if match else []
    longer = [word for word in known if match and word.startswith(match["given"])]
    return f'{match["rule"]} Did you mean "{longer[0]}"?' if match and longer else text


def with_suggestion(text: str) -> str:
    match = _LISTED.search(text)
    known = re.split("[, ]+", match["known"]) if match else []
    likely = get_close_matches(match["given"], known, 1) if match and not match["given"].isdigit() else []
    return f"{text}. Did you mean {likely[0]}?" if likely else text


def _missing(error: ImportError, command: str) -> str:
    """Return how to install the missing package; raise ``error`` again if a module of this project is missing."""
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
    module = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    if module in ("", "xpulpnn", "xpulpnn_sim", "xpulpnn_sw"):
        raise error
    extra = EXTRAS.get(command.partition(" ")[0], "sim")
    where = f"'.[{extra}]'" if extra else "."
    return f"{module} must be installed for {command}, not missing: pip install {where}"


def _report(text: str, code: int) -> int:
    with suppress(OSError):  # standard error may be on a full disk
        remark(f"error: {' '.join(text.split())}")
    return code
