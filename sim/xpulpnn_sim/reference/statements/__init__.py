"""The one interpreter of the statements that say what instructions do (guide, "Notation of the operations").

:mod:`~xpulpnn_sim.reference.statements.interpreter` executes them over any kind of value: texts of Python that are
compiled for the instruction-set simulator (:mod:`~xpulpnn_sim.reference.statements.compiled`), gates
(:mod:`xpulpnn_sim.proofs.instructions`). The references in ``reference.golden`` share none of it, so that each shows a
mistake of the other: lock step compares a design with the simulator, unit vectors compare it with ``golden``, and tests
compare the simulator with ``golden``.
"""
