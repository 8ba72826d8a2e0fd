"""Copies of a process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

SCRIPT = """
import os, signal
from xpulpnn_sim.tools.forks import Forks, limit_computing, silence

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
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[(0, 0), (1, 1), (2, 2), (3, -27)]\n"
