"""Instruction-set simulator of one hart, which executes one instruction per step."""

from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.isa import machine
from xpulpnn.isa.csr import MCAUSE_INTERRUPT, CsrGroup
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.semantics import STATE_WORDS
from xpulpnn.xif.config import XifConfig, XifHost
from xpulpnn_sim.reference.iss.csrs import SimulatedCsrs, TrapError, csr_is_legal
from xpulpnn_sim.reference.iss.fetched import EVENTS, Fetched, HartOperation, Translator, decoding, with_note
from xpulpnn_sim.reference.iss.memory import BusError, Memory
from xpulpnn_sim.reference.statements.compiled import is_slow


@dataclass(slots=True)
class State:
    pc: int  # address of the next instruction
    regs: list[int]  # GP-RF; entry 0 stays 0
    # NN-RF: activations 0 and 1, weights 2 to 5, factor 6 and summand 7 of the requantisation, second pair of
    # activations 8 and 9; then the state of the coprocessor, if there is one (`STATE` of xpulpnn.isa.semantics)
    nn: list[int]
    asleep: bool = False  # A wfi waits for an interrupt


@dataclass(frozen=True, slots=True)
class Step:
    pc: int  # address of the instruction, or the one at which the interrupt was taken
    insn: Insn | None = None  # the row executed, compressed rows expanded; None for interrupts, sleep and illegal words
    word: int = 0  # the instruction word, compressed ones expanded; 0 for interrupts and sleep
    cause: int | None = None  # mcause of the trap taken, if any
    endless: bool = False  # it jumped to itself and will do so until an interrupt comes


ALL_WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
DEFAULT_EXTENSIONS = BASE_EXTENSIONS | {
    Extension.XPULPV2,
    Extension.XPULPNN,
    Extension.XPULPML_NN,
    Extension.XPULPML_CU,
}


class Iss:
    """A hart and its memory. The simulator has no notion of time: mcycle and the performance counter of cycles count
    one cycle per step, counters of stalls do not change. Instructions outside ``extensions`` and ``widths`` trap.
    ``xif`` is the coprocessor, if any. Without ``products`` dot products are not computed, for runs that only need the
    control flow of a program."""

    def __init__(
        self,
        boot_address: int = 0,
        *,
        extensions: frozenset[Extension] = DEFAULT_EXTENSIONS,
        widths: frozenset[int] = ALL_WIDTHS,
        performance_counters: bool = False,
        groups: frozenset[CsrGroup] | None = None,
        hart_id: int = 0,
        memory: Memory | None = None,
        products: bool = True,
        xif: XifConfig | None = None,
    ) -> None:
        self.memory = Memory() if memory is None else memory
        entries = machine.NNRF_ENTRIES + (machine.NNRF_PARAMETERS if Extension.XPULPRQ in extensions else 0)
        if Extension.XPULPML_PAIR in extensions:
            entries = machine.SECOND_PAIR + machine.NNRF_ACTIVATIONS
        entries = STATE_WORDS if xif else entries
        self.state = State(boot_address & ~1, [0] * machine.REGISTERS, [0] * entries)
        if groups is None:
            groups = frozenset({CsrGroup.BASE})
            groups |= {CsrGroup.HWLOOP} if Extension.XPULPV2 in extensions else set()
            groups |= {CsrGroup.PERFORMANCE} if performance_counters else set()
        is_xpulp = Extension.XPULPV2 in extensions
        self.csrs = SimulatedCsrs(boot_address, hart_id, groups, self.state.nn, is_xpulp=is_xpulp)
        self.last_pc: int | None = None  # address of the last executed instruction
        # address and cause of the last exception, except for a handler that traps at its first instruction
        self.last_exception: tuple[int, int] | None = None
        self.executed = 0  # instructions, including those that trapped
        # both must be set before the first instruction, if at all
        self.visits: dict[int, int] | None = None  # executions by address
        self.path: list[int] | None = None  # addresses of the executed instructions, in order
        self._decode = decoding(extensions, widths, xif)
        self._translator = Translator(
            self.state.regs, self.state.nn, self.memory, self.csrs, products=products, xif=xif
        )
        # operations by address, with the instructions that they were compiled from
        self._operations: dict[int, tuple[Fetched, HartOperation]] = {}
        # operations of a burst by address, including hardware loops; None where it must stop
        self._code: dict[int, HartOperation | None] = {}
        self._loop_ends = self.csrs.loop_ends
        self._stop: int | None = None
        self._halted = False
        self._bursts = self.memory.keeps_code
        self.memory.watchers.append(self._forget)

    @classmethod
    def of(cls, config: CoreConfig, boot_address: int, *, hart_id: int = 0, memory: Memory | None = None) -> "Iss":
        return cls(
            boot_address,
            extensions=config.extensions,
            widths=config.widths,
            groups=config.csr_groups,
            hart_id=hart_id,
            memory=memory,
            xif=config.xif if isinstance(config, XifHost) else None,
        )

    def load(self, address: int, words: list[int]) -> None:
        for index, word in enumerate(words):
            self.memory.write(address + machine.WORD_BYTES * index, machine.WORD_BYTES, word)

    def run(self, limit: int, until: int | None = None) -> int:
        """Step until ``pc`` is ``until`` or ``limit`` steps are done; returns the number of steps."""
        steps = 0
        while steps < limit and self.state.pc != until:
            steps += self.burst(limit - steps, until)
            if steps < limit and self.state.pc != until:
                self.step()
                steps += 1
        return steps

    def burst(self, limit: int, until: int | None = None) -> int:
        """Execute up to ``limit`` instructions fast, at most up to the address ``until``; returns their number. Stops,
        possibly at once, before an instruction that needs :meth:`step`: CSR accesses, traps, mret, wfi, interrupts,
        jumps to themselves; and after :meth:`halt`. An access outside memory leaves ``pc`` at the instruction."""
        csrs, state = self.csrs, self.state
        if not self._bursts or state.asleep or csrs.counted_events or (csrs.irq and csrs.interrupt() is not None):
            return 0
        self._follow_loop_ends()
        csrs.written.clear()
        code, enter, pc, done = self._code, self._enter, state.pc, 0
        self._stop, self._halted = until, False
        if until is not None:
            code.pop(until, None)
        try:
            while done < limit:
                operation = code[pc] if pc in code else enter(pc)
                if operation is None:
                    break
                self.last_pc, pc = pc, operation()
                done += 1
        except BusError:
            pass  # step() takes the exception
        finally:
            state.pc = pc
            self.executed += done
            csrs.advance(done, done, csrs["mcountinhibit"])
            if until is not None:
                code.pop(until, None)
        return done

    def halt(self) -> None:
        """End a burst after the current instruction. Watchers of the memory call this."""
        self._halted = True
        self._code.clear()

    def retire(self) -> None:
        """Break the hart's reference cycle through its memory, which the garbage collector would find late."""
        self.memory.watchers.remove(self._forget)
        self._code.clear()
        self._operations.clear()

    def step(self) -> Step:
        """Take an interrupt, wait one cycle in wfi, or execute one instruction."""
        csrs, state = self.csrs, self.state
        if state.asleep and not csrs.wakes:
            csrs.written.clear()
            self._pass_time(csrs["mcountinhibit"], csrs.counted_events)
            return Step(state.pc)
        state.asleep = False
        line = csrs.interrupt() if csrs.irq else None
        if line is not None:
            return self._trap(Step(state.pc, cause=MCAUSE_INTERRUPT | line))
        return self.execute(self.peek())

    def execute(self, fetched: Fetched | int | None) -> Step:
        """Execute the instruction at ``pc``, which :meth:`peek` returned, without taking interrupts."""
        csrs, state = self.csrs, self.state
        pc = state.pc
        if fetched is None:
            return self._trap(Step(pc, cause=machine.ExceptionCause.INSTRUCTION_ACCESS_FAULT))
        if isinstance(fetched, int):
            return self._trap(Step(pc, word=fetched, cause=machine.ExceptionCause.ILLEGAL_INSTRUCTION))
        insn, word, regs = fetched.insn, fetched.word, state.regs
        if insn.op == "dret" or (insn.insn_class is InsnClass.CSR and not csr_is_legal(fetched, csrs)):
            return self._trap(Step(pc, insn, word, machine.ExceptionCause.ILLEGAL_INSTRUCTION))
        operation = self._operation(pc, fetched)
        inhibit, enabled_events = csrs["mcountinhibit"], csrs.counted_events
        events, saturates = (fetched.events_with(regs), csrs.saturates) if enabled_events else ((), False)
        csrs.written.clear()
        # a taken branch or jump at the end of a hardware loop counts no iteration
        leaves = fetched.transfers and fetched.taken(regs)
        try:
            following = operation()
        except BusError:
            store = machine.ExceptionCause.STORE_ACCESS_FAULT
            return self._trap(
                Step(pc, insn, word, store if insn.is_store else machine.ExceptionCause.LOAD_ACCESS_FAULT)
            )
        except TrapError as trap:
            return self._trap(Step(pc, insn, word, trap.cause))
        state.pc = following if leaves or fetched.leads else csrs.next_pc(pc, following)
        state.asleep = insn.op == "wfi"
        # a jump through a register that it overwrites has another target the next time
        endless = leaves and following == pc and not (insn.op == "jalr" and fetched.rd == fetched.rs1 != 0)
        self._done(pc)
        csrs.advance(1, 1, inhibit)
        if enabled_events:
            csrs.count_events((EVENTS["cycles"], *events), enabled_events, saturates=saturates)
        return Step(pc, insn, word, endless=endless)

    def peek(self) -> Fetched | int | None:
        """Return the instruction at ``pc``, its word if it is illegal, or None if its fetch is a bus error."""
        try:
            raw = self.memory.fetch(self.state.pc)
        except BusError:
            return None
        if raw & machine.LENGTH_MASK != machine.LENGTH_MASK:
            raw &= machine.HALF_MASK
        fetched = self._decode(raw)
        return raw if fetched is None else fetched

    def take_interrupt(self, line: int) -> None:
        """Enter the handler of the interrupt ``line``, whether it is pending and enabled or not; ends sleep."""
        self.state.asleep = False
        self.state.pc = self.csrs.enter_trap(MCAUSE_INTERRUPT | line, self.state.pc)

    def _done(self, pc: int) -> None:
        self.last_pc = pc
        self.executed += 1
        self._visit(pc)
        if self.path is not None:
            self.path.append(pc)

    def _visit(self, pc: int) -> None:
        if self.visits is not None:
            self.visits[pc] = self.visits.get(pc, 0) + 1

    def _pass_time(self, inhibit: int, enabled_events: int) -> None:
        self.csrs.advance(1, 0, inhibit)
        if enabled_events:
            self.csrs.count_events((EVENTS["cycles"],), enabled_events, saturates=self.csrs.saturates)

    def _trap(self, step: Step) -> Step:
        """Enter the exception handler. An instruction that traps counts as executed, but not as retired."""
        assert step.cause is not None
        csrs = self.csrs
        csrs.written.clear()
        if not step.cause & MCAUSE_INTERRUPT:
            self._done(step.pc)
        self.state.pc = csrs.enter_trap(step.cause, step.pc)
        if not step.cause & MCAUSE_INTERRUPT and self.state.pc != step.pc:
            self.last_exception = step.pc, step.cause
        self._pass_time(csrs["mcountinhibit"], csrs.counted_events)
        return step

    def _operation(self, pc: int, fetched: Fetched) -> HartOperation:
        known = self._operations.get(pc)
        if known is not None and known[0] is fetched:
            return known[1]
        operation = self._translator.operation(fetched, pc)
        self._operations[pc] = fetched, operation
        return operation

    def _forget(self, address: int, size: int) -> None:
        """Drop the compiled operations of instructions that overlap these stored bytes."""
        first = (address & ~1) - machine.HALF_BYTES
        for pc in range(first, address + size, machine.HALF_BYTES):
            self._code.pop(pc & machine.WORD_MASK, None)

    def _follow_loop_ends(self) -> None:
        ends = self.csrs.loop_ends
        if ends != self._loop_ends:
            for pc in (*ends, *self._loop_ends):
                if pc is not None:
                    self._code.pop(pc, None)
            self._loop_ends = ends

    def _enter(self, pc: int) -> HartOperation | None:
        """Compile the operation of a burst at ``pc``; None if the burst must stop there."""
        if self._halted:
            return None
        self.state.pc = pc
        fetched = self.peek()
        operation = None
        if isinstance(fetched, Fetched) and pc != self._stop:
            operation = self._burst_operation(pc, fetched)
        if operation is not None and self.visits is not None:
            operation = with_note(operation, pc, self._visit)
        if operation is not None and self.path is not None:
            operation = with_note(operation, pc, self.path.append)
        self._code[pc] = operation
        for address in (pc, pc + machine.HALF_BYTES):
            self.memory.watch(address & machine.WORD_MASK)
        return operation

    def _burst_operation(self, pc: int, fetched: Fetched) -> HartOperation | None:
        insn, is_end, fields = fetched.insn, pc in self.csrs.loop_ends, fetched.operands
        to_itself = fields.get("boff13", fields.get("joff21")) == 0
        if is_slow(insn) or to_itself or (is_end and (insn.is_branch or insn.insn_class is InsnClass.LOOP)):
            return None
        operation = self._operation(pc, fetched)
        if insn.insn_class is InsnClass.LOOP:
            return lambda: self._set_loop(operation)
        if insn.op == "jalr":
            return lambda: self._jump_register(operation, pc)
        if is_end and not insn.is_jump:
            return lambda: self.csrs.next_pc(pc, operation())
        return operation

    def _jump_register(self, operation: HartOperation, pc: int) -> int:
        """Jump in a burst; a jump to itself stops the burst."""
        target = operation()
        if target == pc:
            self._code[pc] = None
        return target

    def _set_loop(self, operation: HartOperation) -> int:
        following = operation()
        self._follow_loop_ends()
        return following
