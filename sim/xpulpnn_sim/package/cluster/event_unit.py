"""The testbench of the event unit."""

from xpulpnn.isa.cluster import (
    EVENT_UNIT,
    SHARED_CORE_BYTES,
    SHARED_SW_TRIGGERS,
    Barrier,
    EventLine,
    EventRegister,
)
from xpulpnn_sim.package.cluster.wiring import Nets
from xpulpnn_sim.package.core_testbench import SIMULATED_NS
from xpulpnn_sim.package.design import Design
from xpulpnn_sim.package.template import fill

_DRIVEN = ("timer_events", "cluster_events", "dma_events", "dma_interrupts", "fetch_idle")

_DMA_IDLE = """\
        dma_events     = {CORES{1'b0}};
        dma_interrupts = {CORES{1'b0}};"""

_DMA_LINES = """\
            all_wait;
            if (e == 0) dma_events = {{CORES{{1'b1}}}}; else dma_interrupts = {{CORES{{1'b1}}}};
            @(negedge clk);
            dma_events     = {{CORES{{1'b0}}}};
            dma_interrupts = {{CORES{{1'b0}}}};
            all_told(32'h{line:x} << e);"""


def event_unit_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the event unit, by name."""
    config = design.cluster
    used = [EventLine.TIMER_LOW, EventLine.TIMER_HIGH, EventLine.BARRIER, EventLine.CLUSTER, EventLine.CLUSTER + 1]
    used += [EventLine.DMA, EventLine.DMA_INTERRUPT] if config.dma else []
    lines = sum(1 << line for line in used) | (1 << config.sw_events) - 1
    registers = {
        "mask": EventRegister.MASK,
        "irq_mask": EventRegister.IRQ_MASK,
        "buffer_clear": EventRegister.BUFFER_CLEAR,
        "wait_clear": EventRegister.WAIT_CLEAR,
        "fifo": EventRegister.DISPATCH_FIFO,
        "team": EventRegister.DISPATCH_TEAM,
        "mutex": EventRegister.MUTEX,
        "shared": EVENT_UNIT,
        "sw_trigger": EVENT_UNIT + SHARED_SW_TRIGGERS,
        "barrier_mask": EventRegister.BARRIER + Barrier.TRIGGER_MASK,
        "barrier_status": EventRegister.BARRIER + Barrier.STATUS,
        "barrier_target": EventRegister.BARRIER + Barrier.TARGET_MASK,
        "barrier_wait": EventRegister.BARRIER + Barrier.TRIGGER_WAIT_CLEAR,
        "barrier_event": 1 << EventLine.BARRIER,
        "timer_line": 1 << EventLine.TIMER_LOW,
        "cluster_line": 1 << EventLine.CLUSTER,
        "lines": lines,
    }
    nets = Nets(design, _DRIVEN)
    return {
        f"{design.identifier}_tb.v": fill(
            "event_unit_tb.v",
            module=design.module,
            top=design.top,
            top_name=design.identifier,
            cores=config.cores,
            core_bytes=SHARED_CORE_BYTES,
            sw_events=config.sw_events,
            dma_idle=_DMA_IDLE if config.dma else "",
            dma_lines=_DMA_LINES.format(line=1 << EventLine.DMA) if config.dma else "",
            half_period=SIMULATED_NS // 2,
            wires=nets.declarations(),
            connections=nets.connections(),
            **{name: f"{value:08x}" for name, value in registers.items()},
        )
    }
