"""ABC, which some proofs need, by the name that it has on this machine."""

import shutil

import pytest

from xpulpnn_sim.tools.yosys import ABC_PROGRAMS

ABC = next((name for name in ABC_PROGRAMS if shutil.which(name)), "")
needs_abc = pytest.mark.skipif(not ABC, reason="needs abc: apt-get install berkeley-abc")
