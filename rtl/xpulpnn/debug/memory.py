from amaranth.hdl import Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out
from xpulpnn.core.obi import ObiSignature
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.rom import NOTHING, DebugCode
from xpulpnn.isa.debug import DATA_WORDS, DEBUG_BYTES, MAX_HARTS, PROGRAM_WORDS, TRAP_OFFSET, Flag, Place
from xpulpnn.isa.machine import WORD_BYTES, XLEN

_WORD_LSB = (WORD_BYTES - 1).bit_length()
_HART_BITS = (MAX_HARTS - 1).bit_length()


class DebugMemory(Component):
    """4 KiB that halted harts execute, read and write by words; unused words read as 0.

    Every access is granted at once and answered in the next cycle. A write also takes effect in that cycle.
    """

    def __init__(self, config: DebugConfig):
        harts = config.harts
        ports = {
            "port": In(ObiSignature()),  #: Accesses of the harts; the upper address bits are ignored.
            "go": In(harts),  #: Hart that must begin a command.
            "resuming": In(harts),  #: Harts that must resume.
            "transfer": In(XLEN).array(2),  #: Instructions of the transfer of a command.
            "runs_program": In(1),  #: The program buffer is executed after the transfer.
            "program": In(XLEN).array(PROGRAM_WORDS),  #: Program buffer.
            "data": In(XLEN).array(DATA_WORDS),  #: Data registers.
            "halts": Out(harts),  #: Harts that write that they have halted; pulses.
            "resumes": Out(harts),  #: Harts that write that they resume; pulses.
            "going": Out(1),  #: A hart writes that the transfer of a command is done; a pulse.
            "exception": Out(1),  #: A hart writes that an exception has occurred; a pulse.
            "data_writes": Out(DATA_WORDS),  #: Data registers that a hart writes.
            "wdata": Out(XLEN),  #: Word that a hart writes.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        port, harts = self.port, self.config.harts
        number = Signal(range(DEBUG_BYTES // WORD_BYTES))
        write = Signal()
        m.d.comb += [port.gnt.eq(1), port.err.eq(0), self.wdata.eq(port.wdata)]
        m.d.sync += [port.rvalid.eq(port.req), number.eq(port.addr[_WORD_LSB:])]
        m.d.comb += write.eq(port.req & port.we)
        word_number = port.addr[_WORD_LSB:][: len(number)]

        def of_hart(at, place):
            return at[_HART_BITS:] == place // WORD_BYTES >> _HART_BITS

        hart_bits = (harts - 1).bit_length()
        hart, read_hart = word_number[:hart_bits], number[:hart_bits]
        for name, place in (("halts", Place.HALTED), ("resumes", Place.RESUMING)):
            m.d.comb += getattr(self, name).eq(Mux(write & of_hart(word_number, place), 1 << hart, 0))
        m.d.comb += [
            self.going.eq(write & (word_number == Place.GOING // WORD_BYTES)),
            self.exception.eq(write & (word_number == Place.EXCEPTION // WORD_BYTES)),
            *(self.data_writes[n].eq(write & (word_number == Place.DATA // WORD_BYTES + n)) for n in range(DATA_WORDS)),
        ]
        for at, word in self._words().items():
            with m.If(number == at // WORD_BYTES):
                m.d.comb += port.rdata.eq(word)
        with m.If(of_hart(number, Place.FLAGS)):
            going, resuming = (words.bit_select(read_hart, 1) for words in (self.go, self.resuming))
            m.d.comb += port.rdata.eq(Mux(going, Flag.GO, Mux(resuming, Flag.RESUME, 0)))
        return m

    def _words(self):
        code = DebugCode.of(self.config)
        rom = {Place.ROM + WORD_BYTES * index: Const(word, XLEN) for index, word in enumerate(code.rom)}
        trap = Place.ROM + TRAP_OFFSET
        rom[trap] = Mux(self.go.any(), code.trap_in_transfer, rom[trap])
        before, *_, after = code.command
        command = [
            before,
            *self.transfer,
            *code.command[1 + len(self.transfer) : -1],
            Mux(self.runs_program, NOTHING, after),
        ]
        rows = [*command, *self.program, after, *self.data]
        return rom | {Place.ABSTRACT + WORD_BYTES * index: word for index, word in enumerate(rows)}
