"""JTAG: a manager that follows the state diagram, and checks the output of the test access port."""

from random import Random

from cocotb.triggers import Timer

from xpulpnn.isa.debug import IR_BITS, TapRegister
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import Dut, sample
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard

DMI_BITS = 41
_DATA_BITS: dict[int, int] = {TapRegister.DTMCS: 32, TapRegister.DMI: DMI_BITS}
_PAUSE_ODDS = 0.1

# the state diagram of IEEE 1149.1: next states for TMS = 0 and TMS = 1
_NEXT = {"reset": ("idle", "reset"), "idle": ("idle", "select dr")}
for _kind, _beyond in (("dr", "select ir"), ("ir", "reset")):
    _NEXT |= {
        f"select {_kind}": (f"capture {_kind}", _beyond),
        f"capture {_kind}": (f"shift {_kind}", f"exit1 {_kind}"),
        f"shift {_kind}": (f"shift {_kind}", f"exit1 {_kind}"),
        f"exit1 {_kind}": (f"pause {_kind}", f"update {_kind}"),
        f"pause {_kind}": (f"pause {_kind}", f"exit2 {_kind}"),
        f"exit2 {_kind}": (f"shift {_kind}", f"update {_kind}"),
        f"update {_kind}": ("idle", "select dr"),
    }


def _bits(value: int, count: int) -> list[int | None]:
    return [value >> place & 1 for place in range(count)]


class JtagManager:
    """Debugger at a test access port; checks ``tdo`` and ``tdo_enable`` in every cycle of TCK.

    The ports are ``tck_clk``, ``tck_rst``, ``tms``, ``tdi``, ``tdo`` and ``tdo_enable``; the instruction register has
    five bits. ``half_ns`` is half a period of TCK, ``idcode`` the expected identification. Scans pause at random.
    """

    def __init__(self, dut: Dut, half_ns: float, idcode: int, rng: Random, board: Scoreboard) -> None:
        self._dut, self._half, self._idcode, self._rng, self._board = dut, half_ns, idcode, rng, board
        self._state, self._instruction = "reset", int(TapRegister.IDCODE)
        self._shifted: list[int | None] = []
        """Expected bits of the shift register, the lowest first; None where the debug module determines the bit."""

    async def clock(self, tms: int, tdi: int = 0) -> int:
        """Execute a cycle of TCK; return ``tdo`` before the rising edge, which is driven in the shift states."""
        dut = self._dut
        dut.tms.value, dut.tdi.value = tms, tdi
        await Timer(self._half, unit="ns", round_mode="round")
        tdo, state = sample(dut.tdo), self._state
        self._board.equal(bool(sample(dut.tdo_enable)), state.startswith("shift"), "tdo_enable")
        if state.startswith("shift") and self._shifted[0] is not None:
            self._board.equal(tdo, self._shifted[0], f"tdo in {state}")
        self._follow(tdi)
        self._state = "reset" if sample(dut.tck_rst) else _NEXT[state][tms]
        dut.tck_clk.value = 1
        await Timer(self._half, unit="ns", round_mode="round")
        dut.tck_clk.value = 0
        return tdo

    def _follow(self, tdi: int) -> None:
        match self._state.split():
            case ["reset"]:
                self._instruction = int(TapRegister.IDCODE)
            case "capture", "ir":
                self._shifted = _bits(1, IR_BITS)
            case "capture", _ if self._instruction in (TapRegister.DTMCS, TapRegister.DMI):
                self._shifted = [None] * _DATA_BITS[self._instruction]
            case "capture", _:
                is_identity = self._instruction == TapRegister.IDCODE
                self._shifted = _bits(self._idcode, 32) if is_identity else [0]
            case "shift", _:
                self._shifted = [*self._shifted[1:], tdi]
            case "update", "ir":
                self._instruction = sum((bit or 0) << place for place, bit in enumerate(self._shifted))
            case _:
                pass

    async def modes(self, *modes: int) -> None:
        for mode in modes:
            await self.clock(mode)

    async def reset(self) -> None:
        """Go to Run-Test/Idle through Test-Logic-Reset, with five cycles of TMS = 1."""
        await self.modes(1, 1, 1, 1, 1, 0)

    async def shift(self, value: int, bits: int, *, idle: int = 0) -> int:
        await self.modes(0, 0)
        shifted_out = 0
        for place in range(bits):
            last = place == bits - 1
            pauses = not last and self._rng.random() < _PAUSE_ODDS
            shifted_out |= await self.clock(int(last or pauses), value >> place & 1) << place
            if pauses:
                await self.modes(0, *(0 for _ in range(self._rng.randrange(3))), 1, 0)
        await self.modes(1, *(0 for _ in range(idle + 1)))
        return shifted_out

    async def instruction(self, register: int) -> None:
        """Select a data register."""
        await self.modes(1, 1)
        await self.shift(register, IR_BITS)

    async def data(self, value: int, bits: int, *, idle: int = 0) -> int:
        """Scan the data register and return its previous value; then stay in Run-Test/Idle for ``idle`` more cycles."""
        await self.modes(1)
        return await self.shift(value, bits, idle=idle)

    async def scan(self, register: int, value: int, bits: int = XLEN) -> int:
        """Select a data register, scan it, and return its previous value."""
        await self.instruction(register)
        return await self.data(value, bits)

    async def dmi(self, op: int, address: int = 0, word: int = 0, *, idle: int = 0) -> tuple[int, int, int]:
        """Start an access to the debug module; return outcome, address and word of the previous access."""
        scanned = await self.data(address << 34 | word << 2 | op, DMI_BITS, idle=idle)
        return scanned & 3, scanned >> 34, scanned >> 2 & WORD_MASK
