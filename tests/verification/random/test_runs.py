"""The programs of a run, the same on any number of processes; and the command ``verify`` on the simulator."""

from functools import partial
from itertools import cycle, islice, repeat

import pytest
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.designs import DESIGNS, Verdict, reference_design
from xpulpnn_sim.verification.random.program_runs import CoreSource, Coverage, ProgramRun, run_in_order, run_programs

FAILING = 13


def length(seed):
    return 1000 + 700 * (seed % 7)


class NoPrograms(CoreSource):
    def run(self, seed):
        reason = Reason.FAIL if seed == FAILING else Reason.PASS
        return ProgramRun(seed, self, Verdict(reason, "", length(seed), 0), Coverage(), 0)


class LostProcess(CoreSource):
    def run(self, seed):
        raise CallError("its process must end by itself, not be killed by SIGKILL")


SOURCES = [NoPrograms(config=preset(name), label=name) for name in ("xpulpnn", "ri5cy")]


@pytest.mark.parametrize(("jobs", "size"), [(1, 4), (2, 1000)])
@pytest.mark.parametrize(("keep_going", "last"), [(True, 18), (False, FAILING)])
def test_programs_are_those_up_to_the_last_one_needed(jobs, size, keep_going, last):
    runs, programs = [], enumerate(cycle(SOURCES))

    def batches():
        # a batch comes when all runs before it are known
        while len(runs) % size == 0:
            yield islice(programs, size)

    instructions = sum(map(length, range(18))) + 1
    for run in run_programs(batches(), instructions, keep_going=keep_going, jobs=jobs):
        runs += [run]
    assert [run.seed for run in runs] == list(range(last + 1))
    assert [run.source.label for run in runs[:4]] == ["xpulpnn", "ri5cy"] * 2


def test_programs_of_calls_stay_in_order():
    with executor(2) as pool:
        assert [run.seed for run in run_in_order(enumerate(SOURCES * 5, 7), pool, 4)] == list(range(7, 17))


def test_programs_whose_process_is_lost_are_named():
    text = "programs 40 to 43: its process must end by itself, not be killed by SIGKILL"
    with executor(1) as pool, pytest.raises(ToolError, match=text):
        next(run_in_order(enumerate(repeat(LostProcess(config=preset("ri5cy"))), 40), pool, chunk=4))


@pytest.mark.flow
def test_enough_instructions_and_no_difference(tmp_path, capsys):
    path = tmp_path / "result.json"
    options = ("--engine", "iss", "--instructions", "6000", "--preset", "xpulpnn-full,ri5cy", "--json", str(path))
    assert main(["verify", *options, "--jobs", "1"]) == 0
    result = read_results(path)[0]
    assert result["instructions"] >= 6000
    assert result["differences"] == 0
    assert result["programs"] >= 2
    assert result["rows"]["RV32C"]["rows"] == 27
    assert "RV32C" in capsys.readouterr().out


@pytest.mark.flow
def test_a_failure_is_shrunk_and_written(tmp_path, capsys, monkeypatch):
    def wrong_sum(iss, retired):
        if retired.fetched is not None and retired.fetched.insn.op == "pv.sdotsp" and "rd_addr" in retired.record:
            iss.state.regs[retired.record["rd_addr"]] ^= 1
            retired.record["rd_wdata"] ^= 1

    monkeypatch.setitem(DESIGNS, "iss", partial(reference_design, fault=wrong_sum))
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
