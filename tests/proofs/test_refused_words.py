"""Words of the command line that proofs refuse."""

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.main import execute_command

REFUSED = [
    ("prove emitter --top alu", 'Invalid value "alu" for --top'),
    ("prove cluster dma", 'Invalid value "dma" for PARTS. Choose from: "arbiter", "event-unit", "debug".'),
    ("prove cluster --preset ri5cy", 'Invalid value "ri5cy" for --preset. Choose from: "cluster", '),
    ("prove units --preset ri5cy --formats n", "--formats must be a list out of h,b, not n"),
    ("prove units --method hope", "--method must be a list out of algebra,sat,exhaustive,random, not hope"),
    ("prove units quantiser --preset ri5cy", "preset must have the unit quantiser, not be ri5cy"),
    ("prove units mult --formats b", "--formats, --method and --all-widths must be left out for mult"),
    (
        "prove instructions pv.qnt.n",
        "MNEMONIC must be one or more that the core has, not pv.qnt.n, which is of XpulpQnt",
    ),
    ("prove instructions pv.add.q", "MNEMONIC must be one or more that the core has, not pv.add.q"),
    (
        "prove riscv-formal --riscv-formal . --checks reg --depth 3",
        'Invalid value "3" for --depth. It must be 6 to 200.',
    ),
    (
        "prove pipeline mac_load --preset ri5cy",
        "PROPERTY must be one of loops, obi, fetches, interrupts, registers, data, ",
    ),
    ("prove pipeline --depth 3", 'Invalid value "3" for --depth. It must be at least 5.'),
    ("prove pipeline --self-test --preset ri5cy", "--preset must be xpulpnn2 or xpulpnn3 with --self-test, not ri5cy"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_refused(words: str, message: str):
    with pytest.raises(InputError) as refusal:
        execute_command(words.split())
    assert str(refusal.value).startswith(message)
