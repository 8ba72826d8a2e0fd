"""Readable Verilog from Amaranth's RTLIL, one module per distinct component.

Five steps: :mod:`~xpulpnn.emit.hierarchy` takes the elaborated design apart into components,
:mod:`~xpulpnn.emit.rtlil` reads the RTLIL of each, :mod:`~xpulpnn.emit.netlist` simplifies it,
:mod:`~xpulpnn.emit.nets` decides which nets the text shows and what they are called, and
:mod:`~xpulpnn.emit.module` writes them: registers and memories (:mod:`~xpulpnn.emit.clocked`), combinational
processes (:mod:`~xpulpnn.emit.combinational`), operators (:mod:`~xpulpnn.emit.expr`) and instances.
"""
