"""Layers in tiles: every output is computed once from the right inputs, and nothing is moved under a tile's feet."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.reference.golden import dma
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.kernels.catalogue import KERNELS, kernel_of
from xpulpnn_sw.kernels.layout import Symbol
from xpulpnn_sw.kernels.programs.tiled import TILE_STACK_BYTES, Tiling, tiled_program
from xpulpnn_sw.kernels.tiling.plan import schedule
from xpulpnn_sw.kernels.tiling.tile import TileOperand
from xpulpnn_sw.kernels.tiling.transfer import MOST_TRANSFER_BYTES, DmaTransfer
from xpulpnn_sw.layers.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.layers.precision import Precision

from .runs import built, run_share

TCDM = 1 << 17
CORES = 4
ELSEWHERE = 0x1800_0000


def program_of(layer, variant="nn_4x4", bits=8, tiling=None, *, memory=TCDM, seed=0):
    kind = kernel_of(layer)
    precision = kind.uniform(bits)
    tensors = kind.random(layer, precision, np.random.default_rng(seed))
    run = kind.build(layer, precision, variant, tensors, cores=CORES)
    return tensors, tiled_program(run, CORES, memory, tiling or Tiling())


def random_layer(rng):
    while True:
        try:
            size = f"{rng.randint(1, 12)}x{rng.randint(1, 4)}x4:{rng.randint(1, 20)}x{rng.randint(1, 5)}x1"
            return ConvLayer.parse(f"{size}:s={rng.randint(1, 3)}x1,p={rng.randint(0, 6)}x{rng.randint(0, 6)}x0x0")
        except LayerError:
            continue


class Stepped:
    """A tiled program without its caller: steps move what their commands say and call the function of the kernel."""

    def __init__(self, program):
        self.program, self.memory = program, Memory()
        image = program.run.image
        for base, data in ((TCDM_BASE, np.frombuffer(program.data, np.uint8)), (image.base, image.data)):
            self.memory.write_bytes(base, data.tobytes())
        for name, place in program.places.items():
            if name.startswith(("input", "weights", "output", "im2col")):
                self.memory.write_bytes(place.address, b"\xa5" * place.length)

    def words(self, address, count):
        return np.frombuffer(self.memory.read_bytes(address, 4 * count), "<u4").tolist()

    def run(self, *, moves_first):
        run = self.program.run
        for number, step in enumerate(self.program.steps):
            at, fields = self.program.places[f"step{number % 2}"].address, len(run.structure.fields)
            count, works, lasts = self.words(at, 3)
            assert bool(works) == (step.work is not None)
            assert bool(lasts) == (number + 1 == len(self.program.steps))
            commands = self.words(at + 4 * (3 + fields), count)
            actions = [lambda commands=commands: self.move(commands)]
            if step.work:
                actions.append(lambda at=at: self.compute(at + 12))
            for action in actions if moves_first else reversed(actions):
                action()
        after = np.frombuffer(self.memory.read_bytes(run.image.base, run.image.data.size), np.uint8)
        return run.output.decode(run.image, after)

    def move(self, words):
        while words:
            count = dma.word_count(words[0])
            command, words = words[:count], words[count:]
            assert command[0] & 0x1FFFF
            for source, target, size in dma.moves(command).pieces():
                self.memory.write_bytes(target, self.memory.read_bytes(source, size))

    def compute(self, arguments):
        run = self.program.run
        places = {"arguments": Symbol(arguments, 0), "stack": Symbol(ELSEWHERE, 0)}
        placed = replace(run, image=replace(run.image, symbols=run.image.symbols | places))
        for core in range(CORES):
            run_share(placed, core, CORES, self.memory)


def check_steps(layer, bits, tiling, *, moves_first):
    tensors, program = program_of(layer, bits=bits, tiling=tiling)
    got = Stepped(program).run(moves_first=moves_first)
    np.testing.assert_array_equal(got, reference(layer, tensors, Precision.uniform(bits)), f"{layer} {tiling}")


@pytest.mark.parametrize(("text", "bits", "tiling", "moves_first"), [
    ("7x5x6:9x3x3:p=1x2x0x1", 8, Tiling(rows=2, channels=4), False),
    ("7x5x6:9x3x3:p=1x2x0x1", 8, Tiling(rows=2, channels=4), True),
    ("9x4x5:20x3x2:s=2x1", 2, Tiling(rows=2, channels=16), True), ("6x4x8:8x3x3", 4, Tiling(rows=1), False),
    ("6x4x8:16x3x3", 4, Tiling(channels=8), True),
    # all channels of some lines before the next lines
    ("6x20x8:16x1x1:p=0", 8, Tiling(rows=4, channels=4, overlap=False), False),
    ("2x3x4:4x1x1:p=5x4x0x0", 8, Tiling(rows=2), True),
])  # fmt: skip
@pytest.mark.flow
def test_moves_and_arguments_give_the_layer(text, bits, tiling, moves_first):
    check_steps(ConvLayer.parse(text), bits, tiling, moves_first=moves_first)


@pytest.mark.parametrize("seed", range(20))
def test_random_layers_in_tiles(seed):
    rng = random.Random(seed)
    layer = random_layer(rng)
    tiling = Tiling(rows=rng.randint(1, layer.out_height), channels=min(4 * rng.randint(1, 5), layer.out_channels))
    check_steps(layer, 8, tiling, moves_first=rng.choice((False, True)))


def test_what_tiles_have_in_common_is_moved_once():
    layer = ConvLayer.parse("8x4x8:16x3x3")
    for channels_first, loads in ((False, (8, 2)), (True, (4, 8))):
        tiles = program_of(layer)[1].division.shape.tiles(2, 8, channels_first=channels_first)
        moves = [move for step in schedule(tiles, overlap=True) for move in step.moves]
        counts = [sum(move.operand is operand for move in moves) for operand in TileOperand]
        assert counts == [*loads, 8]


@pytest.mark.parametrize("memory", [TCDM, 3 * TCDM // 4])
@pytest.mark.parametrize("text", ["64x64x64:64x3x3", "16x16x256:512x3x3"])
def test_tiles_fit_with_everything_else(text, memory):
    _, program = program_of(ConvLayer.parse(text), memory=memory)
    assert len(program.plan.tiles) > 1
    assert program.plan.bytes <= len(program.data) <= memory
    ends = sorted((place.address, place.address + place.length) for place in program.places.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))


@pytest.mark.parametrize(("kernel", "text"), [("conv", "4x4x4:4x3x3"), ("matmul", "4x16x8")])
def test_frames_of_all_variants_fit_into_the_stack(kernel, text):
    for name in KERNELS[kernel].variants:
        function = built(kernel, text, str(KERNELS[kernel].uniform(8)), name).function
        # addi sp, sp, -size
        size = (1 << 12) - (int(function.words[0]) >> 20)
        assert 0 < size <= TILE_STACK_BYTES


@pytest.mark.parametrize(("line", "lines", "inside", "outside"), [
    (3 * MOST_TRANSFER_BYTES - 5, 1, 0, 0), (24, 9000, 32, 40), (7, 3, 9, 7),
])  # fmt: skip
def test_long_transfers_are_divided(line, lines, inside, outside):
    ends = {"inside": TCDM_BASE, "outside": L2_BASE, "inside_stride": inside, "outside_stride": outside}
    transfer = DmaTransfer(line=line, lines=lines, inwards=False, **ends)
    moves = [dma.moves(words) for words in transfer.commands()]
    assert (len(moves) > 1) == (line * lines > MOST_TRANSFER_BYTES)
    bytes_of_lines = np.arange(lines)[:, np.newaxis], np.arange(line)
    for side, base, stride in (("sources", TCDM_BASE, inside), ("targets", L2_BASE, outside)):
        expected = base + bytes_of_lines[0] * stride + bytes_of_lines[1]
        np.testing.assert_array_equal(np.concatenate([getattr(move, side) for move in moves]), expected.reshape(-1))


@pytest.mark.parametrize(("layer", "tiling", "named"), [
    ("3x2000x64:4x3x3", Tiling(), "tiles must be at most the TCDM's 131072 bytes"),
    ("8x8x8:16x3x3", Tiling(rows=9), "rows of a tile must be 1 to 8, not 9"),
    ("16x32x10", Tiling(rows=6), "pixels of a tile"),
])  # fmt: skip
def test_rejected(layer, tiling, named):
    kind = ConvLayer if ":" in layer else MatmulLayer
    with pytest.raises(LayerError, match=f"^{named}"):
        program_of(kind.parse(layer), tiling=tiling)
