"""Numbers that a kernel derives from its arguments, as expressions over their names; the shares of cores.

Of what costs the same everywhere, such as rows that lie ready, each core takes a piece. In a convolution the groups on
the border of the input take longer, so the cores take turns, and each turn begins one core later, lest a core meets the
same border in every row: group ``g`` is computed by core ``(g + g // cores) % cores``. A core that is alone takes all
groups in one turn, and nothing between two of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


class Term:
    """A whole number made of arguments and constants; arithmetic is that of 32-bit registers."""

    def __add__(self, other: "Term | int") -> "Term":
        return Combination("add", self, term(other))

    def __sub__(self, other: "Term | int") -> "Term":
        return Combination("sub", self, term(other))

    def __mul__(self, other: "Term | int") -> "Term":
        return Combination("mul", self, term(other))

    def __floordiv__(self, other: "Term | int") -> "Term":
        return Combination("divu", self, term(other))

    def __and__(self, other: "Term | int") -> "Term":
        return Combination("and", self, term(other))


@dataclass(frozen=True, slots=True)
class Number(Term):
    value: int


@dataclass(frozen=True, slots=True)
class Argument(Term):
    """A field of the argument structure, or ``core`` or ``cores``."""

    name: str


@dataclass(frozen=True, slots=True)
class Name(Term):
    """A number defined before."""

    name: str


@dataclass(frozen=True, slots=True)
class Combination(Term):
    """Result of the register instruction ``mnemonic``, of ``max0``: the left side if positive, else 0, of ``min``: the
    lesser side, or of ``share``: the left side divided by the right one, which is likely a power of two."""

    mnemonic: str
    left: Term
    right: Term


def given(*names: str) -> dict[str, Term]:
    """Arguments as numbers of their own names."""
    return {name: Argument(name) for name in names}


def term(value: Term | int) -> Term:
    """A constant as a term."""
    return Number(value) if isinstance(value, int) else value


def shared(value: Term) -> Term:
    """The value over the number of cores, rounded down."""
    return quotient(value, Argument("cores"))


def quotient(value: Term, divisor: Term) -> Term:
    """The value over a number that is likely a power of two, rounded down: with XpulpV2 a shift if it is one."""
    return Combination("share", value, divisor)


def lesser(left: Term, right: Term) -> Term:
    """The lesser of two numbers whose difference has 32 bits."""
    return Combination("min", left, right)


def positive(value: Term) -> Term:
    """The value if it is positive, else 0."""
    return Combination("max0", value, Number(0))


def arguments_of(value: Term) -> Iterator[Argument]:
    match value:
        case Argument():
            yield value
        case Combination(_, left, right):
            yield from arguments_of(left)
            yield from arguments_of(right)
        case _:
            pass


TERM_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "divu": lambda a, b: a // b,
    "share": lambda a, b: a // b,
    "and": lambda a, b: a & b,
    "max0": lambda a, b: max(a, 0),
    "min": min,
}
"""Functions of the operations, by mnemonic."""


def group_shares(core: Term = Argument("core"), cores: Term = Argument("cores")) -> dict[str, Term]:
    """First group and number of groups of a core, one after the other, of the name ``groups``."""
    groups = Name("groups")
    end = quotient(groups * (core + 1), cores)
    return {"first_group": quotient(groups * core, cores), "group": end - Name("first_group")}


def part_shares(parts: int, all_cores: int) -> dict[str, Term]:
    """The core's ``part`` of the channels, and its share of the groups, where cores are as many as they are to be.

    Cores one after the other have so many parts of the same groups, and a part has its ``steps`` from ``first_step`` on
    out of those of the name ``all_steps``. With another number of cores there is one part.
    """
    apart = Argument("cores") - all_cores
    return {
        "parts": Number(parts) - lesser(Number(1), apart * apart) * (parts - 1),
        "member": quotient(Argument("core"), Name("parts")),
        "members": quotient(Argument("cores"), Name("parts")),
        "steps": quotient(Name("all_steps"), Name("parts")),
        "first_step": (Argument("core") - Name("member") * Name("parts")) * Name("steps"),
        **group_shares(Name("member"), Name("members")),
    }


def even_share(total: Term) -> dict[str, Term]:
    """``begin`` and ``count`` of the core's share of so many things; the last cores may have less, or none."""
    core, cores, size, begin = Argument("core"), Argument("cores"), Name("piece"), Name("begin")
    return {"piece": shared(total + cores - 1), "begin": core * size, "count": lesser(size, positive(total - begin))}


def group_turns() -> dict[str, Term]:
    """The first group of a core and how many follow at once; for later turns those ``left`` and its ``turn``."""
    core, cores, count = Argument("core"), Argument("cores"), Name("count")
    are_several = Number(1) - positive(Number(2) - cores)
    return {
        "first_group": core,
        "turn": core,
        "cores": cores,
        "count": positive(Name("groups") - core),
        # from the core's group on, those of others included; none to take turns for if it is alone
        "left": count * are_several,
        "group": count - positive(Name("left") - 1),
    }
