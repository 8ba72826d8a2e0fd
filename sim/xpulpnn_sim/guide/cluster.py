"""Tables of the cluster: addresses, registers, event lines, arbiters."""

from collections.abc import Mapping
from html import escape
from typing import Any

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import InputError
from xpulpnn.isa import cluster
from xpulpnn.isa.cluster import Barrier, Control, EventLine, EventRegister, Timer, TimerConfig
from xpulpnn_sim.guide import html

_BLOCKS = (
    (cluster.TCDM_ALIAS, "alias of the TCDM"),
    (cluster.TCDM_BASE, "TCDM"),
    (cluster.TCDM_BASE | 1 << cluster.TEST_SET_BIT, "TCDM, whose loads are test&sets"),
    (cluster.CONTROL, "control"),
    (cluster.TIMER, "timer"),
    (cluster.EVENT_UNIT, "event unit, shared view"),
    (cluster.ICACHE_CONTROL, "instruction caches"),
    (cluster.DMA, "DMA engine, shared command port"),
    (cluster.PRIVATE_EVENT_UNIT, "event unit, what belongs to the core that asks"),
    (cluster.PRIVATE_DMA, "DMA engine, command port of the core that asks"),
    (cluster.SOC_PERIPHERALS, "outside: peripherals of the SoC"),
    (cluster.L2_BASE, "outside: memory of programs, called L2"),
)

_CONTROL = {
    Control.EOC: "bit 0: end of computation, the output eoc",
    Control.FETCH_ENABLE: "a bit for each core: it may start",
    Control.CONFIG: "reads 0",
    Control.CLOCK_GATE: "bit 0, 1 after reset: core_clock_en may be low; while it is 0 all clocks are needed",
    Control.DEBUG_STATUS: "reads 0: nothing halts a core",
    Control.BOOT_ADDRESS: "first instruction of core i, at 4 i further; reads as boot_addr until it is written",
    Control.RETURN: "result, the output return_value; bit 31 says that it is there",
}

_TIMER = {
    Timer.CONFIG_LOW: "settings of the low timer, below",
    Timer.CONFIG_HIGH: "those of the high timer",
    Timer.COUNT_LOW: "count",
    Timer.COUNT_HIGH: "count of the high timer, or upper half",
    Timer.COMPARE_LOW: "comparison",
    Timer.COMPARE_HIGH: "that of the high timer, or upper half",
    Timer.START_LOW: "any write enables the low timer",
    Timer.START_HIGH: "any write enables the high timer",
    Timer.RESET_LOW: "any write clears the count of the low timer",
    Timer.RESET_HIGH: "any write clears that of the high timer",
}

_SETTINGS = {
    TimerConfig.ENABLE: "it counts",
    TimerConfig.RESET: "written as 1 clears the count",
    TimerConfig.EVENT: "the end of a period is an event",
    TimerConfig.CLEAR: "the count begins again behind the comparison",
    TimerConfig.ONE_SHOT: "it stops at the end of a period",
    TimerConfig.PRESCALER: "it steps in every (bits 15:8 + 1)-th cycle",
    TimerConfig.CASCADE: "of the low timer: both are one of 64 bits",
}

_EVENT_REGISTERS = {
    EventRegister.MASK: "events that p.elw waits for",
    EventRegister.MASK_AND: "clears the bits of the mask that are written as 1",
    EventRegister.MASK_OR: "sets them",
    EventRegister.IRQ_MASK: "events that interrupt the core",
    EventRegister.IRQ_MASK_AND: "clears its bits",
    EventRegister.IRQ_MASK_OR: "sets them",
    EventRegister.STATUS: "bit 0: the clock is needed",
    EventRegister.BUFFER: "events that have come",
    EventRegister.BUFFER_MASKED: "those in the mask",
    EventRegister.BUFFER_IRQ_MASKED: "those in the interrupt mask",
    EventRegister.BUFFER_CLEAR: "clears the bits that are written as 1",
    EventRegister.SW_EVENTS_MASK: "cores that software events triggered by reads go to",
    EventRegister.SW_EVENTS_MASK_AND: "clears its bits",
    EventRegister.SW_EVENTS_MASK_OR: "sets them",
    EventRegister.WAIT: "p.elw: waits for an event in the mask, and gives those",
    EventRegister.WAIT_CLEAR: "likewise, and clears what it gives",
    EventRegister.DISPATCH_FIFO: "a write pushes a word; p.elw waits for the next word meant for the core",
    EventRegister.DISPATCH_TEAM: "cores that words pushed from now on are meant for",
    EventRegister.MUTEX: "of mutex m at 4 m further: p.elw locks and gives the last message, a write unlocks with one",
    EventRegister.SW_TRIGGER: "software event e at 4 e further: a write sends it to the cores written, 0 for all",
    EventRegister.SW_TRIGGER_WAIT: "a read sends it and waits",
    EventRegister.SW_TRIGGER_WAIT_CLEAR: "likewise, and clears",
    EventRegister.BARRIER: "barrier b at 32 b further, below",
}

_BARRIER = {
    Barrier.TRIGGER_MASK: "cores that must come; with 0 there is no barrier",
    Barrier.STATUS: "those that have come",
    Barrier.SUMMARY: "the same of all barriers together",
    Barrier.TARGET_MASK: "cores that are told",
    Barrier.TRIGGER: "a write says that the cores written have come",
    Barrier.TRIGGER_SELF: "a read says so of the core itself",
    Barrier.TRIGGER_WAIT: "likewise with p.elw, and waits",
    Barrier.TRIGGER_WAIT_CLEAR: "likewise, and clears the event",
}

_LINES = {
    EventLine.DMA: "end of a DMA transfer",
    EventLine.DMA_INTERRUPT: "likewise, as interrupt",
    EventLine.TIMER_LOW: "low timer",
    EventLine.TIMER_HIGH: "high timer",
    EventLine.ACCELERATOR: "accelerators; nothing drives them",
    EventLine.BARRIER: "a barrier",
    EventLine.MUTEX: "a mutex",
    EventLine.DISPATCH: "a word in the dispatch queue",
    EventLine.CLUSTER: "the input events of the cluster",
}

_LINES_OF_A_KIND = {EventLine.ACCELERATOR: 4, EventLine.CLUSTER: 2}

_REGISTERS: dict[str, Mapping[Any, str]] = {
    "control": _CONTROL,
    "timer": _TIMER,
    "event-unit": _EVENT_REGISTERS,
    "barrier": _BARRIER,
}


def address(value: int) -> str:
    """An address as it is written in the guide."""
    return html.code(f"0x{value >> 16:04X}_{value & 0xFFFF:04X}")


def addresses() -> str:
    """Return the table of the cluster's addresses."""
    return html.table(("address", "what"), [[address(base), escape(what)] for base, what in _BLOCKS])


def registers(block: str) -> str:
    """Registers of a block by offset; raises :class:`InputError` for an unknown one."""
    if block not in _REGISTERS:
        raise InputError(f"registers must be of one of {', '.join(_REGISTERS)}, not {block}")
    rows = [
        [html.code(f"0x{register.value:02X}"), html.code(register.name), escape(meaning)]
        for register, meaning in _REGISTERS[block].items()
    ]
    return html.table(("offset", "register", "meaning"), rows)


def timer_settings() -> str:
    """Bits of the timer's configuration."""
    rows = [
        [str(flag.bit_length() - 1), html.code(str(flag.name)), escape(meaning)] for flag, meaning in _SETTINGS.items()
    ]
    return html.table(("bit", "name", "meaning"), rows)


def event_lines() -> str:
    """Event lines of a core."""
    rows = [["0 to 7", "software events"]]
    for line, meaning in _LINES.items():
        last = line + _LINES_OF_A_KIND.get(line, 1) - 1
        rows.append([str(line.value) if last == line else f"{line.value} to {last}", escape(meaning)])
    return html.table(("line", "event"), rows)


def cluster_presets() -> str:
    """Named clusters."""
    rows = [
        [html.code(name), str(config.cores), str(config.banks), str(config.tcdm_bytes // 1024), _core(name)]
        for name, config in CLUSTER_PRESETS.items()
    ]
    return html.table(("preset", "cores", "banks", "TCDM, KiB", "core"), rows)


def _core(name: str) -> str:
    """The preset of a core that a cluster has."""
    return ", ".join(html.code(known) for known, config in PRESETS.items() if config == CLUSTER_PRESETS[name].core)
