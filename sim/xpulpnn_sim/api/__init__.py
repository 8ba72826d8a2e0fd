"""The subcommands as functions that return dataclasses; ``xpulpnn_sim`` exports them."""
