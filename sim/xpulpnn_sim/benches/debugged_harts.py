"""Model of harts that a debug module halts: they execute the code in the module's memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from cocotb.triggers import ClockCycles, RisingEdge

from xpulpnn.isa.debug import DEBUG_BASE, DEBUG_BYTES, DSCRATCH0, DSCRATCH1, MAX_HARTS, Command, Place
from xpulpnn.isa.machine import REGISTERS, WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import INSNS, Decoder
from xpulpnn_sim.benches.agents.base import Dut, sample
from xpulpnn_sim.benches.agents.obi import ObiManager, ObiTransfer
from xpulpnn_sim.reference.golden.debug_memory import EBREAK

DRET, ILLEGAL = 0x7B20_0073, 0xFFFF_FFFF
_ADD, _ADDI, _CSRRW = 0x33, 0x13, 0x1073
_NO_CSR = 0x123
ENTRY, TRAP = DEBUG_BASE + Place.ROM, DEBUG_BASE + Place.ROM + WORD_BYTES
MHARTID, MSCRATCH = 0xF14, 0x340
_ORDER_CYCLES = 6  # cycles until a request of the debugger takes effect
_PATIENCE = 10_000  # cycles within which every command ends
# CSRs of commands and programs: mscratch and all numbers one bit away from it
CSRS = [MSCRATCH, *(MSCRATCH ^ 1 << bit for bit in range(12))]
_DECODER = Decoder(insn for insn in INSNS if insn.size == WORD_BYTES)


class IllegalError(Exception):
    pass


@dataclass(slots=True)
class HartState:
    """Registers of a hart."""

    csrs: dict[int, int]
    registers: list[int] = field(default_factory=lambda: [0] * REGISTERS)
    pc: int = 0

    def put(self, register: int, value: int) -> None:
        if register:
            self.registers[register] = value & WORD_MASK


def execute(state: HartState, word: int) -> tuple[str, int, int] | None:
    """Execute an instruction other than ebreak and dret; return its access: kind, address, register."""
    insn = _DECODER.decode(word)
    if insn is None:
        raise IllegalError
    fields = insn.decode(word)
    # the only operand that is no register is the immediate
    imm = next((value for name, value in fields.items() if name not in ("rd", "rs1", "rs2", "csr")), None)
    rs1, rs2 = (state.registers[fields.get(name, 0)] for name in ("rs1", "rs2"))
    rd, second, after, access = fields.get("rd", 0), rs2 if imm is None else imm, state.pc + WORD_BYTES, None
    match insn.op:
        case "lui":
            state.put(rd, second << 12)
        case "add":
            state.put(rd, rs1 + second)
        case "and":
            state.put(rd, rs1 & second)
        case "sll":
            state.put(rd, rs1 << (second & 31))
        case "jal":
            state.put(rd, after)
            after = state.pc + second
        case "beq":
            after = state.pc + second if rs1 == rs2 else after
        case "lw":
            access = "load", rs1 + second & WORD_MASK, rd
        case "sw":
            access = "store", rs1 + second & WORD_MASK, fields["rs2"]
        case "csrrw" | "csrrs" if fields["csr"] in state.csrs:
            old = state.csrs[fields["csr"]]
            if insn.op == "csrrw":
                state.csrs[fields["csr"]] = rs1
            elif fields["rs1"]:
                state.csrs[fields["csr"]] = old | rs1
            state.put(rd, old)
        case _:
            raise IllegalError
    state.pc = after
    return access


def run_program(state: HartState, words: Sequence[int]) -> bool:
    """Execute a program buffer that accesses no memory; return whether it ends with ebreak, without an exception."""
    state.pc = 0
    while (place := state.pc // WORD_BYTES) < len(words) and words[place] != EBREAK:
        try:
            execute(state, words[place])
        except IllegalError:
            return False
    return True


class DebuggedHarts:
    """Harts that halt on request, execute the code in the module's memory, and resume; a reset makes them run.

    The harts share the port of the memory, instruction by instruction, in random order.
    """

    def __init__(self, dut: Dut, memory: ObiManager, harts: int, rng: Random) -> None:
        self.states = [
            HartState(dict.fromkeys((*CSRS, DSCRATCH0, DSCRATCH1), 0) | {MHARTID: MAX_HARTS + hart})
            for hart in range(harts)
        ]
        self.in_debug = [False] * harts
        self._polls = [0] * harts  # polls of each hart that found no order
        self._dut, self._memory, self._rng = dut, memory, rng

    async def wait_idle(self) -> None:
        """Wait until every hart only polls for orders or is in reset."""
        before = list(self._polls)
        await ClockCycles(self._dut.clk, _ORDER_CYCLES)
        harts = range(len(before))
        for _ in range(_PATIENCE):
            if not any(map(self._works, harts, before)):
                return
            await RisingEdge(self._dut.clk)
        raise AssertionError(f"harts are not calm within {_PATIENCE} cycles")

    def _works(self, hart: int, before: int) -> bool:
        if self.in_debug[hart]:
            # one poll may have begun before the order was written
            return self._polls[hart] < before + 2 or bool(sample(self._dut.hart_reset) >> hart & 1)
        return bool((sample(self._dut.debug_req) & ~sample(self._dut.hart_reset)) >> hart & 1)

    async def run(self) -> None:
        while True:
            resets, requests = sample(self._dut.hart_reset), sample(self._dut.debug_req)
            for hart, state in enumerate(self.states):
                if resets >> hart & 1:
                    self.in_debug[hart] = False
                elif not self.in_debug[hart] and requests >> hart & 1:
                    self.in_debug[hart], state.pc = True, ENTRY
            halted = [hart for hart, inside in enumerate(self.in_debug) if inside]
            if halted:
                await self._step(self._rng.choice(halted))
            await RisingEdge(self._dut.clk)

    async def _step(self, hart: int) -> None:
        state = self.states[hart]
        fetched = await self._access(ObiTransfer(state.pc))
        if fetched.data == DRET:
            self.in_debug[hart] = False
        elif fetched.data == EBREAK:
            state.pc = ENTRY
        else:
            try:
                access = execute(state, fetched.data)
            except IllegalError:
                state.pc = TRAP
                return
            if access is not None:
                kind, address, register = access
                value = state.registers[register]
                done = await self._access(ObiTransfer(address, int(kind == "store"), value=value))
                if kind == "load":
                    state.put(register, done.data)
                    self._polls[hart] += done.data == 0 and address >= DEBUG_BASE + Place.FLAGS

    async def _access(self, transfer: ObiTransfer) -> ObiTransfer:
        """Access the module's memory for a hart; the module must use no address outside of it."""
        words = range(DEBUG_BASE, DEBUG_BASE + DEBUG_BYTES, WORD_BYTES)
        assert transfer.address in words, f"a hart is led to {transfer.address:#x}"
        done = await self._memory.run([transfer])
        assert not done.failed, f"error at {transfer.address:#x}"
        return done


def random_program(rng: Random) -> list[int]:
    """Return a random program buffer: sums and CSR accesses, sometimes an illegal word or no ebreak."""
    words: list[int] = []
    for _ in range(8):
        rd, rs1, rs2 = (rng.randrange(32) for _ in range(3))
        words.append(
            rng.choice(
                (
                    _ADD | rd << 7 | rs1 << 15 | rs2 << 20,
                    _ADDI | rd << 7 | rs1 << 15 | rng.getrandbits(12) << 20,
                    _CSRRW | rd << 7 | rs1 << 15 | rng.choice(CSRS) << 20,
                )
            )
        )
    if rng.random() < 0.7:
        words[rng.randrange(8)] = EBREAK
    if rng.random() < 0.2:
        words[rng.randrange(8)] = rng.choice((ILLEGAL, _CSRRW | _NO_CSR << 20))
    return words


def random_command(rng: Random) -> int:
    """Return a random abstract command, mostly a legal transfer."""
    number = rng.choice(
        (rng.randrange(0x1000, 0x1020), rng.randrange(0x1000, 0x1020), 0x1008, 0x1009, *rng.choices(CSRS, k=2))
    )
    number = rng.choice((_NO_CSR, 0x101F, 0x1020, 0x2008)) if rng.random() < 0.15 else number
    bits = (Command.TRANSFER, Command.WRITE, Command.POSTEXEC, Command.POSTINCREMENT)
    command = number | sum(bit for bit in bits if rng.random() < 0.6) | 2 << 20
    if rng.random() < 0.1:
        command ^= 1 << rng.randrange(20, 32)
    return command
