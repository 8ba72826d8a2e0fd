"""Retirement port for verification, in the manner of the RISC-V Formal Interface."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.core.control import MemSize
from xpulpnn.core.pipeline import RetireInfoSignature

BYTE_BITS = 8

FIELDS = {
    "insn": 32,
    "raw": 32,
    "pc_rdata": 32,
    "pc_wdata": 32,
    "trap": 1,
    "intr": 1,
    "cause": 6,
    "rs1_rdata": 32,
    "rs2_rdata": 32,
    "rd_rdata": 32,
    "rd_we": 1,
    "rd_addr": 5,
    "rd_wdata": 32,
    "base_we": 1,
    "base_addr": 5,
    "base_wdata": 32,
    "mem_addr": 32,
    "mem_rmask": 4,
    "mem_wmask": 4,
    "mem_rdata": 32,
    "mem_wdata": 32,
    "nn_act_rdata": 32,
    "nn_wgt_rdata": 32,
    "nn_we": 1,
    "nn_addr": 3,
    "nn_wdata": 32,
}
"""Widths of the fields of a retirement record in bits."""


class RvfiSignature(wiring.Signature):
    """Retirement records, one instruction in a cycle with ``valid``, in program order.

    ``insn`` is the 32-bit instruction, compressed ones expanded, ``raw`` what was fetched. ``pc_wdata`` is the address
    of the next instruction. ``cause`` is mcause of a trap, its interrupt bit above the code; ``intr`` marks the first
    instruction of the handler of an interrupt. ``raw``, ``intr`` and ``pc_wdata`` of instructions other than branches
    come from the front end. ``rd_*`` is the write of the register in field rd, ``base_*`` that of the incremented base;
    ``rd_rdata`` the old register in field rd (accumulator or rs3). Memory masks and data count from the byte address
    ``mem_addr``, loaded data is raw and zero above its size. ``nn_*`` are the NN-RF factors and the reloaded entry. A
    field is meaningful only if the instruction has that effect.
    """

    def __init__(self):
        super().__init__({"valid": Out(1)} | {name: Out(width) for name, width in FIELDS.items()})


class RvfiTap(wiring.Component):
    """Follows every instruction from ID to the end of WB and reports it. Observes only.

    Members
    -------
    id_issue : In(1)
        An instruction leaves ID; ``id_*`` describe it.
    ex_ready : In(1)
        EX hands on what it holds (``ex_*``) and takes what ID offers (``id_*``), bubbles included.
    wb_leave : In(1)
        WB is done with what it holds; ``wb_*`` describe it.
    id_insn, id_pc, id_trap, id_cause, id_rs1, id_rs2, id_rd, id_act, id_wgt : In
        Word, address, exception and its cause, operands.
    id_info : In(RetireInfoSignature)
        What the front end knows.
    ex_taken, ex_target : In
        A branch is taken, and where to.
    ex_we, ex_is_base, ex_addr, ex_data : In
        Write of port B.
    ex_access, ex_store, ex_size, ex_mem_addr, ex_wdata : In
        Memory access.
    wb_we, wb_is_base, wb_addr, wb_data : In
        Write of port A.
    wb_rdata : In(32)
        Loaded value after extension.
    wb_nn_we, wb_nn_addr : In
        NN-RF write.
    rvfi : Out(RvfiSignature)
        Records.
    """

    id_issue: In(1)
    id_insn: In(32)
    id_pc: In(32)
    id_trap: In(1)
    id_cause: In(5)
    id_info: In(RetireInfoSignature())
    id_rs1: In(32)
    id_rs2: In(32)
    id_rd: In(32)
    id_act: In(32)
    id_wgt: In(32)
    ex_ready: In(1)
    ex_taken: In(1)
    ex_target: In(32)
    ex_we: In(1)
    ex_is_base: In(1)
    ex_addr: In(5)
    ex_data: In(32)
    ex_access: In(1)
    ex_store: In(1)
    ex_size: In(MemSize)
    ex_mem_addr: In(32)
    ex_wdata: In(32)
    wb_leave: In(1)
    wb_we: In(1)
    wb_is_base: In(1)
    wb_addr: In(5)
    wb_data: In(32)
    wb_rdata: In(32)
    wb_nn_we: In(1)
    wb_nn_addr: In(3)
    rvfi: Out(RvfiSignature())

    def elaborate(self, platform):
        """Build the record that follows an instruction through EX and WB."""
        m = Module()
        ex_valid, wb_valid = Signal(), Signal()
        in_id = {
            "insn": self.id_insn,
            "raw": self.id_info.raw,
            "pc_rdata": self.id_pc,
            "pc_wdata": self.id_info.next_pc,
            "trap": self.id_trap,
            "intr": self.id_info.intr,
            "cause": Mux(self.id_trap, self.id_cause, Cat(self.id_info.intr_id, self.id_info.intr)),
            "rs1_rdata": self.id_rs1,
            "rs2_rdata": self.id_rs2,
            "rd_rdata": self.id_rd,
            "nn_act_rdata": self.id_act,
            "nn_wgt_rdata": self.id_wgt,
        }
        in_ex = {name: Signal(FIELDS[name], name=f"ex_{name}") for name in in_id}
        with m.If(self.ex_ready):
            m.d.sync += ex_valid.eq(self.id_issue)
            m.d.sync += [in_ex[name].eq(value) for name, value in in_id.items()]

        mask = Signal(4)
        with m.Switch(self.ex_size):
            for size in MemSize:
                with m.Case(size):
                    m.d.comb += mask.eq((1 << (1 << size.value)) - 1)
        in_wb = {name: Signal(FIELDS[name], name=f"wb_{name}") for name in FIELDS}
        ex_values = in_ex | {
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
        with m.If(self.ex_ready):
            m.d.sync += wb_valid.eq(ex_valid)
            m.d.sync += [in_wb[name].eq(value) for name, value in ex_values.items()]
        with m.Elif(self.wb_leave):
            m.d.sync += wb_valid.eq(0)

        raw = Signal(32)
        loaded_bytes = in_wb["mem_rmask"]
        m.d.comb += raw.eq(self.wb_rdata & Cat(loaded.replicate(BYTE_BITS) for loaded in loaded_bytes))
        late_rd, late_base = self.wb_we & ~self.wb_is_base, self.wb_we & self.wb_is_base
        reported = in_wb | {
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
        }
        m.d.comb += self.rvfi.valid.eq(wb_valid & self.wb_leave)
        m.d.comb += [getattr(self.rvfi, name).eq(value) for name, value in reported.items()]
        return m
