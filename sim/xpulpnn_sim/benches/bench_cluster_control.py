"""Bench of the cluster's control registers: random accesses against a table."""

from random import Random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.isa.cluster import BLOCK_BYTES, CONTROL, Control
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.base import Dut, pulse_reset, sample, start
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ObiManager, ObiTransfer, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.stimuli import near_offsets

_TRANSFERS = 300


class Registers(WordMemory):
    def __init__(self, cores: int, boot_addr: int) -> None:
        super().__init__()
        self.boot = [Control.BOOT_ADDRESS + WORD_BYTES * core for core in range(cores)]
        self._bits = {
            Control.EOC: 1,
            Control.FETCH_ENABLE: (1 << cores) - 1,
            Control.CLOCK_GATE: 1,
            Control.RETURN: WORD_MASK,
            **dict.fromkeys(self.boot, WORD_MASK),
        }
        self.update({Control.CLOCK_GATE: 1, **dict.fromkeys(self.boot, boot_addr)})

    def __missing__(self, offset: int) -> int:
        return 0

    def write(self, address: int, enables: int, value: int) -> None:
        super().write(address, enables, value)
        self[address] &= self._bits.get(address, 0)

    def exists(self, offset: int) -> bool:
        return offset in self._bits or offset in (Control.CONFIG, Control.DEBUG_STATUS)

    def outputs(self) -> dict[str, int]:
        boot = {f"boot_addresses__{core}": self[offset] for core, offset in enumerate(self.boot)}
        return boot | {
            "eoc": self[Control.EOC],
            "fetch_enable": self[Control.FETCH_ENABLE],
            "clock_gate": self[Control.CLOCK_GATE],
            "return_value": self[Control.RETURN],
        }


def _transfers(offsets: list[int], rng: Random) -> list[ObiTransfer]:
    """Return random accesses to the registers, writes with all byte enables, and accesses one bit away from them."""

    def access(offset: int, write: int, enables: int) -> ObiTransfer:
        return ObiTransfer(CONTROL + offset, write, enables, rng.getrandbits(32))

    transfers = [access(rng.choice(offsets), rng.getrandbits(1), ALL_BYTES) for _ in range(_TRANSFERS)]
    transfers += [access(offset, 1, enables) for offset in offsets for enables in range(ALL_BYTES + 1)]
    transfers += [access(offset, write, ALL_BYTES) for offset in near_offsets(offsets) for write in (0, 1)]
    rng.shuffle(transfers)
    return transfers


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def registers_keep_what_is_written(dut: Dut) -> None:
    """Compare read data, errors and ports with the table, after resets and after each access."""
    cores = bench_data()["cores"]
    rng, board = await start(dut), Scoreboard()
    anywhere = rng.getrandbits(32)

    def look(label: str) -> None:
        observed = {name: sample(getattr(dut, name)) for name in table.outputs()}
        board.equal(observed, table.outputs(), f"ports {label}")

    with ObiManager(dut, "port") as software:
        for life, boot_addr in enumerate((anywhere, anywhere ^ WORD_MASK)):
            await pulse_reset(dut)
            dut.boot_addr.value = boot_addr
            table = Registers(cores, boot_addr)
            offsets = [*Control, *table.boot, Control.BOOT_ADDRESS + WORD_BYTES * cores, BLOCK_BYTES - WORD_BYTES]
            await FallingEdge(dut.clk)
            look(f"after reset {life}")
            transfers = [ObiTransfer(CONTROL + offset) for offset in offsets]
            if not life:
                transfers += _transfers(offsets, rng)
            for number, transfer in enumerate(transfers):
                await software.run([transfer])
                await RisingEdge(dut.clk)
                where, offset = f"transfer {number} after reset {life}", transfer.address - CONTROL
                if transfer.write:
                    table.write(offset, transfer.enables, transfer.value)
                else:
                    board.equal(transfer.data, table[offset], f"{where}: register {offset:#x}")
                board.equal(transfer.failed, not table.exists(offset), f"{where}: error at {offset:#x}")
                look(f"after {where}")
    await RisingEdge(dut.clk)
