"""Whole C programs with the loop pass: interrupts between two turns, the figures of public kernels, options of cc."""

import re
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, run_case, short_precision
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Output, Reason
from xpulpnn_sw.assembly.looppass import optimise as loop_pass
from xpulpnn_sw.layers.convolution import MatmulLayer
from xpulpnn_sw.toolchain.build import Options, build

from ..elf import SOURCES

FULL = PRESETS["xpulpnn-full"]
LAYER = MatmulLayer.parse("64x288x2")
MOST = 1.15
"""Cycles of compiled kernels over those of generated ones."""
LIMIT = 1_000_000


def compiled(path: Path, kind: str, source: str, *define: str, **options) -> Path:
    chosen = Options(config=FULL, define=define, **options)
    build([SOURCES / source], path, compiler=kind, options=chosen)
    return path


@pytest.mark.cosim
@pytest.mark.parametrize(
    ("kind", "bits", "variant", "define"),
    [
        ("gcc", 8, "xpulpv2_4x2", ()),
        ("gcc", 4, "simd_4x2", ()),
        ("gcc", 4, "nn_4x2", ("MAC_LOAD",)),
        ("zig", 8, "xpulpv2_4x2", ()),
    ],
)
def test_public_matmul_takes_the_cycles_of_the_generated_one(kind, bits, variant, define, tmp_path: Path):
    path = compiled(tmp_path / "p.elf", kind, "matmul_public.c", f"BITS={bits}", *define)
    core = simulated(FULL)
    printed: list[Output] = []
    result = run_program(load(path), core, output=printed.append)
    text = b"".join(one.data for one in printed).decode()
    assert result.exit.ok, text
    case = Case(layer=LAYER, precision=short_precision("matmul", bits), variant=variant, config=core, machine=Machine())
    generated = run_case(case).record["cycles"]
    taken = int(text.split()[0])
    assert 0.95 * generated < taken <= MOST * generated


def interrupted(path: Path) -> str:
    """What the program prints while line 7 rises again and again."""
    printed: list[Output] = []
    session = IssSession(load(path), FULL, output=printed.append)
    count, end = 0, None
    while end is None or end.reason is Reason.MAX_CYCLES:
        assert count < LIMIT
        session.iss.csrs.irq = 0 if session.iss.csrs.irq else 1 << 7
        count += 6 if session.iss.csrs.irq else 97
        end = session.run(count)
    return b"".join(one.data for one in printed).decode()


@pytest.mark.flow
def test_a_handler_keeps_the_loops(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    printed = interrupted(compiled(tmp_path / "p.elf", kind, "loops_and_interrupts.c"))
    assert re.fullmatch(r"\d{2,} taken, 0 wrong\n", printed), printed
    # without that, the interrupted loop goes on as the handler left it
    monkeypatch.setattr(loop_pass, "keep_loops", lambda function: False)
    printed = interrupted(compiled(tmp_path / "bad.elf", kind, "loops_and_interrupts.c"))
    assert not printed.endswith(" 0 wrong\n")


def command(*arguments: object) -> int:
    return execute_command(["cc", *map(str, arguments)])


@pytest.mark.flow
def test_report(compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "main.c"
    loops = "".join(f"for (int i = 0; i < n; i++)\n s += {term};\n" for term in ("p[i]", "g(i)"))
    source.write_text(f"int g(int);\nint f(const int *p, int n) {{\nint s = 0;\n{loops}return s;\n}}\n")
    common = ("-S", source, "-o", tmp_path / "main.s", "--compiler", compiler, "--json", tmp_path / "cc.json")
    assert command(*common, "--loop-report") == 0
    record = read_results(tmp_path / "cc.json")[0]["loop_pass"]
    assert (record["hardware_loops"], record["refusals"], record["skipped_functions"]) == (
        1,
        {"calls a function": 1},
        {},
    )
    first, second = sorted(record["loops"], key=lambda loop: loop["source"])
    assert re.search(r"main\.c:[45]$", first["source"])
    assert re.search(r"main\.c:[67]$", second["source"])
    assert (first["level"], second["level"]) == (0, None)
    assert "calls a function" in capsys.readouterr().out
    assert "lp.setup" in (tmp_path / "main.s").read_text()
    assert command(*common, "--no-loop-pass") == 0
    assert "lp.setup" not in (tmp_path / "main.s").read_text()
