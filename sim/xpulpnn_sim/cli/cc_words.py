"""GCC's command line as words of ``xpulpnn cc``, and ``xpulpnn-cc``, which build tools call as their C compiler."""

import atexit
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from xpulpnn.errors import InputError, require
from xpulpnn_sw.toolchain.compilers import SOURCE_SUFFIXES, TARGETS, find_compiler

_WITH_VALUE = ("-I", "-D", "-j", "-T", "-o")  # options of `cc` whose value may follow without space
_WITH_WORD = ("-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-MF", "-MT", "-MQ", "--param")
_WITH_WORD += ("-Xlinker", "-Xassembler", "-Xpreprocessor")
_LINKED = ("-L", "-l")
_FOR_LINKER = ("-u", "-e", "-z")
_PASSED = ("-W", "-f", "-m", "-g", "-d", "-B", "-w", "-pedantic", "-ansi", "-pipe", "-P", "-MMD", "-MD", "-MP", "-no")
_PASSED += ("-std=", "-specs=")  # beginnings of options of the compiler
_ONCE = ("-O", "-o", "--output", "-T", "-c", "-S", "-E", "-j", "--preset", "--compiler", "--cores", "--tcdm", "--stack")
_ONCE += ("--core-stack", "--ram", "--heap")
_LEVELS = ("0", "1", "2", "3", "s", "z", "g", "fast")
_RENAMED = {
    "-nostartfiles": ("--nostartfiles",),
    "-nostdlib": ("--nostartfiles",),
    "-M": ("-E", "--pass=-M"),
    "-MM": ("-E", "--pass=-MM"),
    "-static": (),
    "-s": ("--pass=-Wl,--strip-debug",),  # simulators find the exit channel by its symbol
}
_LANGUAGES = {"c": ".c", "c++": ".cpp", "assembler-with-cpp": ".S", "assembler": ".s", "none": ""}


def separate_cc_options(words: Sequence[str]) -> list[str]:
    """Put files before options, options apart from their values, and compiler and linker options after a named one; of
    an option given again the last value counts."""
    left, files, options, language = deque(_expanded(words)), list[str](), dict[object, list[str]](), ""
    while left:
        word = left.popleft()
        if word == "-":
            files.append(_standard_input(language or ".c"))
        elif word.startswith("-x") and (name := word[2:] or _next(left)) in _LANGUAGES:
            language = _LANGUAGES[name]
        elif not word.startswith("-") and word.endswith(SOURCE_SUFFIXES):
            files.append(word)
        else:
            option = list(_separate_option(word, left))
            options[option[0] if option and option[0] in _ONCE else len(options)] = option
    return [*files, *chain.from_iterable(options.values())]


def _next(left: deque[str]) -> str:
    return left.popleft() if left else ""


def _separate_option(word: str, left: deque[str]) -> Iterator[str]:
    start, value = word[:2], word[2:]
    name, equals, given = word.partition("=")
    if name.startswith("--") and name in _ONCE:
        yield from (name, given if equals else _next(left))
    elif word in _RENAMED:
        yield from _RENAMED[word]
    elif word in _WITH_WORD:
        yield from (f"--pass={word}", f"--pass={_next(left)}")
    elif word in ("-X", "--pass", "--link", "-std"):
        yield f"--pass=-std={_next(left)}" if word == "-std" else f"{word.replace('-X', '--pass')}={_next(left)}"
    elif start in _LINKED or start == "-U":
        yield f"{'--pass' if start == '-U' else '--link'}={start}{value or _next(left)}"
    elif start == "-O":
        following = left.popleft() if not value and left and left[0] in _LEVELS else "1"
        yield from ("-O", value.removeprefix("=") or following)
    elif word in _FOR_LINKER:
        yield f"--pass=-Wl,{word},{_next(left)}"
    elif start in _WITH_VALUE:
        yield from (start, value.removeprefix("=") or _next(left))
    elif start == "-X" and value:
        yield f"--pass={value.removeprefix('=')}"
    else:
        yield f"--pass={word}" if word.startswith(_PASSED) else word


def _expanded(words: Iterable[str], within: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield words with those of response files, ``@FILE``, in their places."""
    for word in words:
        path = Path(word[1:])
        if not (word.startswith("@") and path.is_file()):
            yield word
            continue
        require(word not in within, f"{word} must be a file without itself in it")
        try:
            inner = shlex.split(path.read_text(errors="surrogateescape"))
        except ValueError as error:
            raise InputError(f"{word} must be a file of words as in a shell ({error})") from None
        yield from _expanded(inner, (*within, word))


def _standard_input(suffix: str) -> str:
    folder = tempfile.mkdtemp(prefix="xpulpnn-cc-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / f"stdin{suffix}"
    path.write_bytes(sys.stdin.buffer.read())
    return str(path)


_QUESTIONS = ("--version", "-v", "-dumpversion", "-dumpmachine", "-dumpfullversion", "-Wl,--version", "-Wl,-v")
_STAGES = ("-c", "-S", "-E", "-M", "-MM", "-o")


def compiler_main() -> int:
    """Run ``xpulpnn cc`` as a build tool expects of a C compiler: without messages on success, to ``a.out``."""
    from xpulpnn_sim.cli.main import main

    words = sys.argv[1:]
    with suppress(InputError):  # which the command reports
        words = list(_expanded(words))
    questions = [word for word in words if word in _QUESTIONS or word.startswith("-print-")]
    if questions:
        kind = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "--compiler"), None)
        compiler = find_compiler(kind)
        return subprocess.run([*compiler.command, *TARGETS[compiler.kind], *questions], check=False).returncode
    if not any(word.startswith(_STAGES) for word in words):
        words += ["-o", "a.out"]
    return main(["cc", "--quiet", *words])
