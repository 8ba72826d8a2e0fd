"""Random C functions made of loops: counters, pointer walks, breaks, calls, nests, volatile objects.

All arithmetic is defined (``-fwrapv`` is assumed), pointer sizes do not matter, and every loop ends after a few hundred
iterations, so that a function returns the same result on every machine.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ARRAYS = {"b": "int8_t", "c": "uint8_t", "s": "int16_t", "t": "uint16_t", "w": "int32_t", "x": "uint32_t"}
"""Element type of the global array ``g_NAME``, by NAME; no access goes past the end of an array."""

SMALL = """\
static int32_t g_n = 3;
static uint8_t g_u;
static int16_t g_a[4] = {1};
static item_t g_one;
extern int32_t e_n, *e_p;
extern uint16_t e_h[2];
"""
"""C declarations of small global variables, which linkers place in the range of gp."""
SHARED = "int32_t e_n = 5, *e_p = &e_n;\nuint16_t e_h[2] = {7};\n"
_SMALL_STATEMENTS = (
    "g_n += (int32_t)(h & 15); ADD(g_n);",
    "g_u++; ADD(g_u);",
    "g_a[h & 3] += (int16_t)n; ADD(g_a[m & 3]);",
    "g_one.a += g_one.b++; ADD(g_one.a);",
    "e_n ^= (int32_t)h; ADD(e_n);",
    "e_h[h & 1]++; ADD(e_h[0]);",
    # loads and stores that must stay in their loop
    "e_p = h & 1 ? &e_n : &g_n;",
    "*e_p += (int32_t)h; ADD(e_n);",
    "e_n++; *e_p ^= g_n; ADD(g_n);",
)


class _FunctionWriter:
    def __init__(self, seed: str, name: str) -> None:
        self._rng = random.Random(seed)
        self._name = name
        self._fresh = 0
        self._lines: list[str] = []
        self._depth = 1
        self._variables = ["n", "m", "u", "h", "g_n", "e_n"]
        self._kinds = self._rng.random()
        self._loops = 0
        self._in_loop: list[str] = []

    def text(self) -> str:
        loops = (self._counted, self._walk, self._copy, self._matrix, self._dots, self._structs, self._scalars)
        rare = (self._backwards, self._ordered, self._own_loop, self._wrapping)
        chosen: Callable[[], None] = self._rng.choice((*loops, self._counted, self._counted, self._walk, *rare))
        for _ in range(self._rng.randint(1, 2)):
            self._loops += {self._matrix: 3, self._counted: 0}.get(chosen, 1)
            chosen()
        attribute = "LOOPS" if chosen == self._own_loop else "NOINLINE"
        head = f"static {attribute} uint32_t {self._name}(uint32_t h, int32_t n, int32_t m, uint32_t u) {{"
        return "\n".join([head, *self._lines, "    return h;", "}"])

    def _say(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _new_name(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}{self._fresh}"

    @contextmanager
    def _block(self, head: str, tail: str = "}") -> Iterator[None]:
        self._say(head)
        self._depth += 1
        known = list(self._variables)
        yield
        self._variables = known
        self._depth -= 1
        self._say(tail)

    # expressions

    def _expression(self, depth: int = 2) -> str:
        pick = self._rng.random()
        if depth == 0 or pick < 0.35:
            if self._rng.random() < 0.3:
                return f"{self._rng.choice([0, 1, 2, 5, 255, 4096, 65535, 2_147_483_648])}u"
            return f"(uint32_t){self._rng.choice(self._variables)}"
        if pick < 0.55:
            return f"(uint32_t)g_{self._rng.choice(list(ARRAYS))}[{self._expression(depth - 1)} & 255]"
        left, right = self._expression(depth - 1), self._expression(depth - 1)
        if pick < 0.65:
            return f"({left} {self._rng.choice(['<<', '>>'])} {self._rng.randint(0, 31)})"
        if pick < 0.7:
            return f"(uint32_t)MAXIMUM({left}, {right})"
        return f"({left} {self._rng.choice(['+', '-', '*', '^', '&', '|'])} {right})"

    def _condition(self) -> str:
        left, right = self._expression(1), self._expression(1)
        cast = self._rng.choice(["(int32_t)", ""])
        return f"{cast}({left}) {self._rng.choice(['<', '>', '==', '!=', '<=', '>='])} {cast}({right})"

    def _count(self, most: int) -> str:
        """Return a random loop count up to ``most`` as a C expression: a constant or a run-time value."""
        pick = self._rng.random()
        if pick < 0.2:
            return str(self._rng.randint(0, most))
        return f"(int32_t)({self._rng.choice(['n', 'm', 'u', 'h'])} & {most})"

    # statements

    def _statement(self) -> None:
        pick = self._rng.random()
        if pick < 0.3:
            self._say(f"ADD({self._expression()});")
        elif pick < 0.5:
            name = self._rng.choice(list(ARRAYS))
            self._say(f"g_{name}[{self._expression(1)} & 255] = ({ARRAYS[name]})({self._expression()});")
        elif pick < 0.62:
            with self._block(f"if ({self._condition()}) {{"):
                self._say(f"ADD({self._expression()});")
        elif pick < 0.68 and self._in_loop:
            self._say(f"if ({self._condition()}) {self._rng.choice(['break', self._in_loop[-1]])};")
        elif pick < 0.70 and self._in_loop:
            self._say("if (h % 1009 == 17) return h ^ 5;")
        elif pick < 0.74:
            self._say(f"h = mix(h, {self._expression(1)});")
        elif pick < 0.78:
            self._say(f"h = (uint32_t)DOT(h, {self._expression(1)}, (int32_t)h);")
        elif pick < 0.84 and self._depth < 4 and self._loops < 5:
            self._counted()
        elif pick < 0.88:
            self._switch()
        elif pick < 0.90:
            self._say("g_v = (int32_t)(h + (uint32_t)g_v); ADD(g_v);" if self._kinds < 0.3 else "g_w[h & 255]++;")
        elif pick < 0.91:
            self._say(f"ADD({self._expression(1)} % 7u);")
        else:
            self._small()

    def _small(self) -> None:
        volatile = ("g_v++; ADD(g_v);",) * 3 if self._kinds < 0.3 else ()
        self._say(self._rng.choice((*_SMALL_STATEMENTS, *volatile)))

    def _switch(self) -> None:
        self._say(f"switch ({self._expression(1)} & 7u) {{")
        for case in range(self._rng.randint(2, 6)):
            self._say(f"case {case}: ADD({self._expression(1)}); {self._rng.choice(['break;', ''])}")
        self._say("default: ADD(3u); break; }")

    def _body(self, *, continues: bool = True, most: int = 3) -> None:
        self._in_loop.append("continue" if continues else "break")
        for _ in range(self._rng.randint(1, most)):
            self._statement()
        self._in_loop.pop()

    # loops

    def _counted(self) -> None:
        """Write a counting loop with random comparison, direction, counter type and step."""
        rng = self._rng
        self._loops += 1
        most = 31 if self._depth == 1 else 7 if self._depth == 2 else 3
        kind = rng.choice(["int32_t", "uint32_t", "int32_t", "int16_t", "uint16_t", "uint8_t"])
        counter, bound, step = self._new_name("i"), self._new_name("e"), rng.choice([1, 1, 1, 2, 3, 4, 7])
        outside = rng.random() < 0.4
        self._say(f"{kind} {bound} = ({kind})({self._count(most)});")
        declared = "" if outside else kind
        form = rng.choice(["up", "up", "up", "to", "down", "down0", "while", "do", "do", "unequal"])
        if outside:
            self._say(f"{kind} {counter} = ({kind})n;")
        elif form in ("down0", "while", "do"):
            self._say(f"{'int32_t' if form == 'down0' else kind} {counter};")

        tail = "}"
        match form:
            case "up" | "to":
                first, relation = (rng.randint(0, 3), "<=") if form == "to" else (0, "<")
                head = f"for ({declared} {counter} = {first}; {counter} {relation} {bound}; {counter} += {step}) {{"
            case "down":
                head = f"for ({declared} {counter} = {bound}; {counter} > 0; {counter}--) {{"
            case "down0":
                head = f"for ({counter} = {bound}; {counter}-- > 0;) {{"
            case "while":
                self._say(f"{counter} = {bound};")
                head = f"while ({counter}) {{"
            case "do":
                self._say(f"{counter} = ({kind})({bound} + 1);")
                head, tail = "do {", f"}} while (--{counter});"
            case _:
                self._say(f"{bound} = ({kind})({bound} * {step} + 2);")
                head = f"for ({declared} {counter} = 2; {counter} != {bound}; {counter} += {step}) {{"
        with self._block(head, tail):
            if form in ("up", "to", "down", "down0"):
                self._variables.append(counter)
            if form in ("up", "to") and rng.random() < 0.15:
                self._say(f"if ({self._condition()}) {counter}++;")
            if form == "while":
                self._say(f"{counter}--;")
            self._body(continues=form != "do")
        if outside:
            self._say(f"ADD({counter});")

    def _pointer(self, *, constant: bool = True) -> tuple[str, str]:
        """Return a C pointer into an array, with at least 200 elements behind it, and the type of the elements."""
        name = self._rng.choice(list(ARRAYS))
        pointer = self._new_name("p")
        qualifier = "const " if constant else ""
        self._say(f"{qualifier}{ARRAYS[name]} *{pointer} = g_{name} + {self._rng.randint(0, 200)};")
        return pointer, ARRAYS[name]

    def _walk(self) -> None:
        """Write a loop that moves pointers through arrays until one reaches its end or a counter runs out."""
        rng = self._rng
        pointers = [self._pointer() for _ in range(rng.randint(1, 4))]
        step, end = rng.choice([1, 1, 1, 2, 3, 4]), self._new_name("e")
        first, kind = pointers[0]

        count, tail = f"{step} * ({self._count(31)})", "}"
        match rng.choice(["unequal", "less", "count", "do"]):
            case "unequal":
                self._say(f"const {kind} *{end} = {first} + {count};")
                head = f"while ({first} != {end}) {{"
            case "less":
                self._say(f"const {kind} *{end} = {first} + {self._count(63)};")
                head = f"while ({first} < {end}) {{"
            case "count":
                head = f"for (int32_t {end} = {self._count(31)}; {end} > 0; {end}--) {{"
            case _:
                self._say(f"const {kind} *{end} = {first} + {self._count(63)};")
                head, tail = "do {", f"}} while ({first} < {end});"
        with self._block(head, tail):
            for pointer, _ in pointers:
                for offset in rng.sample(range(step + 1), rng.randint(1, min(2, step + 1))):
                    self._say(f"ADD({pointer}[{offset}]);")
            if rng.random() < 0.4:
                self._body(continues=False, most=1)
            for pointer, _ in pointers:
                self._say(f"{pointer} += {step};")
        self._say(f"ADD({first} - g_{next(n for n, t in ARRAYS.items() if t == kind)});")

    def _copy(self) -> None:
        rng = self._rng
        source, _ = self._pointer()
        target, kind = self._pointer(constant=False)
        count = self._new_name("k")
        self._say(f"int32_t {count} = {self._count(63)};")
        value = rng.choice([f"*{source}++", f"*{source}++ + 1", f"(*{source}++ ^ (int32_t)h) >> 1"])
        if rng.random() < 0.5:
            with self._block(f"while ({count}-- > 0) {{"):
                self._say(f"*{target}++ = ({kind})({value});")
        else:
            with self._block(f"for (int32_t j = 0; j < {count}; j++) {{"):
                self._say(f"{kind} old = *{target};")
                self._say(f"*{target}++ = ({kind})({value}); ADD(old);")

    def _matrix(self) -> None:
        a, b, c = (self._rng.choice(list(ARRAYS)) for _ in range(3))
        i, j, k = (self._new_name(stem) for stem in "ijk")
        inner = self._rng.choice([f"{k} < (int32_t)(u & 15)", f"{k} < 12", f"{k} < {j}"])

        with (
            self._block(f"for (int32_t {i} = 0; {i} < (int32_t)(n & 7); {i}++) {{"),
            self._block(f"for (int32_t {j} = 0; {j} < (int32_t)(m & 7); {j}++) {{"),
        ):
            self._say("uint32_t acc = h;")
            with self._block(f"for (int32_t {k} = 0; {inner}; {k}++) {{"):
                self._say(f"acc += (uint32_t)g_{a}[{i} * 16 + {k}] * (uint32_t)g_{b}[{j} * 16 + {k}];")
            self._say(f"g_{c}[{i} * 8 + {j}] = ({ARRAYS[c]})acc; ADD(acc);")

    def _dots(self) -> None:
        rows = self._rng.randint(1, 4)
        names = [self._new_name("p") for _ in range(rows + 1)]
        for name in names:
            self._say(f"const int32_t *{name} = g_w + {self._rng.randint(0, 200)};")
        sums = [self._new_name("s") for _ in range(rows)]
        self._say(f"int32_t {', '.join(f'{name} = {i}' for i, name in enumerate(sums))};")
        uses_next = self._rng.random() < 0.3

        with self._block(f"for (int32_t j = 0; j < {self._count(31)}; j++) {{"):
            values = [self._new_name("v") for _ in names]
            for value, name in zip(values, names, strict=True):
                self._say(f"uint32_t {value} = {f'NEXT({name})' if uses_next else f'(uint32_t)*{name}++'};")
            for total, value in zip(sums, values[1:], strict=True):
                self._say(f"{total} = DOT({values[0]}, {value}, {total});")
        for name in sums:
            self._say(f"ADD({name});")

    def _structs(self) -> None:
        name = self._new_name("r")
        end = self._rng.choice([f"{name} != g_i + (n & 31)", f"{name} < g_i + (m & 31)"])

        with self._block(f"for (item_t *{name} = g_i; {end}; {name}++) {{"):
            self._say(f"ADD({name}->a + {name}->b); {name}->e += (int32_t)h; {name}->c ^= {name}->d;")
            if self._rng.random() < 0.4:
                self._body(most=1)

    def _scalars(self) -> None:
        with self._block(f"for (int32_t j = 0; j < {self._count(31)}; j++) {{"):
            for _ in range(self._rng.randint(1, 3)):
                self._small()

    def _backwards(self) -> None:
        name = self._rng.choice(list(ARRAYS))
        pointer, start = self._new_name("p"), self._new_name("b")
        kind, step = ARRAYS[name], self._rng.choice([1, 1, 2, 4])
        self._say(f"{kind} *{start} = g_{name} + {self._rng.randint(0, 60)};")
        self._say(f"{kind} *{pointer} = {start} + {step} * ({self._count(31)});")
        with self._block(f"while ({pointer} {self._rng.choice(['!=', '>'])} {start}) {{"):
            self._say(f"{pointer} -= {step}; ADD(*{pointer}); *{pointer} = ({kind})(h >> 3);")

    def _ordered(self) -> None:
        """Write a for or do loop whose bounds are arguments, so that the condition may be false from the start."""
        rng = self._rng
        counter, step = self._new_name("i"), rng.choice([1, 1, 2, 3, 5])
        kind = rng.choice(["int32_t", "int32_t", "uint32_t"])
        up = rng.random() < 0.6
        first, last = ("m", "n") if rng.random() < 0.5 else ("n", "m")
        if kind == "uint32_t":
            first, last = f"((uint32_t){first} & 63)", f"((uint32_t){last} & 63)"
            up = True
        relation = rng.choice(["<", "<="]) if up else rng.choice([">", ">="])
        self._say(f"{kind} {counter} = {first};")
        self._variables.append(counter)
        move = f"{counter} {'+' if up else '-'}= {step};"
        if rng.random() < 0.5:
            with self._block("do {", f"}} while ({counter} {relation} {last});"):
                self._body(continues=False, most=2)
                self._say(move)
        else:
            with self._block(f"for (; {counter} {relation} {last}; {move[:-1]}) {{"):
                self._body(most=2)
        self._say(f"ADD({counter});")

    def _own_loop(self) -> None:
        """Write a hardware loop in C macros, then a counting loop that the compiler may make a hardware loop."""
        name = self._new_name(f"{self._name}_t")
        self._say(f"TURNS({name}, (uint32_t)({self._count(15)}))")
        self._say(f"    ADD({self._expression(1)});")
        self._say(f"TURNS_END({name})")
        self._counted()

    def _wrapping(self) -> None:
        counter = self._new_name("i")
        kind, low = self._rng.choice([("uint32_t", 4_294_967_280), ("uint8_t", 240), ("uint16_t", 65_520)])
        step = self._rng.choice([1, 1, 3, 5]) if kind == "uint8_t" else 1
        self._say(f"{kind} {counter} = ({kind})({low}u + (u & 7));")
        with self._block(f"while ({counter} != ({kind})(n & 15)) {{"):
            self._say(f"ADD({counter}); {counter} += {step}; if (h % 251 == 9) break;")
        self._say(f"ADD({counter});")


def program_piece(seed: int, number: int) -> str:
    return _FunctionWriter(f"{seed}.{number}", f"p{number}").text()
