"""Memories of a cluster as modules of their own, in place of which macros of a technology may be put."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory

from xpulpnn.component import Component, In, Out, PortSignature
from xpulpnn.isa.machine import BYTE_BITS, XLEN


class MemoryPortSignature(PortSignature):
    """Single-port memory, or a memory macro, as seen by its user; the number of ``words`` is a power of two."""

    def __init__(self, words: int, width: int = XLEN, *, byte_enables: bool = True):
        ports = {
            "req": Out(1),  #: An access; a bank accepts one in every cycle.
            "we": Out(1),  #: The access writes; else it reads.
            #: be: Bytes of the word that are written. Optional.
            **({"be": Out(width // BYTE_BITS)} if byte_enables else {}),
            "addr": Out((words - 1).bit_length()),  #: Number of the word.
            "wdata": Out(width),  #: Data to write.
            "rdata": In(width),  #: The word read, in the cycle after the access.
        }
        super().__init__(ports)


class SinglePortMemory(Component):
    """Memory with one port: an access per cycle; a macro of the technology may replace the module.

    In a cycle with ``req`` the word ``addr`` is written with ``we``, in the bytes of ``be`` if there are such, and is
    read without. The word read appears in the next cycle and stays until the next read. Not reset.
    """

    def __init__(self, words: int, width: int = XLEN, *, byte_enables: bool = True):
        self.words = words  # size in words, a power of two
        self.width = width  # bits of a word
        self.byte_enables = byte_enables
        self.module_variant = f"{words}x{width}"
        #: port: Access.
        super().__init__(ports={"port": In(MemoryPortSignature(words, width, byte_enables=byte_enables))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=self.width, depth=self.words, init=[])
        write = words.write_port(granularity=BYTE_BITS if self.byte_enables else None)
        read = words.read_port()
        port = self.port
        writes = port.req & port.we
        m.d.comb += [
            write.addr.eq(port.addr),
            write.data.eq(port.wdata),
            write.en.eq(port.be & writes.replicate(len(port.be)) if self.byte_enables else writes),
            read.addr.eq(port.addr),
            read.en.eq(port.req & ~port.we),
            port.rdata.eq(read.data),
        ]
        return m


class TwoPortMemory(Component):
    """Memory with a port to write and one or two to read; a macro of the technology may replace the module.

    The words read appear in the cycle after ``read`` and stay until the next read. A word that is written in the cycle
    in which it is read is read as before. Not reset.
    """

    def __init__(self, words: int, width: int, *, reads: int = 1):
        self.words = words  # size in words, a power of two
        self.width = width  # bits of a word
        self.reads = reads  # ports to read
        self.module_variant = f"{words}x{width}"
        address_bits = (words - 1).bit_length()
        ports = {
            "write": In(1),  #: A word is written.
            "waddr": In(address_bits),  #: Number of the word to write.
            "wdata": In(width),  #: Data to write.
            "read": In(1),  #: Words are read, by every port.
            "raddr": In(address_bits).array(reads),  #: Number of the word to read.
            "rdata": Out(width).array(reads),  #: The word read.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=self.width, depth=self.words, init=[])
        write = words.write_port()
        m.d.comb += [write.en.eq(self.write), write.addr.eq(self.waddr), write.data.eq(self.wdata)]
        for addr, data in zip(self.raddr, self.rdata, strict=True):
            read = words.read_port()
            m.d.comb += [read.en.eq(self.read), read.addr.eq(addr), data.eq(read.data)]
        return m
