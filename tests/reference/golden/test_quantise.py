"""pv.qnt against the counting definition and the narrow address arithmetic (guide, "Threshold quantisation")."""

from random import Random

import numpy as np
import pytest
from tests.hart import Hart

from xpulpnn.errors import EncodingError
from xpulpnn.isa.table import find
from xpulpnn_sim.reference.golden.dotp import quantise
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute

SEED = 20260


class Recorder:
    """Half-words by address, and the addresses asked for."""

    def __init__(self, halves):
        self.halves, self.addresses = halves, []

    def __call__(self, addresses):
        self.addresses += addresses.tolist()
        return np.array([self.halves.get(address, 0) & 0xFFFF for address in addresses.tolist()], np.uint32)


def quantised(mnemonic, pixels, middle, memory):
    word = find(mnemonic).encode(rd=10, rs1=11, rs2=12)
    rs1 = (pixels[0] & 0xFFFF) | (pixels[1] & 0xFFFF) << 16
    arrays = [np.array([value], np.uint32) for value in (word, rs1, middle)]
    result = int(quantise(find(mnemonic), Sources(word=arrays[0], rs1=arrays[1], rs2=arrays[2]), memory).rd[0])
    # so do the statements, which the simulator executes
    regs = [0] * 11 + [rs1, middle] + [0] * 19
    hart = Hart(regs=regs, read=lambda at: memory.halves.get(at & ~1, 0) >> at % 2 * 8 & 0xFF)
    hart.execute(find(mnemonic), word)
    assert hart.regs[10] == result
    return result


@pytest.mark.parametrize(("letter", "width", "stride", "middle"), [("n", 4, 32, 14), ("c", 2, 8, 2)])
def test_codes_count_the_thresholds_below(letter, width, stride, middle):
    generator = Random(SEED)
    start = 0x1000
    for _ in range(200):
        rows = [sorted(generator.randrange(-32768, 32768) for _ in range(2**width - 1)) for _ in range(2)]
        pixels = [generator.choice([generator.randrange(-32768, 32768), generator.choice(row)]) for row in rows]
        memory = Recorder(
            {
                start + stride * pixel + 2 * index: value
                for pixel, row in enumerate(rows)
                for index, value in enumerate(row)
            }
        )
        codes = [
            (sum(threshold < pixel for threshold in row) - 2 ** (width - 1)) % 2**width
            for pixel, row in zip(pixels, rows, strict=True)
        ]
        assert quantised(f"pv.qnt.{letter}", pixels, start + middle, memory) == codes[1] << width | codes[0], (
            f"seed {SEED}"
        )
        assert len(memory.addresses) == 2 * width


def test_extreme_pixels():
    memory = Recorder({})
    assert quantised("pv.qnt.n", (-1, 1), 0x100E, memory) == 0x78
    assert quantised("pv.qnt.c", (-1, 1), 0x1002, memory) == 0b0110


def test_search_stays_in_its_block_and_the_second_address_in_its_half():
    memory = Recorder({})
    quantised("pv.qnt.n", (1, -1), 0x0001_FFFC, memory)
    # pixel 0: up by 8, 4, 2 within 0x1FFC0..0x1FFFF; pixel 1: 0xFFFC + 32 wraps in 16 bits, then down
    assert memory.addresses[:4] == [0x1_FFFC, 0x1_FFC4, 0x1_FFC8, 0x1_FFCA]
    assert memory.addresses[4:] == [0x1_001C, 0x1_0014, 0x1_0010, 0x1_000E]


def test_execute_refuses_the_operation_without_memory():
    with pytest.raises(EncodingError, match=r"^`insn\.op` must be one of the reference operations, not `pv\.qnt`$"):
        execute(find("pv.qnt.n"), Sources(word=np.zeros(1, np.uint32)))
