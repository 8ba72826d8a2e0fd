"""Files of what has been found so far: a line of JSON each."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """What the lines of a file say, if there is one; the last one may be cut off."""
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:
            return
