"""The requantiser of XpulpNN 2: a result and its place in a word in one instruction.

Factor and offset lie in two entries of the NN-RF, where they stay until others are loaded.
"""

from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Value
from xpulpnn_sw.kernels.channelwise.code import Code
from xpulpnn_sw.kernels.channelwise.packed import FORMATS
from xpulpnn_sw.kernels.frame import SP, STACK_ALIGNMENT

KAPPA, LAMBDA = 0, 1
"""Numbers of the factor and of the offset in ``pv.rqld``."""


class Requantiser:
    """Writes ``clip((kappa * value + lambda) >> shift)`` as an element of a word.

    A word that one instruction changes is not ready for the next one.
    """

    def __init__(self, code: Code, bits: int, *, signed: bool) -> None:
        self._code, self._bits = code, bits
        self._mnemonic = f"pv.rq{'s' if signed else 'u'}.{FORMATS[bits]}"

    def load(self, entry: int, pointer: int) -> None:
        """Load the factor or the offset at ``pointer``, which moves on by a word."""
        self._code.b("pv.rqld", entry, pointer)

    def set(self, kappa: Value, lam: Value, work: int) -> None:
        """Load both from constants or registers, by way of the stack; ``work`` is lost."""
        b = self._code.b
        b("addi", SP, SP, -STACK_ALIGNMENT)
        for number, value in enumerate((kappa, lam)):
            if isinstance(value, int):
                b.li(work, value)
            b("sw", value.register if isinstance(value, Held) else work, number * WORD, SP)
        b.mv(work, SP)
        self.load(KAPPA, work)
        self.load(LAMBDA, work)
        b("addi", SP, SP, STACK_ALIGNMENT)

    def put(self, word: int, value: int, lane: int, shift: int = ZERO) -> None:
        """Make the result of ``value`` the element ``lane`` of ``word``; ``shift`` is a register."""
        self._code.b(self._mnemonic, word, value, shift, lane)
