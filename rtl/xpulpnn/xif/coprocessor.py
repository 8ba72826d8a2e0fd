"""Coprocessor for cores with CV-X-IF: packed SIMD, blocks of products, requantisation (guide, "Coprocessor")."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from xpulpnn.component import Component, Out, assign_by_name, connect, flipped, signals
from xpulpnn.core.insn_word import InsnWord
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.xpulpnn import MAC_LOAD, SIMD
from xpulpnn.xif.blocks import Blocks
from xpulpnn.xif.config import FORMATS, OPCODES, XifConfig
from xpulpnn.xif.decoder import OfferDecoder, XifDecoder, XifOp
from xpulpnn.xif.ports import (
    CommitSignature,
    IssueSignature,
    LoadPortSignature,
    MemoryResultSignature,
    MemorySignature,
    RegisterSignature,
    ResultSignature,
)
from xpulpnn.xif.products import Products
from xpulpnn.xif.queue import Queue
from xpulpnn.xif.results import Results


class Coprocessor(Component):
    """Executes packed-SIMD instructions and blocks of products for a core with CV-X-IF.

    An instruction is accepted at any time while the queue has room, and refused at once if it is not one of ours. It is
    executed in its turn, in the cycle of its commit at the earliest; a result follows in the next cycle. State changes
    and loads happen behind the commit only, so nothing is ever undone. Most instructions take a cycle; pa.blk takes 8
    products, one or two at a time, pa.step 16 in each step, pa.rq* 4 cycles, in the exact form 5. Its reset clears all
    state.
    """

    def __init__(self, config: XifConfig) -> None:
        #: issue: Issue interface.
        #: commit: Commit interface.
        #: result: Result interface.
        ports = {
            "issue": Out(IssueSignature(config)),
            "commit": Out(CommitSignature(config)),
            "result": Out(ResultSignature(config)),
        }
        if config.version == "1.0":
            #: register: Register interface; only with version 1.0.
            ports["register"] = Out(RegisterSignature(config))
        if config.memory == "xif":
            #: mem: Memory interface; only with ``memory`` ``xif``.
            #: mem_result: Memory result interface; only with ``memory`` ``xif``.
            ports |= {"mem": Out(MemorySignature(config)), "mem_result": Out(MemoryResultSignature(config))}
        if config.memory == "obi":
            #: obi: OBI port for loads; only with ``memory`` ``obi``.
            ports["obi"] = Out(LoadPortSignature())
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(self.config)
        m.submodules.results = results = Results(self.config)
        connect(m, results.result, flipped(self.result))
        m.d.comb += assign_by_name(queue.commit, self.commit, "valid", "kill", "id")
        self.blocks = None
        if self.config.accumulators:
            m.submodules.blocks = self.blocks = Blocks(self.config)
        self._accept(m, queue, results)
        self._execute(m, queue, results)
        return m

    def _accept(self, m, queue, results):
        m.submodules.offer = offer = OfferDecoder(self.config)
        issue, ctrl = self.issue, offer.ctrl
        alone, room, late = signals(1, "alone room late")
        fields = data.View(InsnWord, issue.instr)
        m.d.comb += [
            offer.word.eq(issue.instr),
            alone.eq(queue.empty & results.empty),
            room.eq(queue.space & ~late & (alone | ~ctrl.writes | (not self.config.one_at_a_time))),
            issue.accept.eq(~offer.illegal),
            issue.writeback.eq(ctrl.writes & ~offer.illegal),
            issue.loadstore.eq(ctrl.steps & ~offer.illegal if self.config.memory == "xif" else 0),
            queue.push.eq(issue.valid & issue.ready & issue.accept),
            *assign_by_name(queue.pushed, issue, "id"),
            queue.pushed.blocks.eq(fields.opcode == self._opcode(MAC_LOAD)),
            *assign_by_name(queue.pushed, fields, "rd", "funct3", "funct7"),
        ]
        if self.config.in_time and self.blocks:
            slow = Signal()
            m.d.sync += slow.eq(queue.push & ctrl.slow)
            m.d.comb += late.eq(slow | (queue.begun & ~self.blocks.ends))
        if self.config.version == "0.2":
            complete = ~(ctrl.reads & ~issue.rs_valid).any()
            m.d.comb += [
                issue.ready.eq(offer.illegal | (room & complete)),
                queue.pushed_operands.eq(1),
                *assign_by_name(queue.pushed, issue, "rs1", "rs2"),
            ]
        else:
            self._take_operands(m, queue, offer, room)

    def _take_operands(self, m, queue, offer, room):
        """Take the operands of an instruction with its issue, or later from the queue."""
        issue, register, ctrl = self.issue, self.register, offer.ctrl
        together, complete = signals(1, "together complete")
        m.d.comb += [
            together.eq(issue.valid & register.valid & (issue.id == register.id)),
            complete.eq(~(ctrl.reads & ~register.rs_valid).any()),
            issue.register_read.eq(ctrl.reads & ~offer.illegal.replicate(2)),
            issue.ready.eq(offer.illegal | (room & (complete | ~together))),
            queue.pushed_operands.eq((together & complete) | ~ctrl.reads.any()),
            queue.pushed.reads.eq(ctrl.reads),
            *assign_by_name(queue.pushed, register, "rs1", "rs2"),
            *assign_by_name(queue.register, register, "valid", "id", "rs1", "rs2", "rs_valid"),
            register.ready.eq(Mux(together, issue.ready, queue.register.ready)),
        ]

    def _opcode(self, major: str) -> int:
        return int(OPCODES[self.config.opcode].get(major, major), 2)

    def _word(self, head) -> Value:
        """Return the word of an instruction in the queue, 0 in the fields of its source registers."""
        blocks = head.blocks if self.config.simd else Const(1)
        if not self.config.accumulators:
            blocks = Const(0)
        opcode = Mux(blocks, Const(self._opcode(MAC_LOAD), 7), Const(self._opcode(SIMD), 7))
        return Cat(opcode, head.rd, head.funct3, Const(0, 10), head.funct7)

    def _execute(self, m, queue, results):
        m.submodules.decoder = decoder = XifDecoder(self.config)
        head, ctrl = queue.head, decoder.ctrl
        word, op_b = signals(XLEN, "word op_b")
        m.d.comb += [
            word.eq(self._word(head)),
            decoder.word.eq(word),
            *assign_by_name(results.pushed, head, "id", "rd"),
        ]
        executes = self._execute_blocks if self.blocks else self._execute_products
        sources = executes(m, queue, results, word, op_b, ctrl)
        if self.config.simd:
            sources.append(self._lanes(m, head, ctrl, op_b))
        m.d.comb += results.pushed.data.eq(reduce(or_, sources))

    def _lanes(self, m, head, ctrl, op_b):
        """Return the result of a lane-wise operation, else 0."""
        m.submodules.alu = alu = SimdAlu(self.config.core)
        words = [head.rs2 & ctrl.vector.replicate(XLEN)]
        for fmt in FORMATS:
            chosen = ctrl.replicate & (ctrl.dotp.fmt == fmt)
            words.append((head.rs2[: fmt.width] & chosen.replicate(fmt.width)).replicate(fmt.lanes))
        m.d.comb += [op_b.eq(reduce(or_, words)), alu.ctrl.eq(ctrl.alu), alu.op_a.eq(head.rs1), alu.op_b.eq(op_b)]
        return alu.result & (ctrl.op == XifOp.LANES).replicate(XLEN)

    def _execute_products(self, m, queue, results, word, op_b, ctrl):
        """Execute dot products without state; return their result."""
        m.submodules.products = products = Products(self.config)
        m.d.comb += [
            products.ctrl.eq(ctrl.dotp),
            products.activations.eq(Cat([queue.head.rs1] * len(products.activations))),
            products.weights.eq(op_b),
            queue.pop.eq(results.space),
            results.push.eq(queue.ready & results.space),
            results.pushed.we.eq(1),
        ]
        return [products.sums[0] & (ctrl.op == XifOp.DOT).replicate(XLEN)]

    def _execute_blocks(self, m, queue, results, word, op_b, ctrl):
        """Execute every instruction in ``blocks``; return the result of all but lane-wise operations."""
        blocks = self.blocks
        m.d.comb += [
            blocks.valid.eq(queue.ready),
            blocks.word.eq(word),
            blocks.ctrl.eq(ctrl),
            *assign_by_name(blocks, queue.head, "rs1", "rs2"),
            blocks.op_b.eq(op_b),
            blocks.space.eq(results.space),
            queue.pop.eq(blocks.pop),
            results.push.eq(blocks.push),
            results.pushed.we.eq(Cat(ctrl.op == op for op in _WRITE_RD).any()),
        ]
        if self.config.memory != "none":
            by_core = self.config.memory == "xif"
            waits = self.result.ready
            taken = results.empty | (waits & results.space)  # none or the only one
            m.d.comb += blocks.oldest.eq(results.empty & waits if by_core else taken)
            connect_loads = self._loads_by_core if by_core else self._loads_by_port
            connect_loads(m, queue, results)
        return [blocks.data]

    def _loads_by_core(self, m, queue, results):
        blocks, mem = self.blocks, self.mem
        exccode = Signal(6)
        with m.If(blocks.gnt & blocks.fault):
            m.d.sync += exccode.eq(mem.exccode)
        m.d.comb += [
            mem.valid.eq(blocks.req),
            *assign_by_name(mem, queue.head, "id"),
            *assign_by_name(mem, blocks, "addr", "last"),
            blocks.gnt.eq(mem.ready),
            blocks.fault.eq(mem.exc),
            *assign_by_name(blocks, self.mem_result, "rdata", "err"),
            blocks.rvalid.eq(self.mem_result.valid),
            results.pushed.exc.eq(blocks.faulted),
            results.pushed.exccode.eq(exccode & blocks.faulted.replicate(6)),
        ]

    def _loads_by_port(self, m, queue, results):
        m.d.comb += [
            *assign_by_name(self.obi, self.blocks, "req", "addr"),
            *assign_by_name(self.blocks, self.obi, "gnt", "rvalid", "rdata", "err"),
        ]


_WRITE_RD = (XifOp.LANES, XifOp.DOT, XifOp.READ, XifOp.SYNC)
