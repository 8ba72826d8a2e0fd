from collections.abc import Callable

import pytest

from xpulpnn.isa.table import find
from xpulpnn_sim.iss.core import Iss


def _asm(mnemonic: str, form: str | None = None, /, **operands: int) -> int:
    return find(mnemonic, form).encode(**operands)


@pytest.fixture
def asm() -> Callable[..., int]:
    """One 32-bit instruction word from mnemonic, operand form where ambiguous, and field values."""
    return _asm


@pytest.fixture
def machine() -> Callable[..., Iss]:
    """A hart with a program at its boot address."""

    def build(*words: int, boot_address: int = 0x80, **settings: object) -> Iss:
        iss = Iss(boot_address, **settings)
        iss.load(boot_address, list(words))
        return iss

    return build
