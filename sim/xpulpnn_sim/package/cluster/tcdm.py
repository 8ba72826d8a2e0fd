"""The testbench of the shared memory: random accesses of all masters, against a memory of its own."""

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import TCDM_BASE, TEST_SET_BIT
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.package.cluster.memories import banks
from xpulpnn_sim.package.cluster.wiring import Nets
from xpulpnn_sim.package.core_testbench import SIMULATED_NS
from xpulpnn_sim.package.design import Design
from xpulpnn_sim.package.template import fill, template

_HOT = 16
"""Words that most accesses are to, at most."""

_PATIENCE = 64
"""Cycles that a request may wait, by masters."""


def _bank(config: ClusterConfig) -> str:
    """The bank of a word, in Verilog, before the remainder."""
    if not config.bank_hash or config.banks == 1:
        return "place"
    step = (config.banks - 1).bit_length()
    words = config.tcdm_bytes // WORD_BYTES
    return " ^ ".join(f"(place >> {shift})" for shift in range(0, (words - 1).bit_length(), step))


def tcdm_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the shared memory, by name."""
    config = design.cluster
    words = config.tcdm_bytes // WORD_BYTES
    nets = Nets(design, ("ports",))
    longest = 0 if config.arbiter == "fixed" else _PATIENCE * config.masters
    files = {
        f"{design.identifier}_tb.v": fill(
            "tcdm_tb.v",
            module=design.module,
            top=design.top,
            top_name=design.identifier,
            masters=config.masters,
            words=words,
            hot=min(_HOT, words),
            base=f"{TCDM_BASE:08x}",
            broadcast=int(config.broadcast),
            shared=" but for loads of one word" if config.broadcast else "",
            bounded=", and no request may wait for ever" if longest else "",
            longest=longest,
            bank=_bank(config),
            bank_count=config.banks,
            test_set=TEST_SET_BIT,
            test_set_offset=f"{1 << TEST_SET_BIT:08x}",
            half_period=SIMULATED_NS // 2,
            wires=nets.declarations(),
            banks=banks(nets, config),
            connections=nets.connections(),
        )
    }
    if config.memories == "ports":
        files["sram.v"] = template("sram.v")
    return files
