"""A system of a core, a memory and a UART in Amaranth: simulated, and written as Verilog.

python examples/soc/soc.py              # runs hello.s, prints what the UART sends
python examples/soc/soc.py -o build/soc # also writes soc.v
"""

import argparse
from pathlib import Path

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from uart import UartTransmitter

from xpulpnn import Core, CoreConfig, ObiSignature, preset
from xpulpnn.verilog import emit
from xpulpnn_sw.assembly.asm import assemble

PROGRAM = Path(__file__).with_name("hello.s")
RAM_WORDS = 1024
UART_BASE = 0x1000_0000
"""Word 0: byte to send; word 1: 1 while it is being sent. The lowest bit that tells it from memory is bit 28."""

BIT_CYCLES = 8
FRAME_BITS = 10
"""Of a byte on the line: start bit, eight data bits, stop bit."""


class Soc(wiring.Component):
    """Core, memory and UART; memory answers in the next cycle.

    Parameters
    ----------
    config : CoreConfig
        The core's.
    words : list of int
        Program, from address 0.

    Members
    -------
    tx : Out(1)
        The UART's line, 8 data bits, no parity, a bit every ``BIT_CYCLES`` cycles.
    core_sleep : Out(1)
        The core waits in ``wfi``.
    """

    tx: Out(1)
    core_sleep: Out(1)

    def __init__(self, config: CoreConfig, words: list[int]):
        self._config = config
        self._words = words
        super().__init__()

    def elaborate(self, platform):
        """Connect the core's two ports to memory, and stores and loads above it to the UART."""
        m = Module()
        m.submodules.core = core = Core(self._config)
        m.submodules.bus = bus = DataBus()
        m.submodules.uart = uart = UartTransmitter(BIT_CYCLES)
        m.submodules.memory = memory = Memory(shape=32, depth=RAM_WORDS, init=self._words)
        fetch, load, store = memory.read_port(), memory.read_port(), memory.write_port(granularity=8)
        wiring.connect(m, core.data, bus.core)
        m.d.sync += core.instr.rvalid.eq(core.instr.req)
        m.d.comb += [
            core.fetch_enable.eq(1),
            core.instr.gnt.eq(1),
            fetch.en.eq(core.instr.req),
            fetch.addr.eq(core.instr.addr[2:]),
            core.instr.rdata.eq(fetch.data),
            load.en.eq(bus.memory_read),
            load.addr.eq(bus.address),
            bus.memory_data.eq(load.data),
            store.en.eq(bus.memory_write),
            store.addr.eq(bus.address),
            store.data.eq(bus.write_data),
            uart.send.eq(bus.uart_write),
            uart.byte.eq(bus.write_data[:8]),
            bus.uart_busy.eq(uart.busy),
            self.tx.eq(uart.tx),
            self.core_sleep.eq(core.core_sleep),
        ]
        return m


class DataBus(wiring.Component):
    """Sends the core's loads and stores to memory or UART; every request is granted at once and answered a cycle later.

    Members
    -------
    core : In(ObiSignature)
        The core's data port.
    address : Out(10), write_data : Out(32)
        Word in memory, and what to write.
    memory_read : Out(1), memory_write : Out(4)
        Memory is read; bytes of it are written.
    memory_data : In(32)
        What was read, a cycle later.
    uart_write : Out(1)
        A byte is handed to the UART.
    uart_busy : In(1)
        It is still sending.
    """

    core: In(ObiSignature())
    address: Out(range(RAM_WORDS))
    write_data: Out(32)
    memory_read: Out(1)
    memory_write: Out(4)
    memory_data: In(32)
    uart_write: Out(1)
    uart_busy: In(1)

    def elaborate(self, platform):
        """Decode the address; answer in the next cycle from where the request went."""
        m = Module()
        is_uart = self.core.addr[UART_BASE.bit_length() - 1]
        from_uart = Signal()
        busy = Signal()
        m.d.sync += [self.core.rvalid.eq(self.core.req), from_uart.eq(is_uart), busy.eq(self.uart_busy)]
        m.d.comb += [
            self.core.gnt.eq(1),
            self.core.rdata.eq(Mux(from_uart, busy, self.memory_data)),
            self.address.eq(self.core.addr[2:]),
            self.write_data.eq(self.core.wdata),
        ]
        with m.If(self.core.req & is_uart):
            m.d.comb += self.uart_write.eq(self.core.we)
        with m.Elif(self.core.req):
            m.d.comb += self.memory_read.eq(~self.core.we)
            m.d.comb += self.memory_write.eq(Mux(self.core.we, self.core.be, 0))
        return m


def program_words() -> list[int]:
    """The example's program."""
    image = assemble(PROGRAM.read_text()).to_bytes()
    image += bytes(-len(image) % 4)
    return [int.from_bytes(image[at : at + 4], "little") for at in range(0, len(image), 4)]


def printed(soc: Soc, most_cycles: int = 20_000) -> str:
    """Return what the UART sends until the core sleeps, by Amaranth's simulator."""
    received = bytearray()

    async def terminal(ctx):
        for _ in range(most_cycles // BIT_CYCLES):
            if ctx.get(soc.tx):
                if ctx.get(soc.core_sleep):
                    return
                await ctx.tick()
                continue
            await ctx.tick().repeat(BIT_CYCLES + BIT_CYCLES // 2)
            value = 0
            for bit in range(8):
                value |= ctx.get(soc.tx) << bit
                await ctx.tick().repeat(BIT_CYCLES)
            received.append(value)

    simulator = Simulator(soc)
    simulator.add_clock(1e-6)
    simulator.add_testbench(terminal)
    simulator.run()
    return received.decode()


def main() -> None:
    """Run the program, and write the Verilog if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for soc.v")
    folder = parser.parse_args().output
    config, words = preset("xpulpnn"), program_words()
    print(printed(Soc(config, words)), end="")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soc.v").write_text(emit(Soc(config, words), "soc", config=config).text)
        print(folder / "soc.v")


if __name__ == "__main__":
    main()
