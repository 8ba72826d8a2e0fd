"""Environment of a simulated design: memory and its timing, interrupt lines, waveforms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.cluster import hart_number
from xpulpnn.isa.machine import CLINT_BASE, IRQ_LINES, WORD_BYTES
from xpulpnn_sim.reference.bare.debugger import EXCEPTION as EXCEPTION_ADDRESS
from xpulpnn_sim.reference.bare.debugger import FAILING as DEBUG_FAILING
from xpulpnn_sim.reference.bare.debugger import HALT as HALT_ADDRESS
from xpulpnn_sim.reference.bare.debugger import STEPPING, debugger
from xpulpnn_sim.reference.programs.elf import Executable, Window, windows

USUAL_L2_BYTES = 1 << 27  # memory that networks may take unless a smaller size is given

WATCHDOG_CYCLES = 100_000  # cycles without a retirement after which a hart counts as stuck

_FULL_SCALE = 1 << 32
HALT = IRQ_LINES  # number of the halt request among the interrupt lines
ALL_CYCLES = (0, (1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The environment in which a design is simulated: memory and its timing, interrupts, limits of the run."""

    ram: tuple[Window, ...] = ()  #: Base and size of memory in addition to the program's segments.
    #: bus_errors: Base and size, multiples of 4, of addresses that the bus answers with an error.
    bus_errors: tuple[Window, ...] = ()
    hart_id: int = 0  #: mhartid of a core; 0 for a cluster, whose cores are numbered from 0.
    grant_stalls: float = 0.0  #: Probability in [0, 1) that the data memory withholds a grant in a cycle.
    response_latency: int = 1  #: Most cycles of a response of the data memory; the number is random.
    fetch_grant_stalls: float = 0.0  #: Probability that the instruction memory withholds a grant in a cycle.
    fetch_latency: int = 1  #: Most cycles of a response of the instruction memory; the number is random.
    #: l2_latency: Fewest cycles of a response of memory outside a cluster; ``response_latency`` - 1 more at random.
    #:   Banks answer in the next cycle.
    l2_latency: int = 1
    l2_bytes: int = USUAL_L2_BYTES  #: Memory for code and data of networks: L2 of a cluster, or memory of a core.
    #: irq_rate: Probability per cycle that one of the usable interrupt lines rises; it falls when it is taken.
    irq_rate: float = 0.0
    #: irqs: Cycle and number of lines that rise; the line ``HALT`` is the halt request of a core with debug mode.
    irqs: tuple[tuple[int, int], ...] = ()
    halt_rate: float = 0.0  #: Probability per cycle of a halt request to a core with debug mode.
    #: debugger: Program in the place of the debug module, see :mod:`xpulpnn_sim.reference.bare.debugger`.
    debugger: str = STEPPING
    clint: bool = False  #: A CLINT beside the core, whose time counts cycles.
    reset_after: int = 0  #: Cycles after which the design is reset and the run starts again.
    seed: int = 0  #: Seed of all random choices.
    max_cycles: int = 1_000_000_000  #: Cycles after which the run is aborted.
    max_instructions: int = 1 << 40  #: Retirements of all harts after which, or a few more, the run is aborted.

    def __post_init__(self) -> None:
        for name in ("grant_stalls", "fetch_grant_stalls", "irq_rate", "halt_rate"):
            if not 0 <= getattr(self, name) < 1:
                words, value = name.replace("_", " "), getattr(self, name)
                raise InputError(f"{words} must be a probability of at least 0 and below 1, not {value}")
        for base, size in self.bus_errors:
            if base % WORD_BYTES or size % WORD_BYTES or size < WORD_BYTES:
                raise InputError(f"bus errors must be words at a multiple of 4, not 0x{base:x}:{size}")
        positive = ("response_latency", "fetch_latency", "l2_latency", "l2_bytes", "max_cycles", "max_instructions")
        for name in (*positive, "reset_after", "seed"):
            if getattr(self, name) < (least := int(name in positive)):
                raise InputError(f"{name.replace('_', ' ')} must be at least {least}, not {getattr(self, name)}")

    @classmethod
    def of(cls, options: object, **more: Any) -> "Machine":
        """Build a machine from ``more`` and the attributes of ``options`` that have the names of its other fields."""
        names = (setting.name for setting in fields(cls) if setting.name not in more)
        return cls(**{name: getattr(options, name) for name in names if hasattr(options, name)}, **more)

    @property
    def halts(self) -> bool:
        return self.halt_rate > 0 or any(line == HALT for _, line in self.irqs)

    @property
    def error_windows(self) -> tuple[Window, ...]:
        return (*self.bus_errors, DEBUG_FAILING) if self.halts else self.bus_errors

    @property
    def debug_memory(self) -> dict[int, NDArray[np.uint8]]:
        if not self.halts:
            return {}
        place = debugger(self.debugger, self.seed)
        return {place.address: np.frombuffer(bytearray(place.data.ljust(place.size, b"\0")), np.uint8)}

    def settings(self) -> dict[str, int]:
        return {
            "grant_stall": int(self.grant_stalls * _FULL_SCALE),
            "response_latency": self.response_latency,
            "data_latency": self.l2_latency,
            "fetch_grant_stall": int(self.fetch_grant_stalls * _FULL_SCALE),
            "fetch_latency": self.fetch_latency,
            "irq_rate": int(self.irq_rate * _FULL_SCALE),
            "halt_rate": int(self.halt_rate * _FULL_SCALE),
            "debug_halt_addr": HALT_ADDRESS,
            "debug_exception_addr": EXCEPTION_ADDRESS,
            "reset_after": self.reset_after,
            "clint": CLINT_BASE if self.clint else 0,
            "seed": self.seed & (_FULL_SCALE - 1),
            "hart_id": self.hart_id,
            "watchdog": WATCHDOG_CYCLES,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """The part of a run that is recorded as waveforms in FST format."""

    path: Path
    first: int = ALL_CYCLES[0]
    last: int = ALL_CYCLES[1]
    by_instruction: bool = False  # whether `first` and `last` count instructions of a stream instead of cycles

    def settings(self) -> dict[str, int]:
        return {"dump_from": self.first, "dump_to": self.last, "dump_instructions": self.by_instruction}

    @staticmethod
    def window(text: str) -> tuple[int, int]:
        """Parse first and last cycle of ``FROM:TO``; raises :class:`InputError`."""
        first, colon, last = text.partition(":")
        if not (colon and first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= ALL_CYCLES[1]):
            raise InputError(f"window of the waveforms must be FROM:TO with FROM <= TO, not {text}")
        return int(first), int(last)


class Memory:
    def __init__(self, pieces: Mapping[int, NDArray[np.uint8]]) -> None:
        self.pieces = pieces

    def _find(self, address: int, size: int) -> NDArray[np.uint8] | None:
        for base, piece in self.pieces.items():
            if base <= address and address + size <= base + piece.size:
                return piece[address - base : address - base + size]
        return None

    def inside(self, address: int, size: int) -> bool:
        return self._find(address, size) is not None

    def read(self, address: int, size: int) -> bytes:
        piece = self._find(address, size)
        if piece is None:
            raise InputError(f"address must be in memory, not 0x{address:08x} with {size} bytes")
        return piece.tobytes()

    def write(self, address: int, content: bytes) -> None:
        piece = self._find(address, len(content))
        assert piece is not None
        piece[:] = np.frombuffer(content, np.uint8)


def load_memory(executable: Executable, ram: Sequence[Window] = ()) -> dict[int, NDArray[np.uint8]]:
    pieces = {base: np.zeros(size, np.uint8) for base, size in windows(executable, ram)}
    memory = Memory(pieces)
    for segment in executable.segments:
        if segment.data:
            memory.write(segment.address, segment.data)
    return pieces


def hart_ids(config: CoreConfig | ClusterConfig, machine: Machine) -> tuple[int, ...]:
    """Return mhartid of each core of a design. Raises :class:`InputError` if the design lacks what ``machine`` uses."""
    if machine.halts and not (isinstance(config, CoreConfig) and config.debug):
        raise InputError("requests to halt must be left out for a cluster and for a core without debug mode")
    if isinstance(config, CoreConfig):
        require(machine.l2_latency == 1, f"latency of the L2 must be 1 without a cluster, not {machine.l2_latency}")
        return (machine.hart_id,)
    given = {"hart number": machine.hart_id, "interrupt rate": machine.irq_rate, "interrupts": machine.irqs}
    given["a CLINT beside it"] = machine.clint
    for option, value in given.items():
        require(not value, f"{option} must be left out for a cluster, whose event unit raises interrupts")
    return tuple(hart_number(0, core) for core in range(config.cores))
