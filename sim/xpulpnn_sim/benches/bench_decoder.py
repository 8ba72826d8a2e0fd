"""Bench of the decoder: legal words of every row, and illegal neighbours, against the instruction table."""

from collections.abc import Iterator
from random import Random

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.table import INSNS, Decoder, enabled
from xpulpnn_sim.benches.agents import Dut, Scoreboard, run_vectors, unit_test
from xpulpnn_sim.benches.bench_rows import controlled_rows
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.benches.vectors.operands import IS3_LSB
from xpulpnn_sim.reference.stimuli import instruction_words


def _words(count: int, neighbours: int, rng: Random) -> Iterator[int]:
    """Yield words of all instructions, enabled or not, words with one fixed bit changed, and random words."""
    for insn in INSNS:
        if insn.size == WORD_BYTES:
            legal = [int(word) for word in instruction_words(insn, count, rng)]
            yield from legal
            if "Is3" in insn.operands:
                # any number in the field that selects the function of other rows
                yield from (legal[0] & ~(31 << IS3_LSB) | number << IS3_LSB for number in range(32))
            fixed = [bit for bit in range(XLEN) if insn.mask >> bit & 1]
            for bit in rng.sample(fixed, min(neighbours, len(fixed))):
                yield rng.choice(legal) ^ 1 << bit
    for _ in range(500):
        yield rng.getrandbits(XLEN)
    # words that no pattern excludes: Mac&Loads with both update bits, and NN-RF entries that no pair loads
    for insn in INSNS:
        if insn.is_nn_form or insn.is_pair:
            yield int(instruction_words(insn, 1, rng)[0]) | 0b11 << 23
        if insn.is_pair:
            yield int(instruction_words(insn, 1, rng)[0]) & ~(0b11 << 29) | rng.getrandbits(2) << 29


@unit_test()
async def words_match_the_table(dut: Dut, rng: Random) -> None:
    """``illegal`` is 1 exactly if no enabled instruction matches; else the control words are those of the table."""
    data = bench_data()
    config = configuration()
    rows = [insn for insn in enabled(config.extensions, config.widths) if insn.size == WORD_BYTES]
    controls = {insn.key: control for insn, control in controlled_rows()}
    decoder = Decoder(rows)
    stimulus = list(_words(data["vectors_per_row"], data["neighbours"], rng))
    rng.shuffle(stimulus)
    decoded: list[Insn | None] = [decoder.decode(word) for word in stimulus]
    ports = sorted(next(iter(controls.values())))
    observed = await run_vectors(dut, {"word": stimulus}, ["illegal", *ports])
    board = Scoreboard()
    board.compare({"illegal": [insn is None for insn in decoded]}, observed, {"word": stimulus})
    legal = [index for index, insn in enumerate(decoded) if insn is not None]
    words = {port: [0 if insn is None else controls[insn.key][port] for insn in decoded] for port in ports}
    board.compare(words, observed, {"word": stimulus}, rows=legal)
