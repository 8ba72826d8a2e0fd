"""Bench of the cluster's control registers: random accesses against a table."""

from random import Random

from xpulpnn.isa.cluster import BLOCK_BYTES, CONTROL, Control
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents import Dut, ObiTransfer, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.benches.peripheral_env import near_accesses, register_words, run_transfers


class Registers:
    def __init__(self, cores: int, boot_addr: int) -> None:
        boot = [Control.BOOT_ADDRESS + WORD_BYTES * core for core in range(cores)]
        self._bits = {
            Control.EOC: 1,
            Control.FETCH_ENABLE: (1 << cores) - 1,
            Control.CLOCK_GATE: 1,
            Control.RETURN: WORD_MASK,
            **dict.fromkeys(boot, WORD_MASK),
            **dict.fromkeys((Control.CONFIG, Control.DEBUG_STATUS), 0),
        }
        self.words = dict.fromkeys(self._bits, 0) | {Control.CLOCK_GATE: 1, **dict.fromkeys(boot, boot_addr)}
        self._outputs = {f"boot_addresses__{core}": offset for core, offset in enumerate(boot)}
        self._outputs |= {name: Control[name.upper()] for name in ("eoc", "fetch_enable", "clock_gate")}
        self._outputs["return_value"] = Control.RETURN

    def read(self, offset: int) -> int:
        return self.words[offset]

    def write(self, offset: int, value: int) -> None:
        self.words[offset] = value & self._bits[offset]

    def cycle(self) -> dict[str, int]:
        return {name: self.words[offset] for name, offset in self._outputs.items()}


@unit_test()
async def registers_keep_what_is_written(dut: Dut, rng: Random) -> None:
    """Compare read data, errors and ports with the table, after resets and after each access."""
    cores, rng = bench_data()["cores"], rng
    anywhere = rng.getrandbits(32)
    for life, boot_addr in enumerate((anywhere, anywhere ^ WORD_MASK)):
        dut.boot_addr.value = boot_addr
        model = Registers(cores, boot_addr)
        registers = rng.sample([*model.words], len(model.words))
        reads = [*registers, Control.BOOT_ADDRESS + WORD_BYTES * cores, BLOCK_BYTES - WORD_BYTES]
        transfers = [ObiTransfer(CONTROL + offset) for offset in reads]
        if not life:
            transfers += [*register_words(CONTROL, registers, rng), *near_accesses(CONTROL, registers)]
            transfers += [ObiTransfer(CONTROL + offset, 1, value=WORD_MASK) for offset in registers]
            # the clock gate alone is 1 after a reset
            transfers.append(ObiTransfer(CONTROL + Control.CLOCK_GATE, 1))
        await run_transfers(dut, model, CONTROL, registers, transfers)
