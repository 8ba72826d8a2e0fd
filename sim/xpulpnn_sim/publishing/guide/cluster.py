"""Tables of the cluster: addresses, registers, event lines, arbiters."""

from html import escape

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import InputError
from xpulpnn.isa import cluster
from xpulpnn.isa.cluster import Barrier, Control, EventLine, EventRegister, Timer, TimerConfig
from xpulpnn_sim.publishing.guide import html
from xpulpnn_sim.publishing.guide.html import comments_beside

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

_LINES_OF_A_KIND = {EventLine.ACCELERATOR: 4, EventLine.CLUSTER: 2}

_REGISTERS = {"control": Control, "timer": Timer, "event-unit": EventRegister, "barrier": Barrier}


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
        for register, meaning in comments_beside(_REGISTERS[block]).items()
    ]
    return html.table(("offset", "register", "meaning"), rows)


def timer_settings() -> str:
    """Bits of the timer's configuration."""
    rows = [
        [str(flag.bit_length() - 1), html.code(str(flag.name)), escape(meaning)]
        for flag, meaning in comments_beside(TimerConfig).items()
    ]
    return html.table(("bit", "name", "meaning"), rows)


def event_lines() -> str:
    """Event lines of a core."""
    rows = [["0 to 7", "software events"]]
    for line, meaning in comments_beside(EventLine).items():
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
