"""Instruction words as the properties read them, apart from the gates of decoder and expansion."""

from amaranth.hdl import Mux

_SYSTEM, _BRANCH, _JAL, _JALR, _MISC_MEM = 0x73, 0x63, 0x6F, 0x67, 0x0F
_MRET, _WFI, _ECALL, _EBREAK, _C_EBREAK = 0x3020_0073, 0x1050_0073, 0x0000_0073, 0x0010_0073, 0x9002


class Word:
    """The fields of an instruction as it was fetched, and what kind it is."""

    def __init__(self, raw):
        self.raw = raw
        self.wide = raw[:2] == 0b11
        self.compressed = ~self.wide
        self.opcode, self.rd, self.funct3 = raw[:7], raw[7:12], raw[12:15]
        self.rs1, self.rs2, self.top12 = raw[15:20], raw[20:25], raw[20:32]
        self.loop = raw[7]

    def _short(self, quadrant, *funct3):
        found = self.raw[13:16] == funct3[0]
        for number in funct3[1:]:
            found |= self.raw[13:16] == number
        return (self.raw[:2] == quadrant) & found

    @property
    def branches(self):
        """Conditional branches, with a register or an immediate, and c.beqz and c.bnez."""
        return (self.wide & (self.opcode == _BRANCH)) | self._short(0b01, 0b110, 0b111)

    @property
    def jumps(self):
        """jal, jalr, c.j, c.jal, c.jr and c.jalr."""
        direct = self._short(0b01, 0b001, 0b101)
        through = self._short(0b10, 0b100) & (self.raw[2:7] == 0) & (self.raw[7:12] != 0)
        return (self.wide & ((self.opcode == _JAL) | (self.opcode == _JALR))) | direct | through

    @property
    def returns(self):
        """Mret."""
        return self.raw == _MRET

    @property
    def sleeps(self):
        """Wfi."""
        return self.raw == _WFI

    @property
    def calls(self):
        """Ecall."""
        return self.raw == _ECALL

    @property
    def breaks(self):
        """Ebreak and c.ebreak."""
        return (self.raw == _EBREAK) | (self.raw == _C_EBREAK)

    @property
    def fences(self):
        """Fence."""
        return (self.opcode == _MISC_MEM) & (self.funct3 == 0b000)

    @property
    def syncs(self):
        """Fence.i."""
        return (self.opcode == _MISC_MEM) & (self.funct3 == 0b001)

    @property
    def accesses_csr(self):
        """An instruction on a CSR, of any of the six kinds."""
        return self.wide & (self.opcode == _SYSTEM) & (self.funct3[:2] != 0)

    @property
    def writes_csr(self):
        """An access to a CSR that writes it, not only reads."""
        return (self.funct3[:2] == 0b01) | (self.rs1 != 0)

    def written(self, old, rs1):
        """Value that is written, before the CSR drops bits; ``old`` is the CSR, ``rs1`` the register."""
        operand = Mux(self.funct3[2], self.rs1, rs1)
        return Mux(self.funct3[1], Mux(self.funct3[0], old & ~operand, old | operand), operand)
