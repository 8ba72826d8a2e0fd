"""Bits of the layers of a model in floating point: of their weights, and of the maps that they read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.levels import ELEMENT_WIDTHS

OPTION = "--quantise"  # what error messages call it


@dataclass(frozen=True, slots=True, order=True)
class LayerWidths:
    """Bits of a layer."""

    weights: int
    activations: int  # of each element of the maps it reads

    def __str__(self) -> str:
        return str(self.weights) if self.weights == self.activations else f"{self.weights}/{self.activations}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLayer:
    """A layer of a model that reads maps, which therefore must be integers."""

    name: str
    inputs: tuple[str, ...]  # the tensors that it reads, without its weights
    weights: str = ""  # the tensor of its weights; empty: it has none
    is_first: bool = False  # whether it reads the samples of images


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorWidths:
    """Bits of the tensors of a model."""

    tensors: Mapping[str, int]  # of weights, and of maps that a layer reads
    end: int  # of what the model ends with, if that is quantised

    def of(self, tensor: str) -> int:
        """Bits of a tensor."""
        return self.tensors.get(tensor, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthRequest:
    """Bits that a user asks for."""

    # one for all layers, or one for each layer with weights, in the order of the model
    listed: tuple[LayerWidths, ...] = ()
    # of layers by name, before those of the list
    named: Mapping[str, LayerWidths] = field(default_factory=dict[str, LayerWidths])

    @classmethod
    def uniform(cls, bits: int) -> "WidthRequest":
        """So many bits everywhere; raises :class:`InputError` for others than kernels have."""
        return cls(listed=(widths_of(str(bits)),))

    def tensors(self, readers: Sequence[ReadingLayer]) -> TensorWidths:
        """Bits of all tensors of a model with these layers; a tensor that several of them read has the most.

        A layer without weights and without a name in the request reads as the next one with weights does. Raises
        :class:`InputError` unless every layer has its bits and every name is that of a layer.
        """
        chosen = self._by_layer(readers)
        found: dict[str, int] = {}
        last: LayerWidths | None = None
        for reader in reversed(readers):
            own = chosen.get(reader.name, last)
            if own is None:
                raise InputError(f"{OPTION} must name {reader.name}, behind which no layer has weights")
            if reader.weights:
                last = own
                found[reader.weights] = max(found.get(reader.weights, 0), own.weights)
            for tensor in reader.inputs:
                found[tensor] = max(found.get(tensor, 0), own.activations)
        end = chosen.get(readers[-1].name, last) if readers else None
        return TensorWidths(tensors=found, end=max(ELEMENT_WIDTHS) if end is None else end.activations)

    def _by_layer(self, readers: Sequence[ReadingLayer]) -> dict[str, LayerWidths]:
        names = [reader.name for reader in readers]
        weighted = [reader.name for reader in readers if reader.weights]
        for name in self.named:
            if name not in names:
                raise InputError(f"{OPTION} must name one of {', '.join(names)}, not {name}")
        if len(self.listed) == 1:
            return {**dict.fromkeys(names, self.listed[0]), **self.named}
        if self.listed and len(self.listed) != len(weighted):
            raise InputError(
                f"{OPTION} must have one width, or one for each of {len(weighted)} layers with weights "
                f"({', '.join(weighted)}), not {len(self.listed)}"
            )
        chosen = {**dict(zip(weighted, self.listed, strict=False)), **self.named}
        missing = [name for name in weighted if name not in chosen]
        if missing:
            raise InputError(f"{OPTION} must have bits for every layer, not be without those of {missing[0]}")
        return chosen


def widths_of(text: str) -> LayerWidths:
    """Parse ``4/8``, weights and activations, or ``4``; raises :class:`InputError` for anything else."""
    known = {str(bits): bits for bits in ELEMENT_WIDTHS}
    parts = text.split("/")
    if not 1 <= len(parts) <= 2 or any(part not in known for part in parts):
        raise InputError(f"{OPTION} must have widths of {', '.join(known)}, or two of them as 4/8, not {text}")
    return LayerWidths(known[parts[0]], known[parts[-1]])


def request_of(text: str) -> WidthRequest:
    """Parse ``8``, ``8,4,4/8``, ``NAME=4,OTHER=8/4`` or ``8,NAME=4``.

    Raises :class:`InputError` for anything else.
    """
    listed: list[LayerWidths] = []
    named: dict[str, LayerWidths] = {}
    for item in text.split(","):
        name, equals, bits = item.rpartition("=")
        if not equals:
            listed.append(widths_of(bits))
        elif not name or name in named:
            raise InputError(f"{OPTION} must name every layer once, not {item} in {text}")
        else:
            named[name] = widths_of(bits)
    return WidthRequest(listed=tuple(listed), named=named)
