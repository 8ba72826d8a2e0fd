"""Work in processes: its results, its errors, and that nothing of it stays behind."""

import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from tests.processes import gone

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import completed
from xpulpnn_sim.tools.worker_process import CallError

pytestmark = pytest.mark.flow

HERE = Path(__file__).parent


def double(value):
    return 2 * value


def first_is_slow(value):
    time.sleep(0.5 if value == 0 else 0)
    return value


def refuse(value):
    if value == 3:
        raise ToolError("yosys must be able to read it")
    return value


def divide(value):
    return 1 // value


def hold(value, other):
    return value is hold.__dict__.setdefault("seen", value), os.getpid(), other


def pid(_):
    return os.getpid()


def hang(folder):
    tool = subprocess.Popen(["sleep", "1000"])
    Path(folder, f"{tool.pid}.tool").touch()
    tool.wait()


def stubborn(folder):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            hang(folder)
        except BaseException:
            continue


def crash(number):
    os.kill(os.getpid(), number) if number > 0 else os._exit(-number)


def say(text):
    print(text)
    subprocess.run(["echo", "tool"], check=True)


def tool_of(folder, patience_s=30):
    until = time.monotonic() + patience_s
    while not (started := list(folder.glob("*.tool"))):
        assert time.monotonic() < until
        time.sleep(0.05)
    return int(started[0].stem)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order_or_as_they_come(jobs):
    with executor(jobs) as pool:
        assert list(pool.map(first_is_slow, range(6))) == list(range(6))
        assert dict(completed(pool, double, range(5))) == {n: 2 * n for n in range(5)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_work_without_end_is_taken_as_it_is_needed(jobs):
    with executor(jobs) as pool:
        results = pool.map(double, count())
        assert [next(results) for _ in range(3)] == [0, 2, 4]


def test_a_single_job_needs_no_process_unless_it_is_limited():
    with executor(1) as pool:
        assert pool.submit(pid, 0).result() == os.getpid()
    with executor(1, timeout_s=60) as pool:
        assert len({pool.submit(pid, 0).result() for _ in range(3)} - {os.getpid()}) == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_reaches_the_caller_with_one_line(jobs):
    with pytest.raises(ToolError) as raised, executor(jobs) as pool:
        list(completed(pool, refuse, range(100)))
    assert str(raised.value) == "yosys must be able to read it"


def test_an_unexpected_error_brings_its_traceback():
    with pytest.raises(ZeroDivisionError) as raised, executor(2) as pool:
        list(pool.map(divide, [0]))
    assert "1 // value" in raised.value.__notes__[0]


def test_shared_arguments_are_loaded_once():
    with executor(2) as pool:
        shared = pool.share([1, 2])
        answers = [pool.submit(hold, shared, number) for number in range(6)]
        assert all(call.result()[0] for call in answers)
        assert [call.result()[2] for call in answers] == list(range(6))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (signal.SIGKILL, "its process must end by itself, not be killed by SIGKILL"),
        (signal.SIGSEGV, "its process must end by itself, not be killed by SIGSEGV"),
        (-3, "its process must end with a result, not with exit code 3"),
    ],
)
def test_a_crash_fails_its_own_call_only(number, text):
    with executor(2) as pool:
        crashed, others = pool.submit(crash, number), pool.map(double, range(4))
        with pytest.raises(CallError, match=text):
            crashed.result()
        assert list(others) == [0, 2, 4, 6]


def test_a_late_call_is_killed_with_its_tools(tmp_path):
    with executor(1, timeout_s=8) as pool:
        late = pool.submit(stubborn, tmp_path)
        with pytest.raises(CallError, match=r"must end within 8 s, not be stopped then"):
            late.result()
        assert gone(tool_of(tmp_path))
        assert pool.submit(double, 1).result() == 2


def test_a_call_keeps_what_it_and_its_tools_printed():
    with executor(2) as pool:
        call = pool.submit(say, "hello")
        call.result()
    assert call.output == "hello\ntool\n" or call.output == "tool\nhello\n"


def test_leaving_kills_what_runs(tmp_path):
    with executor(2) as pool:
        pool.submit(hang, tmp_path)
        tool = tool_of(tmp_path)
    assert gone(tool)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_tools_die_with_whoever_started_them(tmp_path, number):
    script = (
        "import signal, sys; sys.path[:0] = sys.argv[2:]\n"
        "import test_jobs; from xpulpnn_sim.tools.jobs import executor\n"
        # whoever runs tests in the background ignores it
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with executor(2) as pool: pool.submit(test_jobs.hang, sys.argv[1]).result()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), str(HERE), str(HERE.parents[1])], stderr=subprocess.DEVNULL
    )
    tool = tool_of(tmp_path)
    parent.send_signal(number)
    assert parent.wait(timeout=20) != 0
    assert gone(tool)


def test_there_must_be_a_job():
    with pytest.raises(InputError, match="jobs must be at least 1, not 0"):
        executor(0)


COPIES = """
import os, signal
from xpulpnn_sim.tools.processes import Forks, limit_computing, silence

ended = {}
forks = Forks(2, ended.__setitem__)
for number in range(4):
    if forks.start(number):
        silence()
        print("unheard", flush=True)
        if number == 3:
            limit_computing(0.1)
            while True:
                pass
        os._exit(number)
forks.wait()
print(sorted(ended.items()))
assert ended[3] == -signal.SIGPROF
"""


def test_copies_tell_their_exit_codes():
    # in a process of a single thread
    done = subprocess.run([sys.executable, "-c", COPIES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[(0, 0), (1, 1), (2, 2), (3, -27)]\n"
