"""The decoded instruction in ID."""

from amaranth.hdl import Const, Signal, Value
from amaranth.lib import data

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import CsrOp, MacLoad, Unit
from xpulpnn.core.decoder import Decoder
from xpulpnn.core.insn_word import InsnWord


class DecodedInsn:
    """The instruction in ID: fields, control words, and flags of its class, 0 if the core lacks the class."""

    def __init__(self, config: CoreConfig, word: Value, decoder: Decoder):
        self.word = word
        self.fields = data.View(InsnWord, word)
        self.ctrl = ctrl = decoder.ctrl
        self.decoder = decoder
        self.is_nn_form = ctrl.mac_load == MacLoad.NN
        self.is_cu_form = ctrl.mac_load == MacLoad.CU
        self.is_pair = decoder.pair.valid if config.mac_load_pair else Const(0)
        self.loads_parameter = decoder.requantise.load if config.requantise else Const(0)
        self.requantises = decoder.requantise.valid if config.requantise else Const(0)
        self.is_exact = self.requantises & ctrl.ex.mult.a_signed if config.requantise_exact else Const(0)
        self.multiplies_on_arrays = ctrl.ex.unit == Unit.MULT if config.multiplies_by_dotp else Const(0)
        self.excepted = Signal(name="excepted")  # the instruction raises an exception, as the ID stage decides

    @property
    def accesses_csr(self) -> Value:
        return self.ctrl.csr != CsrOp.NONE

    @property
    def writes_csr(self) -> Value:
        """True if the instruction writes its CSR; set and clear with x0 or a zero immediate only read it."""
        return (self.ctrl.csr == CsrOp.WRITE) | self.fields.rs1.any()
