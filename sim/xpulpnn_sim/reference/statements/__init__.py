"""Translation of the statements that define instructions to C++ (guide, "Notation of the operations").

The golden models share nothing with it, so that each reveals mistakes of the other: lock step compares a design with
the compiled simulator, unit vectors compare it with ``golden``, and tests compare the simulator with ``golden``.
"""
