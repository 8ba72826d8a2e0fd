"""What all tests share: a cache that is not the user's."""

import os
from pathlib import Path

os.environ.setdefault("XPULPNN_CACHE", str(Path(__file__).parent.parent / "build" / "cache"))
