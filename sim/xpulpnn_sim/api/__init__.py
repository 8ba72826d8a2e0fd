"""The jobs of the subcommands as functions that return data classes; the package ``xpulpnn_sim`` names them."""
