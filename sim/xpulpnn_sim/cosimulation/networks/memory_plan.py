"""Pieces of the memory of a network, and the layers that need them."""

from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn_sw.kernels.layout import Symbol
from xpulpnn_sw.kernels.tiling.division import DmaTransfer
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network

_RESULTS = ("output", "ahead")
_INPUTS = ("input", "first", "second")  # what copies of the network's input are called by the layers that read it


def memory_plan(network: Network, symbols: Mapping[str, Symbol]) -> list[dict[str, Any]]:
    """The pieces by address, each with the numbers of the first and last layer that need its content.

    Results are needed by their layer and by all that read them, the input by its readers, weights by their layer, and
    all else by every layer.
    """
    first: dict[str, int] = {stage.name: number for number, stage in enumerate(network.stages)}
    last = {**first, NETWORK_INPUT: 0}
    for number in range(len(network.stages)):
        last |= dict.fromkeys(network.sources(number), number)
    found: list[dict[str, Any]] = []
    for name, symbol in sorted(symbols.items(), key=lambda item: item[1].address):
        owner, _, what = name.rpartition(".")
        if name == NETWORK_INPUT:
            span = 0, last[NETWORK_INPUT]
        elif owner in first and what in _INPUTS:
            span = 0, first[owner]
        elif owner in first:
            span = first[owner], last[owner] if what in _RESULTS else first[owner]
        else:
            span = 0, len(network.stages) - 1
        if symbol.length:
            found.append(
                {"name": name, "address": symbol.address, "bytes": symbol.length, "first": span[0], "last": span[1]}
            )
    return found


def outside_plan(symbols: Mapping[str, Symbol], moved: Sequence[Sequence[DmaTransfer]]) -> list[dict[str, Any]]:
    """The pieces outside of a cluster that its DMA engine touches, each with the first and last step in which it does.

    ``moved`` has what is moved in each step.
    """
    found: list[dict[str, Any]] = []
    for name, symbol in sorted(symbols.items(), key=lambda item: item[1].address):
        end = symbol.address + symbol.length
        touched = [
            number
            for number, transfers in enumerate(moved)
            if any(symbol.address <= one.outside < end for one in transfers)
        ]
        if touched:
            place = {"name": name, "address": symbol.address, "bytes": symbol.length}
            found.append(place | {"first": touched[0], "last": touched[-1]})
    return found
