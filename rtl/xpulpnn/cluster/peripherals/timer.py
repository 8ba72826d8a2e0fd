from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.cluster.peripherals.registers import serve, written_value
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import TIMER_PRESCALE_BITS, Timer
from xpulpnn.isa.machine import XLEN


class TimerSettings(data.Struct):
    """Bits of ``TimerConfig``, and the period of the prescaler less one."""

    enable: 1
    reset: 1
    event: 1
    unused: 1
    clear: 1
    one_shot: 1
    prescaler: 1
    unused_source: 1
    prescale: TIMER_PRESCALE_BITS


class _Half:
    def __init__(self, name: str):
        kinds = ("CONFIG", "COUNT", "COMPARE", "START", "RESET")
        self.registers = [Timer[f"{kind}_{name.upper()}"] for kind in kinds]
        self.config = Signal(TimerSettings, name=f"config_{name}")
        self.count, self.compare = signals(XLEN, f"count_{name} compare_{name}")
        self.divider = Signal(TIMER_PRESCALE_BITS, name=f"divider_{name}")
        self.period_ends, self.tick = signals(1, f"period_ends_{name} tick_{name}")
        self.reached, self.ends = signals(1, f"reached_{name} ends_{name}")


class ClusterTimer(Component):
    """Two timers of 32 bits, or one of 64.

    An enabled timer counts every cycle, with the prescaler every ``prescale + 1`` cycles. A step from a count that
    equals the comparison value ends a period: it is an event with ``EVENT``, restarts the count at 0 with ``CLEAR``,
    and stops the timer with ``ONE_SHOT``; otherwise the timer counts on. Writing ``START`` enables, writing ``RESET``
    clears the count, with any value. A software write wins over a step in the same cycle. In cascade the configuration
    of the low timer holds for both, and the events are those of the low timer. There is no event input and no second
    clock: their bits read as 0. Answers in the next cycle.
    """

    port: In(ObiSignature())  #: Access to the registers; bits 9 to 2 of the address count.
    events: Out(2)  #: Ends of a period of the low and the high timer; pulses.
    armed: Out(2)  #: Timers that are enabled and will report the end of a period.

    def elaborate(self, platform):
        m = Module()
        low, high = _Half("low"), _Half("high")
        cascade = Signal()
        values = {}
        for half in (low, high):
            _, count, compare, start, reset = half.registers
            values |= {count: half.count, compare: half.compare, start: Const(0), reset: Const(0)}
        top = XLEN - 1 - len(low.config.as_value())
        values[Timer.CONFIG_LOW] = Cat(low.config, Const(0, top), cascade)
        values[Timer.CONFIG_HIGH] = high.config.as_value()
        written = serve(m, self.port, values)
        whole = low.reached & high.reached
        m.d.comb += [
            low.tick.eq(low.config.enable & low.period_ends),
            high.tick.eq(Mux(cascade, low.tick & low.count.all(), high.config.enable & high.period_ends)),
            low.ends.eq(low.tick & Mux(cascade, whole, low.reached)),
            high.ends.eq(high.tick & high.reached & ~cascade),
            self.events.eq(Cat(low.ends & low.config.event, high.ends & high.config.event)),
            self.armed.eq(Cat(half.config.enable & half.config.event for half in (low, high))),
        ]
        for half in (low, high):
            self._count(
                m, half, written, clears=Mux(cascade, low.ends & low.config.clear, half.ends & half.config.clear)
            )
        with m.If(written[Timer.CONFIG_LOW] & self.port.be[-1]):
            m.d.sync += cascade.eq(self.port.wdata[-1])
        return m

    def _count(self, m, half, written, clears):
        config, count, compare, start, reset = half.registers
        settings = TimerSettings(written_value(self.port, half.config.as_value()))
        m.d.comb += [
            half.reached.eq(half.count == half.compare),
            half.period_ends.eq(~half.config.prescaler | (half.divider == half.config.prescale)),
        ]
        with m.If(clears):
            m.d.sync += half.count.eq(0)
        with m.Elif(half.tick):
            m.d.sync += half.count.eq(half.count + 1)
        with m.If(half.config.enable):
            m.d.sync += half.divider.eq(Mux(half.period_ends, 0, half.divider + 1))
        with m.If(half.ends & half.config.one_shot):
            m.d.sync += half.config.enable.eq(0)
        with m.If(written[config]):
            m.d.sync += [
                half.config.eq(settings),
                half.config.reset.eq(0),
                half.config.unused.eq(0),
                half.config.unused_source.eq(0),
            ]
        with m.If(written[count]):
            m.d.sync += half.count.eq(written_value(self.port, half.count))
        with m.If(written[compare]):
            m.d.sync += half.compare.eq(written_value(self.port, half.compare))
        with m.If(written[start]):
            m.d.sync += half.config.enable.eq(1)
        with m.If(written[reset] | written[config] & settings.reset):
            m.d.sync += [half.count.eq(0), half.divider.eq(0)]
