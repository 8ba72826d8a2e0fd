"""What the subcommands do, as functions that return data classes; the package ``xpulpnn_sim`` names them."""
