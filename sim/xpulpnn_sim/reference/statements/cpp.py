"""Translates instructions of the instruction table to C++.

The statements of a row become one function, which the compiled simulator (``iss/native/hart.hpp``) calls with the hart,
the decoded instruction and its address. Registers are read before and written after all statements, so that an access
that fails has no effect. Products have 128 bits; everything else fits 64, or only its low bits count.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xpulpnn.isa import semantics
from xpulpnn.isa.csr import CSR_BY_NAME, CSRS, MSTATUS_MIE_BIT, MSTATUS_MPIE_BIT
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn.isa.xif import STEP_BITS

CSR_PLACES = {csr.name: place for place, csr in enumerate(CSRS)}
"""Place of each CSR in the state of a compiled hart."""
_FLAGS = {"MIE": MSTATUS_MIE_BIT, "MPIE": MSTATUS_MPIE_BIT}
_LOOP_STRIDE = CSR_PLACES[f"{semantics.LOOPS[0]}1"] - CSR_PLACES[f"{semantics.LOOPS[0]}0"]


def leads(insn: Insn) -> bool:
    """Return whether the function of an instruction, which may change loops, itself handles the end of one."""
    return insn.insn_class in (InsnClass.CSR, InsnClass.LOOP) or insn.op == "mret"


def _is_fixed(name: str) -> bool:
    return name[0] == "x" and name[1:].isdecimal()


@dataclass(slots=True)
class _Translation:
    insn: Insn
    lines: list[str] = field(default_factory=list[str])
    written: list[str] = field(default_factory=list[str])  # registers in the order of their assignments
    locals: set[str] = field(default_factory=set[str])
    in_sum: bool = False  # products of elements are translated

    def body(self) -> list[str]:
        statements = semantics.definition(self.insn)
        self.block(statements)
        names = [node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)]
        fields = [token.field.name for token in self.insn.tokens]
        head: list[str] = []
        for name in dict.fromkeys((*fields, *names)):
            if self._is_register(name):
                head += [f"const I {name} = hart.regs[{self.number(name)}];", f"u32 new_{name} = {name};"]
            elif name in fields:
                head.append(f"const I {name} = {self.number(name)};")
        if self.insn.insn_class is InsnClass.CSR:
            # csrrs and csrrc do not write if rs1 or the immediate is 0
            always, operand = int(self.insn.op == "csrrw"), self.number(fields[-1])
            head.append(f"hart.require_csr({self.number('csr')}, {always} || {operand});")
        if leads(self.insn) and "pc" not in self.written:
            # a loop ends after the read of a CSR and before all writes
            self.lines.insert(2 if self.insn.insn_class is InsnClass.CSR else 1, "next = hart.after(pc, next);")
        return head + self.lines + [self._commit(name) for name in self.written if name != "pc"]

    def _commit(self, name: str) -> str:
        # x0 as the first of two registers drops both
        condition = f"if ({self.number('rd')}) " if name == "rd1" else ""
        return f"{condition}hart.set({self.number(name)}, new_{name});"

    def number(self, name: str) -> str:
        """Return a field of the instruction; of a register its number, which may be fixed such as that of ``x2``."""
        if name == "rd1":
            return f"{self.number('rd')} + 1"
        return name[1:] if _is_fixed(name) else f"op.operands[{[t.field.name for t in self.insn.tokens].index(name)}]"

    def _is_register(self, name: str) -> bool:
        fields = {token.field.name: token.field.kind for token in self.insn.tokens}
        return fields.get(name) is FieldKind.REGISTER or _is_fixed(name) or (name == "rd1" and self.insn.is_pair)

    # ---- statements ----

    def block(self, statements: Sequence[ast.stmt], head: str = "") -> None:
        outside = {*self.locals}
        self.lines.append(f"{head}{{")
        for statement in statements:
            self._statement(statement)
        self.lines.append("}")
        self.locals = outside

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, self.value(value))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index)], value=value):
                self._assign_element(name, index, value)
            case ast.If(test=test, body=body, orelse=[]):
                self.block(body, f"if ({self.value(test)}) ")
            case ast.For(target=ast.Name(id=name), iter=values, body=body, orelse=[]):
                self.block(body, self._loop(name, values))
            case ast.Expr(value=ast.Call(func=ast.Name(id="trap"), args=[cause])):
                self.lines.append(f"hart.trap({self.value(cause)});")
            case ast.Expr(value=ast.Call(func=ast.Name(id="wait"), args=[condition])):
                self.lines.append(f"hart.asleep = !{self.value(condition)};")
            case _:
                raise semantics.beyond_notation(statement)

    def _assign(self, name: str, value: str) -> None:
        if self._is_register(name) or name == "pc":
            self.written += [name] if name not in self.written else []
            self.lines.append(f"{'next' if name == 'pc' else f'new_{name}'} = {value};")
        elif name in semantics.STATE:
            self.lines.append(f"hart.nn[{semantics.STATE[name]}] = {value};")
        elif name in _FLAGS:
            self.lines.append(f"hart.set_flag({_FLAGS[name]}, {value});")
        else:
            self.lines.append(f"{'' if name in self.locals else 'auto '}{name} = {value};")
            self.locals.add(name)

    def _assign_element(self, name: str, index: ast.expr, value: ast.expr) -> None:
        at, text = self.value(index), self.value(value)
        if name == "rd":
            self.written += ["rd"] if "rd" not in self.written else []
            lanes = self._loop("i", ast.Name("lanes")) if isinstance(index, ast.Name) and index.id == "i" else ""
            self.lines.append(f"{lanes}new_rd = inserted(new_rd, {at}, {semantics.lane_width(self.insn)}, {text});")
        elif name in semantics.MEMORY:
            self.lines.append(f"hart.store({at}, {semantics.MEMORY[name] // BYTE_BITS}, {text});")
        elif name == "CSR":
            self.lines.append(f"hart.write_csr({at}, {text});")
        elif name in semantics.LOOPS:
            self.lines.append(f"hart.csr[{CSR_PLACES[f'{name}0']} + {_LOOP_STRIDE} * {at}] = {text};")
        elif self.insn.op in ("pa.ld", "pa.wr"):
            self.lines.append(f"hart.put({semantics.STATE[name]} + {at}, {text});")
        else:
            self.lines.append(f"hart.nn[{semantics.STATE[name]} + {at}] = {text};")

    def _loop(self, name: str, values: ast.expr) -> str:
        return f"for (I {name} = 0; {name} < {semantics.times(self.insn, values)}; {name}++) "

    # ---- values ----

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(number)):
                return f"I({number})"
            case ast.Name(id=name):
                return self._named(name)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return f"({self.value(left)} & ({self.value(right)} - 1))"  # of a power of two
            case ast.BinOp(op=ast.Pow(), right=right):
                return f"(I(1) << ({self.value(right)}))"
            case ast.BinOp(left=left, op=op, right=right):
                wide = "W" if isinstance(op, ast.Mult) and not self.in_sum else ""
                first = f"{wide}({self.value(left)})"
                return f"({first}{_sign(ast.BinOp(_X, op, _X))}{self.value(right)})"
            case ast.UnaryOp(op=ast.USub() | ast.Invert() as op, operand=operand):
                return f"({'-' if isinstance(op, ast.USub) else '~'}{self.value(operand)})"
            case ast.Compare(left=ast.Name(id=first), ops=[ast.IsNot()], comparators=[ast.Name(id=second)]):
                return f"({self.number(first)} != {self.number(second)})"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return f"({self.value(left)}{_sign(ast.Compare(_X, [op], [_X]))}{self.value(right)})"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self.value(test)} ? {self.value(body)} : {self.value(orelse)})"
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() as terms], keywords=keywords):
                return self._over(name, terms, [keyword.value for keyword in keywords])
            case ast.Call(func=ast.Name(id="s"), args=[operand], keywords=[]):
                return f"sx({self.value(operand)}, {semantics.width_read(self.insn, operand)})"
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return f"{name}({', '.join(map(self.value, arguments))})"
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(name, index)
            case _:
                raise semantics.beyond_notation(node)

    def _over(self, name: str, terms: ast.GeneratorExp, default: Sequence[ast.expr]) -> str:
        """Return the sum of terms, or the least or greatest number whose condition holds, as a statement expression."""
        each, values, tests = semantics.generator(terms)
        self.in_sum = name == "sum"
        loop, term = f'_Pragma("GCC unroll 16") {self._loop(each, values)}', self.value(terms.elt)
        self.in_sum = False
        if name == "sum":
            return f"({{ I total = 0; {loop}total += {term}; total; }})"
        first = " && ".join([*(["chosen < 0"] if name == "min" else []), *map(self.value, tests)])
        chosen = f"chosen < 0 ? {self.value(default[0])} : chosen"
        return f"({{ I chosen = -1; {loop}if ({first}) chosen = {term}; {chosen}; }})"

    def _named(self, name: str) -> str:
        if name in ("pc", "size"):
            return "I(pc)" if name == "pc" else "I(op.length)"
        if name in semantics.STATE:
            return f"I(hart.nn[{semantics.STATE[name]}])"
        if name in _FLAGS:
            return f"I(hart.csr[{CSR_PLACES['mstatus']}] >> {_FLAGS[name]} & 1)"
        return f"I(hart.csr[{CSR_PLACES[name]}])" if name in CSR_BY_NAME else "I(-1)" if name == "ones" else name

    def _element(self, name: str, index: ast.expr) -> str:
        match index:
            case ast.Slice(lower=ast.Constant(value=int(high)), upper=ast.Constant(value=int(low))):
                return f"element({self._named(name)}, {low}, 1, {high - low + 1})"
            case _:
                at = self.value(index)
        if name in semantics.MEMORY:
            place = f"hart.noted({at})" if self.insn.op == "pv.qnt" else at
            return f"I(hart.load({place}, {semantics.MEMORY[name] // BYTE_BITS}, {int(self.insn.op == 'pa.step')}))"
        if name in semantics.STATE:
            return f"I(hart.nn[{semantics.STATE[name]} + {at}])"
        if name == "CSR":
            return f"I(hart.read_csr({at}))"
        width = semantics.lane_width(self.insn) if semantics.is_lane(self.insn, name) else 1
        return f"element({self._named(name)}, {at}, {width}, {width})"


_X = ast.Name("x")


def _sign(expression: ast.expr) -> str:
    return ast.unparse(expression)[1:-1]


def _steps(insn: Insn) -> Iterator[str]:
    """Yield the lines of pa.step: its statements for each step, with each part of the weights in turn."""
    count = semantics.parts_of_weights(insn)
    rows = [replace(insn, entry=part) for part in range(count)] if count > 1 else [insn]
    yield f"for (u32 step = 0, count = hart.regs[op.operands[0]] & {(1 << STEP_BITS) - 1}; step < count; step++)"
    yield f"  switch (step % {count}) {{"
    for part, row in enumerate(rows):
        yield from (f"    case {part}: {{", *_Translation(row).body(), "break;", "}")
    yield "  }"


def functions(rows: Sequence[Insn]) -> str:
    """Return the C++ functions of rows, and a table of them in the order of the rows."""
    names: dict[str, str] = {}
    table: list[str] = []
    for insn in rows:
        body = _steps(insn) if insn.op == "pa.step" else _Translation(insn).body()
        table.append(names.setdefault("\n".join(f"  {line}" for line in body), f"row{len(names)}"))
    parts = [
        f"static u32 {name}(Hart &hart, const Op &op, u32 pc, u32 next) {{\n{body}\n  return next;\n}}"
        for body, name in names.items()
    ]
    return "\n".join([*parts, f'extern "C" const Function ROWS[] = {{{", ".join(table)}}};', ""])
