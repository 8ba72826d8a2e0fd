"""Structural faults: a signal of a unit, given by name, is assigned another value."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from amaranth.hdl import Elaboratable, Fragment, Mux, Signal, Value
from amaranth.hdl._ast import Assign, Slice, Statement, Switch
from amaranth.lib import wiring

from xpulpnn.config import CoreConfig
from xpulpnn.emit.names import snake_case
from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.probes import UNIT_NETS

Wrong = Callable[[Any, Any], Any]  # computes the faulty value from the correct one and a _Unit


CHOICE, CHOICE_BITS = "chosen_fault", 8
"""Name and width of the register that selects a fault; simulators set it, else it inverts itself in each cycle."""


def lost_reset(right: Value, _: "_Unit") -> Value:
    """Stand for the fault that a register is not reset."""
    return right


class _Unit:
    """An elaborated unit whose signals can be read by name."""

    def __init__(self, component: wiring.Component, fragment: Fragment) -> None:
        self._component = component
        self._children = {name: child for child, name, _ in fragment.subfragments}
        ports = [value for _, _, value in component.signature.flatten(component)]
        outside = {id(Value.cast(port)) for port in ports}
        self._inside: dict[str, Signal] = {}
        for statements in fragment.statements.values():
            for signal in (*statements._lhs_signals(), *statements._rhs_signals()):
                if id(signal) not in outside:
                    self._inside.setdefault(signal.name, signal)

    def __call__(self, path: str) -> Any:
        """Return the signal at a path such as ``ctrl.fmt``, ``rs1_read.addr``, ``.done`` or ``moved[16:24]``.

        A path begins with a port, a submodule, or a dot and the probe of an internal net; names of members or of the
        submodule's ports follow, and then bits. Raises :class:`ToolError` for an unknown name.
        """
        path, _, bits = path.partition("[")
        inside = path.startswith(".")
        first, *rest = path.removeprefix(".").split(".")
        value: Any
        try:
            if inside:
                value = self._inside[UNIT_NETS[type(self._component).__name__][first]]
            elif first in self._children:
                origins = self._children[first].origins or ()
                value = next(origin for origin in origins if isinstance(origin, wiring.Component))
            else:
                value = getattr(self._component, first)
            for name in rest:
                value = getattr(value, name)
        except (AttributeError, KeyError):
            raise ToolError(f"{type(self._component).__name__} must have {path}") from None
        if bits:
            low, _, high = bits.removesuffix("]").partition(":")
            return value[int(low) : int(high or int(low) + 1)]
        return value


class Seeded(Elaboratable):
    """A unit with faulty assignments; with a ``number``, they apply only while the register :data:`CHOICE` has it."""

    def __init__(
        self, component: wiring.Component, elaborated: Any, wrong: Mapping[str, Wrong], number: int | None = None
    ) -> None:
        self._component, self._elaborated, self._wrong = component, elaborated, wrong
        self._choice = None if number is None else Signal(CHOICE_BITS, name=CHOICE, reset_less=True)
        self._chosen = None if self._choice is None else self._choice == number

    def elaborate(self, platform: Any) -> Fragment:
        fragment = Fragment.get(self._elaborated, platform)
        # the fragment stands for the component
        fragment.origins = None
        unit = _Unit(self._component, fragment)
        if self._choice is not None:
            # simulators overwrite this register
            fragment.add_statements("sync", self._choice.eq(~self._choice))
        for path, wrong in self._wrong.items():
            if wrong is lost_reset:
                self._lose_reset(fragment, unit(path))
                continue
            change = _Change(_place(Value.cast(unit(path))), partial(self._wrong_value, unit, wrong))
            for domain, statements in fragment.statements.items():
                fragment.statements[domain] = change.of(statements)
            if not change.made:
                raise ToolError(f"{type(self._component).__name__} must assign {path}")
        return fragment

    def _wrong_value(self, unit: _Unit, wrong: Wrong, right: Value) -> Any:
        return wrong(right, unit) if self._chosen is None else Mux(self._chosen, wrong(right, unit), right)

    def _lose_reset(self, fragment: Fragment, register: Signal) -> None:
        """Let a register ignore resets; with a choice of faults, only while this fault is selected."""
        register._reset_less = True
        if self._chosen is not None:
            # 1 from the second cycle of a reset; the first cycle still resets the register
            runs = Signal(name="runs")
            resets = Switch(~runs & ~self._chosen, [(("1",), [register.eq(register.init)], None)])
            fragment.add_statements("sync", [runs.eq(1), resets])


_Place = tuple[int, int, int]  # id() of a signal, first bit, and end of the bits


class _Change:
    def __init__(self, place: _Place | None, wrong: Callable[[Value], Any]) -> None:
        self._place, self._wrong = place, wrong
        self.made = False

    def of(self, statements: Iterable[Statement]) -> Any:
        return Statement.cast([self._changed(statement) for statement in statements])

    def _changed(self, statement: Statement) -> Statement:
        if isinstance(statement, Switch):
            cases = [(patterns, self.of(inner), place) for patterns, inner, place in statement.cases]
            return Switch(statement.test, cases, src_loc=statement.src_loc)
        place = _place(statement.lhs) if isinstance(statement, Assign) else None
        if isinstance(statement, Assign) and place and self._place:
            signal, first, end = self._place
            if place[0] == signal and first <= place[1] and place[2] <= end:
                self.made = True
                return Assign(statement.lhs, self._wrong(statement.rhs))
        return statement


def _place(value: Value) -> _Place | None:
    if isinstance(value, Slice):
        whole = _place(value.value)
        return whole and (whole[0], whole[1] + value.start, whole[1] + value.stop)
    return (id(value), 0, len(value)) if isinstance(value, Signal) else None


PROGRAMS, COSTS = "verify random", "verify costs"  # checks that are programs


class Fault:
    """A fault of a unit.

    ``wrong`` maps signals to functions that return the faulty value, given the correct value and the :class:`_Unit`.
    ``checks`` are all checks that must find the fault: a check of riscv-formal, a property of the pipeline, the
    mnemonic of an instruction, :data:`PROGRAMS` or :data:`COSTS`. ``needs`` lists settings that a core must have or,
    with ``!``, must not have.
    """

    def __init__(self, name: str, unit: type[Any], wrong: Mapping[str, Wrong], *checks: str, needs: str = "") -> None:
        self.name, self.unit, self.wrong, self.checks, self._needs = name, unit, wrong, checks, needs.split()

    def fits(self, config: CoreConfig) -> bool:
        return all(bool(getattr(config, name.removeprefix("!"))) != name.startswith("!") for name in self._needs)

    @property
    def module(self) -> str:
        return snake_case(self.unit.__name__)

    @contextmanager
    def seeded(self, number: int | None = None) -> Generator[None]:
        """Inject the fault into every unit of this type that is elaborated in the block.

        With a ``number``, the fault is active only while the register :data:`CHOICE` equals it, so that a design can
        have many faults.
        """
        elaborate = self.unit.elaborate
        self.unit.elaborate = lambda unit, platform: Seeded(unit, elaborate(unit, platform), self.wrong, number)
        try:
            yield
        finally:
            self.unit.elaborate = elaborate


def where(signal, value, wrong):
    """Return a faulty value that applies only while a signal of the unit has a certain value."""
    return lambda right, u: Mux(u(signal) == value, wrong(right, u), right)
