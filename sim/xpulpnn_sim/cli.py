"""The command line ``xpulpnn``."""

from xpulpnn_sim.commands.main import main as main
