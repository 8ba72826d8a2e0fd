"""Progress: with memories that answer, instructions retire."""

from amaranth.hdl import Signal


def watch_progress(m, core, seen, window):
    """What goes wrong if nothing retires for ``window`` cycles, and no interrupt is taken.

    Only wfi may wait longer, and only while no enabled interrupt is pending.

    Parameters
    ----------
    m, core, seen
        As of :func:`~xpulpnn_sim.sequencing.loops.watch_loops`.
    window : int
        Cycles without a retirement.

    Returns
    -------
    dict of str to Value, 1 bit
        What must stay 0, by parts.
    """
    quiet = Signal(range(window + 2), name="progress_quiet")
    with m.If(core.rvfi_valid | core.irq_ack | (seen["sleeping"] & ~seen["any_pending"])):
        m.d.sync += quiet.eq(0)
    with m.Elif(quiet <= window):
        m.d.sync += quiet.eq(quiet + 1)
    return {"nothing retires": quiet > window}
