"""Commands made of a function that takes options: a frozen dataclass whose fields are the arguments.

The text below a field is its help. Fields of dataclasses that others inherit are option groups.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import wraps
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

from cyclopts import Parameter
from docstring_parser import parse_from_object

Options = TypeVar("Options")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def arguments(kind: type[Options]) -> type[Options]:
    """Make a class a frozen dataclass whose fields are given by name."""
    return dataclass(frozen=True, kw_only=True)(kind)


def command(run: Callable[[Options], int]) -> Callable[..., int]:
    """Let the fields of the options that ``run`` takes be the parameters of a command. Fields that are not keyword-only
    are words without a name."""
    (kind,) = (hint for name, hint in get_type_hints(run).items() if name != "return")

    @wraps(run)
    def entry(*words: Any, **given: Any) -> int:
        return run(kind(*words, **given))

    signature = inspect.Signature(_parameters(kind))
    entry.__dict__["__signature__"] = signature
    entry.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    return entry


def _parameters(kind: type) -> list[inspect.Parameter]:
    """Words without a name first."""
    hints = get_type_hints(kind, include_extras=True)
    helps = {one.arg_name: one.description for part in kind.__mro__[-2::-1] for one in parse_from_object(part).params}
    found = [_parameter(one, hints[one.name], helps.get(one.name)) for one in fields(kind)]
    return sorted(found, key=lambda one: one.kind)


def _parameter(one: Field[Any], hint: Any, text: str | None) -> inspect.Parameter:
    if text is not None:
        hint = Annotated[hint, Parameter(help=" ".join(text.split()))]
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    kind = inspect.Parameter.KEYWORD_ONLY if one.kw_only else inspect.Parameter.POSITIONAL_ONLY
    return inspect.Parameter(one.name, kind, default=default, annotation=hint)
