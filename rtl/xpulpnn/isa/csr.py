"""CSRs: addresses, names, access, writable bits and reset values (guide, "Control and status registers")."""

from dataclasses import dataclass
from enum import Enum, IntEnum

from xpulpnn.errors import EncodingError
from xpulpnn.isa import machine

MSTATUS_MIE_BIT, MSTATUS_MPIE_BIT, MSTATUS_MPP_LSB = 3, 7, 11
MSTATUS_MIE, MSTATUS_MPIE = 1 << MSTATUS_MIE_BIT, 1 << MSTATUS_MPIE_BIT

MCAUSE_CODE_BITS = 5
MCAUSE_INTERRUPT_BIT = machine.XLEN - 1
MCAUSE_INTERRUPT = 1 << MCAUSE_INTERRUPT_BIT

MCOUNTINHIBIT_CY_BIT, MCOUNTINHIBIT_IR_BIT = 0, 2  # bits of mcountinhibit that stop mcycle and minstret
INHIBIT = {"mcycle": 1 << MCOUNTINHIBIT_CY_BIT, "minstret": 1 << MCOUNTINHIBIT_IR_BIT}
PCMR_COUNTS, PCMR_SATURATES = 1 << 0, 1 << 1  # bits of pcmr
MTVEC_VECTORED = 1  # mode bit of mtvec: interrupts enter through a table, exceptions at its first entry

DCSR_STEP_BIT, DCSR_STOPCOUNT_BIT, DCSR_STEPIE_BIT, DCSR_EBREAKM_BIT = 2, 10, 11, 15
DCSR_CAUSE_LSB, DCSR_CAUSE_BITS, DCSR_VERSION_LSB = 6, 3, 28
TRIGGERS = 2  # largest number of triggers
TDATA1_LOAD_BIT, TDATA1_STORE_BIT, TDATA1_EXECUTE_BIT, TDATA1_M_BIT, TDATA1_ACTION_LSB = 0, 1, 2, 6, 12
TDATA1_DMODE_BIT, TDATA1_TYPE_LSB = 27, 28
ADDRESS_TRIGGER = 2  # field type of tdata1: mcontrol
DEBUG_VERSION = 4  # field xdebugver of dcsr: the specification of 2019, 0.13.2

MTVEC_BASE_LSB = 8
MTVEC_BASE = machine.WORD_MASK & ~((1 << MTVEC_BASE_LSB) - 1)


class CsrAccess(Enum):
    RW = "read and write"
    RO = "read; a write is illegal"
    WI = "read; a write is ignored"
    WO = "write; reads as 0"


class CsrGroup(Enum):
    """Condition for the existence of a CSR in a core."""

    BASE = "always"
    HWLOOP = "with XpulpV2"
    PERFORMANCE = "with the PULP performance counters"
    DEBUG = "with debug mode, and while the core is in it"
    NN_ACTIVATION = "with nn_csrs and the nn form of Mac&Load"
    NN_WEIGHT = "with nn_csrs"
    NN_PARAMETER = "with nn_csrs and requantisation"
    NN_PAIR = "with nn_csrs and Mac&Load of two products"
    TRIGGER = "with debug mode; a write of tdata1 or tdata2 is ignored while the core is not in it"


class ResetSource(Enum):
    """Source of the reset value of a CSR."""

    CONSTANT = "constant"
    BOOT_ADDRESS = "bits 31:8 of the boot address above the constant"
    HART_ID = "the hart_id input"
    IRQ_LINES = "the interrupt inputs, followed continuously"


ALL_BITS = machine.WORD_MASK

CLUSTER_EVENTS = ("ext_loads", "ext_stores", "ext_load_cycles", "ext_store_cycles", "tcdm_contention")
"""Cluster events at the input ``ext_events`` of the core, by bit number."""

PERFORMANCE_EVENTS = (
    *("cycles", "instructions", "load_use_stalls", "jump_register_stalls", "fetch_stalls", "loads", "stores", "jumps"),
    *("branches", "taken_branches", "compressed", "elw_stalls"),
    *CLUSTER_EVENTS,
)
"""Events that the PULP performance counters count, by counter number."""


@dataclass(frozen=True, slots=True)
class Csr:
    address: int
    name: str
    access: CsrAccess
    reset: int = 0  # value after reset, or its constant part
    writable: int = 0  # mask of the bits that a write changes; the other bits keep their reset value
    group: CsrGroup = CsrGroup.BASE
    source: ResetSource = ResetSource.CONSTANT  # source of the rest of the reset value


class DebugCause(IntEnum):
    """Reason for entering debug mode: field ``cause`` of dcsr."""

    EBREAK = 1  # ebreak, with ebreakm
    TRIGGER = 2  # a trigger
    HALT_REQUEST = 3  # a halt request of the debug module, also one at the start of the core
    STEP = 4  # step, after an instruction that was executed or has trapped


_RW, _RO, _WI, _WO = CsrAccess
NN_BASE = 0x7D0  # address of word 0 of the NN-RF
NN_GROUPS = {
    CsrGroup.NN_ACTIVATION: range(machine.NNRF_ACTIVATIONS),
    CsrGroup.NN_WEIGHT: range(machine.FIRST_WEIGHT, machine.NNRF_ENTRIES),
    CsrGroup.NN_PARAMETER: range(machine.FIRST_PARAMETER, machine.SECOND_PAIR),
    CsrGroup.NN_PAIR: range(machine.SECOND_PAIR, machine.NNRF_WORDS),
}
"""NN-RF entries to which the CSRs of each group give access."""

_LOOP_BASES = (0x7C0, 0x7C4)
_LOOP_FIELDS = (("lpstart", ALL_BITS - 1), ("lpend", ALL_BITS - 1), ("lpcount", ALL_BITS))
_COUNTERS = (("cycle", 0x00), ("cycleh", 0x80), ("instret", 0x02), ("instreth", 0x82))
_MACHINE_COUNTERS, _MACHINE_EVENTS, _USER_COUNTERS, _PCCR = 0xB00, 0x320, 0xC00, 0x780
_HIGH = 0x80
_NO_COUNTERS = range(3, 32)  # numbers of the counters that the privileged specification requires; here they read as 0

CSRS: tuple[Csr, ...] = (
    Csr(0x300, "mstatus", _RW, reset=machine.MACHINE_MODE << MSTATUS_MPP_LSB, writable=MSTATUS_MIE | MSTATUS_MPIE),
    Csr(0x301, "misa", _WI, reset=0x4080_1104),
    Csr(0x310, "mstatush", _WI),
    Csr(0x304, "mie", _RW, writable=machine.IRQ_BITS),
    Csr(
        0x305, "mtvec", _RW, reset=MTVEC_VECTORED, writable=MTVEC_BASE | MTVEC_VECTORED, source=ResetSource.BOOT_ADDRESS
    ),
    Csr(0x320, "mcountinhibit", _RW, writable=1 << MCOUNTINHIBIT_CY_BIT | 1 << MCOUNTINHIBIT_IR_BIT),
    *(Csr(_MACHINE_EVENTS + number, f"mhpmevent{number}", _WI) for number in _NO_COUNTERS),
    Csr(0x340, "mscratch", _RW, writable=ALL_BITS),
    Csr(0x341, "mepc", _RW, writable=ALL_BITS - 1),
    Csr(0x342, "mcause", _RW, writable=MCAUSE_INTERRUPT | (1 << MCAUSE_CODE_BITS) - 1),
    Csr(0x343, "mtval", _WI),
    Csr(0x344, "mip", _WI, source=ResetSource.IRQ_LINES),
    *(
        Csr(base + index, f"{name}{loop}", _RW, writable=bits, group=CsrGroup.HWLOOP)
        for loop, base in enumerate(_LOOP_BASES)
        for index, (name, bits) in enumerate(_LOOP_FIELDS)
    ),
    *(
        Csr(NN_BASE + number, f"nn{number}", _RW, writable=ALL_BITS, group=group)
        for group, numbers in NN_GROUPS.items()
        for number in numbers
    ),
    *(Csr(_MACHINE_COUNTERS + low, f"m{name}", _RW, writable=ALL_BITS) for name, low in _COUNTERS),
    *(
        Csr(_MACHINE_COUNTERS + high + number, f"mhpmcounter{number}{suffix}", _WI)
        for high, suffix in ((0, ""), (_HIGH, "h"))
        for number in _NO_COUNTERS
    ),
    *(Csr(_USER_COUNTERS + low, name, _RO) for name, low in _COUNTERS),
    Csr(0xF11, "mvendorid", _RO),
    Csr(0xF12, "marchid", _RO),
    Csr(0xF13, "mimpid", _RO),
    Csr(0xF14, "mhartid", _RO, source=ResetSource.HART_ID),
    Csr(0xF15, "mconfigptr", _RO),
    *(
        Csr(_PCCR + event, f"pccr{event}", _RW, writable=ALL_BITS, group=CsrGroup.PERFORMANCE)
        for event in range(len(PERFORMANCE_EVENTS))
    ),
    Csr(0x79F, "pccrall", _WO, writable=ALL_BITS, group=CsrGroup.PERFORMANCE),
    Csr(0xCC0, "pcer", _RW, writable=(1 << len(PERFORMANCE_EVENTS)) - 1, group=CsrGroup.PERFORMANCE),
    Csr(0xCC1, "pcmr", _RW, reset=0b11, writable=0b11, group=CsrGroup.PERFORMANCE),
    Csr(0x7A0, "tselect", _RW, writable=TRIGGERS - 1, group=CsrGroup.TRIGGER),
    Csr(
        0x7A1,
        "tdata1",
        _RW,
        reset=ADDRESS_TRIGGER << TDATA1_TYPE_LSB | 1 << TDATA1_DMODE_BIT | 1 << TDATA1_ACTION_LSB,
        writable=1 << TDATA1_M_BIT | 1 << TDATA1_EXECUTE_BIT | 1 << TDATA1_STORE_BIT | 1 << TDATA1_LOAD_BIT,
        group=CsrGroup.TRIGGER,
    ),
    Csr(0x7A2, "tdata2", _RW, writable=ALL_BITS, group=CsrGroup.TRIGGER),
    Csr(0x7A4, "tinfo", _WI, reset=1 << ADDRESS_TRIGGER, group=CsrGroup.TRIGGER),
    Csr(
        0x7B0,
        "dcsr",
        _RW,
        reset=DEBUG_VERSION << DCSR_VERSION_LSB | 1 << DCSR_STOPCOUNT_BIT | machine.MACHINE_MODE,
        writable=1 << DCSR_EBREAKM_BIT | 1 << DCSR_STEPIE_BIT | 1 << DCSR_STOPCOUNT_BIT | 1 << DCSR_STEP_BIT,
        group=CsrGroup.DEBUG,
    ),
    Csr(0x7B1, "dpc", _RW, writable=ALL_BITS - 1, group=CsrGroup.DEBUG),
    Csr(0x7B2, "dscratch0", _RW, writable=ALL_BITS, group=CsrGroup.DEBUG),
    Csr(0x7B3, "dscratch1", _RW, writable=ALL_BITS, group=CsrGroup.DEBUG),
)
"""All CSRs; an access to any other CSR address is illegal."""

TRIGGER_STATE = ("tselect", "tdata1", "tdata2")  # CSRs that a debugger may change at any time

MISA_X = 1 << 23  # bit of misa that is 0 in a core without any Xpulp extension

ZERO_CSRS = tuple(csr for csr in CSRS if csr.access is _WI and not csr.reset and csr.source is ResetSource.CONSTANT)
"""CSRs that always read as 0 and ignore writes."""

CSR_BY_NAME = {csr.name: csr for csr in CSRS}
CSR_BY_ADDRESS = {csr.address: csr for csr in CSRS}


def csr_address(name: str) -> int:
    """Return the address of the CSR called ``name``; raise :class:`EncodingError` for an unknown name."""
    try:
        return CSR_BY_NAME[name.lower()].address
    except KeyError:
        raise EncodingError(f"csr must be a known name or an address, not {name}") from None
