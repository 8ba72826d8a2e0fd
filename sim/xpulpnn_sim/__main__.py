"""The command line ``xpulpnn``, also as ``python -m xpulpnn_sim``."""

import os
import sys

_INTERRUPTED = 130
_LAST_STREAM = 2


def main() -> int:
    _open_streams()
    try:
        # imported here, as it takes a while in which users may type Ctrl-C
        from xpulpnn_sim.cli.main import main as run_command
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return _INTERRUPTED
    return run_command()


def _open_streams() -> None:
    """Open closed standard streams on the null device, lest other files take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
        pass
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    sys.exit(main())
