"""What all tests share: a cache that is not the user's, and compiled modules."""

import os
import sys
from pathlib import Path

# hundreds of processes import the same modules: an environment may forbid to keep them compiled
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.setdefault("XPULPNN_CACHE", str(Path(__file__).parent.parent / "build" / "cache"))
