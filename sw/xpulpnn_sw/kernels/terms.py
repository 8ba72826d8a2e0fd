"""Numbers that a kernel derives from its arguments, as expressions over their names; the work of each core.

Work of equal cost, such as rows in memory, is divided into consecutive parts, one for each core. In a convolution,
groups of pixels at the border of the input take longer. They are therefore dealt to the cores so that no core gets the
same border in every row: core ``(g + g // cores) % cores`` computes group ``g``. A single core computes all groups in
sequence.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partialmethod


class Term:
    def _with(self, mnemonic: str, other: "Term | int") -> "Term":
        return Combination(mnemonic, self, Number(other) if isinstance(other, int) else other)

    __add__ = partialmethod(_with, "add")
    __sub__ = partialmethod(_with, "sub")
    __mul__ = partialmethod(_with, "mul")
    __floordiv__ = partialmethod(_with, "divu")
    __and__ = partialmethod(_with, "and")


@dataclass(frozen=True, slots=True)
class Number(Term):
    value: int


@dataclass(frozen=True, slots=True)
class Argument(Term):
    name: str


@dataclass(frozen=True, slots=True)
class Name(Term):
    """Reference to a number that the same frame defines earlier."""

    name: str


@dataclass(frozen=True, slots=True)
class Combination(Term):
    """An operation on two terms.

    ``mnemonic`` names a register instruction or one of these operations: ``max0`` is the left term if it is positive,
    else 0. ``min`` is the lesser term. ``share`` divides the left term by the right, which is likely a power of two.
    """

    mnemonic: str
    left: Term
    right: Term


def given(*names: str) -> dict[str, Term]:
    return {name: Argument(name) for name in names}


def per_core(value: Term) -> Term:
    return quotient(value, Argument("cores"))


def quotient(value: Term, divisor: Term) -> Term:
    """Return ``value // divisor``; with XpulpV2, division is by a shift if ``divisor`` is a power of two."""
    return Combination("share", value, divisor)


def minimum(left: Term, right: Term) -> Term:
    """Return the lesser of two numbers whose difference fits 32 bits."""
    return Combination("min", left, right)


def positive(value: Term) -> Term:
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


_Operations = Mapping[str, Callable[[int, int], int]]
_ARITHMETIC: _Operations = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "divu": int.__floordiv__}
_OTHERS: _Operations = {"share": int.__floordiv__, "and": int.__and__, "max0": lambda a, _: max(a, 0), "min": min}
TERM_OPERATIONS: _Operations = {**_ARITHMETIC, **_OTHERS}


def group_shares(core: Term = Argument("core"), cores: Term = Argument("cores")) -> dict[str, Term]:
    """Return the first group of a core and its number of groups, which are consecutive."""
    groups = Name("groups")
    end = quotient(groups * (core + 1), cores)
    return {"first_group": quotient(groups * core, cores), "group": end - Name("first_group")}


def part_shares(parts: int, all_cores: int) -> dict[str, Term]:
    """Return terms of a core's groups and channels; teams of ``parts`` cores, of ``all_cores``, split the channels."""
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
    """Return ``begin`` and ``count`` of a core's part of ``total`` items; the last cores may have fewer items."""
    core, cores, size, begin = Argument("core"), Argument("cores"), Name("piece"), Name("begin")
    return {"piece": per_core(total + cores - 1), "begin": core * size, "count": minimum(size, positive(total - begin))}


def group_turns() -> dict[str, Term]:
    """Return the terms of a core's groups in a convolution, which are not consecutive if there are several cores."""
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
