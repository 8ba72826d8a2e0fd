"""The programs of a run, the same on any number of processes; and the command ``verify`` on the simulator."""

import pytest
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.designs import DESIGNS, Verdict, reference_design
from xpulpnn_sim.verification.random.trials import Coverage, Plan, Trial, enough, run_in_order, work

PLANS = [Plan(config=preset(name), label=name) for name in ("xpulpnn", "ri5cy")]
FAILING = 13


def length(seed):
    return 1000 + 700 * (seed % 7)


def run(seed, plan):
    """A result without a program."""
    reason = Reason.FAIL if seed == FAILING else Reason.PASS
    return Trial(seed, plan, Verdict(reason, "", length(seed), 0), Coverage(), 0)


def crash(seed, plan):
    raise CallError("its process must end by itself, not be killed by SIGKILL")


@pytest.mark.unit
@pytest.mark.parametrize(("jobs", "chunk"), [(1, 4), (2, 1)])
@pytest.mark.parametrize(("keep_going", "last"), [(True, 18), (False, FAILING)])
def test_programs_are_those_up_to_the_last_one_needed(jobs, chunk, keep_going, last):
    wanted = sum(map(length, range(18))) + 1
    with executor(jobs) as pool:
        results = run_in_order(work(0, PLANS), pool=pool, run=run, chunk=chunk)
        found = list(enough(results, wanted, keep_going=keep_going))
    assert [result.seed for result in found] == list(range(last + 1))
    assert [result.plan.label for result in found[:4]] == ["xpulpnn", "ri5cy"] * 2


@pytest.mark.unit
def test_programs_whose_process_is_lost_are_named():
    text = "programs 40 to 43: its process must end by itself, not be killed by SIGKILL"
    with executor(1) as pool, pytest.raises(ToolError, match=text):
        next(run_in_order(work(40, PLANS), pool=pool, run=crash, chunk=4))


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

    monkeypatch.setitem(DESIGNS, "iss", reference_design(wrong_sum))
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
