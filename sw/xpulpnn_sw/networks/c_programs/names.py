"""Names and texts of a network in C, whatever its file calls them."""

import re
from collections.abc import Iterable

_ESCAPED = {'"': '\\"', "\\": "\\\\"}


def identifier(name: str) -> str:
    """A name made of letters, digits and underlines; not one by itself if it begins with a digit."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """For each name an identifier of its own."""
    found: dict[str, str] = {}
    for name in names:
        chosen, number = identifier(name), 2
        while chosen in found.values():
            chosen, number = f"{identifier(name)}_{number}", number + 1
        found[name] = chosen
    return found


def comment_text(text: str) -> str:
    """The text as a comment may have it."""
    shown = "".join(letter if letter.isprintable() and letter != "\\" else "?" for letter in text)
    return shown.replace("*/", "* /").replace("/*", "/ *")


def c_string(text: str) -> str:
    """The text as a string of C."""
    shown = (letter if letter.isascii() and letter.isprintable() else "?" for letter in text)
    return f'"{"".join(_ESCAPED.get(letter, letter) for letter in shown)}"'
