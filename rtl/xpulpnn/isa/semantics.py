"""Statements of one instruction, from the template of its operation, and helpers to interpret them."""

import ast
import re

from xpulpnn.errors import InputError
from xpulpnn.isa.compressed import EXPANSIONS
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_WEIGHT, NNRF_WORDS, XLEN
from xpulpnn.isa.operations import OPERATIONS, PICKED_HALVES, RELOAD, RELOAD_ANY, RELOAD_OTHER


def phrase(insn: Insn) -> str:
    text = OPERATIONS[insn.op].phrase
    return text.replace("one of them", "the activation not used") if insn.reloads_other else text


def statements(insn: Insn) -> tuple[str, ...]:
    """Return the statements of ``insn``, in the notation of the guide; none if software sees no effect."""
    if insn.mnemonic in EXPANSIONS:
        return _compressed(insn)
    template = OPERATIONS[insn.op].statements
    if insn.op == "pv.shuffle" and insn.mode is Op2Mode.SCI:
        template = PICKED_HALVES
    operands = _scalar_operands(insn) if insn.fmt is None else _lane_operands(insn, insn.fmt)
    # the alias rows of multiplications shift by 0
    text = template.format(**operands).removesuffix(" >> 0")
    lines = text.split("\n") if text else []
    if insn.writes_base and (insn.is_load or insn.is_store):
        # the base is written first, so that loaded data wins if both have the same register
        if insn.is_load:
            lines = ["a = rs1", f"rs1 = a + {_offset(insn)}", *lines]
        else:
            lines.append(f"rs1 = rs1 + {_offset(insn)}")
    return tuple(lines)


def _last(insn: Insn) -> str:
    return insn.operands.rsplit(",", maxsplit=1)[-1]


def _offset(insn: Insn) -> str:
    return insn.operands.split("(")[0].rsplit(",", maxsplit=1)[-1]


def _scalar_operands(insn: Insn) -> dict[str, object]:
    names = {token.field.name for token in insn.tokens}
    second = "simm5" if "simm5" in names else _last(insn)
    is_register = second == "rs2" or (insn.is_branch and "rs2" in names)
    operands: dict[str, object] = {
        "b": second,
        "sa": "rs1" if is_register else "s(rs1)",
        "sb": ("rs2" if insn.is_branch else "s(rs2)") if is_register else second,
        "ub": "rs2" if is_register else f"zx({second}, 32)",
        "n": "rs2[4:0]" if is_register else second,
        "at": ("a" if insn.is_load else "rs1") if insn.writes_base else f"rs1 + {_offset(insn)}",
        "csr": second,
        "writes": "rs1 is not x0" if second == "rs1" else f"{second} != 0",
        "count": "rs1" if "rs1" in names else "lpcnt12",
        "end": second,
        "bound": "s(rs2)" if is_register else "2 ** (Is2 - 1) - 1 if Is2 > 0 else 0",
        "w": "rs2[9:5] + 1" if is_register else "Is3 + 1",
        "s": "rs2[4:0]" if is_register else "Is2",
    }
    if insn.op.endswith(("N", "NR")):
        # operands and shift amount of additions and multiplications with normalisation
        if "Is3" in names:
            return operands | {"x": "rs1", "y": "rs2", "n": "Is3"}
        return operands | ({"n": "0"} if insn.alias else {"x": "rd", "y": "rs1", "n": "rs2[4:0]"})
    return operands


def _lane_operands(insn: Insn, fmt: ElemFmt) -> dict[str, object]:
    immediate = insn.mode is Op2Mode.SCI
    second = _last(insn) if immediate else "rs2[0]" if insn.mode is Op2Mode.SC else "rs2[i]"
    signed = second if immediate else f"s({second})"
    first_factor, second_factor = "rs1[i]", second
    if insn.is_nn_form or insn.is_pair:
        first_factor, second_factor = "wgt[i]", "act[i]"
    elif insn.op == "pv.cusdot":
        first_factor, second_factor = "wgt[i]", "rs2[i]"
    half = 1 << (fmt.width - 1)
    operands: dict[str, object] = {
        "b": second,
        "sb": signed,
        "fa": f"s({first_factor})" if insn.a_signed else first_factor,
        "fb": f"s({second_factor})" if insn.b_signed and not immediate else second_factor,
        "lanes": fmt.lanes,
        "width": fmt.width,
        "entry": insn.entry,
        "reload": RELOAD_OTHER if insn.reloads_other else RELOAD,
        "distance": 2 << fmt.width,
        "step": half,
        "inverted": half,
        "mask": 2 * half - 1,
    }
    operands |= {"least": -half, "most": half - 1} if insn.a_signed else {"least": 0, "most": 2 * half - 1}
    if insn.op in ("pa.blk", "pa.step"):
        return operands | _block_operands(insn, fmt)
    if insn.wgt_fmt is not None:
        operands["fa"] = _weight(insn, fmt, "wgt", signed=insn.a_signed)
    if insn.is_pair:
        operands |= {name: f"s({name}[i])" if insn.b_signed else f"{name}[i]" for name in ("first", "second")}
        old = ("rd + ", "rd1 + ") if insn.accumulates else ("", "")
        operands |= {"old": old[0], "old1": old[1], "reload": RELOAD_ANY if insn.writes_base else ""}
    if insn.op == "pv.cusdot" and insn.entry is not None:
        operands["entry"] = FIRST_WEIGHT + insn.entry
    return operands


def _weight(insn: Insn, fmt: ElemFmt, word: str, *, signed: bool) -> str:
    """Return element i of the weights in a word, or in a part of it if they are narrower than the activations."""
    if insn.wgt_fmt is None or insn.entry is None:
        return f"s({word}[i])" if signed else f"{word}[i]"
    width, extend = insn.wgt_fmt.width, "sx" if signed else "zx"
    first = f"{insn.entry * fmt.lanes} + i" if insn.entry else "i"
    return f"{extend}({word} >> {width} * ({first}), {width})"


def parts_of_weights(insn: Insn) -> int:
    """Return how many words of activations the weights of a word are for."""
    return 1 if insn.wgt_fmt is None else insn.elements.width // insn.wgt_fmt.width


def _block_operands(insn: Insn, fmt: ElemFmt) -> dict[str, object]:
    words = {"first": "rs1", "second": "rs2", "wgt": "wgt"}
    operands: dict[str, object] = {name: _weight(insn, fmt, word, signed=insn.b_signed) for name, word in words.items()}
    is_last = (insn.entry or 0) == parts_of_weights(insn) - 1
    operands["advance"] = "\nPTR[1] = PTR[1] + 16" if is_last else ""
    return operands | {"act": "s(act[i])" if insn.a_signed else "act[i]"}


_NAME = re.compile(r"\b[A-Za-z]\w*\b")


def _compressed(insn: Insn) -> tuple[str, ...]:
    """Return the statements of the 32-bit instruction to which a compressed instruction expands."""
    expansion = EXPANSIONS[insn.mnemonic]
    fixed = {name: source for name, source in expansion.sources.items() if source.isdecimal()}
    registers = {"rd", "rs1", "rs2"}

    def name_of(match: re.Match[str]) -> str:
        name = match[0]
        if name in fixed:
            return f"x{fixed[name]}" if name in registers else fixed[name]
        return expansion.sources.get(name, name)

    lines = (_NAME.sub(name_of, line) for line in statements(expansion.insn))
    return tuple(_tidy(line) for line in lines if not line.startswith("x0 = "))


def _tidy(line: str) -> str:
    line = re.sub(r"(?<=== )x0\b", "0", re.sub(r"(?<=!= )x0\b", "0", line))
    line = line.replace(" + 0", "").replace("x0 + ", "")
    return re.sub(r"(?<![\w])\((\w+)\)", r"\1", line)


MEMORY = {"mem8": 8, "mem16": 16, "mem32": 32}  # bits of an access, by the name of the memory in the notation
STATE = {"NN": 0, "ACC": NNRF_WORDS, "PTR": NNRF_WORDS + 16, "FAILED": NNRF_WORDS + 18}
"""First word of each part of the NN-RF and of the coprocessor's state, in one list."""
STATE_WORDS = NNRF_WORDS + 19
LOOPS = ("lpstart", "lpend", "lpcount")  # registers of hardware loops, indexed by the number of the loop


def definition(insn: Insn) -> list[ast.stmt]:
    return ast.parse("\n".join(statements(insn))).body


def is_lane(insn: Insn, name: str) -> bool:
    """Return whether ``name[i]`` in the statements of an instruction is an element of a vector, and not a bit."""
    immediates = {token.field.name for token in insn.tokens if token.field.kind is not FieldKind.REGISTER}
    return insn.fmt is not None and name not in immediates


def lane_width(insn: Insn) -> int:
    return insn.elements.width


def width_read(insn: Insn, node: ast.expr) -> int:
    """Return the width of the argument of ``s()`` in a statement; raise :class:`InputError` if it is unknown."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)) if name in MEMORY:
            return MEMORY[name]
        case ast.Subscript(value=ast.Name(id=name)) if is_lane(insn, name):
            return lane_width(insn)
        case ast.Name():
            return XLEN
        case _:
            raise beyond_notation(node)


def times(insn: Insn, values: ast.expr) -> int:
    """Return the number of values in ``bits``, ``lanes`` or a range."""
    match values:
        case ast.Name(id="bits"):
            return XLEN
        case ast.Name(id="lanes") if insn.fmt is not None:
            return insn.fmt.lanes
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count
        case _:
            raise beyond_notation(values)


def generator(terms: ast.GeneratorExp) -> tuple[str, ast.expr, list[ast.expr]]:
    """Return the variable, values and conditions of a generator."""
    match terms.generators:
        case [ast.comprehension(target=ast.Name(id=name), iter=values, ifs=tests)]:
            return name, values, tests
        case _:
            raise beyond_notation(terms)


def beyond_notation(node: ast.AST) -> InputError:
    return InputError(f"statement must be in the notation, not {ast.unparse(node)}")
