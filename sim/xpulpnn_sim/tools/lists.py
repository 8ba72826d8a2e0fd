"""Lists in the text of options: words joined by ``+`` or commas."""

import re
from collections.abc import Sequence

from xpulpnn.errors import InputError


def words(text: str, option: str) -> list[str]:
    """Distinct words of a list; raises :class:`InputError` for an empty one among them."""
    found = [word.strip() for word in re.split("[,+]", text)]
    if "" in found:
        raise InputError(f"{option} must be a list of words such as A+B, not {text or 'empty'}")
    return list(dict.fromkeys(found))


def chosen_names(text: str, known: Sequence[str], option: str) -> list[str]:
    """Distinct members of ``known`` named in ``text``, ``all`` standing for all of them."""
    if text == "all":
        return list(known)
    names = [name.strip() for name in re.split("[,+]", text)]
    for name in names:
        if name not in known:
            raise InputError(f"{option} must be a list out of {','.join(known)}, not {name or 'empty'}")
    return list(dict.fromkeys(names))
