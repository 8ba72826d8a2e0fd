"""The subcommands of the command line as functions that return dataclasses; ``xpulpnn_sim`` exports them."""
