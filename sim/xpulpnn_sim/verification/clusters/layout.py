"""Memory map of the programs for several harts.

Windows are what masked base registers point into; accesses stay within :data:`MARGIN` of them. What the program itself
depends on is out of their reach.
"""

from xpulpnn.isa.cluster import L2_BASE, TCDM_ALIAS, TCDM_BASE, TEST_SET_BIT

LEAST_TCDM = 0x1_0000  # bytes of the TCDM that the programs use

MARGIN = 0x900

SHARED_WINDOW = 0x2000  # offset in the TCDM of the window that all harts race in
_PRIVATE_WINDOWS, _WINDOW_DISTANCE = 0x4000, 0x200

LOCKS = TCDM_BASE + 0x7000  # words that are taken by test&set
COUNTERS = TCDM_BASE + 0x7080
"""Words that are counted up under locks and mutexes: one for each lock, then one for each mutex."""
START = TCDM_BASE + 0x7100  # set by hart 0 when the others may begin

_FRAMES, _FRAME_BYTES = TCDM_BASE + 0x8000, 0x400
_SAVE_AREAS, _SAVE_BYTES = TCDM_BASE + 0xC000, 0x40
ARENA = (TCDM_BASE + 0xD000, 0x2000)
"""First address and size of what the DMA engine copies from and to, beside the shared windows."""
TCDM_TOHOST = TCDM_BASE + 0xF800

L2_DATA, L2_SIZE = L2_BASE + 0x10_0000, 0x8000  # Behind the code
_L2_SHARED, _L2_PRIVATE = L2_DATA + 0x1000, L2_DATA + 0x2000
L2_ARENA = (L2_DATA + 0x5000, 0x2000)
L2_TOHOST = L2_DATA + 0x7800

SHARED_PIECE = (TCDM_BASE + SHARED_WINDOW - 0x100, 0x300)
L2_SHARED_PIECE = (_L2_SHARED - 0x100, 0x300)  # of the shared windows, what DMA transfers meet other accesses in

SLOT = 0x1A0  # offset from sp of a word that no random instruction touches


def frame(hart: int) -> int:
    """Value of sp."""
    return _FRAMES + _FRAME_BYTES * hart + _FRAME_BYTES // 4


def save_area(hart: int) -> int:
    """Address where handlers save registers."""
    return _SAVE_AREAS + _SAVE_BYTES * hart


def windows(hart: int) -> dict[str, int]:
    """The windows of a hart; some are the same for all, and some of these the same memory."""
    return {
        "shared": TCDM_BASE + SHARED_WINDOW,
        "shared alias": TCDM_ALIAS + SHARED_WINDOW,
        "shared test&set": (TCDM_BASE | 1 << TEST_SET_BIT) + SHARED_WINDOW,
        "private": TCDM_BASE + _PRIVATE_WINDOWS + _WINDOW_DISTANCE * hart,
        "shared L2": _L2_SHARED,
        "private L2": _L2_PRIVATE + _WINDOW_DISTANCE * hart,
    }
