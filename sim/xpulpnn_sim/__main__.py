"""``python -m xpulpnn_sim``: the command line without an installed script."""

import sys

from xpulpnn_sim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
