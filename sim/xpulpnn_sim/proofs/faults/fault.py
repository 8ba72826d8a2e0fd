"""Structural faults: a signal of a unit, given by name, is assigned another value."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Fragment, Mux, Signal, Value
from amaranth.hdl._ast import Assign, Slice, Statement, Switch
from amaranth.lib import wiring

from xpulpnn.config import CoreConfig
from xpulpnn.core.alu_ctrl import AluCount, AluFieldPlace, AluResult, AluShift
from xpulpnn.core.control import CsrOp, ImmSel, MacLoad, MemSize, System, TargetSel, Unit
from xpulpnn.core.mult import MultOp
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.emit.names import snake_case
from xpulpnn.errors import ToolError, require
from xpulpnn.isa.csr import CSR_BY_NAME, PERFORMANCE_EVENTS
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import NNRF_WEIGHTS, SECOND_PAIR, XLEN, ExceptionCause
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.tools.probes import UNIT_NETS

CHOICE, CHOICE_BITS = "chosen_fault", 8
"""Name and width of the register that selects a fault; simulators set it, else it inverts itself in each cycle."""

PROGRAMS, COSTS = "verify random", "verify costs"  # checks that are programs

LOST_RESET = "lost reset"  # stands for the fault that a register is not reset

_NAMES = {each.__name__: each for each in (Cat, Const, Mux, Value, CsrOp, ImmSel, MacLoad, MemSize, System, TargetSel)}
_NAMES |= {each.__name__: each for each in (AluCount, AluFieldPlace, AluResult, AluShift, MultOp, Unit, ElemFmt)}
_NAMES |= {each.__name__: each for each in (DotpCtrl, ExceptionCause, WaitCause)}
_NAMES |= {"DEPTH": DEPTH, "NNRF_WEIGHTS": NNRF_WEIGHTS, "SECOND_PAIR": SECOND_PAIR, "XLEN": XLEN}


def _with_event(events: Value, name: str, happens: Any) -> Any:
    """Return the performance events of a cycle with another value for one of them."""
    number = PERFORMANCE_EVENTS.index(name)
    return Cat(events[:number], happens, events[number + 1 :])


_NAMES |= {"CSR_BY_NAME": CSR_BY_NAME, "with_event": _with_event}
"""Names that expressions of faults may use besides those of the unit."""


class Fault:
    """A fault of a unit: a signal gets a wrong value; signal and value are given as Python expressions.

    Names in expressions are ports and submodules of the unit, which have their own ports as attributes; ``net``, with
    the probes of internal nets as attributes; and ``right``, the correct value.

    ``checks`` are all checks that must find the fault: a check of riscv-formal, a property of the pipeline, the
    mnemonic of an instruction, :data:`PROGRAMS` or :data:`COSTS`. ``needs`` are settings that a core must have or, with
    ``!``, must not have.
    """

    def __init__(
        self,
        unit: type[Any],
        fault: str,
        signal: str,
        wrong: str,
        checks: Sequence[str] = (),
        needs: Sequence[str] = (),
    ) -> None:
        self.unit, self.name, self.signal, self.wrong = unit, fault, signal, wrong
        self.checks, self._needs = checks, needs

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
        self.unit.elaborate = lambda unit, platform: _Seeded(self, unit, elaborate(unit, platform), number)
        try:
            yield
        finally:
            self.unit.elaborate = elaborate


class _Seeded(Elaboratable):
    def __init__(self, fault: Fault, component: wiring.Component, elaborated: Any, number: int | None) -> None:
        self._fault, self._component, self._elaborated = fault, component, elaborated
        self._choice = None if number is None else Signal(CHOICE_BITS, name=CHOICE, reset_less=True)
        self._chosen = None if self._choice is None else self._choice == number

    def elaborate(self, platform: Any) -> Fragment:
        fragment = Fragment.get(self._elaborated, platform)
        # the fragment stands for the component
        fragment.origins = None
        unit, path, wrong = _Unit(self._component, fragment), self._fault.signal, self._fault.wrong
        if self._choice is not None:
            # simulators overwrite this register
            fragment.add_statements("sync", self._choice.eq(~self._choice))
        if wrong == LOST_RESET:
            self._lose_reset(fragment, unit.evaluate(path))
            return fragment

        def changed(right: Value) -> Any:
            value = unit.evaluate(wrong, right)
            return value if self._chosen is None else Mux(self._chosen, value, right)

        change = _Change(_place(Value.cast(unit.evaluate(path))), changed)
        for domain, statements in fragment.statements.items():
            fragment.statements[domain] = change.applied_to(statements)
        require(change.made, f"{type(self._component).__name__} must assign {path}", ToolError)
        return fragment

    def _lose_reset(self, fragment: Fragment, register: Signal) -> None:
        """Make a register ignore resets; with a choice of faults, only while this fault is selected."""
        register._reset_less = True
        if self._chosen is not None:
            # 1 from the second cycle of a reset; the first cycle still resets the register
            runs = Signal(name="runs")
            resets = Switch(~runs & ~self._chosen, [(("1",), [register.eq(register.init)], None)])
            fragment.add_statements("sync", [runs.eq(1), resets])


class _Unit(dict[str, Any]):
    def __init__(self, component: wiring.Component, fragment: Fragment) -> None:
        for child, name, _ in fragment.subfragments:
            self[name] = next((each for each in child.origins or () if isinstance(each, wiring.Component)), None)
        self._component = component
        outside = {id(Value.cast(port)) for _, _, port in component.signature.flatten(component)}
        inside: dict[str, Signal] = {}
        for statement in [each for part in fragment.statements.values() for each in part]:
            with suppress(NotImplementedError):  # of what names the reset
                used = (*statement._lhs_signals(), *statement._rhs_signals())
                inside = {signal.name: signal for signal in used if id(signal) not in outside} | inside
        nets = UNIT_NETS.get(type(component).__name__, {})
        self["net"] = SimpleNamespace(**{probe: inside[net] for probe, net in nets.items() if net in inside})

    def __missing__(self, name: str) -> Any:
        if not hasattr(self._component, name):
            raise KeyError(name)
        return getattr(self._component, name)

    def evaluate(self, expression: str, right: Value | None = None) -> Any:
        self["right"] = right
        try:
            return eval(expression, _NAMES, self)
        except (AttributeError, NameError):
            raise ToolError(f"{type(self._component).__name__} must have {expression}") from None


_Place = tuple[int, int, int]  # id() of a signal, first bit, and end of the bits


class _Change:
    def __init__(self, place: _Place | None, wrong: Callable[[Value], Any]) -> None:
        self._place, self._wrong = place, wrong
        self.made = False

    def applied_to(self, statements: Iterable[Statement]) -> Any:
        return Statement.cast([self._changed(statement) for statement in statements])

    def _changed(self, statement: Statement) -> Statement:
        if isinstance(statement, Switch):
            cases = [(patterns, self.applied_to(inner), place) for patterns, inner, place in statement.cases]
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
