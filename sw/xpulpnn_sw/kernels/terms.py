"""Numbers that a kernel derives from its arguments, as expressions over their names; the shares of cores.

Work of equal cost, such as rows in memory, is divided into one piece per core. In a convolution the groups at the
border of the input take longer, so the cores take turns, and each turn begins one core later, so that no core gets the
same border in every row: group ``g`` is computed by core ``(g + g // cores) % cores``. A single core takes all groups
in one turn.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


class Term:
    """A whole number made of arguments and constants, with 32-bit arithmetic."""

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
    name: str


@dataclass(frozen=True, slots=True)
class Name(Term):
    """A number defined earlier in the same frame."""

    name: str


@dataclass(frozen=True, slots=True)
class Combination(Term):
    """An operation of two terms.

    ``mnemonic`` is a register instruction, or ``max0``: the left side if positive, else 0; ``min``: the lesser side;
    ``share``: the left side divided by the right one, which is likely a power of two.
    """

    mnemonic: str
    left: Term
    right: Term


def given(*names: str) -> dict[str, Term]:
    """Return arguments as numbers of the same names."""
    return {name: Argument(name) for name in names}


def term(value: Term | int) -> Term:
    return Number(value) if isinstance(value, int) else value


def per_core(value: Term) -> Term:
    """Return the value divided by the number of cores, rounded down."""
    return quotient(value, Argument("cores"))


def quotient(value: Term, divisor: Term) -> Term:
    """Return the value divided by a likely power of two, rounded down; with XpulpV2 powers of two become shifts."""
    return Combination("share", value, divisor)


def minimum(left: Term, right: Term) -> Term:
    """Return the lesser of two numbers whose difference fits 32 bits."""
    return Combination("min", left, right)


def positive(value: Term) -> Term:
    """Return the value if it is positive, else 0."""
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
    """Return first group and number of groups of a core, which takes consecutive ones out of ``groups``."""
    groups = Name("groups")
    end = quotient(groups * (core + 1), cores)
    return {"first_group": quotient(groups * core, cores), "group": end - Name("first_group")}


def part_shares(parts: int, all_cores: int) -> dict[str, Term]:
    """Return the core's share of the groups and of the channels, if there are ``all_cores`` cores.

    Consecutive cores share the same groups in ``parts`` parts, each of ``steps`` channel steps from ``first_step`` on,
    out of ``all_steps``. With another number of cores there is one part.
    """
    apart = Argument("cores") - all_cores
    return {
        "parts": Number(parts) - minimum(Number(1), apart * apart) * (parts - 1),
        "member": quotient(Argument("core"), Name("parts")),
        "members": quotient(Argument("cores"), Name("parts")),
        "steps": quotient(Name("all_steps"), Name("parts")),
        "first_step": (Argument("core") - Name("member") * Name("parts")) * Name("steps"),
        **group_shares(Name("member"), Name("members")),
    }


def even_share(total: Term) -> dict[str, Term]:
    """Return ``begin`` and ``count`` of the core's share of ``total`` items; the last cores may have fewer or none."""
    core, cores, size, begin = Argument("core"), Argument("cores"), Name("piece"), Name("begin")
    return {"piece": per_core(total + cores - 1), "begin": core * size, "count": minimum(size, positive(total - begin))}


def group_turns() -> dict[str, Term]:
    """Return a core's first group and how many follow at once; for later turns the groups ``left`` and ``turn``."""
    core, cores, count = Argument("core"), Argument("cores"), Name("count")
    are_several = Number(1) - positive(Number(2) - cores)
    return {
        "first_group": core,
        "turn": core,
        "cores": cores,
        "count": positive(Name("groups") - core),
        # groups of all cores from the core's first on; 0 for a single core, which takes no turns
        "left": count * are_several,
        "group": count - positive(Name("left") - 1),
    }
