"""Options of the ID stage: hazards, operands and fields of the ID/EX register that a configuration adds.

Every option is a subclass of :class:`IdOption`; the stage calls the methods of the options that are configured.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from xpulpnn.component import assign_by_name, optional
from xpulpnn.core.control import MacLoad, System, Unit, WriteSel
from xpulpnn.core.csr_file import NN_ENTRY_BITS
from xpulpnn.core.decoded_insn import DecodedInsn
from xpulpnn.core.early_alu import is_early, takes_two_cycles
from xpulpnn.core.insn_word import NnSelector, operand
from xpulpnn.core.mult import MultOp
from xpulpnn.core.requantiser import lane_of
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.dotp.widener import WeightWidener
from xpulpnn.isa.csr import NN_BASE
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT

_DRET_BIT = 5  # bit of funct7 that is 1 in dret and 0 in mret


class IdOption:
    """Base class of the options; a method that an option does not override adds nothing."""

    def __init__(self, m: Module, stage, insn: DecodedInsn):
        self.m, self.stage, self.config, self.id_ex = m, stage, stage.config, stage.id_ex
        self.insn, self.ctrl = insn, insn.ctrl

    def hazards(self) -> list[Value]:
        """Return conditions in which the instruction waits for a value from WB, counted as load-use stalls."""
        return []

    def reads_loaded_entry(self) -> list[Value]:
        """Return conditions in which the instruction reads the NN-RF entry that the instruction in EX may load."""
        return []

    def waits_for_older(self) -> list[Value]:
        """Return conditions in which the instruction in ID waits until all older instructions are complete."""
        return []

    def illegal(self) -> list[Value]:
        return []

    def accesses(self) -> list[Value]:
        """Return conditions in which an instruction accesses memory although its load and store control bits are 0."""
        return []

    def uses_alu(self) -> list[Value]:
        """Return conditions in which the ALU also uses the operands of a multiplication or dot product."""
        return []

    def select_writes(self, ex_write: Value, wb_write: Value) -> tuple[Value, Value]:
        """Return the destinations of write ports B and A; an option may exchange the two ports."""
        return ex_write, wb_write

    def enable_writes(self, ex_we: Value, wb_we: Value, wb_addr: Value) -> tuple[Value, Value]:
        """Return the write enables of write ports B and A."""
        return ex_we, wb_we

    def select_factors(self, op_b: Value) -> None:
        """Override the factors of dot products."""

    def load(self) -> None:
        """Load the fields of the ID/EX register that the option adds; called where the instruction is issued."""

    def drive(self, issues: Value) -> None:
        """Add other logic that depends on ``issues``, the signal that an instruction moves to EX."""


class Debug(IdOption):
    """Debug mode: mret is illegal in debug mode, and dret, which leaves debug mode, outside of it."""

    def illegal(self):
        return [(self.ctrl.system == System.MRET) & (self.insn.fields.funct7[_DRET_BIT] ^ self.stage.debug_mode)]


class NnCsrs(IdOption):
    def waits_for_older(self):
        is_entry = operand(self.insn.word, "csr")[NN_ENTRY_BITS:] == NN_BASE >> NN_ENTRY_BITS
        return [self.insn.accesses_csr & is_entry]


class PerformanceCounters(IdOption):
    def load(self):
        self.m.d.sync += self.id_ex.elw.eq(self.ctrl.elw)


class LateResults(IdOption):
    """All results except sums and logic are written by WB; port B then writes the base of a Mac&Load."""

    def __init__(self, m, stage, insn):
        super().__init__(m, stage, insn)
        is_early_result = (self.ctrl.ex.unit == Unit.ALU) & is_early(self.ctrl.ex.alu)
        self.is_late = (self.ctrl.ex_write == WriteSel.RD) & ~is_early_result

    def select_writes(self, ex_write, wb_write):
        return Mux(self.is_late, wb_write, ex_write), Mux(self.is_late, ex_write, wb_write)

    def load(self):
        ctrl = self.ctrl.ex
        slow = (ctrl.unit == Unit.MULT) | (ctrl.unit == Unit.DIV)
        if self.config.xpulpv2:
            slow |= (ctrl.unit == Unit.ALU) & takes_two_cycles(ctrl.alu)
        self.m.d.sync += [self.id_ex.late.eq(self.is_late), self.id_ex.slow.eq(slow)]


class DotpOperands(IdOption):
    """Format, signs and factors of the last dot product, held in the ID/EX register."""

    def drive(self, issues):
        stage, id_ex = self.stage, self.id_ex
        with self.m.If(stage.dotp_enable):
            if not self.config.multiplies_by_dotp:
                self.m.d.sync += assign_by_name(
                    id_ex, stage.dotp_ctrl, "fmt", "a_signed", "b_signed", to_prefix="dotp_"
                )
            self.m.d.sync += assign_by_name(id_ex, stage, "dotp_a", "dotp_b")


class ArrayMultiplier(IdOption):
    """Multiplications on the multiplier arrays of the dot-product units; WB writes upper words and shifted products."""

    def enable_writes(self, ex_we, wb_we, wb_addr):
        in_wb = self.ctrl.ex.mult.op.as_value().any()
        return ex_we & ~in_wb, wb_we | (in_wb & wb_addr.any())

    def select_factors(self, op_b):
        dotp, mult, selected = self.ctrl.ex.dotp, self.ctrl.ex.mult, self.stage.dotp_ctrl
        self.m.d.comb += [
            selected.a_signed.eq(dotp.a_signed | mult.a_signed),
            selected.b_signed.eq(dotp.b_signed | mult.b_signed),
        ]

    def drive(self, issues):
        m, id_ex, ctrl, mult = self.m, self.id_ex, self.stage.dotp_ctrl, self.ctrl.ex.mult
        is_mult, is_pair = self.insn.multiplies_on_arrays, self.insn.is_pair
        array_format = Signal(ArrayFormat, name="id_dotp_format")
        chosen = Cat(ctrl.fmt == fmt for fmt in ElemFmt)
        is_word = is_mult & (mult.op != MultOp.HALF)
        both = is_word | is_pair
        m.d.comb += [
            array_format.chosen.eq(chosen),
            array_format.a_signed.eq(chosen & ctrl.a_signed.replicate(len(chosen))),
            array_format.b_signed.eq(chosen & ctrl.b_signed.replicate(len(chosen))),
        ]
        with m.If(self.stage.dotp_enable):
            m.d.sync += [
                id_ex.dotp_format.eq(array_format),
                id_ex.dotp_form.scalar.eq(is_mult),
                id_ex.dotp_form.word.eq(is_word),
                id_ex.dotp_form.lower.eq(both | (is_mult & ~mult.upper)),
                id_ex.dotp_form.upper.eq(both | mult.upper),
            ]
            # only if the second unit is used
            with m.If(is_mult | is_pair):
                m.d.sync += id_ex.dotp2_format.eq(array_format)


class MacLoads(IdOption):
    """Mac&Load of one product, which reads the NN-RF in ID and reloads an entry from WB."""

    def __init__(self, m, stage, insn):
        super().__init__(m, stage, insn)
        self.selector = data.View(NnSelector, operand(insn.word, "nnimm5"))
        self.first_weight = FIRST_WEIGHT if self.config.mac_load_nn else 0
        self.reloads = Signal(name="reload")
        updates = self.selector.reloads_activation | self.selector.reloads_weight
        m.d.comb += self.reloads.eq(insn.is_cu_form | (insn.is_nn_form & updates))
        self.read_entries()

    def read_entries(self):
        """Address the read ports of the NN-RF; the address is 0 if the instruction does not read it."""
        insn, selector = self.insn, self.selector
        by_selector = (insn.is_nn_form | insn.is_pair).replicate(2)
        by_name = insn.is_cu_form.replicate(2)
        weight = (selector.weight & by_selector) | (insn.fields.funct7[:2] & by_name)
        self.m.d.comb += self.stage.nn_wgt_addr[:2].eq(weight)
        if self.config.mac_load_nn:
            activation = selector.activation & insn.is_nn_form
            pair = selector.activation & insn.is_pair
            self.m.d.comb += self.stage.nn_act_addr.eq(Cat(activation, pair))

    def reads_loaded_entry(self):
        insn, loaded = self.insn, self.id_ex.nn_addr
        reads_weight = insn.is_nn_form | insn.is_pair | insn.is_cu_form
        reads = reads_weight & (loaded == self.stage.nn_wgt_addr + self.first_weight)
        if self.config.mac_load_nn:
            reads |= insn.is_nn_form & (loaded == self.selector.activation)
        return [reads]

    def accesses(self):
        return [self.reloads]

    def uses_alu(self):
        return [self.reloads]

    def enable_writes(self, ex_we, wb_we, wb_addr):
        is_mac_load = self.insn.is_nn_form | self.insn.is_cu_form
        if self.config.late_results:
            return ex_we & (~is_mac_load | self.reloads), wb_we
        fields = self.insn.fields
        return ex_we, wb_we & (~is_mac_load | (self.reloads & (fields.rs1 != fields.rd)))

    def select_factors(self, op_b):
        m, stage, dotp = self.m, self.stage, self.ctrl.ex.dotp
        if self.config.mac_load_cu:
            with m.If(self.insn.is_cu_form):
                m.d.comb += [stage.dotp_a.eq(stage.rs2), stage.dotp_b.eq(stage.nn_wgt)]
        if self.config.mac_load_nn:
            with m.If(self.insn.is_nn_form):
                m.d.comb += [stage.dotp_a.eq(stage.nn_act), stage.dotp_b.eq(stage.nn_wgt)]
        # the activation is factor a of the unit and factor b of the instruction
        with m.If((self.ctrl.mac_load != MacLoad.NONE) | self.insn.is_pair):
            m.d.comb += [stage.dotp_ctrl.a_signed.eq(dotp.b_signed), stage.dotp_ctrl.b_signed.eq(dotp.a_signed)]

    def load(self):
        m, id_ex = self.m, self.id_ex
        entry = self.stage.nn_wgt_addr + self.first_weight
        if self.config.mac_load_nn:
            # both update bits reload the activation that the product does not use
            other = self.selector.reloads_weight if self.config.mac_load_cross else Const(0, 1)
            reloads_activation = self.insn.is_nn_form & self.selector.reloads_activation
            entry = Mux(reloads_activation, self.selector.activation ^ other, entry)
        m.d.sync += id_ex.nn_we.eq(self.reloads)
        with m.If(self.reloads):
            m.d.sync += id_ex.nn_addr.eq(entry)

    def drive(self, issues):
        if not self.config.late_results:
            loads_otherwise = optional(self.id_ex, "pair")
            if self.config.requantise:
                loads_otherwise |= self.id_ex.requantise.load
            self.m.d.comb += self.id_ex.wb_base.eq(self.id_ex.nn_we & ~loads_otherwise)


class MacLoadPairs(IdOption):
    """Mac&Load of two products: reads the second sum, and extends weights to the format of the activations."""

    def __init__(self, m, stage, insn):
        super().__init__(m, stage, insn)
        self.is_pair = insn.is_pair
        self.later = operand(insn.word, "p")

    def reads_loaded_entry(self):
        return [self.is_pair & (self.id_ex.nn_addr[1:] == Cat(Const(0, 2), self.later))]

    def select_factors(self, op_b):
        stage, is_stored = self.stage, (self.ctrl.mac_load != MacLoad.NONE) | self.is_pair
        if self.config.reads_factor:
            is_stored |= self.insn.requantises
        # one multiplexer behind the operand, which is late
        stored = Signal(32, name="stored_factor")
        self.m.d.comb += [
            stored.eq(Mux(self.is_pair, self.weights(), stage.nn_wgt)),
            stage.dotp_b.eq(Mux(is_stored, stored, op_b)),
        ]
        with self.m.If(self.is_pair):
            self.m.d.comb += stage.dotp_a.eq(stage.nn_act)

    def weights(self) -> Value:
        if not self.config.mixed_weights:
            return self.stage.nn_wgt
        self.m.submodules.widener = widener = WeightWidener()
        dotp, fields = self.ctrl.ex.dotp, self.insn.fields
        self.m.d.comb += [
            widener.word.eq(self.stage.nn_wgt),
            widener.fmt.eq(dotp.fmt),
            *assign_by_name(widener, self.insn.decoder.pair, "half", "quarter"),
            widener.part.eq(Cat(fields.funct3[0], fields.funct7[0])),
            widener.is_signed.eq(dotp.a_signed),
        ]
        return widener.result

    def load(self):
        m, id_ex = self.m, self.id_ex
        m.d.sync += id_ex.pair.eq(self.is_pair)
        with m.If(self.is_pair & id_ex.pair & id_ex.lsu.valid):
            # the instruction in EX increments its base by the same value
            m.d.sync += [id_ex.op_b.eq(id_ex.op_b), id_ex.ctrl.alu.eq(id_ex.ctrl.alu)]
        with m.If(self.is_pair):
            m.d.sync += id_ex.later_pair.eq(self.later)
        with m.If(self.is_pair & self.ctrl.rs2_used):
            m.d.sync += id_ex.second_sum.eq(self.stage.rs2)
        with m.If(self.is_pair & self.ctrl.lsu.valid):
            m.d.sync += [id_ex.nn_we.eq(1), id_ex.nn_addr.eq(operand(self.insn.word, "t"))]


class Requantisation(IdOption):
    """pv.rqld, which loads a parameter into the NN-RF, and pv.rq*, which wait for the parameter."""

    def __init__(self, m, stage, insn):
        super().__init__(m, stage, insn)
        if self.config.reads_factor:
            # the factor is stored behind the weights
            m.d.comb += stage.nn_wgt_addr[2].eq(insn.requantises)

    def reads_loaded_entry(self):
        return [self.insn.requantises & self.id_ex.requantise.load]

    def load(self):
        m, id_ex, insn = self.m, self.id_ex, self.insn
        lane = lane_of(insn.word, insn.is_exact)
        m.d.sync += [id_ex.requantise.eq(insn.decoder.requantise), id_ex.lane.eq(lane)]
        with m.If(insn.loads_parameter):
            m.d.sync += [id_ex.nn_we.eq(1), id_ex.nn_addr.eq(FIRST_PARAMETER + operand(insn.word, "uimm1"))]


class ExactRequantisation(IdOption):
    """pv.rqx*: the target adder adds rs1 and the summand; operand b is the word with shift and zero point."""

    def hazards(self):
        stage = self.stage
        return [self.insn.is_exact & (stage.awaits_write(self.insn.fields.rs1) | stage.summand_pending)]

    def uses_alu(self):
        return [self.insn.requantises]


class Quantisation(IdOption):
    """pv.qnt, for which the quantiser accesses memory."""

    def drive(self, issues):
        quantise = self.insn.decoder.quantise
        with self.m.If(self.stage.issue & ~self.insn.excepted):
            self.m.d.sync += self.id_ex.quantise.eq(quantise)
        with self.m.If(quantise.valid):
            self.m.d.comb += self.stage.intent.accesses.eq(issues)


ID_OPTIONS = {
    "debug": Debug,
    "nn_csrs": NnCsrs,
    "dotp_operands_in_id": DotpOperands,
    "multiplies_by_dotp": ArrayMultiplier,
    "mac_load": MacLoads,
    "mac_load_pair": MacLoadPairs,
    "requantise": Requantisation,
    "requantise_exact": ExactRequantisation,
    "late_results": LateResults,
    "performance_counters": PerformanceCounters,
    "qnt": Quantisation,
}
"""Options by the configuration property that enables them; if several drive a signal, the last one wins."""
