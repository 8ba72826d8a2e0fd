"""Lists in the text of options."""

from collections.abc import Sequence

from xpulpnn.errors import InputError


def comma_list(text: str, known: Sequence[str], option: str) -> list[str]:
    """Distinct members of ``known`` named in ``text``, ``all`` standing for all of them."""
    if text == "all":
        return list(known)
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"{option} must be a list out of {','.join(known)}, not {name or 'empty'}")
    return list(dict.fromkeys(names))
