"""Commands and options as they were called before the tree of commands: they mean what they are called now."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

_SPLIT = ("-O", "-I", "-D", "-j", "-T", "-X", "-o")  # options of the command whose value may follow at once
_JOINED = ("-W", "-f", "-m", "-U")  # options for the compiler whose value follows at once, or as the next word
_ALONE = ("-g", "-w", "-pedantic", "-pipe", "-MMD", "-MD", "-MP")
_WITH_WORD = ("-include", "-isystem", "-iquote", "-MF", "-MT", "-Xlinker")
_LINKED = ("-L", "-l")
_OURS = ("-nostartfiles",)


def separated(words: Sequence[str]) -> list[str]:
    """The words with each option and value by itself, and those for the compiler and the linker after a name."""
    left = iter(words)
    return [found for word in left for found in _separated(word, left)]


def _separated(word: str, left: Iterator[str]) -> Iterator[str]:
    start = word[:2]
    if word in _OURS:
        yield f"-{word}"
    elif word in _WITH_WORD:
        yield from (f"--pass={word}", f"--pass={next(left, '')}")
    elif word == "-std" or word.startswith("-std="):
        yield f"--pass={word}" if "=" in word else f"--pass={word}={next(left, '')}"
    elif word in _ALONE or (start == "-g" and len(word) > len(start)):
        yield f"--pass={word}"
    elif start in _JOINED or start in _LINKED:
        value = word if len(word) > len(start) else f"{word}{next(left, '')}"
        yield f"{'--link' if start in _LINKED else '--pass'}={value}"
    elif start in _SPLIT and len(word) > len(start):
        yield from (start, word[len(start) :].removeprefix("="))
    else:
        yield word


_COMMANDS = {
    "costs": ("verify", "costs"),
    "check-vectors": ("verify", "vectors"),
    "sequences": ("prove", "pipeline"),
    "formal": ("prove", "riscv-formal"),
    "equivalence": ("prove", "units"),
}
"""Commands that have become one of a group."""

_PROOFS = ("units", "emitter", "instructions", "pipeline", "cluster", "riscv-formal")

_OPTIONS = {
    "--no-check": ("--check", "results"),
    "--resume": (),
    "--faults": ("--self-test",),
    "--html": ("--report",),
    "--plot": ("--report",),
    "--kernels": ("--kernel",),
    "--c-compilers": ("--compilers",),
    "--c-levels": ("--levels",),
    "--c-rtl": ("--rtl",),
}
"""Options of any command; their values follow as before."""

_NUMBERED = {"--litmus": ("litmus", "--rounds"), "--c-programs": ("c", "--programs")}
"""Options that have become a command of ``verify``, with the option that has their value, which may be left out."""


def current(words: Sequence[str]) -> list[str]:
    """The words as they would be typed today."""
    if not words:
        return []
    first, *rest = words
    if first == "cc":
        return [first, *separated(rest)]
    rest = list(_options(first, [part for word in rest for part in _parted(word)]))
    if first == "equivalence" and "emitter" in rest:
        return ["prove", "emitter", *(word for word in rest if word != "emitter")]
    if first == "formal" and "--instructions" in rest:
        found, rest = _taken(rest, "--instructions")
        return ["prove", "instructions", *(word for value in found for word in value.split(",")), *rest]
    if first == "prove" and rest[:1] not in ([name] for name in (*_PROOFS, "--help", "-h")):
        return ["prove", "cluster", *rest]
    if first == "verify":
        return [first, *_verify(rest)]
    return [*_COMMANDS.get(first, (first,)), *rest]


def _parted(word: str) -> list[str]:
    """An option and its value as two words, for options that have another name now."""
    name, equals, value = word.partition("=")
    return [name, value] if equals and name in (*_OPTIONS, *_NUMBERED, "--coverage", "--instructions") else [word]


def _options(command: str, words: Sequence[str]) -> Iterator[str]:
    for word, following in pairwise((*words, "")):
        if command == "run" and word == "--check" and following not in ("none", "results", "all"):
            yield from ("--check", "all")
        elif command != "explore" or word != "--no-report":
            yield from _OPTIONS.get(word, (word,))
        else:
            yield word


def _taken(words: list[str], option: str) -> tuple[list[str], list[str]]:
    """The value of an option, which may be left out, and the words without both."""
    place = words.index(option)
    value = [word for word in words[place + 1 : place + 2] if not word.startswith("-")]
    return value, [*words[:place], *words[place + 1 + len(value) :]]


def _verify(words: list[str]) -> list[str]:
    for option, (name, value_option) in _NUMBERED.items():
        if option in words:
            value, rest = _taken(words, option)
            return [name, *((value_option, *value) if value else ()), *rest]
    if "--coverage" in words:
        value, rest = _taken(words, "--coverage")
        return ["coverage", *(("--report", *value) if value else ()), *rest]
    if "--cores" in words and not words[0].isalpha():
        return ["cluster", *words]
    return words
