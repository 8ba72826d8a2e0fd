"""Run the commands and examples of README and guide as typed.

In a fenced block ``sh`` every line is a command; in ``console`` lines after ``$ `` are commands, followed by their
output, where ``...`` matches anything. ``pycon`` blocks are doctests, ``python`` blocks are executed; a block with a
caption is a file. Blocks run in the order of the page, in a folder with the repository's files except ``build``. The
comment ``slow`` marks a block that takes long, ``needs`` at the beginning of a page the packages without which it is
not run. ``YOUR.lib`` is the built-in library.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xpulpnn_sim.exploration.generic_library import liberty_text

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?P<slow><!-- slow -->\n+)?^```(?P<info>\S.*)\n(?P<content>(?:.*\n)*?)```$", re.MULTILINE)
_NEEDS = re.compile(r"<!-- needs (.*) -->\n")
_CAPTION = re.compile(r":caption: *(.+)\n+")
_PROGRESS = re.compile(rb"^\d\d:\d\d:\d\d .*\n", re.MULTILINE)
"""Pattern of the progress lines that commands print in place of a progress bar."""


class ExampleBlock(NamedTuple):
    page: str
    line: int  # first line of the content
    language: str  # `sh`, `console`, `pycon`, `python` or `file`
    lines: tuple[str, ...]
    slow: bool = False
    file: str = ""


def blocks(page: Path) -> list[ExampleBlock]:
    text, listed = page.read_text(), list[ExampleBlock]()
    for block in _BLOCK.finditer(text):
        language, lines = block["info"], block["content"].splitlines()
        file = _CAPTION.search(block["content"])
        if file:
            language, lines = "file", block["content"][file.end() :].splitlines()
        if language in ("sh", "console", "pycon", "python", "file"):
            line = text.count("\n", 0, block.start("content")) + 1
            name = file[1] if file else ""
            listed.append(ExampleBlock(page.name, line, language, tuple(lines), bool(block["slow"]) and not file, name))
    return listed


def needed_packages(page: Path) -> list[str]:
    needs = _NEEDS.match(page.read_text())
    return needs[1].split() if needs else []


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
        path = f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | {"PATH": path, "COLUMNS": "200"}

    def run(self, block: ExampleBlock) -> list[str]:
        """Execute the commands or code of a block; return errors."""
        where, program = f"{block.page}:{block.line}", "\n".join(block.lines) + "\n"
        if block.language == "file":
            (self._folder / block.file).write_text(program)
            return []
        if block.language in ("pycon", "python"):
            (self._folder / "block.txt").write_text(program)
            words = ["-c", program] if block.language == "python" else ["-m", "doctest", "-o", "ELLIPSIS", "block.txt"]
            status, printed = self._execute([sys.executable, *words])
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
            command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=3600, check=False,
        )  # fmt: skip
        return done.returncode, _PROGRESS.sub(b"", done.stdout).decode(errors="replace")


def page_commands(block: ExampleBlock) -> list[tuple[str, list[str] | None]]:
    """Return the commands of a block, each with its expected output, or None if the page shows no output."""
    if block.language == "sh":
        lines = "\n".join(block.lines).replace("\\\n", " ").splitlines()
        return [(line, None) for line in lines if line.strip() and not line.startswith("#")]
    commands: list[tuple[str, list[str] | None]] = []
    for line in block.lines:
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), None))
        else:
            command, expected = commands[-1]
            commands[-1] = command, [*(expected or []), line]
    return commands


def matches(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether the lines match; an expected line ``...`` matches any lines, ``...`` in a line any text."""
    texts = [".*".join(map(re.escape, line.rstrip().split("..."))) for line in expected]
    pattern = "".join(r"(.*\n)*" if text == ".*" else rf"{text}[^\S\n]*\n" for text in texts)
    return re.fullmatch(rf"{pattern}\s*", "".join(f"{line}\n" for line in printed)) is not None


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
