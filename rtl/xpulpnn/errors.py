"""Exceptions raised by the project: mistakes of the user or missing tools, never internal faults.

A message reads "`what` must be `rule`, not `value`"; the command line prints it as one line and exits with code 2.
"""

import errno


class XpulpnnError(Exception):
    """Base of all errors that the command line reports in one line."""


def unreadable(path: object, error: OSError) -> str:
    """Return a message that says why a file cannot be read or written."""
    if isinstance(error, FileNotFoundError):
        return f"{path} must be an existing file, and there is none of this name"
    if isinstance(error, IsADirectoryError):
        return f"{path} must be a file, not a folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} cannot be written, as its disk is full"
    return f"{path} cannot be used: {error.strerror}"


class ConfigError(XpulpnnError):
    """A hardware configuration that cannot be built."""


class EncodingError(XpulpnnError):
    """An instruction, operand or word that is not in the instruction set."""


class LayerError(XpulpnnError):
    """A layer or kernel parameter that describes no computation."""


class ToolError(XpulpnnError):
    """An external tool that is missing or failed."""


class InputError(XpulpnnError):
    """A file or command-line argument that cannot be used."""


def require(holds: object, rule: str, error: type[XpulpnnError] = InputError) -> None:
    """Raise ``error`` with the message ``rule``, which says what must be and what is, unless a condition holds."""
    if not holds:
        raise error(rule)
