"""Decorators for commands and their options, option types with value checks, and common options.

The options of a command are a frozen dataclass; the text below a field is its help. Base classes are groups of options.
"""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform, get_type_hints

from cyclopts import App, Parameter, Token

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import InputError, require
from xpulpnn.xif.config import XIF_PRESETS
from xpulpnn_sim.cli.tree import COMMANDS, sentence
from xpulpnn_sim.tools.files import STANDARD_OUTPUT, require_place, require_writable
from xpulpnn_sim.tools.name_lists import select_names, split_names
from xpulpnn_sim.tools.yosys import CHOICES, VARIABLE
from xpulpnn_sw.toolchain.compilers import COMPILERS

Options = TypeVar("Options")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def arguments(kind: type[Options]) -> type[Options]:
    return dataclass(frozen=True, kw_only=True, repr=False, eq=False)(kind)


def command(words: str) -> Callable[[Callable[[Any], int]], App]:
    """Make a function the command ``words``, which `tree.app` finds by its name; its docstring consists of examples."""

    def register(run: Callable[[Any], int]) -> App:
        (kind,) = (hint for name, hint in get_type_hints(run).items() if name != "return")

        @wraps(run)
        def entry(*words: Any, **given: Any) -> int:
            return run(kind(*words, **given))

        signature = inspect.Signature(_parameters(kind))
        entry.__dict__["__signature__"] = signature
        entry.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        lines = [f"  {line}\n      {text}" for line, text in examples(run)]
        name, text = words.rpartition(" ")[2], sentence(COMMANDS[words])
        app = App(name=name, help=text, help_epilogue="\n".join(["Examples:", *lines]))
        app.default(entry)
        return app

    return register


def examples(run: Callable[..., Any]) -> list[tuple[str, str]]:
    """Return the examples of a command, which are the lines of its docstring, with their comments."""
    parts = (line.partition("  # ") for line in (inspect.getdoc(run) or "").splitlines())
    return [(line, text) for line, _, text in parts]


def _parameters(kind: type) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    helps = {name: text for part in kind.__mro__[-2::-1] for name, text in _helps(part)}
    parameters = [_parameter(parameter, hints[parameter.name], helps.get(parameter.name)) for parameter in fields(kind)]
    return sorted(parameters, key=lambda parameter: parameter.kind)


_HELP = re.compile(r'^    (\w+): .*(?:\n(?: {5}|    [])]).*)*\n    """([^"]*(?:"(?!"")[^"]*)*)"""', re.MULTILINE)
"""A field, whose value may go on in further lines, and the text below it."""


def _helps(kind: type) -> list[tuple[str, str]]:
    source = inspect.getsource(sys.modules[kind.__module__])
    after = re.split(rf"^class {kind.__name__}\b", source, maxsplit=1, flags=re.MULTILINE)[1]
    return _HELP.findall(after.partition("\n\n\n")[0])


def _parameter(option: Field[Any], hint: Any, text: str | None) -> inspect.Parameter:
    if text is not None:
        hint = Annotated[hint, Parameter(help=" ".join(text.split()))]
    if isinstance(option.default, tuple):
        joined = ", ".join(map(str, option.default))
        hint = Annotated[hint, Parameter(show_default=(lambda _: joined) if joined else False)]
    default = inspect.Parameter.empty if option.default is MISSING else option.default
    if option.kw_only:
        return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    hint = Annotated[hint, Parameter(allow_leading_hyphen=False)]
    return inspect.Parameter(option.name, inspect.Parameter.POSITIONAL_ONLY, default=default, annotation=hint)


def rule(text: str, holds: Callable[[Any], bool], metavar: str) -> Parameter:
    def check(_kind: type, value: Any) -> None:
        if value is not None and not holds(value):
            raise ValueError(f"It must be {text}.")

    return Parameter(validator=check, metavar=metavar)


def parsed_by(parse: Callable[[str], Any], **more: Any) -> Parameter:
    return Parameter(converter=lambda _kind, tokens: parse(tokens[0].value), n_tokens=1, **more)


def at_least(least: int, metavar: str = "N") -> Parameter:
    return rule(f"at least {least}", lambda value: value >= least, metavar)


def between(least: int, most: int) -> Parameter:
    return rule(f"{least} to {most}", lambda value: least <= value <= most, "N")


Count = Annotated[int, at_least(1)]
Natural = Annotated[int, at_least(0)]
Probability = Annotated[float, rule("a probability below 1", lambda value: 0 <= value < 1, "P")]
Seconds = Annotated[float, rule("positive", lambda value: value > 0 and isfinite(value), "S")]


def listed(known: Sequence[str], what: str = "", metavar: str = "LIST") -> Parameter:
    """Return a parameter for distinct words out of ``known``, separated by ``+`` or commas; ``all`` selects all."""

    def split(_kind: type, tokens: Sequence[Token]) -> tuple[str, ...]:
        names = (name for token in tokens for name in select_names(token.value, known, token.keyword or metavar))
        return tuple(dict.fromkeys(names))

    text = f"{what}: out of {', '.join(known)}, or all." if what else None
    return Parameter(converter=split, metavar=metavar, help=text)


def _words(_kind: type, tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for token in tokens for word in split_names(token.value, token.keyword or "list")))


def _numbers(_kind: type, tokens: Sequence[Token]) -> tuple[int, ...]:
    words = _words(_kind, tokens)
    if not all(map(str.isdecimal, words)):
        texts = "+".join(token.value for token in tokens)
        raise InputError(f"{tokens[0].keyword} must be a list of numbers such as 8,16, not {texts}")
    return tuple(map(int, words))


Words = Annotated[tuple[str, ...], Parameter(converter=_words, metavar="LIST")]
Numbers = Annotated[tuple[int, ...], Parameter(converter=_numbers, metavar="LIST")]
Repeated = tuple[str, ...]


def _path(check: Callable[[Path, str], object], metavar: str) -> Parameter:
    def convert(_kind: type, tokens: Sequence[Token]) -> Path:
        (token,) = tokens
        name = "--output" if token.keyword == "-o" else token.keyword or metavar
        require(token.value, f"{name} must be a path, not empty")
        check(Path(token.value), name)
        return Path(token.value)

    return Parameter(converter=convert, metavar=metavar)


_EXISTING = "{} must be an existing file, not {}".format
OldFile = Annotated[Path, _path(lambda path, name: require(path.is_file(), _EXISTING(name, path)), "FILE")]


def _require_new(path: Path, option: str) -> None:
    require(path != STANDARD_OUTPUT, f"{option} must be a file, not - for standard output")
    require_writable(path, option)


NewFile = Annotated[Path, _path(_require_new, "FILE")]
_Results = Annotated[Path, _path(lambda path, name: path == STANDARD_OUTPUT or require_writable(path, name), "FILE")]
"""A writable file, or standard output."""
NewFolder = Annotated[Path, _path(require_place, "DIR")]  # a writable or new folder
Preset = Annotated[str, Parameter(choices=(*PRESETS, *CLUSTER_PRESETS), metavar="NAME")]
AnyPreset = Annotated[str, Parameter(choices=(*PRESETS, *CLUSTER_PRESETS, *XIF_PRESETS), metavar="NAME")]
CorePreset = Annotated[str, Parameter(choices=tuple(PRESETS), metavar="NAME")]


@arguments
class Json:
    json: _Results | None = None
    """Write the result as JSON; - is the standard output."""


@arguments
class Report:
    report: NewFile | None = None
    """Write a page with tables and plots, FILE.html."""


@arguments
class Seed:
    seed: Natural = 0
    """Seed of random choices."""


@arguments
class Jobs:
    jobs: Count = 2
    """Processes side by side."""


@arguments
class Dask:
    dask: Annotated[str, Parameter(metavar="HOST:PORT", show_default=False)] = ""
    """Run on the workers of this Dask scheduler instead."""


@arguments
class Fresh:
    fresh: bool = False
    """Start anew: use nothing that an earlier run left."""


@arguments
class YosysChoice:
    yosys: Annotated[
        str,
        Parameter(
            help=f"Yosys: {CHOICES} (default: {VARIABLE}, or the pinned wheel).", metavar="WHICH", show_default=False
        ),
    ] = ""


Check = Literal["none", "results", "all"]


@arguments
class CompilerChoice:
    compiler: Annotated[str | None, Parameter(choices=COMPILERS)] = None
    """C compiler (default: the first installed)."""


@arguments
class Timeout:
    timeout: Seconds = 600.0
    """Seconds after which a step counts as undecided."""
