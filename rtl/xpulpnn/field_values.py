"""Values of the fields of configurations as text, and choices among words."""

import re
from enum import EnumType
from typing import Any, get_args, get_origin

from xpulpnn.errors import ConfigError


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise :class:`~xpulpnn.errors.ConfigError` for a word that is none of the choices."""
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value or 'empty'}")


_TRUTH = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


def parse_value(name: str, text: str, kind: Any) -> Any:
    """The value that ``text`` spells for a field of type ``kind``: bool, int, set of int, enum or ``Literal`` word.

    Raises :class:`ConfigError` naming the field and the rule.
    """
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise ConfigError(f"{name} must be true or false, not {text}")
        return _TRUTH[text.lower()]
    if kind is int or get_origin(kind) is frozenset:
        try:
            return int(text, 0) if kind is int else frozenset(int(part, 0) for part in re.split("[,+]", text))
        except ValueError:
            rule = "an integer" if kind is int else "a list of integers such as 16,8"
            raise ConfigError(f"{name} must be {rule}, not {text or 'empty'}") from None
    if isinstance(kind, EnumType):
        require_choice(name, text, tuple(kind.__members__))
        return kind[text]
    require_choice(name, text, get_args(kind))
    return text
