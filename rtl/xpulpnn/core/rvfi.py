"""Retirement port for verification, in the manner of the RISC-V Formal Interface."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, PortSignature, follow_case, signals
from xpulpnn.core.control import MemSize
from xpulpnn.core.insn_word import InsnWord
from xpulpnn.core.pipeline import RetireInfoSignature
from xpulpnn.isa.machine import BYTE_BITS, MACHINE_MODE, ExceptionCause
from xpulpnn.isa.retirement import MEANINGS, ORDER_BITS, WaitCause, port_widths


class RvfiSignature(PortSignature):
    """Retirement port: the fields of :mod:`xpulpnn.isa.retirement`.

    Instructions retire in program order, one in each cycle with ``valid``. In every other cycle after reset ``wait`` is
    the cause of the stall. A back end without a front end reports ``pc_wdata`` of branches only, no ``intr``, and
    compressed instructions expanded in ``insn``.
    """

    PORT_MEANINGS = MEANINGS

    def __init__(self, *, pairs: bool = False):
        super().__init__({name: Out(width) for name, width in port_widths(pairs=pairs).items()})


class RvfiTap(Component):
    """Follows every instruction from ID to the end of WB and reports it, without effect on the pipeline."""

    def __init__(self, *, pairs: bool = False, debug: bool = False):
        ports = {
            "id_issue": In(1),  #: An instruction leaves ID; ``id_*`` describe it.
            #: id_insn, id_compressed, id_pc, id_trap, id_cause, id_rs1, id_rs2, id_rd, id_act, id_wgt: Expanded word,
            #:   whether it was compressed, address, exception and its cause, operands.
            "id_insn": In(32),
            "id_compressed": In(1),
            "id_pc": In(32),
            "id_trap": In(1),
            "id_cause": In(5),
            "id_info": In(RetireInfoSignature()),  #: Facts from the front end.
            "id_rs1": In(32),
            "id_rs2": In(32),
            "id_rd": In(32),
            "id_act": In(32),
            "id_wgt": In(32),
            #: ex_ready: EX passes on its content (``ex_*``) and accepts the content of ID (``id_*``), bubbles included.
            "ex_ready": In(1),
            #: ex_taken, ex_target: A branch is taken, and its target.
            "ex_taken": In(1),
            "ex_target": In(32),
            #: ex_we, ex_is_base, ex_addr, ex_data: Write of port B.
            "ex_we": In(1),
            "ex_is_base": In(1),
            "ex_addr": In(5),
            "ex_data": In(32),
            #: ex_access, ex_store, ex_size, ex_mem_addr, ex_wdata: Memory access.
            "ex_access": In(1),
            "ex_store": In(1),
            "ex_size": In(MemSize),
            "ex_mem_addr": In(32),
            "ex_wdata": In(32),
            "wb_leave": In(1),  #: WB is done with its content, which ``wb_*`` describe.
            #: wb_we, wb_is_base, wb_addr, wb_data: Write of port A.
            "wb_we": In(1),
            "wb_is_base": In(1),
            "wb_addr": In(5),
            "wb_data": In(32),
            #: fault, fault_store: The access in WB, or in EX if WB is empty, faults in this cycle; it is a store. The
            #:   fault is reported in the next cycle.
            "fault": In(1),
            "fault_store": In(1),
            "wb_rdata": In(32),  #: Loaded value after extension.
            #: wb_nn_we, wb_nn_addr: NN-RF write.
            "wb_nn_we": In(1),
            "wb_nn_addr": In(3 + pairs),
            "wait_cause": In(WaitCause),  #: Cause of a cycle without retirement.
            "rvfi": Out(RvfiSignature(pairs=pairs)),  #: Retirement port.
        }
        if pairs:
            #: id_pair: The instruction is a Mac&Load of two products; only with ``mac_load_pair``.
            #: wb_pair, wb_odd: Port A also writes the odd register of a pair, and its value; only with
            #:   ``mac_load_pair``.
            ports |= {"id_pair": In(1), "wb_pair": In(1), "wb_odd": In(32)}
        if debug:
            #: drop: The content of EX, and of WB if it does not leave, is dropped without a report; only with debug
            #:   mode.
            ports["drop"] = In(1)
        self.pairs, self.debug = pairs, debug
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        widths = port_widths(pairs=self.pairs)
        ex_valid, wb_valid = signals(1, "ex_valid wb_valid")
        id_values = self._id_values()
        in_ex = {name: Signal(widths[name], name=f"ex_{name}") for name in id_values}
        with m.If(self.ex_ready):
            m.d.sync += ex_valid.eq(self.id_issue)
            m.d.sync += [in_ex[name].eq(value) for name, value in id_values.items()]
        ex_values = self._ex_values(m, in_ex)
        in_wb = {name: Signal(widths[name], name=f"wb_{name}") for name in ex_values}
        with m.If(self.ex_ready):
            m.d.sync += wb_valid.eq(ex_valid)
            m.d.sync += [in_wb[name].eq(value) for name, value in ex_values.items()]
        with m.Elif(self.fault):
            load, store = ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT
            excepted = {
                "trap": Const(1),
                "cause": Mux(self.fault_store, store, load),
                "pc_wdata": self.id_info.handler,
                **dict.fromkeys(("rd_we", "base_we", "mem_rmask", "mem_wmask"), Const(0)),
            }
            m.d.sync += [ex_valid.eq(0), wb_valid.eq(1)]
            m.d.sync += [in_wb[name].eq(value) for name, value in excepted.items()]
            # these registers have no assignment after an If that assigns them: Yosys 0.70 would execute it before the
            # If
            with m.If(~wb_valid):
                m.d.sync += [in_wb[name].eq(value) for name, value in ex_values.items() if name not in excepted]
        with m.Elif(self.wb_leave):
            m.d.sync += wb_valid.eq(0)
        if self.debug:
            with m.If(self.drop):
                m.d.sync += [ex_valid.eq(0), wb_valid.eq(0)]
        m.d.comb += self.rvfi.valid.eq(wb_valid & self.wb_leave)
        m.d.comb += self.rvfi.wait.eq(Mux(self.rvfi.valid, WaitCause.NONE, self.wait_cause))
        reported = self._reported(m, in_wb)
        m.d.comb += [getattr(self.rvfi, name).eq(reported[name]) for name in widths if name in reported]
        return m

    def _id_values(self):
        info, fields = self.id_info, data.View(InsnWord, self.id_insn)
        rs2 = fields.rs2
        if self.pairs:
            # the second sum is read instead of rs2
            rs2 = Mux(self.id_pair, Cat(Const(1), fields.rd[1:]), rs2)
        return {
            "insn": Mux(self.id_compressed, info.raw, self.id_insn),
            "rs1_addr": fields.rs1,
            "rs2_addr": rs2,
            "pc_rdata": self.id_pc,
            "pc_wdata": info.next_pc,
            "trap": self.id_trap,
            "intr": info.intr,
            "cause": Mux(self.id_trap, self.id_cause, Cat(info.intr_id, info.intr)),
            "rs1_rdata": self.id_rs1,
            "rs2_rdata": self.id_rs2,
            "rd_rdata": self.id_rd,
            "nn_act_rdata": self.id_act,
            "nn_wgt_rdata": self.id_wgt,
        }

    def _ex_values(self, m, in_ex):
        mask = Signal(4)
        follow_case(m, mask, self.ex_size, {size: (1 << (1 << size.value)) - 1 for size in MemSize})
        return in_ex | {
            "pc_wdata": Mux(self.ex_taken, self.ex_target, in_ex["pc_wdata"]),
            "rd_we": self.ex_we & ~self.ex_is_base,
            "rd_addr": self.ex_addr,
            "rd_wdata": self.ex_data,
            "base_we": self.ex_we & self.ex_is_base,
            "base_addr": self.ex_addr,
            "base_wdata": self.ex_data,
            "mem_addr": self.ex_mem_addr,
            "mem_rmask": Mux(self.ex_access & ~self.ex_store, mask, 0),
            "mem_wmask": Mux(self.ex_access & self.ex_store, mask, 0),
            "mem_wdata": self.ex_wdata,
        }

    def _reported(self, m, in_wb):
        raw = Signal(32)
        order = Signal(ORDER_BITS)
        m.d.comb += raw.eq(self.wb_rdata & Cat(loaded.replicate(BYTE_BITS) for loaded in in_wb["mem_rmask"]))
        with m.If(self.rvfi.valid):
            m.d.sync += order.eq(order + 1)
        # a restored register after an access fault is not reported as a write
        late = self.wb_we & ~in_wb["trap"]
        late_rd, late_base = late & ~self.wb_is_base, late & self.wb_is_base
        pair = {"rd2_we": late & self.wb_pair, "rd2_wdata": self.wb_odd} if self.pairs else {}
        return in_wb | {
            "rd_we": in_wb["rd_we"] | late_rd,
            "rd_addr": Mux(late_rd, self.wb_addr, in_wb["rd_addr"]),
            "rd_wdata": Mux(late_rd, self.wb_data, in_wb["rd_wdata"]),
            "base_we": in_wb["base_we"] | late_base,
            "base_addr": Mux(late_base, self.wb_addr, in_wb["base_addr"]),
            "base_wdata": Mux(late_base, self.wb_data, in_wb["base_wdata"]),
            "mem_rdata": raw,
            "nn_we": self.wb_nn_we,
            "nn_addr": self.wb_nn_addr,
            "nn_wdata": raw,
            "order": order,
            "halt": Const(0),
            "mode": Const(MACHINE_MODE),
            "ixl": Const(1),
            **pair,
        }
