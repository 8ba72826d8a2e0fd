"""Instructions that were accepted and not yet executed."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.isa.machine import XLEN
from xpulpnn.xif.config import XifConfig
from xpulpnn.xif.ports import CommitSignature, RegisterSignature


def entry_layout(config: XifConfig) -> data.StructLayout:
    word = {"blocks": 1, "rd": 5, "funct3": 3, "funct7": 7}  # the major opcode is one of two
    members = {"id": config.id_bits, **word, "rs1": XLEN, "rs2": XLEN}
    return data.StructLayout(members | ({"reads": 2} if config.version == "1.0" else {}))


class Queue(Component):
    """Accepted instructions in their order, the oldest at the output.

    A pushed instruction waits for its commit; the oldest one is ``ready`` from the cycle of its commit on. Killed and
    dropped instructions leave the queue when they are the oldest, without being ready. Latency 1.

    With ``orphans`` the core may drop an instruction without a kill, and its identifier may return: a commit means the
    youngest waiting instruction with its identifier, and all older waiting ones were dropped, as behind a kill; an
    instruction that follows two waiting ones shows that the older of them was dropped.
    """

    def __init__(self, config: XifConfig) -> None:
        self.layout = entry_layout(config)
        #: push: An instruction is accepted.
        #: pushed: The instruction, with its operands if ``pushed_operands``.
        #: pushed_operands: The operands are there.
        #: commit: Commit interface.
        #: space: There is room for an instruction.
        #: empty: No instruction is in the queue.
        #: head: Oldest instruction.
        #: ready: The oldest instruction is committed, and its operands are there.
        #: begun: The oldest instruction was ready in an earlier cycle.
        #: pop: The oldest instruction leaves, with ``ready``.
        ports = {
            "push": In(1),
            "pushed": In(self.layout),
            "pushed_operands": In(1),
            "commit": Out(CommitSignature(config)),
            "space": Out(1),
            "empty": Out(1),
            "head": Out(self.layout),
            "ready": Out(1),
            "begun": Out(1),
            "pop": In(1),
        }
        if config.version == "1.0":
            #: register: Register interface; ``ready`` is for instructions in the queue; only with version 1.0.
            ports["register"] = Out(RegisterSignature(config))
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        depth = self.config.queue
        entries = [Signal(self.layout, name=f"entry_{i}") for i in range(depth)]
        self.used, self.waiting, self.dropped = signals(depth, "used waiting dropped")
        self.lacks_operands = Signal(depth)
        committed, killed = self._decisions(m, entries)
        waiting, dropped, lacks = signals(depth, "waiting_next dropped_next lacks_next")
        m.d.comb += [
            waiting.eq(self.waiting & ~committed & ~killed),
            dropped.eq(self.dropped | killed),
            lacks.eq(self.lacks_operands),
        ]
        words = self._with_operands(m, entries, lacks)
        leaves = Signal()
        m.d.comb += [
            self.empty.eq(~self.used[0]),
            # the oldest of waiting ones that fill the queue was dropped, unless it is decided on right now
            self.space.eq(~self.used[-1] | (self.waiting.all() & ~self.commit.valid & self.config.orphans)),
            self.head.eq(words[0]),
            self.ready.eq(self.used[0] & ~waiting[0] & ~dropped[0] & ~lacks[0]),
            self.begun.eq(self.used[0] & ~self.waiting[0] & ~self.dropped[0] & ~self.lacks_operands[0]),
            leaves.eq(self.used[0] & (dropped[0] | (self.ready & self.pop))),
        ]
        self._move(m, leaves, killed, entries, words, (waiting, dropped, lacks))
        return m

    def _decisions(self, m, entries):
        """Return the waiting instructions that are committed in this cycle, and those that turn out to be dropped."""
        depth = self.config.queue
        hit, committed, killed = signals(depth, "hit committed killed")
        m.d.comb += hit.eq(
            Cat(entry.id == self.commit.id for entry in entries) & self.waiting & self.commit.valid.replicate(depth)
        )
        executes = ~self.commit.kill
        for i in range(depth):
            from_here, younger = hit[i:].any(), Const(0) if i == depth - 1 else hit[i + 1 :].any()
            if self.config.orphans:
                outdated = Const(0) if i == depth - 1 else self.waiting[i + 1 :].any() & self.push
                m.d.comb += [
                    committed[i].eq(hit[i] & ~younger & executes),
                    killed[i].eq(self.waiting[i] & ~committed[i] & (from_here | outdated)),
                ]
            else:
                m.d.comb += [
                    committed[i].eq(self.waiting[i] & from_here & executes),
                    killed[i].eq(self.waiting[i] & hit[: i + 1].any() & self.commit.kill),
                ]
        return committed, killed

    def _with_operands(self, m, entries, lacks):
        """Return the instructions with operands that arrive in this cycle."""
        if self.config.version == "0.2":
            return entries
        words = []
        fits = Signal(self.config.queue)
        for i, entry in enumerate(entries):
            word = Signal(self.layout, name=f"word_{i}")
            m.d.comb += [
                word.eq(entry),
                fits[i].eq(
                    self.lacks_operands[i]
                    & (entry.id == self.register.id)
                    & ~(entry.reads & ~self.register.rs_valid).any()
                ),
            ]
            # identifiers are unique among instructions that lack operands
            with m.If(self.register.valid & fits[i]):
                m.d.comb += [word.rs1.eq(self.register.rs1), word.rs2.eq(self.register.rs2), lacks[i].eq(0)]
            words.append(word)
        m.d.comb += self.register.ready.eq(fits.any())
        return words

    def _move(self, m, leaves, killed, entries, words, flags):
        waiting, dropped, lacks = flags
        at_issue, with_kill = signals(1, "at_issue with_kill")
        # an instruction that is issued in the cycle of a kill is younger than the killed one
        m.d.comb += with_kill.eq(0 if self.config.orphans else killed.any())
        if self.config.commit_at_issue:
            m.d.comb += at_issue.eq(self.commit.valid & (self.commit.id == self.pushed.id))
        taken = Signal(self.config.queue)  # places of the instructions after the move
        m.d.comb += taken.eq(Mux(leaves, self.used >> 1, self.used))
        moves = ((self.waiting, waiting), (self.dropped, dropped), (self.lacks_operands, lacks))
        for i, entry in enumerate(entries):
            last = i == self.config.queue - 1
            below = taken[i - 1] if i else Const(1)
            comes = self.push & below & ~taken[i]
            with m.If(comes):
                m.d.sync += [
                    entry.eq(self.pushed),
                    self.waiting[i].eq(~at_issue & ~with_kill),
                    self.dropped[i].eq((at_issue & self.commit.kill) | with_kill),
                    self.lacks_operands[i].eq(~self.pushed_operands),
                ]
            with m.Elif(leaves):
                m.d.sync += [] if last else [entry.eq(words[i + 1])]
                m.d.sync += [flag[i].eq(0 if last else value[i + 1]) for flag, value in moves]
            with m.Else():
                m.d.sync += [entry.eq(words[i])] if self.config.version == "1.0" else []
                m.d.sync += [flag[i].eq(value[i]) for flag, value in moves]
            m.d.sync += self.used[i].eq(taken[i] | comes)
