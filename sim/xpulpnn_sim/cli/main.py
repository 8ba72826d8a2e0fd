"""The command line ``xpulpnn``."""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from inspect import BoundArguments

from cyclopts import Argument, CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.cli.common import INTERRUPTED, RESULTS_ON_OUTPUT, TYPED
from xpulpnn_sim.cli.old_names import current
from xpulpnn_sim.cli.tree import COMMANDS, PROGRAM, app, complete, leaf_of
from xpulpnn_sim.cli.values import STANDARD_OUTPUT

BAD_INPUT = 2

_ALLOCATED = 20_000
"""Live objects that come between two searches for garbage: what commands build, such as graphs of gates, mostly stays,
and searching it as often as Python does takes up to a sixth of their time."""

_KINDS = {int: "a whole number", float: "a number"}


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
        run, bound, _ = app().parse_args(words)
    except CycloptsError as error:
        raise InputError(_told(error)) from None
    return run, bound


def _told(error: CycloptsError) -> str:
    """Return a line with the argument that is wrong and the rule it broke."""
    argument = error.argument
    name = _name(argument) if argument else ""
    if isinstance(error, UnknownCommandError):
        word = (error.unused_tokens or ["nothing"])[0]
        known = ", ".join(each for each in error.app or () if not each.startswith("-"))
        return f"command must be one of {known}, not {word}"
    if isinstance(error, UnknownOptionError):
        return f"{error.token.keyword} must be an option that --help shows"
    if isinstance(error, UnusedCliTokensError):
        return f"arguments must be as --help shows, without {' '.join(error.unused_tokens or ())}"
    if isinstance(error, MissingArgumentError):
        return f"{error.keyword or name} must be given{' a value' if error.keyword else ''}, not left out"
    if isinstance(error, ValidationError) and argument:
        value = argument.tokens[0].value if argument.tokens else argument.value
        return f"{name} {error.exception_message}, not {value}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} must be given once, not again"
    if isinstance(error, CoercionError) and argument and str(error.msg or "").startswith("must be"):
        return f"{name} {error.msg}, not {argument.tokens[0].value}"
    if isinstance(error, CoercionError) and argument:
        choices = argument.get_choices(force=True)
        kind = f"one of {', '.join(choices)}" if choices else _KINDS.get(error.target_type or str, "as --help shows")
        return f"{name} must be {kind}, not {error.token.value if error.token else 'that'}"
    return str(error)


def _name(argument: Argument) -> str:
    token = argument.tokens[0].keyword if argument.tokens else None
    if argument.field_info.is_keyword:
        return token or argument.name
    return argument.parameter.metavar or argument.name.upper()


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
