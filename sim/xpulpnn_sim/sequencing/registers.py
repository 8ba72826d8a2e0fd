"""Registers: every operand is what the last older instruction wrote, two writes of an instruction included."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.table import enabled


def watch_registers(m, core, expanded, watched_register, bit, config):
    """What goes wrong if an operand is not what was written last.

    One register, any of them, is kept from what retires alone: what an instruction writes as rd and as its incremented
    base, of both rd if they are the same register. It starts as 0. Where it is rs1, rs2 or rd of an instruction that
    reads them, the operand must be as kept.

    Parameters
    ----------
    m : Module
        Takes the logic.
    core : Core
        With the retirement port.
    expanded : Value, 32 bits
        The instruction that retires, expanded if it is compressed.
    watched_register : Value, 5 bits
        Number of the register, always the same.
    bit : int
        The bit compared. Bits of registers are alike: all pass through the same ports and bypasses.
    config : CoreConfig
        Which instructions there are.

    Returns
    -------
    dict of str to Value, 1 bit
        What must stay 0, by operand.
    """
    rows = [row for row in enabled(config.extensions, config.widths, aliases=True) if row.size == 4]
    value, takes_effect = Signal(name="register_kept"), Signal(name="register_effect")
    m.d.comb += takes_effect.eq(core.rvfi_valid & ~core.rvfi_trap & (watched_register != 0))
    addresses = {"rs1": core.rvfi_rs1_addr, "rs2": core.rvfi_rs2_addr, "rd": expanded[7:12]}
    wrong = {}
    for name, address in addresses.items():
        reads = expanded.matches(*[row.pattern for row in rows if name in row.reads])
        read = getattr(core, f"rvfi_{name}_rdata")[bit]
        wrong[name] = takes_effect & reads & (address == watched_register) & (read != value)
    hits = {
        name: getattr(core, f"rvfi_{name}_we") & (getattr(core, f"rvfi_{name}_addr") == watched_register)
        for name in ("base", "rd")
    }
    written = Mux(hits["rd"], core.rvfi_rd_wdata[bit], core.rvfi_base_wdata[bit])
    with m.If(takes_effect & Cat(*hits.values()).any()):
        m.d.sync += value.eq(written)
    return wrong
