"""Style of emitted text, chosen by the caller of :func:`xpulpnn.verilog.emit`."""

from dataclasses import dataclass

_CLOCKING = {"clk": "Clock; everything happens on its rising edge.", "rst": "Synchronous reset, active high."}
_ASYNCHRONOUS = "Asynchronous reset, active low."


def is_reset_port(name: str) -> bool:
    """Return whether a clock or reset port that Amaranth made for a domain is its reset."""
    return name.rpartition("_")[2] == "rst"


@dataclass(frozen=True, slots=True)
class Style:
    """Choices that leave the function alone."""

    prefix: str = ""  # begins the name of every module
    reset: str = "sync"  # when and at which level registers are reset
    initial: bool = True  # whether registers have initial values
    both_edges: bool = False  # whether every change of the clock is an edge

    @property
    def is_asynchronous(self) -> bool:
        """True if the reset acts at once, and at level 0."""
        return self.reset == "async-low"

    def clocking_name(self, name: str) -> str:
        """Name of the port for a clock or reset that Amaranth calls ``name``."""
        return f"{name}_n" if self.is_asynchronous and is_reset_port(name) else name

    def clocking_meaning(self, name: str) -> str:
        """Return the meaning of the port for a clock or reset."""
        domain, _, kind = name.rpartition("_")
        text = _ASYNCHRONOUS if kind == "rst" and self.is_asynchronous else _CLOCKING[kind]
        return text + (f" Domain {domain}." if domain else "")


@dataclass(frozen=True, slots=True)
class Interface:
    """The facts of a module that its parent needs."""

    outputs: frozenset[str]
    resets: frozenset[str] = frozenset()  # the reset ports that its clock domains brought
