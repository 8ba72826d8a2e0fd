"""The command line ``xpulpnn``."""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from inspect import BoundArguments

from cyclopts import CycloptsError

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.cli.common import INTERRUPTED, RESULTS_ON_OUTPUT, TYPED
from xpulpnn_sim.cli.old_names import current
from xpulpnn_sim.cli.options import STANDARD_OUTPUT
from xpulpnn_sim.cli.tree import COMMANDS, PROGRAM, app, complete, leaf_of

BAD_INPUT = 2

_ALLOCATED = 20_000
"""Live objects that come between two searches for garbage: what commands build, such as graphs of gates, mostly stays,
and searching it as often as Python does takes up to a sixth of their time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command: 0 = done and correct, 1 = a check failed, 2 = bad input or missing tool, told in one line."""
    gc.set_threshold(_ALLOCATED)
    typed = sys.argv[1:] if argv is None else list(argv)
    try:
        return execute_command(typed)
    except XpulpnnError as error:
        return _report(str(error), BAD_INPUT)
    except ImportError as error:
        return _report(_missing(error, leaf_of(complete(current(typed)))), BAD_INPUT)
    except BrokenPipeError:
        # the reader of our output has gone; keep the interpreter from complaining while it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT
    except OSError as error:
        return _report(f"{error.filename or 'file'} must be accessible, not failing with: {error.strerror}", BAD_INPUT)
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)


def execute_command(typed: Sequence[str]) -> int:
    """Run what the words say, and give the exit code; raises :class:`XpulpnnError` for bad input."""
    run, bound = parsed(typed)
    typed_before = TYPED.set(tuple(typed))
    results_before = RESULTS_ON_OUTPUT.set(bound.kwargs.get("json") == STANDARD_OUTPUT)
    try:
        return run(*bound.args, **bound.kwargs) or 0
    finally:
        TYPED.reset(typed_before)
        RESULTS_ON_OUTPUT.reset(results_before)


def parsed(typed: Sequence[str]) -> tuple[Callable[..., int | None], BoundArguments]:
    """The command that the words call, and its arguments; raises :class:`InputError`."""
    words = complete(current(typed))
    if not words:
        raise InputError(f"COMMAND must be given, one that {PROGRAM} --help shows")
    try:
        run, bound, _ = app().parse_args(words, verbose=False)
    except CycloptsError as error:
        raise InputError(str(error)) from None
    return run, bound


def _missing(error: ImportError, command: str) -> str:
    """Return what to install for a command; raises ``error`` again if the missing module is our own."""
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
    module = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    if module in ("", "xpulpnn", "xpulpnn_sim", "xpulpnn_sw"):
        raise error
    extra = COMMANDS[command].extra
    where = f"'.[{extra}]'" if extra else "."
    return f"{module} must be installed for {command}, not missing: pip install {where}"


def _report(text: str, code: int) -> int:
    print(f"error: {' '.join(text.split())}", file=sys.stderr)
    return code
