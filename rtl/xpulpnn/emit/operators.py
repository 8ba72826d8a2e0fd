"""RTLIL operators that can be emitted, with the Verilog operators."""

BITWISE = {"$and": "&", "$or": "|", "$xor": "^"}
ARITHMETIC = {"$add": "+", "$sub": "-", "$mul": "*"}
COMPARISONS = {"$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
REDUCTIONS = {"$reduce_and": "&", "$reduce_or": "|", "$reduce_xor": "^", "$reduce_bool": "|"}
UNARY = {"$not": "~", "$neg": "-"}
SHIFTS = {"$shl": "<<", "$shr": ">>", "$sshr": ">>>"}

LOW_BITS_SUFFICE = frozenset({*BITWISE, *ARITHMETIC, *UNARY, "$mux", "$shl"})
"""Operators whose low result bits depend on the low operand bits alone."""

CHAINED = frozenset({*BITWISE, "$add"})
