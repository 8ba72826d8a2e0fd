"""Networks of two-input and-gates, as AIGER files hold them.

A literal is twice a variable, plus one if it is inverted; the variable 0 is the constant false. Variables are numbered
so that a gate comes behind its inputs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Aig:
    """A network.

    Members
    -------
    inputs : list of str
        Names of the inputs, whose variables are 1, 2, ...
    latches : list of (str, int, int)
        Name, literal of the next value and value after reset, 0 or 1, of the variables behind.
    gates : list of (int, int)
        Inputs of the gates, whose variables follow.
    outputs : list of (str, int)
        Names and literals.
    """

    inputs: list[str] = field(default_factory=list[str])
    latches: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    gates: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    outputs: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    @property
    def first_gate(self) -> int:
        """Variable of the first gate."""
        return 1 + len(self.inputs) + len(self.latches)


def read_aiger(content: bytes) -> Aig:
    """The network of a binary AIGER file with the names of its inputs, latches and outputs.

    Parameters
    ----------
    content : bytes
        The file, without bad states and constraints.
    """
    lines, at = list[bytes](), 0

    def line() -> bytes:
        nonlocal at
        end = content.index(b"\n", at)
        found, at = content[at:end], end + 1
        return found

    inputs, latches, outputs, gates = (int(word) for word in line().split()[2:6])
    lines = [line() for _ in range(latches + outputs)]
    pairs: list[tuple[int, int]] = []

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    for place in range(gates):
        high = 2 * (1 + inputs + latches + place) - number()
        pairs.append((high, high - number()))
    names = dict[str, str]()
    for text in content[at:].decode().split("\n"):
        if text == "c":
            break
        key, _, name = text.partition(" ")
        names[key] = name
    found = Aig(gates=pairs)
    found.inputs = [names.get(f"i{place}", "") for place in range(inputs)]
    for place, text in enumerate(lines[:latches]):
        numbers = [int(word) for word in text.split()]
        found.latches.append((names.get(f"l{place}", ""), numbers[0], numbers[1] if len(numbers) > 1 else 0))
    for place, text in enumerate(lines[latches:]):
        found.outputs.append((names.get(f"o{place}", ""), int(text)))
    return found


def write_aiger(aig: Aig) -> bytes:
    """The binary AIGER file of a network, without names."""
    latches, outputs = aig.latches, aig.outputs
    total = aig.first_gate - 1 + len(aig.gates)
    head = [f"aig {total} {len(aig.inputs)} {len(latches)} {len(outputs)} {len(aig.gates)}"]
    head += [f"{following} {reset}" for _, following, reset in latches]
    head += [str(literal) for _, literal in outputs]
    body = bytearray()
    for place, (first, second) in enumerate(aig.gates):
        own, high, low = 2 * (aig.first_gate + place), max(first, second), min(first, second)
        for value in (own - high, high - low):
            rest = value
            while rest >= 0x80:
                body.append(rest & 0x7F | 0x80)
                rest >>= 7
            body.append(rest)
    return "\n".join([*head, ""]).encode() + bytes(body)


class Builder:
    """Makes gates, each once, on ``leaves`` variables that are given.

    Parameters
    ----------
    leaves : int
        Inputs and latches.
    """

    def __init__(self, leaves: int) -> None:
        self.first = leaves + 1
        self.gates: list[tuple[int, int]] = []
        self._known: dict[tuple[int, int], int] = {}

    def both(self, first: int, second: int) -> int:
        """Literal of the and of two literals."""
        if first > second:
            first, second = second, first
        if first < 2:
            return second if first else 0
        if first >> 1 == second >> 1:
            return first if first == second else 0
        key = first, second
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = 2 * (self.first + len(self.gates))
            self.gates.append(key)
        return found

    def either(self, literals: Iterable[int]) -> int:
        """Literal of the or of literals."""
        found = 0
        for literal in literals:
            found = self.both(found ^ 1, literal ^ 1) ^ 1
        return found

    def differ(self, first: int, second: int) -> int:
        """Literal of the exclusive-or of two literals."""
        return self.either((self.both(first, second ^ 1), self.both(first ^ 1, second)))

    def cone(self, literals: Sequence[int]) -> list[int]:
        """Variables that literals depend on, leaves included, in ascending order."""
        reached, waiting = set[int](), [literal >> 1 for literal in literals]
        while waiting:
            variable = waiting.pop()
            if not variable or variable in reached:
                continue
            reached.add(variable)
            if variable >= self.first:
                waiting += [literal >> 1 for literal in self.gates[variable - self.first]]
        return sorted(reached)
