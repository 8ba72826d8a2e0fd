"""What the properties see of the inside of the core: its registers and wires, by their names in the emitted text."""

from collections.abc import Mapping
from typing import NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS

_NNRF = "core.backend.ex_stage.nnrf"


class Seen(NamedTuple):
    """A signal of the core.

    Parameters
    ----------
    width : int
        Its bits.
    paths : tuple of str
        What it is put together from, lowest bits first: instances down to a wire, and its name.
    """

    width: int
    paths: tuple[str, ...]


def seen_signals(config: CoreConfig) -> Mapping[str, Seen]:
    """The signals by the names that the properties give them; a core without a unit has none of its signals."""
    found = {
        "ex_leaves": Seen(1, ("core.backend.flow__ex_leaves",)),
        "taken": Seen(1, ("core.backend.branch__valid",)),
        "enter": Seen(1, ("core.controller.enter",)),
        "enter_interrupt": Seen(1, ("core.controller.enter_interrupt",)),
        "enter_pc": Seen(32, ("core.controller.enter_pc",)),
        "sleeping": Seen(1, ("core.controller.sleeping",)),
        "any_pending": Seen(1, ("core.controller.any_pending",)),
        "mie_bits": Seen(19, ("core.csr_file.mie_bits",)),
        "mstatus_bits": Seen(2, ("core.csr_file.mstatus_bits",)),
        "mtvec_bits": Seen(25, ("core.csr_file.mtvec_bits",)),
        "mepc_bits": Seen(31, ("core.csr_file.mepc_bits",)),
    }
    if config.xpulpv2:
        names = [f"{name}{loop}" for loop in range(2) for name in ("lpstart", "lpend", "lpcount")]
        found |= {name: Seen(32, (f"core.hwloops.{name}",)) for name in names}
    if config.mac_load:
        activations = [f"nn_act{index}" for index in range(NNRF_ACTIVATIONS)] if config.mac_load_nn else []
        words = [*activations, *(f"nn_wgt{index}" for index in range(NNRF_WEIGHTS))]
        words += ["nn_kappa", "nn_lambda"] if config.requantise else []
        found["nn_words"] = Seen(32 * len(words), tuple(f"{_NNRF}.{name}" for name in words))
    if config.requantise:
        found |= {name: Seen(32, (f"{_NNRF}.nn_{name}",)) for name in ("kappa", "lambda")}
    return found
