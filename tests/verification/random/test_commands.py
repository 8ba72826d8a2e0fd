"""The command ``verify`` on the simulator, and its bad input."""

import pytest

from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.verification.random.designs import DESIGNS, reference_design


@pytest.mark.flow
def test_enough_instructions_and_no_difference(tmp_path, capsys):
    path = tmp_path / "result.json"
    options = ("--engine", "iss", "--instructions", "6000", "--preset", "xpulpnn-full,ri5cy", "--json", str(path))
    assert main(["verify", *options, "--jobs", "1"]) == 0
    found = read_results(path)[0]
    assert found["instructions"] >= 6000
    assert found["differences"] == 0
    assert found["programs"] >= 2
    assert found["rows"]["RV32C"]["rows"] == 27
    assert "RV32C" in capsys.readouterr().out


@pytest.mark.flow
def test_a_failure_is_shrunk_and_written(tmp_path, capsys, monkeypatch):
    def wrong_sum(iss, retired):
        if retired.fetched is not None and retired.fetched.insn.op == "pv.sdotsp" and "rd_addr" in retired.record:
            iss.state.regs[retired.record["rd_addr"]] ^= 1
            retired.record["rd_wdata"] ^= 1

    monkeypatch.setitem(DESIGNS, "iss", lambda: reference_design(wrong_sum))
    path = tmp_path / "result.json"
    options = ("--engine", "iss", "--jobs", "1", "-o", str(tmp_path), "--json", str(path))
    assert main(["verify", *options]) == 1
    out = capsys.readouterr().out
    seed = read_results(path)[0]["failing_seeds"][0]
    assert f"program {seed} fails:" in out
    assert f"--seed {seed} --instructions 1" in out
    text = (tmp_path / f"fail{seed}.S").read_text()
    body = text.split("main:")[1].split("finish:")[0].split()
    assert body[0].startswith("pv.sdotsp")
    assert (tmp_path / f"fail{seed}.elf").read_bytes().startswith(b"\x7fELF")


BAD = [
    ("--seed -1", 'Invalid value "-1" for --seed. It must be at least 0.'),
    ("--irq-rate 1", 'Invalid value "1.0" for --irq-rate. It must be a probability below 1.'),
    ("--preset huge", "--preset must be a list out of ri5cy,xpulpnn,xpulpnn-cu,xpulpnn-full,xpulpnn2, not huge"),
    ("--c-programs 0", 'Invalid value "0" for --programs. It must be at least 1.'),
    ("--coverage --cores 2", "Unknown option: --cores. Did you mean --preset?"),
    ("--coverage --preset ri5cy,xpulpnn", "--preset must be one for coverage, not 2"),
    ("--coverage --aim 1,x", "--aim must be a list of numbers such as 8+16, not 1,x"),
    ("--aim 1", "Unknown option: --aim."),
    ("--cores 4 --irq-rate 0.1", "Unknown option: --irq-rate."),
    ("--cores 4 --engine iss", "Unknown option: --engine. Did you mean --keep-going?"),
    ("--cores 4 --banks many", "--banks must be a list of numbers such as 8+16, not many"),
    ("--cores 17", "cores must be 1 to 16, not 17"),
    ("--banks 4", "Unknown option: --banks. Did you mean --jobs?"),
]


@pytest.mark.unit
@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input(options, message, capsys):
    assert main(["verify", *options.split()]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
