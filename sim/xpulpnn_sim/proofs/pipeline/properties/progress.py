"""Progress: with memories that answer, instructions retire."""

from amaranth.hdl import Signal

from xpulpnn_sim.proofs.pipeline.properties.invariants import Watched, implies


def watch_progress(m, core, seen, window):
    """Return what goes wrong if nothing retires for ``window`` cycles, no interrupt is taken, and no unit computes.

    Only wfi may wait longer, and only while no enabled interrupt is pending. That a multiplication or division ends is
    proved of its unit.
    """
    quiet = Signal(range(window + 2), name="progress_quiet")
    computes = seen["ex_valid"] & ~seen["ex_access"][0] & ~seen["ex_done"]
    with m.If(core.rvfi_valid | core.irq_ack | computes | (seen["sleeping"] & ~seen["any_pending"])):
        m.d.sync += quiet.eq(0)
    with m.Elif(quiet <= window):
        m.d.sync += quiet.eq(quiet + 1)
    invariants = {
        "what counts late is in EX": implies(seen["late"].any() & ~seen["gives_back"], seen["ex_valid"]),
        "what is booted fetches": implies(seen["booted"], seen["fetch_running"]),
    }
    return Watched({"nothing retires": quiet > window}, invariants)
