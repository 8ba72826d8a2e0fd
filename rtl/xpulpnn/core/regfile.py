from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.memory import Memory

from xpulpnn.component import Component, In, Out, follow_case
from xpulpnn.config import RegFileStorage
from xpulpnn.isa.machine import REGISTERS


class RegFile(Component):
    """31 registers of 32 bits, three read and two write ports.

    Reads are combinational and see the registers before the writes of the same cycle. If both ports write one register,
    port B (the younger instruction, in EX) wins over port A (in WB). x0 reads 0; writes to it are dropped. Reset clears
    every register.
    """

    def __init__(self, storage: RegFileStorage = "flip-flops", *, pairs: bool = False):
        # storage: One register with write enable per number; or one array with a bit per register that marks it as
        # written since reset; or memories with one write port each, for the LUTs of FPGAs, with one more bit per
        # register that selects the memory with its value. All are equivalent in every cycle; a simulator runs the array
        # fastest.
        ports = {
            #: rs1_addr, rs2_addr, rs3_addr: Registers to read.
            "rs1_addr": In(5),
            "rs2_addr": In(5),
            "rs3_addr": In(5),
            #: rs1, rs2, rs3: Values of the registers, in the same cycle.
            "rs1": Out(32),
            "rs2": Out(32),
            "rs3": Out(32),
            "we_a": In(1),  #: Port A (load data, bases of Mac&Load) writes at the clock edge.
            "addr_a": In(5),  #: Register that port A writes.
            "data_a": In(32),  #: Value that port A writes.
            "we_b": In(1),  #: Port B (results of EX) writes at the clock edge.
            "addr_b": In(5),  #: Register that port B writes.
            "data_b": In(32),  #: Value that port B writes.
        }
        if pairs:
            #: pair, odd_a: Port A also writes ``odd_a`` to the odd register after the even one at ``addr_a``, except
            #:   x1; optional.
            ports |= {"pair": In(1), "odd_a": In(32)}
        self.storage, self.pairs = storage, pairs
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        {"array": self._array, "lut-ram": self._lut_ram, "flip-flops": self._flip_flops}[self.storage](m)
        return m

    def _reads(self):
        return ((self.rs1_addr, self.rs1), (self.rs2_addr, self.rs2), (self.rs3_addr, self.rs3))

    def _array(self, m):
        m.submodules.registers = registers = Memory(shape=len(self.data_a), depth=REGISTERS, init=[])
        write_a, write_b = registers.write_port(), registers.write_port()
        written = Signal(REGISTERS)
        m.d.comb += [
            write_a.addr.eq(self.addr_a),
            write_a.data.eq(self.data_a),
            write_a.en.eq(self.we_a & self.addr_a.any() & ~(self.we_b & (self.addr_a == self.addr_b))),
            write_b.addr.eq(self.addr_b),
            write_b.data.eq(self.data_b),
            write_b.en.eq(self.we_b & self.addr_b.any()),
        ]
        marks = written | write_a.en << self.addr_a | write_b.en << self.addr_b
        if self.pairs:
            write_odd, odd = registers.write_port(), Cat(Const(1), self.addr_a[1:])
            m.d.comb += [
                write_odd.addr.eq(odd),
                write_odd.data.eq(self.odd_a),
                write_odd.en.eq(self.we_a & self.addr_a.any() & self.pair & ~(self.we_b & (self.addr_b == odd))),
            ]
            marks |= write_odd.en << odd
        m.d.sync += written.eq(marks)
        for addr, value in self._reads():
            read = registers.read_port(domain="comb")
            m.d.comb += [read.addr.eq(addr), value.eq(Mux(written.bit_select(addr, 1), read.data, 0))]

    def _lut_ram(self, m):
        """Build a memory for port B and one for port A, or two (even and odd registers) if port A writes pairs."""
        write_a, write_b = self.we_a & self.addr_a.any(), self.we_b & self.addr_b.any()
        addr_a, place = self.addr_a, self.addr_a[1:]
        memories = {"port_b": (write_b, self.addr_b, self.data_b)}
        writes_a = write_a << addr_a
        if self.pairs:
            odd = write_a & (addr_a[0] | self.pair)
            memories["even"] = write_a & ~addr_a[0], place, self.data_a
            memories["odd"] = odd, place, Mux(self.pair, self.odd_a, self.data_a)
            writes_a |= odd << Cat(Const(1), place)
        else:
            memories["port_a"] = write_a, addr_a, self.data_a
        written = Signal(REGISTERS)
        in_a = Signal(REGISTERS)
        writes_b = (write_b << self.addr_b)[:REGISTERS]
        m.d.sync += [written.eq(written | writes_a | writes_b), in_a.eq((in_a | writes_a) & ~writes_b)]
        ports = {}
        for name, (enable, addr, value) in memories.items():
            m.submodules[name] = memory = Memory(shape=len(value), depth=1 << len(addr), init=[])
            write = memory.write_port()
            m.d.comb += [write.addr.eq(addr), write.data.eq(value), write.en.eq(enable)]
            ports[name] = [memory.read_port(domain="comb") for _ in self._reads()]
            for port, (read_addr, _) in zip(ports[name], self._reads(), strict=True):
                m.d.comb += port.addr.eq(read_addr if len(addr) == len(read_addr) else read_addr[1:])
        for number, (addr, value) in enumerate(self._reads()):
            read = {name: read_ports[number].data for name, read_ports in ports.items()}
            of_a = Mux(addr[0], read["odd"], read["even"]) if self.pairs else read["port_a"]
            newest = Mux(in_a.bit_select(addr, 1), of_a, read["port_b"])
            m.d.comb += value.eq(Mux(written.bit_select(addr, 1), newest, 0))

    def _flip_flops(self, m):
        registers = {number: Signal(32, name=f"x{number}") for number in range(1, REGISTERS)}
        odd_data = Mux(self.pair, self.odd_a, self.data_a) if self.pairs else self.data_a
        for number, register in registers.items():
            chosen = self.addr_a == number
            if self.pairs and number & 1 and number > 1:
                chosen |= self.pair & (self.addr_a == number - 1)
            with m.If(self.we_b & (self.addr_b == number)):
                m.d.sync += register.eq(self.data_b)
            with m.Elif(self.we_a & chosen):
                m.d.sync += register.eq(odd_data if number & 1 else self.data_a)
        for addr, value in self._reads():
            follow_case(m, value, addr, registers)
