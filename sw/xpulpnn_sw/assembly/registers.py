"""Names of the general-purpose registers: ``x0`` .. ``x31`` and those of the calling convention."""

from xpulpnn.errors import EncodingError

# name of register `i` at index `i`
ABI_NAMES = (
    *("zero", "ra", "sp", "gp", "tp"),
    *(f"t{i}" for i in range(3)),
    *("s0", "s1"),
    *(f"a{i}" for i in range(8)),
    *(f"s{i}" for i in range(2, 12)),
    *(f"t{i}" for i in range(3, 7)),
)

_NUMBERS = (
    {name: number for number, name in enumerate(ABI_NAMES)}
    | {f"x{number}": number for number in range(len(ABI_NAMES))}
    | {"fp": ABI_NAMES.index("s0")}
)


def is_register(text: str) -> bool:
    """Return whether ``text`` names a register."""
    return text.lower() in _NUMBERS


def register_number(text: str) -> int:
    """The number of the register called ``text``; raises :class:`EncodingError` if there is none."""
    try:
        return _NUMBERS[text.lower()]
    except KeyError:
        raise EncodingError(f"register must be x0..x31 or an ABI name, not {text}") from None
