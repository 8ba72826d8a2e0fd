"""Everything that runs something: golden models, ISS, benches, co-simulation and the command line."""

from xpulpnn.lazy import loader

HOMES = {
    "ExploreOptions": "xpulpnn_sim.exploration.options",
    "Machine": "xpulpnn_sim.cosimulation.model.machine",
    "check_vectors": "xpulpnn_sim.api.programs",
    "cosim": "xpulpnn_sim.api.cosimulation",
    "cosim_cluster": "xpulpnn_sim.api.cosimulation",
    "explore": "xpulpnn_sim.exploration.exploration",
    "run": "xpulpnn_sim.api.programs",
    "simulate": "xpulpnn_sim.api.programs",
}
"""The public names and the modules they are loaded from when they are first used."""

__getattr__ = loader(__name__, HOMES)
