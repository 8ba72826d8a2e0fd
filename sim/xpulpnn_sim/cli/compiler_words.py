"""Words of C compilers, whose options have one dash and a value without a space, as options of ``xpulpnn cc``."""

from collections.abc import Iterator, Sequence

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
