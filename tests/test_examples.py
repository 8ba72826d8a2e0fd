"""The examples of every ``--help``: each is a valid command line, and the quick ones do what they say."""

import shlex
import subprocess
from pathlib import Path

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.main import parse_command
from xpulpnn_sim.cli.options import examples
from xpulpnn_sim.cli.tree import COMMANDS, app
from xpulpnn_sw.toolchain import compilers


def lines_of(command: str) -> list[str]:
    entry = app()
    for word in command.split():
        entry = entry[word]
    assert entry.default_command is not None
    return [line for line, _text in examples(entry.default_command)]


EXAMPLES = {command: lines_of(command) for command in COMMANDS}
ALL = [(command, line) for command, lines in EXAMPLES.items() for line in lines]

SOURCES = {
    "hello.c": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n',
    "main.c": "#include <dot.h>\nvolatile int result[16];\n"
    "int main(void) { result[0] = dot(0x01020304, 0x01010101); return result[0] != 10; }\n",
    "include/dot.h": "int dot(int a, int b);\n",
    "dot.S": ".globl dot\ndot:\n pv.dotsp.b a0, a0, a1\n ret\n",
    "dot.c": "int dot(int a, int b) { return a * b; }\n",
    "conv.c": "int conv(int x) { return 2 * x; }\n",
    "team.c": "#include <pmsis.h>\nPI_L1 int visits[NUM_CORES];\n"
    "static void work(void *unused) { visits[pi_core_id()] += 1; }\n"
    "int main(void) { pi_cl_team_fork(NUM_CORES, work, 0); return visits[NUM_CORES - 1] != 1; }\n",
    "block.c": "#include <xpulpnn_xif.h>\nint main(void) { xp_pa_clr(); return (int)xp_pa_rd(3); }\n",
    "pool.c": "int pool(int x) { return x / 2; }\n",
}
QUICK = ("cc", "objdump", "iss", "completion")


def words(line: str) -> list[str]:
    """The words after ``xpulpnn``, without what is for the shell around it."""
    inner = line.removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0]
    first, *rest = shlex.split(inner)
    assert first == "xpulpnn"
    return rest


def test_every_subcommand_has_examples():
    assert all(EXAMPLES.values())


@pytest.mark.parametrize(("command", "line"), ALL)
def test_examples_are_valid(command: str, line: str, capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    run, _ = parse_command(words(line))
    assert run.__name__ == f"{command.replace(' ', '_').replace('-', '_')}_command"
    if line == EXAMPLES[command][0]:
        assert cli.main([*command.split(), "--help"]) == 0
        # lines end where the terminal does
        assert line in " ".join(capsys.readouterr().out.split())


@pytest.mark.flow
def test_quick_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    try:
        compilers.find_compiler()
    except ToolError:
        pytest.skip("no C compiler is installed")
    monkeypatch.chdir(tmp_path)
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for command, line in ALL:
        if command in QUICK or "--no-build" in line:
            assert cli.main(words(line)) == 0, f"{line}: {capfd.readouterr()}"
            printed = capfd.readouterr()
            assert printed.out + printed.err, line
    assert (tmp_path / "build/result.bin").read_bytes()[:4] == (10).to_bytes(4, "little")


def test_version(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--version"]) == 0
    name, number = capsys.readouterr().out.split()
    assert name == "xpulpnn"
    assert number[0].isdigit()


@pytest.mark.flow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for name in COMMANDS for word in name.split())
    assert all(word in script for word in ("grant-stalls", "clean-cache", "xpulpnn-full", "riscv-formal"))
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=True).stderr == ""
