"""Meanings of the members of enumerations, from the comments beside them."""

import inspect
import re
from enum import Enum
from typing import TypeVar

E = TypeVar("E", bound=Enum)


def comments_beside(kind: type[E]) -> dict[E, str]:
    """Return the comment beside each member that has one, in the order of the source."""
    found = re.findall(r"^    (\w+) = .*?  # (.*)$", inspect.getsource(kind), re.MULTILINE)
    return {kind[name]: text for name, text in found}
