"""Exceptions raised by the project. Every one is a user's mistake or a missing tool, never an internal fault.

The text reads "`what` must be `rule`, not `value`"; the command line prints it as one line and exits with code 2.
"""


class XpulpnnError(Exception):
    """Base of all errors the command line reports in one line."""


def unreadable(path: object, error: OSError) -> str:
    """Why a file cannot be read or written, in words."""
    if isinstance(error, FileNotFoundError):
        return f"{path} must be an existing file, and there is none of this name"
    if isinstance(error, IsADirectoryError):
        return f"{path} must be a file, not a folder"
    return f"{path} cannot be used: {error.strerror}"


class ConfigError(XpulpnnError):
    """A hardware configuration that cannot be built."""


class EncodingError(XpulpnnError):
    """An instruction, operand or word outside the instruction set."""


class LayerError(XpulpnnError):
    """A layer or kernel parameter that describes no computation."""


class ToolError(XpulpnnError):
    """An external tool that is missing or failed."""


class InputError(XpulpnnError):
    """A file or command-line argument that cannot be used."""
