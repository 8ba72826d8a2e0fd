"""Simplifies single operators: constant operands, operands of other widths, redundant signs.

Afterwards operands that Verilog would extend have the width of the operation, so that the text of an operator means the
same in every context.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import and_, or_, xor

from xpulpnn.emit.operators import BITWISE, COMPARISONS, REDUCTIONS
from xpulpnn.emit.rtlil import Cell
from xpulpnn.emit.values import Const, Sig, Slice, bits, const_bits, joined, resized, sig_width

_MAX_PIECES = 2  # a mask reads better than more parts

_IDENTITY = {"$and": Const("1"), "$or": Const("0"), "$xor": Const("0")}
_ABSORBING = {"$and": Const("0"), "$or": Const("1")}
_OPPOSITE = {"$eq": "$ne", "$ne": "$eq", "$lt": "$ge", "$ge": "$lt", "$gt": "$le", "$le": "$gt"}
_OPERATIONS = {"$and": and_, "$or": or_, "$xor": xor}


def normalise(cell: Cell) -> None:
    """Give the operands of an operator the width of the operation, and drop signs that then make no difference."""
    kind, ports = cell.type, cell.ports
    signed = cell.flag("A_SIGNED")
    if kind in BITWISE or kind in ("$add", "$sub", "$mux"):
        _resize(cell, ("A", "B"), sig_width(ports["Y"]), signed)
    elif kind in ("$not", "$neg", "$shl", "$shr", "$sshr"):
        width = sig_width(ports["Y"])
        if kind == "$sshr" and not signed:
            cell.type = "$shr"
        if sig_width(ports["A"]) < width or kind in ("$not", "$neg", "$shl"):
            ports["A"] = resized(ports["A"], width, signed)
        if cell.type != "$sshr":
            cell.params["A_SIGNED"] = 0
    elif kind in COMPARISONS or kind == "$mul":
        width = max(sig_width(ports["A"]), sig_width(ports["B"]))
        keeps = kind not in ("$eq", "$ne")
        if kind == "$mul" and width >= sig_width(ports["Y"]):
            width, keeps = sig_width(ports["Y"]), False
        _resize(cell, ("A", "B"), width, signed)
        if keeps and signed:
            cell.params |= {"A_SIGNED": 1, "B_SIGNED": 1}


def _resize(cell: Cell, names: tuple[str, ...], width: int, signed: bool) -> None:
    for name in names:
        cell.ports[name] = resized(cell.ports[name], width, signed)
        cell.params[f"{name}_SIGNED"] = 0


def _range(sig: Sig, signed: bool) -> tuple[int, int]:
    width = sig_width(sig)
    constant = const_bits(sig)
    if constant is not None:
        value = int(constant or "0", 2)
        if signed and width and value >> (width - 1):
            value -= 1 << width
        return value, value
    if signed:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    zeros = sig[0].width if isinstance(sig[0], Const) and "1" not in sig[0].bits else 0
    return 0, (1 << (width - zeros)) - 1


def _known_comparison(cell: Cell) -> bool | None:
    """Return the result of a comparison if the ranges of its operands decide it."""
    a_min, a_max = _range(cell.ports["A"], cell.flag("A_SIGNED"))
    b_min, b_max = _range(cell.ports["B"], cell.flag("B_SIGNED"))
    always, never = {
        "$lt": (a_max < b_min, a_min >= b_max),
        "$gt": (a_min > b_max, a_max <= b_min),
        "$eq": (a_min == a_max == b_min == b_max, a_max < b_min or b_max < a_min),
    }[cell.type if cell.type in ("$lt", "$gt", "$eq") else _OPPOSITE[cell.type]]
    if not always and not never:
        return None
    return always == (cell.type in ("$lt", "$gt", "$eq"))


def known_result(cell: Cell) -> Sig | None:
    """Return the result of an operator if it is constant or a rearrangement of operand bits; None if it needs gates."""
    kind, ports = cell.type, cell.ports
    if kind in COMPARISONS:
        known = _known_comparison(cell)
        if known is not None:
            return (Const(str(int(known))),)
        return _tested_bit(cell)
    if kind in REDUCTIONS and sig_width(ports["A"]) <= 1:
        return ports["A"] or (Const(str(int(kind == "$reduce_and"))),)
    if kind in ("$add", "$sub"):
        if not int(const_bits(ports["B"]) or "1", 2):
            return ports["A"]
        if kind == "$add" and not int(const_bits(ports["A"]) or "1", 2):
            return ports["B"]
    if kind in BITWISE:
        return _bitwise(cell)
    if kind == "$mux":
        return _selected(cell)
    if kind == "$not" and (constant := const_bits(ports["A"])) is not None:
        return (Const("".join("10"[int(bit)] for bit in constant)),)
    if kind in ("$shl", "$shr", "$sshr", "$shift") and const_bits(ports["B"]) is not None:
        return _constant_shift(cell)
    return None


def absorb_literals(cell: Cell, driver: Cell, port: str) -> None:
    """Merge a literal operand of ``cell`` with a literal operand of ``driver``, the driver of its operand ``port``.

    Two bitwise operations of one type become one; a comparison of a masked value becomes a comparison of the bits that
    the mask keeps.
    """
    other = "AB"[port == "A"]
    literal = const_bits(cell.ports[other])
    is_chain = cell.type == driver.type and cell.type in BITWISE
    compared = cell.type in ("$eq", "$ne") and driver.type == "$and"
    if literal is None or not (is_chain or compared):
        return
    for inner, other_operand in (("A", "B"), ("B", "A")):
        mask, value = const_bits(driver.ports[inner]), driver.ports[other_operand]
        if mask is None or len(mask) != len(literal):
            continue
        if is_chain and len(literal) == sig_width(value):
            both = _OPERATIONS[cell.type](int(literal, 2), int(mask, 2))
            cell.ports[other], cell.ports[port] = (Const(f"{both:0{len(literal)}b}"),), value
            return
        if compared and all(m >= bit for m, bit in zip(mask, literal, strict=True)):
            places = [place for place, bit in enumerate(reversed(mask)) if bit == "1"]
            taken = joined(tuple(chunk for place in reversed(places) for chunk in bits(value, place, 1)))
            if places and len(taken) <= _MAX_PIECES:
                tested = "".join(bit for m, bit in zip(mask, literal, strict=True) if m == "1")
                cell.ports[port], cell.ports[other] = taken, (Const(tested),)
                return


def inverted(cell: Cell, driver: Cell) -> Sig | None:
    """Simplify an inverter: return the operand of a driving inverter, or make ``cell`` the inverse comparison."""
    if driver.type == "$not":
        return driver.ports["A"]
    if driver.type in _OPPOSITE:
        cell.type = _OPPOSITE[driver.type]
        cell.params |= driver.params
        cell.ports |= {port: driver.ports[port] for port in ("A", "B")}
    return None


def _tested_bit(cell: Cell) -> Sig | None:
    """Return the bit that a comparison only copies (``x == 1``, ``x != 0``); None for other comparisons."""
    if cell.type not in ("$eq", "$ne") or sig_width(cell.ports["A"]) != 1 or sig_width(cell.ports["B"]) != 1:
        return None
    true_value = "1" if cell.type == "$eq" else "0"
    for port, other_port in (("A", "B"), ("B", "A")):
        if const_bits(cell.ports[port]) == true_value:
            return cell.ports[other_port]
    return None


def _selected(cell: Cell) -> Sig | None:
    select, no, yes = const_bits(cell.ports["S"]), cell.ports["A"], cell.ports["B"]
    if select is not None:
        return yes if select == "1" else no
    if no == yes:
        return no
    if const_bits(no) == "0" and const_bits(yes) == "1":
        return cell.ports["S"]
    return None


def _single(sig: Sig) -> Iterator[Const | Slice]:
    for chunk in sig:
        if isinstance(chunk, Const):
            yield from map(Const, chunk.bits)
        else:
            for place in reversed(range(chunk.low, chunk.low + chunk.width)):
                yield Slice(chunk.wire, place, 1)


def _bitwise(cell: Cell) -> Sig | None:
    """Return the result of a bitwise operator if constant operand bits make it a concatenation of few parts."""
    identity, absorbing = _IDENTITY[cell.type], _ABSORBING.get(cell.type)
    a, b = cell.ports["A"], cell.ports["B"]
    result: list[Const | Slice] = []
    for bit_a, bit_b in zip(_single(a), _single(b), strict=True):
        if absorbing in (bit_a, bit_b):
            result.append(absorbing)
        elif identity in (bit_a, bit_b):
            result.append(bit_b if bit_a == identity else bit_a)
        else:
            return None
    sig = joined(tuple(result))
    inputs = min(len(list(groupby(sig_, type))) for sig_ in (a, b))
    return sig if len(sig) <= max(_MAX_PIECES, inputs) else None


def _constant_shift(cell: Cell) -> Sig:
    amount = int(const_bits(cell.ports["B"]) or "0", 2)
    width = sig_width(cell.ports["Y"])
    if cell.type == "$shl":
        amount = min(amount, width)
        zeros = (Const("0" * amount),) if amount else ()
        return resized(cell.ports["A"], width - amount, cell.flag("A_SIGNED")) + zeros
    amount = min(amount, width + sig_width(cell.ports["A"]))
    operand = resized(cell.ports["A"], width + amount, cell.flag("A_SIGNED"))
    return bits(operand, amount, width)
