"""Weights, parameters and results of a MatMul in memory."""

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import BYTE_BITS, WORD_MASK, XLEN
from xpulpnn_sw.kernels import layout
from xpulpnn_sw.kernels import requantisation as rules
from xpulpnn_sw.kernels.builder import THRESHOLD_BYTES, WORD
from xpulpnn_sw.kernels.kernel import KernelRequest
from xpulpnn_sw.kernels.layout import Words, pad_axis
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import Level, Variant
from xpulpnn_sw.layers.layer import ProductLayer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

_REQUANTISING = {Extension.XPULPRQ, Extension.XIF_RQ}


def check_rule(level: Level, precision: Precision, rule: Rule | None) -> None:
    if rule is Rule.THRESHOLDS and BYTE_BITS < precision.y < XLEN:
        raise LayerError(f"results of the rule thresholds must be at most {BYTE_BITS} bits wide, not {precision.y}")
    if rule is not Rule.QNT or not precision.requantised:
        return
    if precision.y not in rules.SEARCHED_BITS:
        raise LayerError(f"results of the rule qnt must be 4 or 2 bits wide, not {precision.y}")
    if not isinstance(level, Variant) or not level.xpulp or level.nch % rules.SEARCHED_CHANNELS:
        raise LayerError(f"variant of the rule qnt must be one of XpulpV2 with pairs of channels, not {level.name}")


class Blocking:
    """Sizes of the loops around the MatMul block, and the requantisation rule, None if results are accumulators."""

    def __init__(
        self,
        variant: Variant,
        precision: Precision,
        rule: Rule | None,
        *,
        biased: bool = True,
        folded: bool = False,
        flat: bool = False,
        grouped: bool = False,
    ) -> None:
        check_rule(variant, precision, rule)
        self.variant, self.precision, self.rule, self.folded = variant, precision, rule, folded
        self.flat, self.grouped = flat, grouped
        nch, bits = variant.nch, precision.y
        # whether the cores share the channels of the only pixel, not the pixels
        self.by_channels = variant.npx == 1
        # output channels that fill whole bytes, at least one block, and their bytes of a pixel
        self.channel_step = max(nch, BYTE_BITS // bits)
        self.step_bytes = self.channel_step * bits // BYTE_BITS
        self.blocks = self.channel_step // nch
        # whether the core requantises by pv.rq; bytes with results of several blocks are assembled in software
        able = not _REQUANTISING.isdisjoint(variant.extensions) and bits in rules.RQ_WIDTHS
        self.requantises = able and rule in rules.SCALING_RULES and self.blocks == 1
        # whether the core requantises all channels of the only pixel by the same factor
        in_loop = self.requantises and not variant.has_coprocessor
        self.has_one_factor = in_loop and self.by_channels and rule in rules.ONE_FACTOR
        # whether the first products do not accumulate, so that accumulators need no start
        is_unbiased = not biased and Extension.XPULPML_DOT in variant.extensions
        is_scaled = self.requantises and not self.has_one_factor
        self.is_fresh = is_scaled or (is_unbiased and not precision.requantised)
        # fewest iterations of the inner loop for a filter row
        self.least_turns = variant.turns_around + 1 if self.is_fresh else 1
        self.rows_per_stream = nch // variant.weight_streams
        # whether accumulators count the products that are -1
        self.counts = variant.counts(precision)
        # whether results are signs of accumulators, which start with the bias less the threshold
        self.by_sign = bits == SIGN_BITS
        # whether results of four pixels can be folded; number of pixels of a block that are stored
        self.folds = in_loop and variant.npx == layout.FOLDED_COLUMNS
        self.stored_pixels = variant.npx - folded
        if folded and not self.folds:
            raise LayerError(f"variant of folded results must be one that requantises, not {variant.name}")
        # whether a word may have results of four pixels instead of four channels
        self.flattens = self.folds and nch * bits == XLEN

    @property
    def stored_bits(self) -> int:
        """Number of bits that a store writes: one result or all results of a block for a pixel, at most a word."""
        bits, channels = self.precision.y, self.variant.nch
        if not self.requantises and (not self.variant.xpulp or self.rule in (None, Rule.QNT)):
            return max(bits, BYTE_BITS)
        return min(max(channels * bits, BYTE_BITS), XLEN)

    @property
    def table_bytes(self) -> int:
        return THRESHOLD_BYTES << self.precision.y

    @property
    def rule_bytes(self) -> int:
        channels = self.variant.nch
        if self.has_one_factor:
            return 2 * WORD
        if self.requantises:
            if self.rule is Rule.EXACT:
                return 2 * channels * WORD
            # lambda includes the bias and takes its place
            return (1 if self.rule in rules.ONE_FACTOR else channels) * WORD
        if self.by_sign:
            return 0
        tables = dict.fromkeys((Rule.THRESHOLDS, Rule.QNT), self.table_bytes)
        of_channel = {Rule.BN32: 2 * WORD, Rule.BN64: 4 * WORD, **tables}
        of_block = WORD if self.rule is Rule.MULTIPLY else rules.gap_bytes(self.rule, self.precision.y, channels)
        return of_block + channels * (of_channel.get(self.rule, 0) if self.rule else 0)

    def filled(self, words: int) -> int:
        """Return the words of a filter row in memory: ``words`` padded to whole iterations of the inner loop."""
        return max(self.least_turns, -(-words // self.variant.unrolled)) * self.variant.unrolled


def place_operands(request: KernelRequest, blocking: Blocking, layer: ProductLayer, rows: Words) -> dict[str, int]:
    memory, tensors = request.memory, request.tensors
    nch, npx, count = blocking.variant.nch, blocking.variant.npx, blocking.variant.weight_streams
    channels = -(-layer.out_channels // blocking.channel_step) * blocking.channel_step
    filled = pad_axis(rows, 1, blocking.filled(rows.shape[1]))
    blocks = pad_axis(filled, 0, channels).reshape(channels // nch, nch // count, count, -1)
    streams = blocks.transpose(2, 0, 3, 1).reshape(count, -1)
    stream_words = layout.banked_words(streams.shape[1], request.placement)
    # padded as the input of the next layer
    width = blocking.precision.y if blocking.precision.requantised else blocking.precision.w
    pixel_bytes = layout.padded_channels(layer.out_channels, width) * blocking.precision.y // BYTE_BITS
    # distance between results of neighbouring pixels, or of neighbouring channels if they lie channel by channel
    pixels = -(-layer.pixels // npx) * npx
    stride = pixels if blocking.flat else pixel_bytes
    requantisation = tensors.requantisation
    starts = _starts(blocking, layer, tensors)
    if blocking.requantises:
        parameters = rules.scaled_parameters(starts, requantisation, channels, nch, start=blocking.has_one_factor)
    else:
        parameters = rules.block_parameters(starts, None if blocking.by_sign else requantisation, channels, nch)
    return {
        "weights": memory.place("weights", layout.pack_words(pad_axis(streams, 1, stream_words), XLEN), spare=nch),
        "parameters": memory.place(
            "parameters",
            (parameters.astype(np.int64) & WORD_MASK).astype(np.uint32),
            alignment=rules.parameter_alignment(blocking.rule, blocking.precision.y),
        ),
        "output": memory.reserve("output", pixels * pixel_bytes),
        "out_channels": layer.out_channels,
        "out_stride": stride,
        "weight_stride": stream_words * WORD,
        "shift": 0 if requantisation is None else requantisation.applied_shift,
    }


def _starts(blocking: Blocking, layer: ProductLayer, tensors: LayerTensors) -> layout.Ints:
    """Return the initial accumulator of each channel; kernels that count bits subtract twice the count from it."""
    starts = np.zeros(layer.out_channels, np.int64) if tensors.bias is None else tensors.bias.astype(np.int64)
    if blocking.counts:
        starts = starts + layer.reduction
    if blocking.by_sign:
        assert isinstance(tensors.requantisation, rules.Thresholds)
        starts = starts - tensors.requantisation.values[:, 0]
        if blocking.counts:
            return -((starts + 1) // 2)
        # clipped where it cannot change a sign, so that sums fit 32 bits
        rows = tensors.weights.astype(np.int64).reshape(layer.out_channels, -1)
        least, greatest = blocking.precision.input_range
        above, below = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
        starts = np.clip(starts, -(above * greatest + below * least) - 1, 1 - (above * least + below * greatest))
    return starts
