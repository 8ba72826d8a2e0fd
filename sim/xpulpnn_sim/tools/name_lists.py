"""Parse lists of names in options, joined by ``+`` or commas."""

import re
from collections.abc import Sequence

from xpulpnn.errors import require


def split_names(text: str, option: str) -> list[str]:
    """Return the distinct names in a list; raise :class:`InputError` for an empty name."""
    names = [name.strip() for name in re.split("[,+]", text)]
    require("" not in names, f"{option} must be a list of words such as A+B, not {text or 'empty'}")
    return list(dict.fromkeys(names))


def select_names(text: str, known: Sequence[str], option: str) -> list[str]:
    names = list(known) if text == "all" else [name.strip() for name in re.split("[,+]", text)]
    for name in names:
        require(name in known, f"{option} must be a list out of {','.join(known)}, not {name or 'empty'}")
    return list(dict.fromkeys(names))
