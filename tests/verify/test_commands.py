"""The command ``verify`` on the simulator, and its bad input."""

import argparse
import json

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.commands import verify
from xpulpnn_sim.commands.common import FAILED, OK, Parser
from xpulpnn_sim.verify.designs import DESIGNS
from xpulpnn_sim.verify.trials import reference_design


def arguments_of(*options: str) -> argparse.Namespace:
    parser = Parser(prog="xpulpnn verify")
    verify.add_arguments(parser)
    return parser.parse_args(options)


@pytest.mark.flow
def test_enough_instructions_and_no_difference(tmp_path, capsys):
    path = tmp_path / "result.json"
    options = ("--engine", "iss", "--instructions", "6000", "--preset", "xpulpnn-full,ri5cy", "--json", str(path))
    assert verify.run(arguments_of(*options, "--jobs", "1")) == OK
    found = json.loads(path.read_text())
    assert found["instructions"] >= 6000
    assert found["differences"] == 0
    assert found["programs"] >= 2
    assert found["rows"]["RV32C"]["rows"] == 27
    assert "RV32C" in capsys.readouterr().out


@pytest.mark.flow
def test_a_failure_is_shrunk_and_written(tmp_path, capsys, monkeypatch):
    def wrong_sum(iss, retired):
        if retired.fetched is not None and retired.fetched.insn.op == "pv.sdotsp" and retired.rd:
            iss.state.regs[retired.rd] ^= 1
            retired.rd_value ^= 1

    monkeypatch.setitem(DESIGNS, "iss", lambda: reference_design(wrong_sum))
    path = tmp_path / "result.json"
    options = ("--engine", "iss", "--jobs", "1", "-o", str(tmp_path), "--json", str(path))
    assert verify.run(arguments_of(*options)) == FAILED
    out = capsys.readouterr().out
    seed = json.loads(path.read_text())["failing_seeds"][0]
    assert f"program {seed} fails:" in out
    assert f"--seed {seed} --instructions 1" in out
    text = (tmp_path / f"fail{seed}.S").read_text()
    body = text.split("main:")[1].split("finish:")[0].split()
    assert body[0].startswith("pv.sdotsp")
    assert (tmp_path / f"fail{seed}.elf").read_bytes().startswith(b"\x7fELF")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", "-1"), "--seed must be at least 0, not -1"),
        (("--irq-rate", "1"), "--irq-rate must be a probability below 1, not 1.0"),
        (
            ("--preset", "huge"),
            "--preset must be a list out of ri5cy,xpulpnn,xpulpnn-cu,xpulpnn-full,xpulpnn2, not huge",
        ),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError) as caught:
        verify.run(arguments_of(*options))
    assert str(caught.value) == message
