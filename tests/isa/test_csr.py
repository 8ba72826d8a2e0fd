"""CSR table against the manual."""

import pytest

from xpulpnn.errors import EncodingError
from xpulpnn.isa.csr import CSRS, CsrGroup, ResetSource, csr_address

pytestmark = pytest.mark.unit

BASE = {
    0x300: ("mstatus", "RW", 0x1800, 0x88),
    0x301: ("misa", "WI", 0x4080_1104, 0),
    0x304: ("mie", "RW", 0, 0xFFFF_0888),
    0x305: ("mtvec", "RW", 1, 0xFFFF_FF01),
    0x320: ("mcountinhibit", "RW", 0, 5),
    0x340: ("mscratch", "RW", 0, 0xFFFF_FFFF),
    0x341: ("mepc", "RW", 0, 0xFFFF_FFFE),
    0x342: ("mcause", "RW", 0, 0x8000_001F),
    0x343: ("mtval", "WI", 0, 0),
    0x344: ("mip", "WI", 0, 0),
    0xB00: ("mcycle", "RW", 0, 0xFFFF_FFFF),
    0xB80: ("mcycleh", "RW", 0, 0xFFFF_FFFF),
    0xB02: ("minstret", "RW", 0, 0xFFFF_FFFF),
    0xB82: ("minstreth", "RW", 0, 0xFFFF_FFFF),
    0xC00: ("cycle", "RO", 0, 0),
    0xC80: ("cycleh", "RO", 0, 0),
    0xC02: ("instret", "RO", 0, 0),
    0xC82: ("instreth", "RO", 0, 0),
    0xF11: ("mvendorid", "RO", 0, 0),
    0xF12: ("marchid", "RO", 0, 0),
    0xF13: ("mimpid", "RO", 0, 0),
    0xF14: ("mhartid", "RO", 0, 0),
    0xF15: ("mconfigptr", "RO", 0, 0),
    0x310: ("mstatush", "WI", 0, 0),
}
BASE |= {0x323 + k: (f"mhpmevent{3 + k}", "WI", 0, 0) for k in range(29)}
BASE |= {0xB03 + k: (f"mhpmcounter{3 + k}", "WI", 0, 0) for k in range(29)}
BASE |= {0xB83 + k: (f"mhpmcounter{3 + k}h", "WI", 0, 0) for k in range(29)}
HWLOOP = {
    0x7C0: ("lpstart0", "RW", 0, 0xFFFF_FFFE),
    0x7C1: ("lpend0", "RW", 0, 0xFFFF_FFFE),
    0x7C2: ("lpcount0", "RW", 0, 0xFFFF_FFFF),
    0x7C4: ("lpstart1", "RW", 0, 0xFFFF_FFFE),
    0x7C5: ("lpend1", "RW", 0, 0xFFFF_FFFE),
    0x7C6: ("lpcount1", "RW", 0, 0xFFFF_FFFF),
}
PERFORMANCE = {0x780 + k: (f"pccr{k}", "RW", 0, 0xFFFF_FFFF) for k in range(17)} | {
    0x79F: ("pccrall", "WO", 0, 0xFFFF_FFFF),
    0xCC0: ("pcer", "RW", 0, 0x1_FFFF),
    0xCC1: ("pcmr", "RW", 3, 3),
}


@pytest.mark.parametrize(
    ("group", "expected"),
    [(CsrGroup.BASE, BASE), (CsrGroup.HWLOOP, HWLOOP), (CsrGroup.PERFORMANCE, PERFORMANCE)],
)
def test_registers(group: CsrGroup, expected: dict[int, tuple[str, str, int, int]]):
    table = {c.address: (c.name, c.access.name, c.reset, c.writable) for c in CSRS if c.group is group}
    assert table == expected
    assert len(table) == sum(c.group is group for c in CSRS)


def test_reset_from_inputs():
    sources = {c.name: c.source for c in CSRS if c.source is not ResetSource.CONSTANT}
    assert sources == {
        "mtvec": ResetSource.BOOT_ADDRESS,
        "mip": ResetSource.IRQ_LINES,
        "mhartid": ResetSource.HART_ID,
    }


def test_lookup():
    assert csr_address("MEPC") == 0x341
    with pytest.raises(EncodingError, match=r"^csr must be a known name or an address, not uepc$"):
        csr_address("uepc")
