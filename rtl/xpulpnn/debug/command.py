from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dmi import AccessSignature
from xpulpnn.debug.hart_control import flag
from xpulpnn.debug.rom import NOTHING, DebugCode
from xpulpnn.isa import debug as isa
from xpulpnn.isa.machine import REGISTERS, XLEN

_REGISTER_BITS = (REGISTERS - 1).bit_length()
_NUMBER_BITS = isa.FIRST_REGISTER.bit_length()
# s0 and s1, which the code in the ROM uses itself, are saved in these CSRs
SAVED = {8: isa.DSCRATCH0, 9: isa.DSCRATCH1}
_RD_LSB, _RS2_LSB, _CSR_LSB = 7, 20, 20


class CommandWord(data.Struct):
    """The last abstract command, without the fields that are equal in all supported commands."""

    number: _NUMBER_BITS  #: Number of the register.
    write: 1  #: The register is written; else it is read.
    transfer: 1  #: A register is transferred.
    postexec: 1  #: The program buffer is executed.
    postincrement: 1  #: The number is incremented after the command.
    unsupported: 1  #: Unsupported type, size or register number.


class AbstractCommands(Component):
    """Registers abstractcs, command, abstractauto, data0, data1 and progbuf0 to progbuf7, and the state of a command.

    A command is checked in the cycle after its write. A command for a halted hart is then offered by ``go`` until the
    hart has done the transfer; the command ends when the hart halts again. A forbidden access during a command sets the
    error ``BUSY`` and has no effect. Reset, and ``active`` low, abort the command and clear the error and abstractauto.
    """

    def __init__(self, config: DebugConfig):
        harts = config.harts
        ports = {
            "access": In(AccessSignature()),  #: Accesses of the debugger to the registers.
            "active": In(1),  #: The debug module is active.
            "number": In(max(harts - 1, 1).bit_length()),  #: Number of the selected hart.
            "halted": In(harts),  #: Harts that have halted.
            "reset": In(harts),  #: Harts that are held in reset.
            "halts": In(harts),  #: Harts that write that they have halted; pulses.
            "going": In(1),  #: The hart writes that the transfer is done; a pulse.
            "exception": In(1),  #: The hart writes that an exception has occurred; a pulse.
            "data_writes": In(isa.DATA_WORDS),  #: Data registers that the hart writes.
            "wdata": In(XLEN),  #: Word that the hart writes.
            "go": Out(harts),  #: Hart that must begin a command.
            "transfer": Out(XLEN).array(2),  #: The two instructions of the transfer.
            "runs_program": Out(1),  #: The program buffer is executed after the transfer.
            "program": Out(XLEN).array(isa.PROGRAM_WORDS),  #: Program buffer.
            "data": Out(XLEN).array(isa.DATA_WORDS),  #: Data registers.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        access = self.access
        command = Signal(CommandWord)
        error = Signal(isa.CommandError)
        looked_at, under_way, going, failed, busy = signals(1, "looked_at under_way going failed busy")
        auto = Signal(isa.DATA_WORDS + isa.PROGRAM_WORDS)
        target = Signal.like(self.number, name="target")
        target_mask, selected = signals(self.config.harts, "target_mask selected")
        ends, lost = signals(1, "ends lost")
        touched = self._words(m, busy)
        writes = {
            name: access.writes & (access.addr == isa.DmReg[name]) for name in ("ABSTRACTCS", "COMMAND", "ABSTRACTAUTO")
        }
        m.d.comb += [
            busy.eq(looked_at | under_way),
            target_mask.eq(1 << target),
            selected.eq(1 << self.number),
            self.go.eq(Mux(under_way & going, target_mask, 0)),
            self.runs_program.eq(command.postexec),
            ends.eq(under_way & ~going & (self.halts & target_mask).any()),
            lost.eq(under_way & (self.reset & target_mask).any()),
        ]
        with m.If(~busy):
            with m.If(writes["ABSTRACTCS"]):
                cleared = access.wdata[isa.ABSTRACTCS_CMDERR_LSB :][: isa.CMDERR_BITS]
                m.d.sync += error.eq(error & ~cleared)
            with m.If(writes["ABSTRACTAUTO"]):
                m.d.sync += auto.eq(Cat(access.wdata[: isa.DATA_WORDS], access.wdata[isa.AUTOEXECPROGBUF_LSB :]))
            with m.If(error == isa.CommandError.NONE):
                m.d.sync += looked_at.eq(writes["COMMAND"] | (touched & auto).any())
                with m.If(writes["COMMAND"]):
                    m.d.sync += self._written(command)
        with m.Elif((error == isa.CommandError.NONE) & (touched.any() | Cat(writes.values()).any())):
            m.d.sync += error.eq(isa.CommandError.BUSY)
        with m.If(looked_at):
            m.d.sync += [looked_at.eq(0), failed.eq(0), target.eq(self.number)]
            beyond = command.number[:-1][_REGISTER_BITS:].any() & command.number[-1]
            with m.If(command.unsupported | command.transfer & beyond):
                m.d.sync += error.eq(isa.CommandError.NOT_SUPPORTED)
            with m.Elif(~(self.halted & selected).any()):
                m.d.sync += error.eq(isa.CommandError.HALT_RESUME)
            with m.Else():
                m.d.sync += [under_way.eq(1), going.eq(1)]
        with m.If(self.going | self.exception):
            m.d.sync += going.eq(0)
        with m.If(under_way & self.exception):
            m.d.sync += failed.eq(1)
            with m.If(error == isa.CommandError.NONE):
                m.d.sync += error.eq(isa.CommandError.EXCEPTION)
        with m.If(ends | lost):
            m.d.sync += under_way.eq(0)
        with m.If(ends & command.postincrement & ~failed):
            m.d.sync += command.number.eq(command.number + 1)
        with m.If(lost & (error == isa.CommandError.NONE)):
            m.d.sync += error.eq(isa.CommandError.HALT_RESUME)
        with m.If(~self.active):
            m.d.sync += [looked_at.eq(0), under_way.eq(0), error.eq(isa.CommandError.NONE), auto.eq(0)]
        self._transfer(m, command)
        self._read(m, busy, error, auto)
        return m

    def _words(self, m, busy):
        access = self.access
        touched = Signal(isa.DATA_WORDS + isa.PROGRAM_WORDS)
        numbers = [isa.DmReg.DATA0 + index for index in range(isa.DATA_WORDS)]
        numbers += [isa.DmReg.PROGBUF0 + index for index in range(isa.PROGRAM_WORDS)]
        for place, (number, word) in enumerate(zip(numbers, (*self.data, *self.program), strict=True)):
            with m.If(access.addr == number):
                m.d.comb += [touched[place].eq(access.reads | access.writes), access.rdata.eq(word)]
            with m.If(access.writes & (access.addr == number) & ~busy):
                m.d.sync += word.eq(access.wdata)
        for word, writes in zip(self.data, self.data_writes, strict=True):
            with m.If(writes):
                m.d.sync += word.eq(self.wdata)
        return touched

    def _written(self, command):
        word = self.access.wdata
        transfer = flag(word, isa.Command.TRANSFER)
        other_size = word[isa.COMMAND_SIZE_LSB :][: isa.COMMAND_SIZE_BITS] != isa.COMMAND_WORD
        other_number = word[_NUMBER_BITS : XLEN // 2].any()
        return [
            command.number.eq(word),
            command.write.eq(flag(word, isa.Command.WRITE)),
            command.transfer.eq(transfer),
            command.postexec.eq(flag(word, isa.Command.POSTEXEC)),
            command.postincrement.eq(flag(word, isa.Command.POSTINCREMENT)),
            command.unsupported.eq(word[isa.COMMAND_TYPE_LSB :].any() | transfer & (other_size | other_number)),
        ]

    def _transfer(self, m, command):
        """Select the two instructions that move a register or CSR from or to the first data register."""
        code = DebugCode.of(self.config)
        known, number = code.transfers, command.number
        is_register = Signal()
        csr = Signal(_NUMBER_BITS - 1)
        m.d.comb += [is_register.eq(number[-1]), csr.eq(number)]
        for register, place in SAVED.items():
            with m.If(number == isa.FIRST_REGISTER + register):
                m.d.comb += [is_register.eq(0), csr.eq(place)]
        first, second = self.transfer
        with m.If(~command.transfer):
            m.d.comb += [first.eq(NOTHING), second.eq(NOTHING)]
        with m.Elif(is_register):
            stored = known.store_register | number[:_REGISTER_BITS] << _RS2_LSB
            loaded = known.load_register | number[:_REGISTER_BITS] << _RD_LSB
            m.d.comb += [first.eq(Mux(command.write, loaded, stored)), second.eq(NOTHING)]
        with m.Elif(command.write):
            m.d.comb += [first.eq(known.load_s1), second.eq(known.write_csr | csr << _CSR_LSB)]
        with m.Else():
            m.d.comb += [first.eq(known.read_csr | csr << _CSR_LSB), second.eq(known.store_s1)]

    def _read(self, m, busy, error, auto):
        access = self.access
        with m.If(access.addr == isa.DmReg.ABSTRACTCS):
            m.d.comb += access.rdata.eq(
                isa.PROGRAM_WORDS << isa.ABSTRACTCS_PROGBUFSIZE_LSB
                | busy << isa.ABSTRACTCS_BUSY_BIT
                | error << isa.ABSTRACTCS_CMDERR_LSB
                | isa.DATA_WORDS
            )
        with m.If(access.addr == isa.DmReg.ABSTRACTAUTO):
            m.d.comb += access.rdata.eq(auto[: isa.DATA_WORDS] | auto[isa.DATA_WORDS :] << isa.AUTOEXECPROGBUF_LSB)
