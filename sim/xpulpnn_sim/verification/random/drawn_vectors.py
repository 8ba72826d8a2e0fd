"""Vectors of the Mac&Loads and of the requantisation: operands drawn here, results of the reference models."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT, WORD_BYTES, WORD_MASK, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.cosimulation.checks.vectors import VECTOR_REGISTERS
from xpulpnn_sim.reference.golden.dotp import ACTIVATION_SELECT, WEIGHT_SELECT, WEIGHT_SELECT_LSB
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sim.reference.stimuli import corner_words, random_word
from xpulpnn_sim.tools.files import write_bytes
from xpulpnn_sim.verification.random.memory_run import aimed_run

_PARAMETERS = 2
_BOTH = 0b11000
_UPDATES = (0b00000, 0b01000, 0b10000)
_SELECTORS = 8
_X0_CHANCE, _CORNER_CHANCE, _AIMED_CHANCE = 0.1, 0.4, 0.9
_SHARES = (3, 3, 1)  # how often products, requantisations and loads of parameters are drawn


def _word(rng: Random, width: int) -> int:
    return rng.choice(corner_words(width)) if rng.random() < _CORNER_CHANCE else random_word(rng)


def _memory(rng: Random, address: int) -> tuple[dict[str, int], int]:
    """Aligned words around an address, and the one at the address itself."""
    first = address & -WORD_BYTES
    places = [first] if first == address else [first, (first + WORD_BYTES) & WORD_MASK]
    words = [random_word(rng) for _ in places]
    held = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)[address % WORD_BYTES :]
    return dict(zip(map(str, places), words, strict=True)), int.from_bytes(held[:WORD_BYTES], "little")


def _vector(insn: Insn, entries: int, rng: Random) -> dict[str, Any]:
    width = XLEN if insn.fmt is None else insn.fmt.width
    before = [_word(rng, width) for _ in range(entries)]
    rs1, rs2, rd_in = rng.getrandbits(XLEN), random_word(rng), _word(rng, width)
    if insn.requantises and rng.random() < _AIMED_CHANCE:
        operands = aimed_run(insn, rng)
        before[FIRST_PARAMETER:] = operands.kappa, operands.lam
        rs1, rs2 = operands.accumulator, operands.shift
    selector = rng.randrange(_SELECTORS) | (_BOTH if insn.reloads_other else rng.choice(_UPDATES))
    chosen = VECTOR_REGISTERS | {"nnimm5": selector}
    chosen["rd"] = 0 if rng.random() < _X0_CHANCE else VECTOR_REGISTERS["rd"]
    fields = [token.field for token in insn.tokens]
    word = insn.encode(**{one.name: chosen.get(one.name, rng.randint(one.low, one.high)) for one in fields})
    first, second = selector & ACTIVATION_SELECT, FIRST_WEIGHT + (selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT)
    if insn.requantises:
        first, second = FIRST_PARAMETER, FIRST_PARAMETER + 1
    memory, loaded = _memory(rng, rs1)
    read = {"word": word, "rs1": rs1, "rs2": rs2, "rd": rd_in, "loaded": loaded}
    read |= {"act": before[first], "wgt": before[second]} if insn.fmt is not None else {}
    columns: dict[str, Any] = {name: np.array([value], np.uint32) for name, value in read.items()}
    effects = execute(insn, Sources(**columns))
    after = [*before]
    accessed = effects.accessed is not None and bool(effects.accessed[0])
    if effects.nn_index is not None and effects.nn_written is not None and effects.nn_written[0]:
        after[int(effects.nn_index[0])] = loaded
    moved = effects.base is not None and effects.base_written is not None and bool(effects.base_written[0])
    written = effects.rd is not None and chosen["rd"] > 0
    return {
        "insn": insn.mnemonic,
        "word": word,
        **({"imm": selector} if insn.is_nn_form else {}),
        "rs1": rs1,
        **({"rs2": rs2} if insn.requantises else {}),
        "rd_in": rd_in,
        **({"rd_is_x0": not chosen["rd"]} if insn.writes_rd else {}),
        "nnrf_in": before,
        **({"mem": memory} if accessed else {}),
        "rd_out": int(effects.rd[0]) if effects.rd is not None and written else rd_in,
        "rs1_out": int(effects.base[0]) if effects.base is not None and moved else rs1,
        "nnrf_out": after,
    }


def drawn_vectors(config: CoreConfig, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """``count`` vectors as objects of a vector file."""
    rows = enabled(config.extensions, config.widths)
    groups = (
        [row for row in rows if row.is_nn_form],
        [row for row in rows if row.requantises],
        [row for row in rows if row.loads_parameter],
    )
    drawn = {share: group for share, group in enumerate(groups) if group}
    if not drawn:
        raise InputError("mac_load_nn must be true for vectors that are drawn, not false")
    rng, entries = Random(f"vectors {seed}"), FIRST_PARAMETER + _PARAMETERS * config.requantise
    for _ in range(count):
        (group,) = rng.choices([*drawn], [_SHARES[share] for share in drawn])
        yield _vector(rng.choice(drawn[group]), entries, rng)


def write_vectors(path: Path, config: CoreConfig, count: int, seed: int) -> None:
    """Write vectors to a file, compressed if its name ends so; raises :class:`InputError` as :func:`drawn_vectors`."""
    text = "".join(json.dumps(vector) + "\n" for vector in drawn_vectors(config, count, seed)).encode()
    # no time in the header: the same vectors are the same file
    write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
