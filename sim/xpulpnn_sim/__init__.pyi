from xpulpnn_sim.api.cosimulation import cosim as cosim
from xpulpnn_sim.api.programs import check_vectors as check_vectors
from xpulpnn_sim.api.programs import run as run
from xpulpnn_sim.api.programs import simulate as simulate
from xpulpnn_sim.cosimulation.model.machine import Machine as Machine
from xpulpnn_sim.exploration.exploration import explore as explore
from xpulpnn_sim.exploration.options import ExploreOptions as ExploreOptions
