"""Components that elaborate alike are converted once, and only those."""

import pytest
from amaranth.hdl import ClockDomain, DomainRenamer, EnableInserter, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.emit import hierarchy
from xpulpnn.verilog import emit


class Counter(wiring.Component):
    """Counts in a register of its own, to the width that its attribute says: its statements read the same for all."""

    def __init__(self, option: object = None, *, width: int = 4, init: int = 0) -> None:
        self.option = option
        super().__init__({"enable": In(1), "value": Out(width, init=init)})

    def bits(self) -> int:
        if isinstance(self.option, list | tuple):
            return self.option[0]
        return self.option() if callable(self.option) else 1 + (self.option is True)

    def elaborate(self, platform):
        m = Module()
        count = Signal(self.bits())
        with m.If(self.enable):
            m.d.sync += count.eq(count + 1)
        m.d.comb += self.value.eq(count)
        return m


class Counter2(Counter):
    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.value.eq(self.value - self.bits())
        return m


class Ticking(wiring.Component):
    """The number that it adds depends on how often any of its kind was elaborated."""

    made = 0
    value: Out(4)

    def elaborate(self, platform):
        type(self).made += 1
        m = Module()
        m.d.sync += self.value.eq(self.value + type(self).made)
        return m


class Falling(wiring.Component):
    """Brings a clock domain of its own, of either edge in turn."""

    edge = "pos"
    tick: In(1)
    value: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.domains.own = own = ClockDomain(clk_edge=type(self).edge)
        type(self).edge = {"pos": "neg", "neg": "pos"}[own.clk_edge]
        m.d.comb += own.clk.eq(self.tick)
        m.d.own += self.value.eq(self.value + 1)
        return m


class Around(wiring.Component):
    """A counter one level down."""

    value: Out(4)

    def __init__(self, option: object = None) -> None:
        self.option = option
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Counter(self.option)
        m.d.comb += self.value.eq(inner.value)
        return m


class Replaced(wiring.Component):
    """Drives a signal put in the place of its port, or its port."""

    value: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += Value.cast(self.value).eq(3)
        return m


class Group(wiring.Component):
    """Children of any kind, and a look at the first output of each."""

    def __init__(self, *children: object) -> None:
        self.children = children
        super().__init__({"seen": Out(len(children))})

    def elaborate(self, platform):
        m = Module()
        for index, child in enumerate(self.children):
            m.submodules[f"child{index}"] = child
        return m


@pytest.fixture
def conversions(monkeypatch):
    """Types of the components converted, in order."""
    made = []
    convert = hierarchy.rtlil.convert

    def counted(alone, **options):
        made.append(type(alone).__name__)
        return convert(alone, **options)

    monkeypatch.setattr(hierarchy.rtlil, "convert", counted)
    return made


def replaced() -> Replaced:
    component = Replaced()
    component.value = Signal(5, name="value")
    return component


SHARED = {
    "no attributes": lambda: Counter(),
    "tuple": lambda: Counter((2, frozenset({1}))),
    "list": lambda: Counter([2]),
    "children": lambda: Around([3]),
}
DIFFERENT = {
    "type": (lambda: Counter(), lambda: Counter2()),
    "true and 1": (lambda: Counter(True), lambda: Counter(1)),
    "list": (lambda: Counter([1]), lambda: Counter([2])),
    "function": (lambda: Counter(lambda: 1), lambda: Counter(lambda: 2)),
    "width": (lambda: Counter(width=4), lambda: Counter(width=5)),
    "reset value": (lambda: Counter(init=4), lambda: Counter(init=5)),
    "children": (lambda: Around((1, 0)), lambda: Around((2, 0))),
    "state of the class": (lambda: Ticking(), lambda: Ticking()),
    "clock edge": (lambda: Falling(), lambda: Falling()),
    "enable": (lambda: Counter(), lambda: EnableInserter(Signal(name="on"))(Counter())),
    "port replaced": (lambda: Replaced(), lambda: replaced()),
}


@pytest.mark.parametrize("case", SHARED)
def test_alike_is_converted_once(case, conversions):
    children = [SHARED[case]() for _ in range(3)]
    manifest = emit(Group(*children), "group", config={}).manifest
    assert conversions.count(type(children[0]).__name__) == 1
    children = {path: module for path, module in manifest["hierarchy"].items() if path.count(".") == 1}
    assert len(children) == 3
    assert len(set(children.values())) == 1


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_is_converted_each(case, conversions):
    kinds = DIFFERENT[case]
    for first, second in (kinds, kinds[::-1]):
        conversions.clear()
        emit(Group(first(), second()), "group", config={})
        assert len([name for name in conversions if name not in ("Group", "Around")]) == 2


@pytest.mark.parametrize("kind", [Counter, Around])
def test_another_domain_is_another_clock_of_the_same_module(kind):
    emitted = emit(Group(kind(), DomainRenamer("fast")(kind())), "group", config={})
    hierarchy = emitted.manifest["hierarchy"]
    assert hierarchy["group.child0"] == hierarchy["group.child1"]
    for clock in ("clk", "fast_clk"):
        assert emitted.text.count(f".clk({clock})") == 1 + (kind is Around and clock == "clk")


def test_different_circuits_are_different_modules():
    for case in ("list", "true and 1", "clock edge"):
        first, second = DIFFERENT[case]
        manifest = emit(Group(first(), second()), "group", config={}).manifest
        assert manifest["hierarchy"]["group.child0"] != manifest["hierarchy"]["group.child1"]
