from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, stream
from amaranth.lib.memory import Memory
from amaranth.utils import exact_log2

from xpulpnn.cluster.dma.chunk import Errand
from xpulpnn.component import Component, In, Out, follow_case
from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, TCDM_BASE, DmaCommand
from xpulpnn.isa.machine import XLEN

DEPTH = 8  # largest number of waiting transfers, without the one that the engine writes

TCDM_ADDRESS_BITS = exact_log2(TCDM_SPACE)


class Word(enum.Enum, shape=3):
    """Words of a DMA command, in the order in which they are written."""

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
"""Number of used bits of each word of a DMA command."""


def flag(command, which):
    return command[exact_log2(which)]


class CommandQueue(Component):
    """Receives commands word by word; outputs the sources and, with a separate handshake, the targets of transfers.

    Each word is stored at once. A command is available in the cycle after its last word. An external address that lies
    in the TCDM makes a transfer within the TCDM.
    """

    def __init__(self, tag):
        # tag: layout of the data stored with a command
        ports = {
            "write": In(1),  #: A word is written; the first word of a command only if there is room.
            "word": In(XLEN),  #: The word.
            "tag": In(tag),  #: Data stored with the first word of a command.
            "begins": Out(1),  #: The word that is written begins a command.
            "last": Out(1),  #: The current word is the last of its command.
            "full": Out(1),  #: There is no room for a new command.
            "sources": Out(stream.Signature(Errand)),  #: Source of the next transfer to read.
            "targets": Out(stream.Signature(Errand)),  #: Target of the next transfer to write; accepting it makes room.
            "command": Out(WIDTHS[Word.COMMAND]),  #: First word of the command of ``targets``.
            "target_tag": Out(tag),  #: Data stored with the command of ``targets``.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        # one bit more than a position needs, to tell a full queue from an empty one
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

        def side_words(name: str, in_lines: DmaCommand):
            address, count, stride = (words[Word[f"{name}_{part}"]] for part in ("ADDRESS", "COUNT", "STRIDE"))
            placed = [side.address.eq(address), side.in_lines.eq(flag(command, in_lines))]
            return [*placed, side.count.eq(count), side.stride.eq(stride)]

        with m.If(from_external == int(is_source)):
            outside = words[Word.EXT_ADDRESS][TCDM_ADDRESS_BITS:] != TCDM_BASE >> TCDM_ADDRESS_BITS
            m.d.comb += [side.external.eq(outside), side.fixed.eq(~flag(command, DmaCommand.INCREMENT))]
            m.d.comb += side_words("EXT", DmaCommand.EXTERNAL_2D)
        with m.Else():
            m.d.comb += side_words("TCDM", DmaCommand.TCDM_2D)
