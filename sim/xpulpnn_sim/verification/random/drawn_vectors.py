"""Random test vectors of all instructions that use the NN-RF, with results computed by the reference models."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import require
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_WORDS, SECOND_PAIR, WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.cosimulation.checks.vectors import Vector, registers_of, states_after
from xpulpnn_sim.reference.stimuli import corner_words, random_word, requantisation
from xpulpnn_sim.tools.files import write_bytes

_PARAMETERS = 2
_BOTH = 0b11000
_UPDATES = (0b00000, 0b01000, 0b10000)
_SELECTORS = 8
_X0_CHANCE, _CORNER_CHANCE, _AIMED_CHANCE = 0.1, 0.4, 0.9
# how often products, requantisations, loads of parameters, pairs of products and Compute&Update are drawn
_SHARES = (3, 3, 1, 3, 3)


def _word(rng: Random, width: int) -> int:
    return rng.choice(corner_words(width)) if rng.random() < _CORNER_CHANCE else random_word(rng)


def _vector(insn: Insn, entries: int, rng: Random) -> dict[str, Any]:
    width = XLEN if insn.fmt is None else insn.fmt.width
    before = [_word(rng, width) for _ in range(entries)]
    rs1, rs2, rd_in = rng.getrandbits(XLEN), random_word(rng), _word(rng, width)
    if insn.requantises and rng.random() < _AIMED_CHANCE:
        kappa, lam, rs2 = requantisation(insn, rs1, rs2, rng)
        before[FIRST_PARAMETER:SECOND_PAIR] = kappa, lam
    selector = rng.randrange(_SELECTORS) | (_BOTH if insn.reloads_other else rng.choice(_UPDATES))
    registers = registers_of(insn)
    chosen = registers | {"nnimm5": selector}
    chosen["rd"] = 0 if rng.random() < _X0_CHANCE else registers["rd"]
    second = _word(rng, width) if insn.is_pair else 0
    chosen |= {token.field.name: rng.choice(token.field.values) for token in insn.tokens if token.field.only}
    fields = [token.field for token in insn.tokens]
    word = insn.encode(**{field.name: chosen.get(field.name, rng.randint(field.low, field.high)) for field in fields})
    # the aligned words around the address
    memory = {at % (1 << XLEN): random_word(rng) for at in range(rs1 & -WORD_BYTES, rs1 + WORD_BYTES, WORD_BYTES)}
    vector = Vector(insn=insn, word=word, rs1=rs1, rs2=rs2, rd_in=rd_in, nnrf_in=before, mem=memory, rd2_in=second)
    (after,) = states_after([vector])
    accesses = selector & _BOTH if insn.is_nn_form else insn.writes_base
    return {
        "insn": insn.mnemonic,
        "word": word,
        **({"imm": selector} if insn.is_nn_form else {}),
        "rs1": rs1,
        **({"rs2": rs2} if "rs2" in insn.reads else {}),
        "rd_in": rd_in,
        **({"rd2_in": second} if insn.is_pair else {}),
        **({"rd_is_x0": not chosen["rd"]} if insn.writes_rd else {}),
        "nnrf_in": before,
        **({"mem": {str(at): value for at, value in memory.items()}} if accesses else {}),
        **(after if chosen["rd"] and insn.writes_rd else after | {"rd_out": rd_in}),
    }


def drawn_vectors(config: CoreConfig, count: int, seed: int) -> Iterator[dict[str, Any]]:
    rows = enabled(config.extensions, config.widths)
    groups = (
        [row for row in rows if row.is_nn_form],
        [row for row in rows if row.requantises],
        [row for row in rows if row.loads_parameter],
        [row for row in rows if row.is_pair],
        [row for row in rows if row.op == "pv.cusdot"],
    )
    drawn = {share: group for share, group in enumerate(groups) if group}
    require(drawn, "mac_load_nn or mac_load_cu must be true for vectors that are drawn, not false")
    rng = Random(f"vectors {seed}")
    entries = NNRF_WORDS if config.mac_load_pair else FIRST_PARAMETER + _PARAMETERS * config.requantise
    for _ in range(count):
        (group,) = rng.choices([*drawn], [_SHARES[share] for share in drawn])
        yield _vector(rng.choice(drawn[group]), entries, rng)


def write_vectors(path: Path, config: CoreConfig, count: int, seed: int) -> None:
    """Write random test vectors to a file, compressed if its name ends in ``.gz``; raise as :func:`drawn_vectors`."""
    text = "".join(json.dumps(vector) + "\n" for vector in drawn_vectors(config, count, seed)).encode()
    # no time in the header: the same vectors are the same file
    write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
