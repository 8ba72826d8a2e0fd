"""External debugging: its configuration, and the program of halted harts at its address."""

import pytest

from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.rom import DebugCode
from xpulpnn.errors import ConfigError
from xpulpnn.isa.debug import ABSTRACT_WORDS, Place

_OPCODE, _LUI = 0x7F, 0x37


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"harts": 33}, "harts must be 1 to 32, not 33"),
        ({"base": 0x800}, "base must be a multiple of 4096 in 32 bits, not 0x800"),
        ({"idcode": 2}, "idcode must be an odd number of 32 bits, not 0x2"),
    ],
)
def test_impossible_configurations(fields, rule):
    with pytest.raises(ConfigError, match=f"^{rule}$"):
        DebugConfig(**fields)


def test_program_of_halted_harts_is_for_its_address():
    code = DebugCode.of(DebugConfig(base=0x4000_0000))
    assert len(code.command) == ABSTRACT_WORDS
    loads = [word for word in (*code.rom, *code.command) if word & _OPCODE == _LUI]
    assert [word >> 12 for word in loads] == [0x40000] * 3
    assert max(place for place in Place) + 4 * len(code.rom) <= 0x1000
