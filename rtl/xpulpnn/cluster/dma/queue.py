"""Transfers that wait for the DMA engine."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, stream
from amaranth.lib.memory import Memory
from amaranth.utils import exact_log2

from xpulpnn.cluster.dma.chunk import Errand
from xpulpnn.component import Component, In, Out, follow_case
from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, TCDM_BASE, DmaCommand
from xpulpnn.isa.machine import XLEN

DEPTH = 8  # transfers that wait at most; the one that the engine writes is none of them

TCDM_ADDRESS_BITS = exact_log2(TCDM_SPACE)


class Word(enum.Enum, shape=3):
    """Words of a command, in their order."""

    COMMAND, TCDM_ADDRESS, EXT_ADDRESS, EXT_COUNT, EXT_STRIDE, TCDM_COUNT, TCDM_STRIDE = range(7)


WIDTHS = {
    Word.COMMAND: exact_log2(max(DmaCommand)) + 1,
    Word.TCDM_ADDRESS: TCDM_ADDRESS_BITS,
    Word.EXT_ADDRESS: XLEN,
    Word.EXT_COUNT: DMA_LENGTH_BITS,
    Word.EXT_STRIDE: XLEN,
    Word.TCDM_COUNT: DMA_LENGTH_BITS,
    Word.TCDM_STRIDE: TCDM_ADDRESS_BITS,
}
"""Bits of each that count."""


def flag(command, which):
    """A bit of the first word of a command."""
    return command[exact_log2(which)]


class CommandQueue(Component):
    """Takes commands word by word and gives both sides of their transfers, each side at its own pace.

    A word goes to its place at once. A command whose last word was written in a cycle can be had in the next. An
    external address that lies in the TCDM makes both sides inside.
    """

    def __init__(self, tag):
        # tag: Layout of the data stored with a command.
        ports = {
            "write": In(1),  #: A word is written; the first one of a command only if there is room.
            "word": In(XLEN),  #: The word.
            "tag": In(tag),  #: Kept from the first word of a command.
            "begins": Out(1),  #: The word that is written begins a command.
            "last": Out(1),  #: The word that is written, or would be, ends its command.
            "full": Out(1),  #: There is no room for a new command.
            "sources": Out(stream.Signature(Errand)),  #: Where the bytes of the next transfer come from.
            "targets": Out(stream.Signature(Errand)),  #: Where they go to; taking it makes room.
            "command": Out(WIDTHS[Word.COMMAND]),  #: First word of the command of ``targets``.
            "target_tag": Out(tag),  #: Data that were stored with that command.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        # with one bit more than a place needs, to tell a full queue from an empty one
        end, source, target = (Signal(range(2 * DEPTH), name=name) for name in ("end", "source", "target"))
        expected = Signal(Word)
        occupied = Signal.like(end)
        m.d.comb += [
            occupied.eq(end - target),
            self.full.eq(occupied == DEPTH),
            self.sources.valid.eq(source != end),
            self.targets.valid.eq(target != end),
        ]
        places = {"source": source, "target": target}
        words = {
            which: self._stored(m, which.name.lower(), width, self.word, self.write & (expected == which), end, places)
            for which, width in WIDTHS.items()
        }
        m.d.comb += self.begins.eq(self.write & (expected == Word.COMMAND))
        tag = self._stored(m, "tag", self.tag.shape(), self.tag, self.begins, end, {"target": target})
        m.d.comb += self.target_tag.eq(tag["target"])
        for name, errand in (("source", self.sources), ("target", self.targets)):
            self._side(m, {which: values[name] for which, values in words.items()}, errand.payload, name == "source")
        m.d.comb += self.command.eq(words[Word.COMMAND]["target"])
        self._sequence(m, expected)
        m.d.sync += [
            end.eq(end + (self.write & self.last)),
            source.eq(source + (self.sources.valid & self.sources.ready)),
            target.eq(target + (self.targets.valid & self.targets.ready)),
        ]
        return m

    def _stored(self, m, name, shape, value, write, end, places):
        """A memory of one word of all commands: written at the end, read at the places."""
        m.submodules[name] = memory = Memory(shape=shape, depth=DEPTH, init=[])
        written = memory.write_port()
        m.d.comb += [written.en.eq(write), written.addr.eq(end), written.data.eq(value)]
        reads = {}
        for place, number in places.items():
            read = memory.read_port(domain="comb")
            m.d.comb += read.addr.eq(number)
            reads[place] = read.data
        return reads

    def _sequence(self, m, expected):
        """Build the choice of the next word; the strides follow their counts."""
        command_word = Signal(WIDTHS[Word.COMMAND])
        with m.If(self.begins):
            m.d.sync += command_word.eq(self.word)
        external, inside = flag(command_word, DmaCommand.EXTERNAL_2D), flag(command_word, DmaCommand.TCDM_2D)
        follower = Signal(Word)
        m.d.comb += self.last.eq(follower == Word.COMMAND)
        followers = {
            Word.COMMAND: Word.TCDM_ADDRESS,
            Word.TCDM_ADDRESS: Word.EXT_ADDRESS,
            Word.EXT_ADDRESS: Mux(external, Word.EXT_COUNT, Mux(inside, Word.TCDM_COUNT, Word.COMMAND)),
            Word.EXT_COUNT: Word.EXT_STRIDE,
            Word.EXT_STRIDE: Mux(inside, Word.TCDM_COUNT, Word.COMMAND),
            Word.TCDM_COUNT: Word.TCDM_STRIDE,
            None: Word.COMMAND,
        }
        follow_case(m, follower, expected, followers)
        with m.If(self.write):
            m.d.sync += expected.eq(follower)

    def _side(self, m, words, errand, is_source):
        command, side = words[Word.COMMAND], errand.side
        from_external = flag(command, DmaCommand.FROM_EXTERNAL)
        m.d.comb += errand.length.eq(command[:DMA_LENGTH_BITS])

        def lies(name: str, in_lines: DmaCommand):
            """Statements for the place that the words of one side of the command tell."""
            address, count, stride = (words[Word[f"{name}_{part}"]] for part in ("ADDRESS", "COUNT", "STRIDE"))
            placed = [side.address.eq(address), side.in_lines.eq(flag(command, in_lines))]
            return [*placed, side.count.eq(count), side.stride.eq(stride)]

        with m.If(from_external == int(is_source)):
            outside = words[Word.EXT_ADDRESS][TCDM_ADDRESS_BITS:] != TCDM_BASE >> TCDM_ADDRESS_BITS
            m.d.comb += [side.external.eq(outside), side.fixed.eq(~flag(command, DmaCommand.INCREMENT))]
            m.d.comb += lies("EXT", DmaCommand.EXTERNAL_2D)
        with m.Else():
            m.d.comb += lies("TCDM", DmaCommand.TCDM_2D)
