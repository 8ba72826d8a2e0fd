"""EX stage: ALU, multiplier, divider, dot-product unit, NN-RF and quantiser."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.config import CoreConfig
from xpulpnn.core.alu import Alu
from xpulpnn.core.control import ExCtrl, Unit
from xpulpnn.core.div import Divider
from xpulpnn.core.early_alu import EarlyAlu
from xpulpnn.core.mult import MultOp
from xpulpnn.core.product_unit import ProductForm
from xpulpnn.core.quantiser import Quantiser, QuantiserCtrl
from xpulpnn.core.wide_mult import multiplier_of
from xpulpnn.dotp.ctrl import ArrayFormat, DotpCtrl
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import HALF_BITS


class ExStage(Component):
    """Execution units with one result port.

    Operands come from the ID/EX pipeline register and stay until ``advance``. Everything takes one cycle except mulh*
    (5) and division (3 to 35). With a Mac&Load the dot product is the ``result`` while the ALU adds 4 to the base.
    The instruction in ID reads the NN-RF, in time to register the factors like any operand, and WB writes it.
    Reset clears the NN-RF and makes the multi-cycle units idle.

    Parameters
    ----------
    config : CoreConfig
        Units and formats present.
    """

    def __init__(self, config: CoreConfig):
        ports = {
            "valid": In(1),  #: EX holds an instruction.
            #: ctrl: Unit whose result leaves EX, and control words of the units.
            "ctrl": In(ExCtrl),
            "op_a": In(32),  #: First operand: rs1, pc or the base of an access.
            "op_b": In(32),  #: Second operand: rs2, an immediate or an offset.
            "op_c": In(32),  #: Third operand: the old rd of accumulating and inserting instructions.
            "shamt": In(5),  #: Shift amount of normalising sums and products.
            "advance": In(1),  #: The instruction leaves EX at the end of this cycle; only with ``done``.
            "csr_rdata": In(32),  #: Old value of the accessed CSR, the result of a CSR instruction.
            "done": Out(1),  #: ``result`` is valid: the instruction may leave EX.
            "result": Out(32),  #: Result of the instruction, for write port B of the register file.
            #: sum: Sum of operands a and b, from the ALU: the address of an access, or the incremented base.
            "sum": Out(32),
            "comparison": Out(1),  #: Result of the ALU's comparison: the branch decision.
        }
        ports |= self._dotp_ports(config) | self._nnrf_ports(config) | self._result_ports(config)
        super().__init__(config, ports)

    @staticmethod
    def _dotp_ports(config):
        ports = {}
        if config.widths and config.dotp_operands_in_id:
            #: dotp_fmt: Element format of the dot product in EX. Without a dot product it should be stable, like the
            #:   signs and factors, to keep the unit quiet. Only without operand registers in the dot-product unit.
            #: dotp_a_signed: The elements of factor a of the dot product in EX are signed.
            #: dotp_b_signed: The elements of factor b of the dot product in EX are signed.
            if config.multiplies_by_dotp:
                #: dotp_format, dotp2_format: Format and signs of the two dot-product units, decoded.
                #: dotp_form: Type of the factors: lanes of a dot product, words or half-words.
                ports |= {name: In(ArrayFormat) for name in ("dotp_format", "dotp2_format")}
                ports["dotp_form"] = In(ProductForm)
            else:
                ports |= {"dotp_fmt": In(ElemFmt), "dotp_a_signed": In(1), "dotp_b_signed": In(1)}
            #: dotp_a: Packed factor a of the dot product in EX: rs1, or the activation of a Mac&Load.
            #: dotp_b: Packed factor b of the dot product in EX: operand 2, or the weight of a Mac&Load.
            ports |= {"dotp_a": In(32), "dotp_b": In(32)}
        elif config.widths:
            #: id_dotp_enable: The instruction leaving ID is a dot product, whose factors are sampled at the end of the
            #:   cycle. Only with operand registers in the dot-product unit.
            #: id_dotp_ctrl: Format and signs of the dot product leaving ID, and whether it accumulates.
            #: id_dotp_a: Packed factor a of the dot product leaving ID: rs1, or the activation of a Mac&Load.
            #: id_dotp_b: Packed factor b of the dot product leaving ID: operand 2, or the weight of a Mac&Load.
            ports |= {"id_dotp_enable": In(1), "id_dotp_ctrl": In(DotpCtrl), "id_dotp_a": In(32), "id_dotp_b": In(32)}
        return ports

    @staticmethod
    def _nnrf_ports(config):
        ports = {}
        if config.mac_load_nn:
            #: id_nn_act_addr: Activation entry of the NN-RF that the instruction in ID reads; only with the nn form of
            #:   Mac&Load.
            #: id_nn_act: Word of that activation entry, in the same cycle; the word being written to the entry, if
            #:   there is one.
            ports |= {"id_nn_act_addr": In(1 + config.mac_load_pair), "id_nn_act": Out(32)}
        if config.mac_load_pair:
            #: pair: The instruction in EX is a Mac&Load of two products; only with ``mac_load_pair``.
            #: later_pair: The activations of a Mac&Load of two products are entries 8 and 9.
            #: second_sum: Old value of the second sum of a Mac&Load of two products.
            #: first, second: Sums of a Mac&Load of two products; the first is 0 for other instructions.
            ports |= {"pair": In(1), "later_pair": In(1), "second_sum": In(32), "first": Out(32), "second": Out(32)}
        if config.mac_load:
            #: id_nn_wgt_addr: Weight entry of the NN-RF that the instruction in ID reads; only with Mac&Load.
            #: id_nn_wgt: Word of that weight entry, in the same cycle; the word being written to the entry, if there is
            #:   one.
            ports |= {"id_nn_wgt_addr": In(config.nn_wgt_addr_bits), "id_nn_wgt": Out(32)}
            #: wb_nn_we: Write of an NN-RF entry by a load in WB, at the end of the cycle; only with Mac&Load.
            #: wb_nn_addr: Entry of the NN-RF written: activations 0 and 1, weights 2 to 5; with four entries weights 0
            #:   to 3.
            #: wb_nn_data: Word written to the NN-RF.
            ports |= {"wb_nn_we": In(1), "wb_nn_addr": In(config.nn_addr_bits), "wb_nn_data": In(32)}
        if config.nn_csrs:
            #: nn_csr_addr: Entry of the NN-RF that a CSR instruction accesses; only with ``nn_csrs``.
            #: nn_csr_we, nn_csr_wdata: A CSR instruction writes the entry, and the word; only with ``nn_csrs``.
            #: nn_csr_rdata: Word of the entry that a CSR instruction accesses; only with ``nn_csrs``.
            ports |= {"nn_csr_addr": In(config.nn_addr_bits), "nn_csr_we": In(1), "nn_csr_wdata": In(32)}
            ports["nn_csr_rdata"] = Out(32)
        return ports

    @staticmethod
    def _result_ports(config):
        """Return the ports for quantisation, requantisation and the results that WB writes."""
        ports = {}
        if config.qnt:
            #: quantise: Control word of the quantiser, whose result replaces that of ``ctrl``'s unit and takes 9 cycles
            #:   or 5; only with ``qnt``.
            #: threshold_request: The quantiser requests a threshold; only with ``qnt``.
            #: threshold_address: Address of the threshold; only with ``qnt``.
            ports |= {"quantise": In(QuantiserCtrl), "threshold_request": Out(1), "threshold_address": Out(32)}
            #: threshold_granted: The request of the quantiser is granted; only with ``qnt``.
            #: threshold_answered: The threshold granted last has arrived, or none is outstanding; only with ``qnt``.
            #: threshold: Value of the threshold that has arrived; only with ``qnt``.
            ports |= {"threshold_granted": In(1), "threshold_answered": In(1), "threshold": In(HALF_BITS)}
        if config.requantise:
            #: requantise: The instruction is pv.rq*: the multiplier takes factor and summand from entries 6 and 7 of
            #:   the NN-RF. Only with ``requantise``.
            #: product: Sum of pv.rq*, to be shifted and clipped in WB; 0 for other instructions; only with
            #:   ``requantise``.
            ports |= {"requantise": In(1), "product": Out(32)}
        if config.requantise_exact:
            #: id_nn_lambda: Entry 7 of the NN-RF, for the instruction in ID; only with ``requantise_exact``.
            ports["id_nn_lambda"] = Out(32)
        if config.late_results:
            #: slow: The instruction takes several cycles; only with late results.
            #: late_result: Late result of the instruction for write port A, which is then not ``result``; only with
            #:   late results.
            ports |= {"slow": In(1), "late_result": Out(32)}
            #: late_product: Result of the multiplier, selected in WB; 0 for other instructions; only with late results.
            ports["late_product"] = Out(32)
            #: late_dotp: Result of a dot product, selected in WB; 0 for other instructions; only with late results.
            ports |= {name: Out(32) for name in config.late_result_names[1:]}
        if config.has_whole_products:
            #: upper: Upper word of a 64-bit product, of mulh* or to be requantised; 0 for other instructions.
            ports["upper"] = Out(32)
        return ports

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = Alu(self.config)
        m.submodules.mult = mult = multiplier_of(self.config)
        m.submodules.div = div = Divider()
        m.d.comb += [
            alu.ctrl.eq(self.ctrl.alu),
            *assign_by_name(alu, self, "op_a", "op_b", "op_c", "shamt"),
            mult.ctrl.eq(self.ctrl.mult),
            div.ctrl.eq(self.ctrl.div),
            *assign_by_name(div, self, "op_a", "op_b"),
            div.start.eq(self.valid & (self.ctrl.unit == Unit.DIV)),
            div.take.eq(self.advance),
            self.done.eq(1),
        ]
        early: Any = alu
        if self.config.late_results:
            m.submodules.early_alu = early = EarlyAlu()
            m.d.comb += [*assign_by_name(early, self, "op_a", "op_b"), early.ctrl.eq(self.ctrl.alu)]
            m.d.comb += self.result.eq(early.result)
            self._end_slow(m, mult, div)
        m.d.comb += assign_by_name(self, early, "sum", "comparison")
        takes_upper = [self.requantise & self.ctrl.mult.a_signed] if self.config.requantise_exact else []
        multiply = self._multiply_on_arrays if self.config.multiplies_by_dotp else self._multiply_apart
        takes_upper += multiply(m, alu, mult, div)
        if self.config.qnt:
            self._quantiser(m)
        if self.config.requantise:
            # masked, to keep the register behind it quiet during other products
            m.d.comb += [
                mult.requantise.eq(self.valid & self.requantise),
                self.product.eq(mult.result & self.requantise.replicate(32)),
            ]
        if takes_upper:
            m.d.comb += self.upper.eq(mult.upper & reduce(or_, takes_upper).replicate(32))
        return m

    def _end_slow(self, m, mult, div):
        done = [mult.done, div.done]
        if self.config.xpulpv2:
            # the ALU needs two cycles for its slow operations
            begun = Signal()
            m.d.sync += begun.eq(self.valid & self.slow & (self.ctrl.unit == Unit.ALU) & ~self.advance)
            done.append(begun)
        m.d.comb += self.done.eq(~self.slow | Cat(done).any())

    def _multiply_on_arrays(self, m, alu, mult, div):
        """Select the result if ``ProductUnit`` makes all products; return the conditions for using the upper word."""
        nnrf = self._nnrf(m)
        m.d.comb += [
            *assign_by_name(mult, self, "dotp_form", "dotp_format", "dotp2_format", "dotp_a", "dotp_b"),
            mult.dotp_accumulate.eq(self.ctrl.dotp.accumulate),
            *assign_by_name(mult, self, "pair", "second_sum", "op_c", "shamt"),
            self.first.eq(mult.first & self.pair.replicate(32)),
            nnrf.act2_addr.eq(self.later_pair),
            mult.act2.eq(nnrf.act2),
            self.second.eq(mult.second),
        ]
        if self.config.requantise:
            m.d.comb += mult.nn_lambda.eq(nnrf.nn_lambda)
        early = {Unit.DOTP: mult.first, Unit.DIV: div.result, Unit.CSR: self.csr_rdata}
        self._choose(m, {Unit.ALU: alu.result, Unit.DIV: div.result, **early}, {Unit.DIV: div.done})
        # the result has a separate AND-OR, which equalises the paths from the slowest units
        late = {Unit.ALU: alu.result, Unit.MULT: mult.result}
        late, early = (
            reduce(or_, (word & (self.ctrl.unit == unit).replicate(32) for unit, word in each.items()))
            for each in (late, early)
        )
        m.d.comb += self.result.eq(late | early)
        return [self.ctrl.mult.op == MultOp.HIGH]

    def _multiply_apart(self, m, alu, mult, div):
        """Select the result if the multiplier is separate from the dot-product units."""
        m.d.comb += [
            *assign_by_name(mult, self, "op_a", "op_b", "op_c", "shamt"),
            mult.start.eq(self.valid & (self.ctrl.unit == Unit.MULT)),
            mult.take.eq(self.advance),
        ]
        dotp_result, dotp_words = self._dotp(m) if self.config.widths else (Signal(32), [])
        if self.config.mac_load_pair:
            m.d.comb += self.first.eq(dotp_result & self.pair.replicate(32))
        if self.config.mac_load:
            nnrf = self._nnrf(m)
            if self.config.requantise:
                m.d.comb += assign_by_name(mult, nnrf, "nn_kappa", "nn_lambda")
            if self.config.mac_load_pair:
                self._second_dotp(m, nnrf)
        results = {Unit.ALU: alu.result, Unit.MULT: mult.result, Unit.DIV: div.result, Unit.DOTP: dotp_result}
        if self.config.late_results:
            products = [(Unit.MULT, mult.result), *((Unit.DOTP, word) for word in dotp_words)]
            for name, (unit, product) in zip(self.config.late_result_names, products, strict=True):
                # masked instead of multiplexed: Yosys shares multiplexed shifters across the units
                m.d.comb += getattr(self, name).eq(product & (self.ctrl.unit == unit).replicate(32))
                results[unit] = Const(0, 32)
        self._choose(m, {**results, Unit.CSR: self.csr_rdata}, {Unit.MULT: mult.done, Unit.DIV: div.done})
        return []

    def _choose(self, m, results, done):
        """Select the result of the active unit; without ``late_results`` also drive ``done``."""
        result = self.late_result if self.config.late_results else self.result
        with m.Switch(self.ctrl.unit):
            for unit, word in results.items():
                with m.Case(unit):
                    m.d.comb += result.eq(word)
                    if unit in done and not self.config.late_results:
                        m.d.comb += self.done.eq(done[unit])

    def _dotp(self, m):
        m.submodules.dotp = dotp = DotpUnit(self.config.dotp, apart=self.config.has_late_formats)
        m.d.comb += dotp.rd.eq(self.op_c)
        if self.config.dotp_operands_in_id:
            m.d.comb += [
                *assign_by_name(dotp.ctrl, self, "fmt", "a_signed", "b_signed", from_prefix="dotp_"),
                dotp.ctrl.accumulate.eq(self.ctrl.dotp.accumulate),
                dotp.rs1.eq(self.dotp_a),
                dotp.rs2.eq(self.dotp_b),
            ]
        else:
            m.d.comb += [
                *assign_by_name(dotp, self, "enable", "ctrl", from_prefix="id_dotp_"),
                dotp.rs1.eq(self.id_dotp_a),
                dotp.rs2.eq(self.id_dotp_b),
            ]
        return dotp.result, dotp.words

    def _second_dotp(self, m, nnrf):
        m.submodules.dotp2 = dotp = DotpUnit(self.config.dotp)
        second = dotp.result
        if self.config.requantise_exact:
            # the lower word of a product replaces the second sum
            second = (second & self.pair.replicate(32)) | self.product
        m.d.comb += [dotp.rd.eq(self.second_sum), self.second.eq(second)]
        if self.config.dotp_operands_in_id:
            # zero weight and old sum keep the unit quiet during other products
            m.d.comb += [
                *assign_by_name(dotp.ctrl, self, "fmt", "a_signed", "b_signed", from_prefix="dotp_"),
                dotp.ctrl.accumulate.eq(self.ctrl.dotp.accumulate & self.pair),
                # an older load of the entry has left WB; a younger one writes later
                nnrf.act2_addr.eq(self.later_pair),
                dotp.rs1.eq(nnrf.act2),
                dotp.rs2.eq(self.dotp_b & self.pair.replicate(32)),
            ]
        else:
            later = self.id_nn_act_addr[1]
            arrives = self.wb_nn_we & (self.wb_nn_addr == Cat(Const(1, 3), later))
            m.d.comb += [
                *assign_by_name(dotp, self, "enable", "ctrl", from_prefix="id_dotp_"),
                nnrf.act2_addr.eq(later),
                dotp.rs1.eq(Mux(arrives, self.wb_nn_data, nnrf.act2)),
                dotp.rs2.eq(self.id_dotp_b),
            ]

    def _quantiser(self, m):
        m.submodules.quantiser = quantiser = Quantiser(self.config)
        m.d.comb += [
            quantiser.start.eq(self.valid & self.quantise.valid),
            quantiser.crumbs.eq(self.quantise.crumbs),
            quantiser.pixels.eq(self.op_a),
            quantiser.middle.eq(self.op_b),
            *assign_by_name(quantiser, self, "granted", "answered", from_prefix="threshold_"),
            quantiser.threshold.eq(self.threshold),
            *assign_by_name(self, quantiser, "request", "address", to_prefix="threshold_"),
        ]
        with m.If(self.quantise.valid):
            m.d.comb += [self.result.eq(quantiser.result), self.done.eq(quantiser.done)]

    def _nnrf(self, m):
        m.submodules.nnrf = nnrf = NnRf(
            self.config.nnrf_entries,
            pairs=self.config.mac_load_pair,
            reads_factor=self.config.reads_factor,
            csrs=self.config.nn_csrs,
        )
        if self.config.nn_csrs:
            m.d.comb += [
                *assign_by_name(nnrf, self, "csr_addr", "csr_we", "csr_wdata", from_prefix="nn_"),
                self.nn_csr_rdata.eq(nnrf.csr_rdata),
            ]
        m.d.comb += [
            nnrf.wgt_addr.eq(self.id_nn_wgt_addr),
            self.id_nn_wgt.eq(nnrf.wgt),
            nnrf.we.eq(self.wb_nn_we),
            nnrf.waddr.eq(self.wb_nn_addr),
            nnrf.wdata.eq(self.wb_nn_data),
        ]
        if self.config.mac_load_nn:
            m.d.comb += [nnrf.act_addr.eq(self.id_nn_act_addr), self.id_nn_act.eq(nnrf.act)]
        if self.config.requantise_exact:
            m.d.comb += self.id_nn_lambda.eq(nnrf.nn_lambda)
        return nnrf
