"""Readable Verilog from Amaranth's RTLIL, one module per distinct component.

Five steps: :mod:`~xpulpnn.emit.hierarchy` splits the elaborated design into components, :mod:`~xpulpnn.emit.rtlil`
reads the RTLIL of each, :mod:`~xpulpnn.emit.netlist` simplifies it, :mod:`~xpulpnn.emit.nets` chooses the nets that
the text shows and their names, and :mod:`~xpulpnn.emit.module` writes registers and memories
(:mod:`~xpulpnn.emit.clocked`), combinational processes (:mod:`~xpulpnn.emit.combinational`), operators
(:mod:`~xpulpnn.emit.expr`) and instances.
"""
