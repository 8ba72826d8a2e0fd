"""Exceptions raised by the project. Every one is a user's mistake or a missing tool, never an internal fault.

The text reads "`what` must be `rule`, not `value`"; the command line prints it as one line and exits with code 2.
"""


class XpulpnnError(Exception):
    """Base of all errors the command line reports in one line."""


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
