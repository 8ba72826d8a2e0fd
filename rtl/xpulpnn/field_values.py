"""Parser of ``KEY=VALUE`` settings for the fields of configurations."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum, EnumType
from functools import reduce
from typing import Any, Literal, TypeVar, get_args, get_origin

from xpulpnn.errors import ConfigError, require

Config = TypeVar("Config")


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise :class:`~xpulpnn.errors.ConfigError` if ``value`` is not one of ``choices``."""
    require(value in choices, f"{name} must be one of {', '.join(choices)}, not {value or 'empty'}", ConfigError)


_TRUTH = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


def parse_value(name: str, text: str, kind: Any) -> Any:
    """Parse ``text`` as the value of a field of type ``kind``: bool, int, set of int, enum or ``Literal`` word.

    Raises :class:`ConfigError` naming the field and the rule.
    """
    if kind is bool:
        require(text.lower() in _TRUTH, f"{name} must be true or false, not {text}", ConfigError)
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


def check_choices(config: Any) -> None:
    """Raise :class:`~xpulpnn.errors.ConfigError` for a field of ``Literal`` type whose value is not allowed."""
    for item in fields(config):
        if get_origin(item.type) is Literal:
            require_choice(item.name, getattr(config, item.name), get_args(item.type))


def _settings(config: Any) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Map each setting name to the path and type of its field; fields of a nested configuration also have the nested
    field's name as a prefix (``dotp.widths``)."""
    settings: dict[str, tuple[tuple[str, ...], Any]] = {}
    for item in fields(config):
        inner = getattr(config, item.name)
        if is_dataclass(inner):
            for name, (path, kind) in _settings(inner).items():
                settings[name] = settings[f"{item.name}.{name}"] = (item.name, *path), kind
        else:
            settings[item.name] = (item.name,), item.type
    return settings


def with_setting(config: object, key: str, text: str) -> tuple[tuple[str, ...], Any]:
    """Return path and value of one ``KEY=VALUE`` setting of the command line, parsed by the type of its field.

    ``KEY`` may have hyphens for underscores; keys of :class:`~xpulpnn.config.DotpConfig` may be written with or without
    the prefix ``dotp.``.
    """
    known = _settings(config)
    name = key.replace("-", "_")
    if name not in known:
        shown = sorted(setting for setting in known if "." not in setting)
        raise ConfigError(f"setting must be one of {', '.join(shown)}, not {key}")
    path, kind = known[name]
    return path, parse_value(path[-1], text, kind)


def _changed(config: Any, changes: Mapping[tuple[str, ...], Any]) -> Any:
    values = {name: value for (name, *inner), value in changes.items() if not inner}
    for name in {name for name, *inner in changes if inner}:
        inner = {path[1:]: value for path, value in changes.items() if path[0] == name}
        values[name] = _changed(getattr(config, name), inner)
    return replace(config, **values)


def apply_settings(config: Config, settings: Mapping[str, str]) -> Config:
    """Return ``config`` with ``KEY=VALUE`` settings applied together; raise :class:`ConfigError` for a bad one."""
    return _changed(config, dict(with_setting(config, key, text) for key, text in settings.items()))


def settings_between(base: Config, config: Config) -> dict[str, str]:
    """Return the settings with which :func:`apply_settings` turns ``base`` into ``config``."""
    settings: dict[str, str] = {}
    for path, _ in _settings(config).values():
        before, after = (reduce(getattr, path, each) for each in (base, config))
        if before != after:
            settings[".".join(path)] = setting_text(after)
    return settings


def setting_text(value: Any) -> str:
    """Return a value as the command line takes it, numbers of a set from the largest to the smallest."""
    if isinstance(value, frozenset):
        return ",".join(map(str, sorted(value, reverse=True)))
    return value.name if isinstance(value, Enum) else str(value).lower()
