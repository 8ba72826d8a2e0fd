"""Places of mutants of the core: those that Yosys proposes, shared out over the parts of the core."""

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import xpulpnn
from xpulpnn_sim.verification.mutants.units.mutants import MODES, Mutant, is_clock, words_of

_DOCUMENTATION = re.compile(r" -(?:src|wire|wirebit) \S+")
_INSTANCE = re.compile(r"^\$flatten((?:\\[^.$]+\.)+)")


def chosen_places(lines: Sequence[str], count: int, seed: int) -> tuple[Mutant, ...]:
    """Mutants in all parts of the core."""
    parts: dict[str, list[str]] = {}
    for line in dict.fromkeys(lines):
        words = words_of(line)
        if not is_clock(words):
            parts.setdefault(_part(words), []).append(line)
    rng, taken = Random(seed), list[tuple[str, str]]()
    names = sorted(parts)
    for name in names:
        rng.shuffle(parts[name])
    shares = _shares([len(parts[name]) for name in names], count)
    for name, share in zip(names, shares, strict=True):
        taken += [(name, line) for line in parts[name][:share]]
    return tuple(_mutant(number, part, line) for number, (part, line) in enumerate(taken, start=1))


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    shares, left = [0] * len(sizes), min(count, sum(sizes))
    while left:
        open_ = [at for at, size in enumerate(sizes) if shares[at] < size]
        # whoever has least for its weight comes next
        at = min(open_, key=lambda at: ((shares[at] + 1) / sizes[at] ** 0.5, at))
        shares[at] += 1
        left -= 1
    return shares


def _field(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else ""


def _part(words: Sequence[str]) -> str:
    """Instance path of the module in which the cell was before all became one; empty for the top."""
    cell = _field(words, "-cell")
    found = _INSTANCE.match(cell)
    if found:
        return found[1].replace("\\", "").rstrip(".")
    return cell.removeprefix("\\").rpartition(".")[0] if cell.startswith("\\") else ""


def _mutant(number: int, part: str, line: str) -> Mutant:
    words = words_of(line)
    root = f"{Path(xpulpnn.__file__).parent.parent}/"
    sources = [words[place + 1] for place, name in enumerate(words) if name == "-src"]
    ours = [source.removeprefix(root) for source in sources if source.startswith(root)]
    return Mutant(
        number=number,
        module=part or "core",
        cell=_field(words, "-cell").removeprefix("\\"),
        port=_field(words, "-port").removeprefix("\\"),
        bit=int(_field(words, "-portbit")),
        change=MODES[_field(words, "-mode")].format(ctrl=_field(words, "-ctrlbit")),
        source=ours[0] if ours else "",
        command=_DOCUMENTATION.sub("", line),
    )
