"""Table of the retirement port: the record of a retired instruction, and the cause of a cycle without one.

Ports of the hardware, structures of the test benches and columns of arrays are derived from :data:`RETIREMENT_FIELDS`.
"""

from enum import IntEnum
from typing import NamedTuple


class WaitCause(IntEnum):
    """Cause of a cycle without retirement; every cycle after reset has a retirement or one cause.

    The cause is recorded where the pipeline makes a bubble and is reported when the bubble leaves WB.
    """

    NONE = 0  # an instruction retires
    START = 1  # nothing has been fetched since reset
    FETCH = 2  # the instruction memory or the stream has not delivered
    JUMP = 3  # fetching restarts at the target of jal or jalr
    BRANCH = 4  # a taken branch drops the next instruction, and fetching restarts at its target
    TRAP = 5  # an interrupt waits for older instructions, an access faults, or fetching starts after a trap or mret
    LOAD_USE = 6  # a value is still being loaded
    JUMP_REGISTER = 7  # the base of jalr is still being written
    MAC_LOAD = 8  # the load, base or sum of a Mac&Load, a pv.rqld, or the result of a requantisation is not ready
    MULTICYCLE = 9  # mulh* or a division computes
    MISALIGNED = 10  # the first of two accesses across a word boundary
    GRANT = 11  # the data memory does not grant a request
    RESPONSE = 12  # the data memory has not answered
    CSR = 13  # a CSR write in EX may affect the next instruction
    LOOP = 14  # a hardware loop counts an iteration in EX, or fetching went past its end
    SYNC = 15  # fence.i, wfi or an instruction that acts in ID waits, or fetching restarts after fence.i
    SLEEP = 16  # wfi waits for an interrupt
    DEBUG = 17  # the core is in debug mode, or fetching starts in or after it


class RetirementField(NamedTuple):
    name: str  # name of the port without its prefix
    width: int  # bits of the port
    meaning: str
    of_pairs: bool = False  # present only with Mac&Load of two products


ORDER_BITS = 64  # width of counts of retirements and cycles; every other field fits a word

RETIREMENT_FIELDS = (
    RetirementField("order", ORDER_BITS, "number of the retirement, from 0"),
    RetirementField("insn", 32, "instruction as it was fetched, upper half 0 if it is compressed"),
    RetirementField("pc_rdata", 32, "address of the instruction"),
    RetirementField("pc_wdata", 32, "address of the next instruction"),
    RetirementField("trap", 1, "it raises an exception and has no other effect"),
    RetirementField("intr", 1, "it is the first of an interrupt handler"),
    RetirementField("cause", 6, "interrupt bit and code of mcause: of the trap, or of the interrupt with intr"),
    RetirementField("halt", 1, "always 0: nothing halts the core for good"),
    RetirementField("mode", 2, "privilege mode: 3, machine"),
    RetirementField("ixl", 2, "register width: 1, 32 bits"),
    RetirementField("rs1_addr", 5, "register in field rs1 of the expanded instruction"),
    RetirementField("rs2_addr", 5, "register in field rs2 of the expanded instruction"),
    RetirementField("rs1_rdata", 32, "old value of the register in field rs1"),
    RetirementField("rs2_rdata", 32, "old value of the register in field rs2"),
    RetirementField("rd_rdata", 32, "old value of the register in field rd: accumulator or rs3"),
    RetirementField("rd_we", 1, "the register in field rd is written"),
    RetirementField("rd_addr", 5, "number of the register in field rd"),
    RetirementField("rd_wdata", 32, "new value of the register in field rd"),
    RetirementField("base_we", 1, "an incremented base is written"),
    RetirementField("base_addr", 5, "number of the incremented base register"),
    RetirementField("base_wdata", 32, "new value of the incremented base register"),
    RetirementField("mem_addr", 32, "byte address of the memory access"),
    RetirementField("mem_rmask", 4, "bytes loaded, counted from mem_addr"),
    RetirementField("mem_wmask", 4, "bytes stored, counted from mem_addr"),
    RetirementField("mem_rdata", 32, "loaded bytes, not extended, 0 above their number"),
    RetirementField("mem_wdata", 32, "stored bytes, anything above their number"),
    RetirementField("nn_act_rdata", 32, "factor from an activation entry of the NN-RF, or rs2"),
    RetirementField("nn_wgt_rdata", 32, "factor from a weight entry of the NN-RF"),
    RetirementField("nn_we", 1, "an entry of the NN-RF is written"),
    RetirementField("nn_addr", 3, "entry of the NN-RF written: activations 0 and 1, weights 2 to 5, kappa 6, lambda 7"),
    RetirementField("nn_wdata", 32, "new value of the entry of the NN-RF"),
    RetirementField("rd2_we", 1, "the register behind that in field rd is written", of_pairs=True),
    RetirementField("rd2_wdata", 32, "new value of that register", of_pairs=True),
)
"""Fields of a retirement in the order of the ports; a field is valid only if the instruction has that effect."""

CYCLE = RetirementField(
    "cycle", ORDER_BITS, "clock cycle of the retirement, from 0 after reset; counted by the sampler"
)

VALID = RetirementField("valid", 1, "an instruction retires in this cycle")

WAIT = RetirementField(
    "wait",
    max(WaitCause).bit_length(),
    "why nothing retires in this cycle: " + ", ".join(f"{cause.value} {cause.name}" for cause in WaitCause),
)


def port_widths(*, pairs: bool) -> dict[str, int]:
    """Return the width of each retirement port by name without ``rvfi_``, in port order. ``pairs`` adds the ports of
    Mac&Load of two products, and the third bit of its NN-RF entry numbers."""
    fields = (field for field in (VALID, WAIT, *RETIREMENT_FIELDS) if pairs or not field.of_pairs)
    return {field.name: field.width + (pairs and field.name == "nn_addr") for field in fields}


WIDTHS = port_widths(pairs=False)  # ports that every core has

MEANINGS = {
    field.name: f"{field.meaning[0].upper()}{field.meaning[1:]}." for field in (VALID, WAIT, *RETIREMENT_FIELDS)
}
"""Sentence on the meaning of every retirement port, by the name of the port without prefix."""

CAUSE_INTERRUPT = 1 << 5  # interrupt bit of field ``cause``
CAUSE_CODE = CAUSE_INTERRUPT - 1  # code bits of field ``cause``
