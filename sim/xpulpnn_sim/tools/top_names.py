"""Names of the components that ``tools.tops`` builds, which takes longer to import than many commands run; and lists of
names in the text of options, joined by ``+`` or commas."""

import re
from collections.abc import Sequence

from xpulpnn.errors import InputError


def words(text: str, option: str) -> list[str]:
    """Distinct words of a list; raises :class:`InputError` for an empty one among them."""
    found = [word.strip() for word in re.split("[,+]", text)]
    if "" in found:
        raise InputError(f"{option} must be a list of words such as A+B, not {text or 'empty'}")
    return list(dict.fromkeys(found))


def chosen_names(text: str, known: Sequence[str], option: str) -> list[str]:
    """Distinct members of ``known`` named in ``text``, ``all`` standing for all of them."""
    names = list(known) if text == "all" else [name.strip() for name in re.split("[,+]", text)]
    for name in names:
        if name not in known:
            raise InputError(f"{option} must be a list out of {','.join(known)}, not {name or 'empty'}")
    return list(dict.fromkeys(names))


CORE_NAMES = ("dotp", "nnrf", "simd-alu", "mult", "ex-stage", "backend", "core", "core-debug")  # components of a core

CLUSTER_NAMES = (
    *("cluster", "tcdm", "event-unit", "dma", "icache"),
    *("cluster-axi", "cluster-debug", "axi-ext", "axi-dma", "axi-refill", "core-wishbone", "cluster-wishbone"),
)
"""Components of a cluster."""

CORE_DEBUG, CLUSTER_DEBUG = "core-debug", "cluster-debug"  # with debug mode and what serves it
DEBUG_NAMES = ("dm", "jtag-dtm")  # components of external debugging

ALL_TOPS = (*CORE_NAMES, *CLUSTER_NAMES, *DEBUG_NAMES)  # all that can be generated
