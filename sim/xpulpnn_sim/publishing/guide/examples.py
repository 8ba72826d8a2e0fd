"""Run the commands and examples of README and guide as typed.

In a fenced block ``sh`` every line is a command; in ``console`` lines after ``$ `` are commands, followed by their
output, where ``...`` matches anything. ``pycon`` blocks are doctests, ``python`` blocks are executed; a block with a
caption is a file. Blocks run in the order of the page, in a folder with the repository's files except ``build``. The
comment ``slow`` marks a block that takes long. ``YOUR.lib`` is the built-in library.
"""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn_sim.exploration.generic_library import liberty_text

ROOT = Path(__file__).parents[4]
_FENCE = re.compile(r"^```(?P<info>\S.*)?$")
_SLOW = "<!-- slow -->"
_RUN = ("sh", "console", "pycon", "python")
_PROMPT = "$ "
_ANYTHING = "..."
_COMMAND_COLUMNS = "200"
_PROGRESS = re.compile(rb"^\d\d:\d\d:\d\d .*\n", re.MULTILINE)
"""Pattern of the progress lines that commands print in place of a progress bar."""
_TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    page: str
    line: int  # first line of the content
    language: str  # `sh`, `console`, `pycon`, `python` or `file`
    lines: tuple[str, ...]
    slow: bool = False
    file: str = ""


def blocks(page: Path) -> list[ExampleBlock]:
    listed: list[ExampleBlock] = []
    inside: str | None = None
    content: list[str] = []
    start, before = 0, ""
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if inside is None and fence and fence["info"]:
            inside, content, start = fence["info"], [], number + 1
        elif inside is not None and line == "```":
            listed += _block(page.name, start, inside, content, slow=before == _SLOW)
            inside, before = None, ""
        elif inside is not None:
            content.append(line)
        elif line.strip():
            before = line.strip()
    return listed


def _block(page: str, start: int, info: str, content: list[str], *, slow: bool) -> Iterator[ExampleBlock]:
    captions = [line.removeprefix(":caption:").strip() for line in content if line.startswith(":caption:")]
    if captions:
        text = [line for line in content if not line.startswith(":")]
        yield ExampleBlock(page, start, "file", tuple(text[1:] if text and not text[0] else text), file=captions[0])
    elif info in _RUN:
        yield ExampleBlock(page, start, info, tuple(content), slow)


def example_place(folder: Path) -> None:
    """Link the files of the repository, except ``build``, into ``folder``, where examples run."""
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git") and not (folder / entry.name).exists():
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir(exist_ok=True)
    (folder / "YOUR.lib").write_text(liberty_text())


class ExamplePage:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, object] = {"__name__": "example"}
        path = f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | {"PATH": path, "COLUMNS": _COMMAND_COLUMNS}

    def run(self, block: ExampleBlock) -> list[str]:
        """Execute the commands or code of a block; return errors."""
        where = f"{block.page}:{block.line}"
        if block.language == "file":
            (self._folder / block.file).write_text("\n".join(block.lines) + "\n")
            return []
        if block.language == "pycon":
            return self._doctest(where, block)
        if block.language == "python":
            program = "\n".join(block.lines)
            status, printed = self._execute([sys.executable, "-c", program])
            return [f"{where}: ends with {status}\n{printed}"] if status else []
        wrong: list[str] = []
        for command, expected in page_commands(block):
            status, printed = self._execute(["bash", "-c", command])
            if status:
                wrong.append(f"{where}: {command}\nends with {status}\n{printed}")
            elif expected is not None and not matches(expected, printed.splitlines()):
                wrong.append(f"{where}: {command}\nprints\n{printed}instead of\n" + "\n".join(expected))
        return wrong

    def _execute(self, command: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return done.returncode, _PROGRESS.sub(b"", done.stdout).decode(errors="replace")

    def _doctest(self, where: str, block: ExampleBlock) -> list[str]:
        test = doctest.DocTestParser().get_doctest(
            "\n".join(block.lines) + "\n", self._names, where, block.page, block.line
        )
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        runner.run(test, out=report.append, clear_globs=False)
        self._names |= test.globs
        return ["".join(report)] if runner.failures else []


def page_commands(block: ExampleBlock) -> list[tuple[str, list[str] | None]]:
    """Return the commands of a block, each with its expected output, or None if the page shows no output."""
    if block.language == "sh":
        text = "\n".join(block.lines).replace("\\\n", " ")
        lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
        return [(line, None) for line in lines]
    commands: list[tuple[str, list[str] | None]] = []
    for line in block.lines:
        if line.startswith(_PROMPT):
            commands.append((line.removeprefix(_PROMPT), None))
        else:
            command, expected = commands[-1]
            commands[-1] = command, [*(expected or []), line]
    return commands


def matches(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether the lines match; an expected line ``...`` matches any lines, ``...`` in a line any text."""
    if not expected:
        return not any(line.strip() for line in printed)
    first, rest = expected[0], expected[1:]
    if first.strip() == _ANYTHING:
        return any(matches(rest, printed[skipped:]) for skipped in range(len(printed) + 1))
    pattern = ".*".join(re.escape(part) for part in first.rstrip().split(_ANYTHING))
    return bool(printed) and re.fullmatch(pattern, printed[0].rstrip()) is not None and matches(rest, printed[1:])


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
