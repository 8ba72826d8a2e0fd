"""Layouts of maps between layers: a layer writes a map as its only readers want it, if its kernel can do that."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sw.kernels.channelwise.depthwise import computes_in_place
from xpulpnn_sw.kernels.layout import FOLDED_COLUMNS, GROUPED_PIXELS, takes_folded
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import AddLayer, ConvLayer, DepthwiseLayer, MaxPoolLayer, PointwiseLayer, TransposeLayer
from xpulpnn_sw.networks.network import Network, Stage


def folded(network: Network, variants: Sequence[str], memory: int) -> Network:
    """Let layers write maps as their only readers want them, if their ``variants`` can do that.

    Convolutions fold columns for a maximum pooling and write channel by channel for depthwise ones. Groups of pixels
    are interleaved for pointwise ones, which then have fewer bank conflicts. ``memory`` is the size of the TCDM.
    """
    stages = list(network.stages)
    for number, (before, name) in enumerate(zip(network.stages, variants, strict=True)):
        readers = [after for after in range(len(stages)) if before.name in network.sources(after)]
        if len(readers) != 1 or not _fold(before, name):
            continue
        after = stages[readers[0]]
        if isinstance(after.layer, MaxPoolLayer) and takes_folded(after.layer):
            for place, stage in ((number, before), (readers[0], after)):
                stages[place] = replace(stage, tensors=replace(stage.tensors, folded=True))
    return _in_groups(*_without_transpositions(replace(network, stages=tuple(stages)), variants), memory)


def _in_groups(network: Network, chosen: Mapping[str, str], memory: int) -> Network:
    sources = {stage.name: {*network.sources(number)} for number, stage in enumerate(network.stages)}

    def is_able(stage: Stage) -> bool:
        readers = [after for after in network.stages if stage.name in sources[after.name]]
        is_read = bool(readers) and all(_reads_groups(reader, chosen[reader.name]) for reader in readers)
        return is_read and _writes_groups(stage, chosen[stage.name], memory)

    grouped = {*(stage.name for stage in network.stages if is_able(stage))}
    # all maps of an addition are in groups, or none
    sums = [{stage.name, *sources[stage.name]} for stage in network.stages if isinstance(stage.layer, AddLayer)]
    while wrong := set[str]().union(*(grouped & maps for maps in sums if not maps <= grouped)):
        grouped -= wrong
    stages = {stage.name: stage for stage in network.stages}
    for name, before in sources.items():
        if name in grouped or before <= grouped:
            flags = {"grouped": name in grouped, "from_groups": before <= grouped}
            stages[name] = replace(stages[name], tensors=replace(stages[name].tensors, **flags))
    return replace(network, stages=tuple(stages.values()))


def _adds_groups(stage: Stage) -> bool:
    layer, precision = stage.layer, stage.precision
    is_bytes = {precision.x, precision.w, precision.y} == {BYTE_BITS}
    return isinstance(layer, AddLayer) and is_bytes and not layer.height * layer.width % GROUPED_PIXELS


def _writes_groups(stage: Stage, variant: str, memory: int) -> bool:
    layer = stage.layer
    if isinstance(layer, DepthwiseLayer):
        # tiles of rows of an odd width have four rows, or groups of pixels would be cut
        is_small = 2 * layer.height * layer.width * layer.channels <= memory
        return stage.tensors.flat and (is_small or layer.out_width % 2 == 0)
    return _adds_groups(stage) or (_writes_planes(stage, variant) and not stage.tensors.flat)


def _reads_groups(stage: Stage, variant: str) -> bool:
    layer, known = stage.layer, VARIANTS.get(variant)
    if isinstance(layer, AddLayer):
        return _adds_groups(stage)
    if not isinstance(layer, PointwiseLayer) or not layer.is_plain or not known or layer.pixels == 1:
        return False
    blocking, words = Blocking(known, stage.precision, stage.tensors.rule), -(-layer.channels // WORD_BYTES)
    is_interleaved = known.interleaved and known.npx == GROUPED_PIXELS
    return is_interleaved and stage.precision.x == stage.precision.w == BYTE_BITS and blocking.filled(words) == words


def _without_transpositions(network: Network, variants: Sequence[str]) -> tuple[Network, dict[str, str]]:
    stages = {stage.name: replace(stage, sources=network.sources(n)) for n, stage in enumerate(network.stages)}
    chosen = dict(zip(stages, variants, strict=True))
    for stage in network.stages:
        if not isinstance(stage.layer, TransposeLayer):
            continue
        writer = stages.get(stages[stage.name].sources[0])
        readers = [after for after in stages.values() if stage.name in after.sources]
        others = [after for after in stages.values() if writer and writer.name in after.sources and after != stage]
        if writer is None or len(others) > 1 or not _writes_planes(writer, chosen[writer.name]):
            continue
        if all(_reads_planes(reader, chosen[reader.name]) for reader in readers):
            del stages[stage.name]
            for own in (writer, *readers):
                sources = tuple(writer.name if name == stage.name else name for name in own.sources)
                stages[own.name] = replace(own, sources=sources, tensors=replace(own.tensors, flat=True))
    return replace(network, stages=tuple(stages.values())), chosen


def _writes_planes(stage: Stage, variant: str) -> bool:
    if not isinstance(stage.layer, ConvLayer) or variant not in VARIANTS or stage.layer.pixels == 1:
        return False
    return Blocking(VARIANTS[variant], stage.precision, stage.tensors.rule).flattens


def _reads_planes(stage: Stage, variant: str) -> bool:
    if not isinstance(stage.layer, DepthwiseLayer):
        return False
    return computes_in_place(stage.layer, stage.precision, stage.kind.variant(variant), stage.tensors.rule)


def _fold(stage: Stage, variant: str) -> bool:
    layer = stage.layer
    if not isinstance(layer, ConvLayer) or layer.out_width % FOLDED_COLUMNS or variant not in VARIANTS:
        return False
    return Blocking(VARIANTS[variant], stage.precision, stage.tensors.rule).folds
