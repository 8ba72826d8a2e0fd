"""Mark of tests of proofs that need ABC."""

import shutil

import pytest

from xpulpnn_sim.tools.yosys import ABC_PROGRAMS

_FOUND = any(map(shutil.which, ABC_PROGRAMS))
needs_abc = pytest.mark.skipif(not _FOUND, reason="needs abc: apt-get install berkeley-abc")
