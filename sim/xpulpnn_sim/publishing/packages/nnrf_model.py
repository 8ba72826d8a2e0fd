"""The NN register file as a list, for vectors."""

from collections.abc import Mapping

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS
from xpulpnn_sim.publishing.packages.vectors import Vectors

_ENABLES = {"": "we", "wb_nn_": "wb_nn_we"}
_ADDRESSES = {"": "waddr", "wb_nn_": "wb_nn_addr"}
_DATA = {"": "wdata", "wb_nn_": "wb_nn_data"}


class NnRfModel:
    """Entries, all 0 after reset."""

    def __init__(self, entries: int, write: str = "", read: str = "") -> None:
        """Clear the entries."""
        self._entries = [0] * entries
        self._write, self._read = write, read

    @property
    def parameters(self) -> list[int]:
        """The entries of the requantisation."""
        return self._entries[FIRST_PARAMETER:]

    def cycle(self, vectors: Vectors, inputs: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """A random write and random reads in one cycle: inputs and what the reads give, the written word included."""
        first = min(len(self._entries) - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
        enable, place, word = (
            vectors.random.getrandbits(1),
            vectors.random.randrange(len(self._entries)),
            vectors.word(),
        )
        driven = {_ENABLES[self._write]: enable, _ADDRESSES[self._write]: place, _DATA[self._write]: word}
        if enable:
            self._entries[place] = word
        weight = vectors.random.randrange(NNRF_WEIGHTS)
        driven[f"{self._read}wgt_addr"] = weight
        seen = {f"{self._read}wgt": self._entries[first + weight]}
        if first:
            activation = vectors.random.randrange(first)
            driven[f"{self._read}act_addr"] = activation
            seen[f"{self._read}act"] = self._entries[activation]
        return driven, seen
