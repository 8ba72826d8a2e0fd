# amaranth: UnusedElaboratable=no
"""Properties of the coprocessor at its interface, for any core that behaves as the configuration says."""

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from xpulpnn.component import signals
from xpulpnn.core.insn_word import InsnWord
from xpulpnn.errors import ConfigError, require
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.xif import FILTERS, PIXELS, STEP_BITS
from xpulpnn.isa.xpulpnn import MAC_LOAD
from xpulpnn.xif.config import OPCODES, XifConfig
from xpulpnn.xif.coprocessor import Coprocessor
from xpulpnn.xif.decoder import OfferDecoder, XifDecoder, XifOp
from xpulpnn.xif.queue import entry_layout
from xpulpnn.xif.results import result_layout
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.coprocessor.steps import StepsClaims

_RESULTS = 2  # results on their way to the core at most
_MOST = 8  # loads ahead of products at most

_ARITHMETIC = ("products", "simd_alu", "requantiser", "weight_widener")  # modules whose results are any words

_CLAIMS = {
    "once": "each committed instruction has one result, in order, with its identifier and register; no other has one",
    "committed": "no instruction has a result in the cycle of its commit or before",
    "steady": "a result stays as it is until the core takes it",
    "offers": "an offer is refused at once if it is none of ours; else taken if there is room for it, and not before",
    "still": "the state changes only while a committed instruction is executed",
    "moves": "a committed instruction goes on when older ones are over, it has its operands and the core takes results",
    "queue": "the queue has the instructions that were accepted, and what was decided on them",
    "results": "the results are those of the instructions that were executed, until they are taken",
}


class OffloadClaims(Obligation):
    """Properties of the coprocessor, with a list of the instructions that may be owed a result, the youngest first.

    The core gives no identifier of these to another instruction, and decides at issue only if no older one is
    undecided. With ``orphans`` it may, as it drops an instruction silently if that is the only undecided one; it then
    decides in order, and only what was accepted, and has two undecided ones at most at the end of a cycle.
    """

    def __init__(self, name: str, config: XifConfig) -> None:
        self.config, self.has_loads = config, config.memory != "none"
        self.slots = range(config.queue)
        first = "head" if config.version == "0.2" else "entry_0"
        registers = {f"slot_{place}": (f"queue.entry_{place}", entry_layout(config).size) for place in self.slots}
        registers["slot_0"] = (f"queue.{first}", entry_layout(config).size)
        registers |= {f"of_{flag}": (f"queue.{flag}", config.queue) for flag in ("used", "waiting", "dropped")}
        registers["of_lacks"] = (f"queue.lacks_{'next' if config.version == '0.2' else 'operands'}", config.queue)
        registers |= {f"of_{place}": (f"results.{place}", result_layout(config).size) for place in ("older", "younger")}
        registers["of_results"] = ("results.used", _RESULTS)
        sums = [f"sum_{pixel}_{of_filter}" for pixel in range(PIXELS) for of_filter in range(FILTERS)]
        state = {f"of_{word}": (f"blocks.accumulators.{word}", XLEN) for word in sums}
        words = [f"nn_act{number}" for number in range(4)] + [f"nn_wgt{number}" for number in range(4 * self.has_loads)]
        state |= {f"of_{word}": (f"blocks.nnrf.{word}", XLEN) for word in words}
        # cycles of instructions that take several
        self.phases = {"of_block": XifOp.BLOCK}
        registers["of_block"] = ("blocks.phase", 3 if config.dots == "1" else 2)
        if config.requantise != "none":
            self.phases["of_requantise"] = XifOp.REQUANTISE
            registers["of_requantise"] = ("blocks.requantisation.phase", 3)
            registers["of_shifts"] = ("blocks.requantisation.packed_we", 1)
            state["of_parameter"] = ("blocks.requantisation_parameter", 14)
        if self.has_loads:
            self.phases["of_stepping"] = XifOp.STEP
            if config.memory == "obi":
                self.phases["of_pushed"] = XifOp.STEP
                registers["of_pushed"] = ("blocks.pushed", 1)
            registers |= {"of_stepping": ("blocks.stepping", 1), "of_left": ("blocks.steps.left", STEP_BITS)}
            registers |= {f"of_{count}": (f"blocks.steps.{count}", 4) for count in ("requested", "arrived", "made")}
            state |= {f"of_{each}": (f"blocks.steps.{each}", XLEN) for each in ("activations", "weights")}
            state["of_failed"] = ("blocks.failed", 1)
        self.state = [*state]
        title = f"coprocessor for {name}, memory {config.memory}"
        unit = Coprocessor(config)
        ports = {"io": Out(unit.signature), "drop": In(1)}
        super().__init__(title, unit, _CLAIMS, registers | state, ports=ports, cutpoints=_ARITHMETIC)

    def claim(self, m):
        self._list(m)
        self._decide(m)
        self._claim_results(m)
        self._claim_queue(m)
        self._claim_execution(m)

    def _list(self, m):
        """Keep the list: word, identifier and writes of each instruction, whether it is decided and owed a result."""
        unit, size = self.unit, self.config.queue + _RESULTS + 1
        self.words = [Signal(InsnWord, name=f"word_{place}") for place in range(size)]
        self.ids = [Signal(self.config.id_bits, name=f"id_{place}") for place in range(size)]
        self.writes, self.owed, self.decided = signals(size, "writes owed decided")
        self.owed_now, self.decided_now = signals(size, "owed_now decided_now")
        self.comes, self.commits, self.kills = signals(1, "comes commits kills")  # an instruction, at its issue
        m.d.comb += self.comes.eq(unit.issue.valid & unit.issue.ready & unit.issue.accept)
        youngest = (unit.issue.instr, unit.issue.id, unit.issue.writeback, ~self.kills, self.commits)
        now = (self.words, self.ids, self.writes, self.owed_now, self.decided_now)
        registers = (self.words, self.ids, self.writes, self.owed, self.decided)
        moves = self.comes
        for place in range(size):
            for new, values, register in zip(youngest, now, registers, strict=True):
                m.d.sync += register[place].eq(Mux(moves, values[place - 1] if place else new, values[place]))
            # behind the queue, instructions that are owed nothing make room
            moves = moves & (self.owed[place] | (self.of_used[place] if place in self.slots else 0))

    def _decide(self, m):
        """Restrict what the core offers and decides; note what it commits, kills and drops."""
        unit, io, orphans = self.unit, self.io, self.config.orphans
        waiting, hit = signals(len(self.owed), "is_waiting hit")
        drops, same = signals(1, "drops same")
        live = waiting if orphans else self.owed
        clash = Cat(bit & (number == io.issue.id) for bit, number in zip(live, self.ids, strict=True)).any()
        two = (waiting & (waiting - 1)[: len(waiting)]).any() if orphans else 0
        m.d.comb += [
            waiting.eq(self.owed & ~self.decided),
            unit.issue.valid.eq(io.issue.valid & ~clash & ((~two | hit.any()) if orphans else 1)),
            same.eq(self.comes & (io.commit.id == io.issue.id)),
            drops.eq(self.drop & waiting.any() & ~two if orphans else 0),
        ]
        oldest = [bit & ~waiting[place + 1 :].any() for place, bit in enumerate(waiting)]
        allowed = ~(same & waiting.any())
        if orphans:
            allowed = Cat(bit & (number == io.commit.id) for bit, number in zip(oldest, self.ids, strict=True)).any()
        kill = unit.commit.kill
        m.d.comb += [
            unit.commit.valid.eq(io.commit.valid & allowed & ~drops),
            hit.eq(Cat(unit.commit.valid & (number == io.commit.id) for number in self.ids) & waiting),
            self.commits.eq(same & unit.commit.valid & ~kill & (not orphans)),
            self.kills.eq(((same & (not orphans) & unit.commit.valid) | hit.any()) & kill),
        ]
        result = unit.result
        self.front = [bit & ~self.owed[place + 1 :].any() for place, bit in enumerate(self.owed)]
        for place, bit in enumerate(waiting):
            killed = bit & (drops | (hit[place:].any() & kill))
            taken = self.front[place] & result.valid & result.ready
            m.d.comb += [
                self.owed_now[place].eq(self.owed[place] & ~killed & ~taken),
                self.decided_now[place].eq(self.decided[place] | (bit & hit[: place + 1].any() & ~kill)),
            ]

    def _same_result(self, place, result):
        fits = (self.ids[place] == result.id) & (self.words[place].rd == result.rd)
        return fits & (self.writes[place] == result.we)

    def _claim_results(self, m):
        result = self.unit.result
        names = ("id", "data", "rd", "we", "exc", "exccode")
        payload, before = (
            Cat(getattr(result, name) for name in names),
            Signal(XLEN + 13 + self.config.id_bits, name="before"),
        )
        stays = Signal(name="stays")
        m.d.sync += [stays.eq(result.valid & ~result.ready), before.eq(payload)]
        fits = Cat(bit & self._same_result(place, result) for place, bit in enumerate(self.front))
        decided = Cat(bit & self.decided[place] for place, bit in enumerate(self.front))
        m.d.comb += [
            self.once.eq(~result.valid | fits.any()),
            self.committed.eq(~result.valid | decided.any()),
            self.steady.eq(~stays | (result.valid & (payload == before))),
        ]
        # whose results were pushed: instructions that left the queue, and the oldest in it when it has begun
        self.begun = Cat(getattr(self, name).any() for name in self.phases if name != "of_stepping").any()
        pushed = []
        for place, bit in enumerate(self.owed):
            leaves = (self._count_is(place + 1) & self.begun) if place in self.slots else 0
            pushed.append(bit & (leaves | ~(self.of_used[place] if place in self.slots else Const(0, 1))))
        pushed = Cat(pushed)
        older, younger = (data.View(result_layout(self.config), word) for word in (self.of_older, self.of_younger))
        holds = [(pushed & ~self.decided) == 0, self.of_results != 2]
        for place, bit in enumerate(pushed):
            behind = sum(pushed[place + 1 :])
            is_older = (behind == 0) & self.of_results[0] & self._same_result(place, older)
            is_younger = (behind == 1) & self.of_results[1] & self._same_result(place, younger)
            holds.append(~bit | is_older | is_younger)
        holds.append(sum(pushed) == sum(self.of_results))
        m.d.comb += self.results.eq(Cat(holds).all())

    def _count_is(self, count):
        return self.of_used[count - 1] & ~(self.of_used[count] if count < len(self.slots) else Const(0, 1))

    def _claim_queue(self, m):
        used, waiting, dropped = self.of_used, self.of_waiting, self.of_dropped
        holds = [(used & (used + 1)[: len(used)]) == 0, ((waiting | dropped) & ~used) == 0, (waiting & dropped) == 0]
        for place in self.slots:
            m.submodules[f"offer_{place}"] = offer = OfferDecoder(self.config)
            m.d.comb += offer.word.eq(self.words[place])
            holds.append(~used[place] | (~offer.illegal & (offer.ctrl.writes == self.writes[place])))
            holds += [
                ~self._count_is(place + slot + 1) | self._fits(place, slot)
                for slot in self.slots[: len(self.slots) - place]
            ]
        for place, number in enumerate(self.ids):
            others = [bit & (number == other) for bit, other in zip(self.owed[:place], self.ids, strict=False)]
            holds.append(~self.owed[place] | ~Cat(others).any() | (self.config.orphans & self.decided[place]))
        if self.config.orphans:
            live = self.owed & ~self.decided
            holds.append(sum(waiting) <= 2)
            for count in range(2, len(self.slots) + 1):
                for place in range(1, count):
                    # a dropped instruction is older than those that the core decides on
                    younger = [waiting[count - 1 - other] & ~live[other] for other in range(place)]
                    holds.append(~self._count_is(count) | ~live[place] | ~Cat(younger).any())
        m.d.comb += self.queue.eq(Cat(holds).all())

    def _fits(self, place, slot):
        word, entry = self.words[place], data.View(entry_layout(self.config), getattr(self, f"slot_{slot}"))
        owed, decided = self.owed[place], self.decided[place]
        waiting, dropped = self.of_waiting[slot], self.of_dropped[slot]
        same = [getattr(word, name) == getattr(entry, name) for name in ("rd", "funct3", "funct7")]
        blocks = word.opcode == int(OPCODES[self.config.opcode].get(MAC_LOAD, MAC_LOAD), 2)
        same.append((entry.blocks == blocks) | (not self.config.simd))
        same.append(entry.id == self.ids[place])
        owed = owed | (self.begun & decided if slot == 0 else 0)
        same.append((owed & ~decided & ~waiting) == 0)
        same.append((owed | (waiting if self.config.orphans else 0)) == ~dropped)
        same.append((waiting | dropped) == ~decided)
        return Cat(same).all()

    def _claim_execution(self, m):
        m.submodules.head = head = XifDecoder(self.config)
        m.submodules.offer = offer = OfferDecoder(self.config)
        unit, config = self.unit, self.config
        executes, able, was_able, executed, left = signals(1, "executes able was_able executed left")
        for place in self.slots:
            with m.If(self._count_is(place + 1)):
                m.d.comb += [head.word.eq(self.words[place]), executes.eq(self.decided_now[place])]
        ended = ~self.of_left.any() & (self.of_requested == self.of_arrived) if self.has_loads else Const(0, 1)
        phases = [getattr(self, name) for name in self.phases]
        op = head.ctrl.op
        runs = self.of_used[0] & ~(self.of_waiting[0] | self.of_dropped[0] | self.of_lacks[0])
        fits = [~each.any() | (runs & (op == of)) for each, of in zip(phases, self.phases.values(), strict=True)]
        if config.requantise != "none":
            fits.append(self.of_requantise <= PIXELS - 1 + head.ctrl.exact)
        state = Cat(getattr(self, name) for name in self.state)
        before = Signal(len(state), name="state_before")
        shifts = getattr(self, "of_shifts", Const(0, 1))
        shifted = Signal(name="shifted")
        m.d.sync += [before.eq(state), executed.eq(executes), shifted.eq(shifts)]
        fits += self._loads(m) if self.has_loads else []
        m.d.comb += self.still.eq(Cat(fits).all() & ((state == before) | executed | shifted) & (~shifts | executed))
        room = ~self.of_results[1]
        stepping = getattr(self, "of_stepping", Const(0, 1))
        if self.has_loads:
            by_core, oldest, takes = config.memory == "xif", ~self.of_results[0], unit.result.ready
            oldest = (oldest & takes if by_core else oldest | (takes & room)) | (not config.load_when_oldest)
            begins = oldest & room if by_core else Mux(self.of_pushed, oldest, room)
            room = Mux(op == XifOp.STEP, Mux(stepping, ended, begins), room)
        m.d.comb += able.eq(
            (executes & ~self.of_lacks[0] & (room | (self.begun & (op != XifOp.STEP))) & ~shifts) | self.of_dropped[0]
        )
        count, phases_before = (
            Signal(range(config.queue + 2), name="count"),
            [Signal.like(each, name=f"was_{name}") for name, each in zip(self.phases, phases, strict=True)],
        )
        m.d.sync += [was_able.eq(able), count.eq(sum(self.of_used) + self.comes)]
        m.d.sync += [old.eq(new) for old, new in zip(phases_before, phases, strict=True)]
        goes_on = Cat(new == (old + 1)[: len(old)] for old, new in zip(phases_before, phases, strict=True)).any()
        decided = self.of_used & ~(self.of_waiting | self.of_dropped)
        blocked = Cat(self.of_waiting[slot] & decided[slot:].any() for slot in self.slots).any()
        m.d.comb += [left.eq(sum(self.of_used) + 1 == count), self.moves.eq((~was_able | left | goes_on) & ~blocked)]
        was_slow, last = Signal(name="was_slow"), Mux(op == XifOp.STEP, stepping & ended, self.of_block.all())
        m.d.sync += was_slow.eq(self.comes & offer.ctrl.slow)
        self._claim_offers(m, offer, was_slow | (runs & ~last))

    def _loads(self, m):
        """Let words arrive only for loads; return what holds of the loads under way."""
        unit, on_way, fetches, room = self.unit, Signal(4, name="on_way"), Signal(name="fetches"), Const(1)
        if self.config.memory == "obi":
            room = ~self.of_stepping | self.of_pushed
            arrives, given = unit.obi.rvalid, self.io.obi.rvalid
            m.d.comb += fetches.eq(unit.obi.req & unit.obi.gnt)
        else:
            # the result comes behind the last word
            room = ~(self.of_stepping & self.of_results[1])
            arrives, given = unit.mem_result.valid, self.io.mem_result.valid
            m.d.comb += fetches.eq(unit.mem.valid & unit.mem.ready & ~unit.mem.exc)
        m.d.comb += arrives.eq(given & on_way.any())
        m.d.sync += on_way.eq(on_way + fetches - arrives)
        ahead, arrived = ((count - self.of_made)[:4] for count in (self.of_requested, self.of_arrived))
        idle = ~self.of_left.any() & (self.of_requested == self.of_arrived)
        return [
            on_way == (self.of_requested - self.of_arrived)[:4],
            ahead <= _MOST,
            arrived <= ahead,
            self.of_stepping | idle,
            room,
        ]

    def _claim_offers(self, m, offer, late):
        unit, config = self.unit, self.config
        issue, values = unit.issue, unit.issue if config.version == "0.2" else unit.register
        room = ~self.of_used[-1] | (self.of_waiting.all() & ~unit.commit.valid & config.orphans)
        if config.in_time:
            room &= ~late
        if config.one_at_a_time:
            room &= ~issue.writeback | ~(self.of_used[0] | self.of_results[0])
        complete = ~(offer.ctrl.reads & ~values.rs_valid).any()
        if config.version == "1.0":
            # operands may come later
            complete |= ~(issue.valid & values.valid & (issue.id == values.id))
        m.d.comb += [
            offer.word.eq(issue.instr),
            self.offers.eq((issue.accept == ~offer.illegal) & (issue.ready == (offer.illegal | (room & complete)))),
        ]


def coprocessor_claims(name: str, config: XifConfig) -> list[Obligation]:
    """Return the claims about a coprocessor with accumulators; ``name`` is that of the core beside it."""
    require(config.accumulators, "accumulators must be true for proofs of the coprocessor, not false", ConfigError)
    return [OffloadClaims(name, config), *([StepsClaims(config)] if config.memory != "none" else [])]
