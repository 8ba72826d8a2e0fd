"""Explorations and random programs on a real Dask scheduler with two worker processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.processes import PATIENCE_S, all_gone, own_cache, wait_for
from tests.programs import read_results

pytestmark = [
    pytest.mark.flow,
    # importing it takes half a second, in workers and schedulers alone
    pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed"),
]

FAKES = Path(__file__).parent.parent / "exploration"

EXPLORE = """
import sys
from pathlib import Path
import fake_steps
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.exploration import exploration, task

if __name__ == "__main__":
    acts, *words = sys.argv[1:]
    names = [word.partition("=") for word in acts.split(",")]
    steps = [fake_steps.FakeStep(name, Path("diary").resolve(), act) for name, _, act in names]
    exploration.flow_steps = lambda options: steps
    task.emit_design = fake_steps.emit
    sys.exit(cli.main(["explore", "--top", "dotp", "--no-report", *words]))
"""

FOUR = ("--preset", "ri5cy,xpulpnn", "--sweep", "multipliers=shared,replicated")


def start(command, cwd, *, stream=subprocess.PIPE, **more):
    paths = os.pathsep.join([*sys.path, str(FAKES)])
    variables = {**os.environ, "PYTHONPATH": paths, "XPULPNN_CACHE": own_cache(cwd / "cache"), **more}
    return subprocess.Popen([sys.executable, *command], cwd=cwd, env=variables, stdout=stream, stderr=stream, text=True)


def run(command, cwd):
    process = start(command, cwd)
    out, error = process.communicate(timeout=PATIENCE_S)
    # on a busy machine there are lines of progress too
    log = [line for line in error.splitlines() if not re.match(r"\d\d:\d\d:\d\d |\d+ points? to run", line)]
    return process.returncode, out, "\n".join(log)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Farm:
    """A scheduler and its workers; workers run elsewhere than clients and have a cache of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self.processes = []
        port = self.address.rpartition(":")[2]
        self.started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        until = time.monotonic() + PATIENCE_S
        while not listening(int(port)):
            assert time.monotonic() < until
            time.sleep(0.1)

    def started(self, module, *words, **more):
        process = start(["-m", module, *words], self.folder, stream=subprocess.DEVNULL, **more)
        self.processes.append(process)
        return process

    def worker(self, **more):
        """One more worker, once the scheduler knows it."""
        name = f"worker{len(self.processes)}"
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--name", name)
        process = self.started("distributed.cli.dask_worker", f"tcp://{self.address}", *words, **more)
        script = (
            "import sys, time, distributed\n"
            f"with distributed.Client({self.address!r}, timeout=20) as client:\n"
            f"    while {name!r} not in [one['name'] for one in client.scheduler_info()['workers'].values()]:\n"
            "        time.sleep(0.1)\n"
        )
        subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)
        return process

    def end(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    farm = Farm(tmp_path_factory.mktemp("farm"))
    try:
        farm.worker()
        yield farm
    finally:
        farm.end()


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "run.py"
    path.write_text(EXPLORE)
    return str(path)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def points(folder):
    record = json.loads((folder / "results.json").read_text())
    return record["points"], record["cached"]


def test_a_killed_worker_loses_nothing(farm, tmp_path, script):
    victim = farm.worker()
    process = start([script, "a=slow,b", *FOUR, "-o", "out", "--dask", farm.address], tmp_path)
    wait_for(tmp_path / "diary", 3)
    victim.kill()
    out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + error
    finished, cached = points(tmp_path / "out")
    assert (len(finished), cached) == (4, 0)
    assert len(lines(tmp_path / "diary")) in (8, 9)
    assert run([script, "a,b", *FOUR, "-o", "here"], tmp_path)[0] == 0
    assert points(tmp_path / "here")[0] == finished
    for point in finished:
        folder, local = tmp_path / "out" / point["folder"], tmp_path / "here" / point["folder"]
        assert {path.name for path in folder.iterdir()} == {path.name for path in local.iterdir()}
        assert sorted(line.partition(":")[0] for line in lines(folder / "log.txt")) == ["a", "b"]
        for name in ("config.json", "dotp.v", "dotp.json"):
            assert (folder / name).read_text() == (local / name).read_text()
    # a run here goes on on machines
    (tmp_path / "diary").unlink()
    more = [script, "a,b,c", *FOUR[:2], "--sweep", "multipliers=shared", "-o", "here"]
    assert run([*more, "--dask", farm.address], tmp_path)[0] == 0
    assert sorted(lines(tmp_path / "diary")) == ["c ri5cy", "c xpulpnn"]


def test_failures_are_told_as_those_of_a_run_here(farm, tmp_path, script):
    steps = "a,tool=tool,bug=bug,wrong=wrong,kill=kill,exit=exit,hang=hang,c"
    words = [script, steps, "--preset", "ri5cy", "--timeout", "3", "-o", "out"]
    code, out, error = run([*words, "--dask", farm.address], tmp_path)
    assert (code, error) == (1, ""), out
    (failed,), _ = points(tmp_path / "out")
    assert [flow["flow"] for flow in failed["flows"]] == ["a", "wrong", "c"]
    assert failed["error"].split("; ") == [
        "tool: yosys must be able to synthesise it",
        "bug: ZeroDivisionError: division by zero",
        "wrong: results must equal the reference, not differ 3 times",
        "kill: its process must end by itself, not be killed by SIGKILL (see log.txt)",
        "exit: its process must end with a result, not with exit code 3 (see log.txt)",
        "hang: must end within 3 s, not be stopped then (see log.txt)",
    ]
    log = (tmp_path / "out" / failed["folder"] / "log.txt").read_text()
    assert "ZeroDivisionError" in log
    assert all_gone(tmp_path / "diary.pid")
    # a run on machines goes on here: what was wrong runs again, what was right does not
    (tmp_path / "diary").unlink()
    assert run([script, "a,wrong,c", *words[2:]], tmp_path)[0] == 0
    assert lines(tmp_path / "diary") == ["wrong ri5cy"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whoever_ends_the_run_ends_its_tools(farm, tmp_path, script, number):
    words = [script, "a,slow=hang", "--preset", "ri5cy", "-o", "out", "--dask", farm.address]
    process = start(words, tmp_path)
    wait_for(tmp_path / "diary.pid")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert all_gone(tmp_path / "diary.pid")
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert [len(point["flows"]) for point in points(tmp_path / "out")[0]] == [1]


def test_worker_with_another_tool_is_refused(farm, tmp_path, script):
    worker = farm.worker(FAKE_TOOL="2.0")
    code, out, error = run([script, "a", "-o", "out", "--dask", farm.address], tmp_path)
    worker.kill()
    worker.wait()
    assert (code, out) == (2, "")
    assert error.startswith("error: every Dask worker must have tool (for a) 1.0, not 2.0 (worker tcp://127.0.0.1:")
    assert error.count("\n") == 0
    assert not (tmp_path / "diary").exists()


def test_random_programs_are_the_same_anywhere(farm, tmp_path):
    verify = ["-m", "xpulpnn_sim", "verify", "--engine", "iss", "--instructions", "2000"]
    results = []
    for name, words in (("two", ["--jobs", "2"]), ("dask", ["--dask", farm.address])):
        code, _, error = run([*verify, *words, "--json", f"{name}.json"], tmp_path)
        assert (code, error) == (0, f"{name}.json is written")
        (record,) = read_results(tmp_path / f"{name}.json")
        assert record.pop("instructions_per_s")
        results.append(record)
    assert results[0] == results[1]
    assert results[0]["instructions"] >= 2000


def test_no_scheduler_is_told_at_once(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    started = time.monotonic()
    done = run(["-m", "xpulpnn_sim", "explore", "--dask", address], tmp_path)
    text = f"Dask address must be that of a running scheduler, not {address} (Connection refused)"
    assert done == (2, "", f"error: {text}")
    assert not (tmp_path / "build").exists()
    assert time.monotonic() - started < 20
    text = "error: Dask address must be HOST:PORT of a scheduler, not machine"
    assert run(["-m", "xpulpnn_sim", "verify", "--dask", "machine"], tmp_path) == (2, "", text)


def test_scheduler_without_workers(tmp_path):
    farm = Farm(tmp_path)
    try:
        code, _, error = run(["-m", "xpulpnn_sim", "verify", "--dask", farm.address], tmp_path)
    finally:
        farm.end()
    text = f"error: Dask address must be that of a scheduler with workers, not {farm.address} without any"
    assert (code, error) == (2, text)
