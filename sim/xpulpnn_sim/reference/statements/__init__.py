"""The interpreter of the statements that define instructions (guide, "Notation of the operations").

:mod:`~xpulpnn_sim.reference.statements.interpreter` executes them over any kind of value: Python expressions, which are
compiled for the instruction-set simulator (:mod:`~xpulpnn_sim.reference.statements.compiled`), or gates
(:mod:`xpulpnn_sim.proofs.instructions`). The golden models share none of it, so that each reveals mistakes of the
other: lock step compares a design with the simulator, unit vectors compare it with ``golden``, and tests compare the
simulator with ``golden``.
"""
