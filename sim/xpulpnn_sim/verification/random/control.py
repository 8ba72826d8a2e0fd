"""Branches, jumps, subroutines and loops around the straight-line blocks of random programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.bare.draw import Draw, Group
from xpulpnn_sim.reference.bare.layout import COUNTER, LINK, POOL, RA, SCRATCH, SHORT_COUNTER
from xpulpnn_sim.reference.bare.program import RETURN, ProgramBlock, count_statements, single_lines, total_bytes
from xpulpnn_sim.reference.stimuli import corner_words
from xpulpnn_sim.verification.random.coprocessor import coprocessor_block
from xpulpnn_sim.verification.random.memory_run import OPTIONAL, STYLES, MemoryRun
from xpulpnn_sim.verification.random.system import SystemBlocks
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_X6, _RA = ABI_NAMES[SCRATCH], ABI_NAMES[RA]
_INNER, _OUTER = 0, 1
_LONGEST_BODY = 3000  # bytes a body may have: branches and setup instructions reach past it
_NEAR_BYTES = 48  # bodies that lp.setupi can span
_LARGEST_IMMEDIATE = 4095
_SHORT_JUMP, _SHORT_BRANCH = 1800, 200  # bytes that compressed jumps and branches reach over
_DEEPEST = 4
_SLOW_SCALE = 20  # executions of a wfi at most: each waits for an interrupt
_CHILD_COST = 5  # instructions assumed of a child that is not written yet
_MOST_OTHERS = 12  # instructions that words at the ends meet, besides multiplications and divisions
_OFFSETS = (0, 0, 0, 8, -4, 2047, -2048)


@dataclass(frozen=True, slots=True)
class Context:
    """Registers, loops and other resources that a block may use without disturbing the code around it."""

    scale: int = 1  # how often the block is executed, at most
    loops: frozenset[int] = frozenset()  # hardware loops that are free
    # link registers and counters of branch loops that are free
    links: frozenset[int] = frozenset({RA, LINK})
    counters: frozenset[int] = frozenset({COUNTER, SHORT_COUNTER})
    exits: tuple[str, ...] = ()  # labels behind the enclosing loops
    depth: int = 0  # number of enclosing blocks


class ControlBlocks:
    def __init__(self, draw: Draw, weights: Mapping[str, float], system: SystemBlocks) -> None:
        self._draw, self._rng, self.system = draw, draw.rng, system
        self.functions: dict[str, int] = {}
        self.left = 0  # instructions that the blocks to come may execute
        simple: dict[str, Callable[[], ProgramBlock]] = {
            "arithmetic": self._arithmetic,
            "corners": self._corners,
            **{style: lambda style=style: MemoryRun(draw, style).block(self._rng.randrange(2, 9)) for style in STYLES},
            "csr": self.system.csr,
            "trap": self.system.trap,
            "unfetched": self.system.unfetched,
            "wfi": self.system.wait,
            "fence": self.system.fence,
            "modify": self.system.self_modify,
            "mtvec": self.system.vectors,
            "mret": self.system.leave,
            "interrupts": lambda: self.system.enable(on=draw.chance(0.8)),
            "stack": self._stack,
            "coprocessor": lambda: coprocessor_block(draw),
        }
        self._simple = simple
        self._nested: dict[str, Callable[[Context], ProgramBlock | None]] = {
            "branch": self._branch,
            "exit": self._exit,
            "jump": self._jump,
            "subroutine": self._subroutine,
            "call": self._call,
            "failing": lambda context: self.system.failing(context.loops),
            "counted": self._counted,
            "loop": self._loop,
        }
        self._kinds = [kind for kind in weights if kind in simple or kind in self._nested]
        self._weights = [weights[kind] for kind in self._kinds]

    def block(self, context: Context) -> ProgramBlock:
        while True:
            kind = self._rng.choices(self._kinds, self._weights)[0]
            if kind == "wfi" and context.scale > _SLOW_SCALE:
                continue
            if kind in self._simple:
                block = self._simple[kind]()
                self.left -= context.scale * count_statements((block,))
                return block
            if context.depth < _DEEPEST:
                block = self._nested[kind](replace(context, depth=context.depth + 1))
                if block is not None:
                    return block

    def blocks(self, context: Context, count: int) -> tuple[ProgramBlock, ...]:
        blocks: list[ProgramBlock] = []
        for _ in range(count):
            block = self.block(context)
            if total_bytes((*blocks, block)) < _LONGEST_BODY // (context.depth + 1):
                blocks.append(block)
        return tuple(blocks)

    def function(self, loops: frozenset[int], budget: int) -> ProgramBlock:
        """Return a function of about ``budget`` instructions that preserves what its callers rely on."""
        name = self._draw.label("function")
        self.left = budget
        context = Context(loops=loops, links=frozenset({LINK}), counters=frozenset(), depth=1)
        body = self.blocks(context, 3)
        self.functions[name] = budget - self.left + 1
        return ProgramBlock("function", (f"{name}:",), body, (RETURN,))

    def _arithmetic(self) -> ProgramBlock:
        draw, rng = self._draw, self._rng
        with draw.narrowed(rng.choice((2, 3, 7))):
            children = tuple(ProgramBlock("arithmetic", (draw.arithmetic(),)) for _ in range(rng.randrange(1, 7)))
        return ProgramBlock("arithmetic", (), children)

    def _corners(self) -> ProgramBlock:
        """Return a block that applies multiplications, divisions and other instructions to two operands, each of
        them 0, 1, -1, the smallest or the largest word."""
        draw, rng = self._draw, self._rng
        first, second = rng.sample(POOL, 2)
        words = corner_words(XLEN)
        lines = tuple(f"li {ABI_NAMES[register]}, 0x{rng.choice(words):x}" for register in (first, second))
        rows = [*draw.groups[Group.MULDIV]]
        rows += [draw.deal(Group.INTEGER, Group.SCALAR, *(Group.SIMD,) * 4) for _ in range(rng.randrange(_MOST_OTHERS))]
        rng.shuffle(rows)
        sources = {"rs1": first, "rs2": second}
        texts: list[str] = []
        for row in rows:
            pins = {token.field.name: sources[token.field.name] for token in row.tokens if token.field.name in sources}
            texts.append(draw.text(row, draw.values(row, sources.values(), pins)))
        return ProgramBlock("corners", lines, single_lines("arithmetic", texts))

    def _stack(self) -> ProgramBlock:
        offset = 16 * self._rng.choice([n for n in range(-31, 32) if n])
        first, second = f"c.addi16sp {offset}", f"c.addi16sp {-offset}"
        between = tuple(ProgramBlock("between", (self._draw.arithmetic(),)) for _ in range(self._rng.randrange(3)))
        return ProgramBlock("stack", (first,), between, (second,))

    def _condition(self, target: str, reach: int) -> list[str]:
        """Return a conditional branch to ``target``, sometimes after an instruction that makes it taken."""
        draw = self._draw
        insn = draw.deal(Group.BRANCH, Group.SHORT_BRANCH) if reach < _SHORT_BRANCH else draw.deal(Group.BRANCH)
        name = next(token.field.name for token in insn.tokens if token.field.name in ("boff13", "cb9"))
        values = draw.values(insn, pins={name: 0})
        lines: list[str] = []
        if "simm5" in values and draw.chance(0.5):
            values["rs1"] = draw.destination()
            lines.append(f"c.li {ABI_NAMES[values['rs1']]}, {values['simm5']}")
        elif "rs2" in values and draw.chance(0.3):
            values["rs2"] = values["rs1"]
        operands = [ABI_NAMES[values["rs1"]]]
        if "simm5" in values:
            operands.append(str(values["simm5"]))
        elif "rs2" in values:
            operands.append(ABI_NAMES[values["rs2"]])
        return [*lines, f"{insn.mnemonic} {', '.join(operands)}, {target}"]

    def _branch(self, context: Context) -> ProgramBlock:
        target = self._draw.label("over")
        children = (*self._first(context), *self.blocks(context, self._rng.choice((0, 1, 1, 1, 2, 3))))
        if not children and self._draw.config.performance_counters:
            # counters must leave out a jump that a taken branch drops
            children = (ProgramBlock("jump", (self._jump_to(target, context),)),)
        return ProgramBlock("branch", tuple(self._condition(target, total_bytes(children))), children, (f"{target}:",))

    def _exit(self, context: Context) -> ProgramBlock | None:
        if not context.exits:
            return None
        return ProgramBlock("exit", tuple(self._condition(self._rng.choice(context.exits), _LONGEST_BODY)))

    def _indirect(self, target: str, link: int) -> list[str]:
        """Return a jump by jalr to an address that was just written, was loaded, has an offset, or has bit 0 set."""
        draw, rng = self._draw, self._rng
        lines = [f"la {_X6}, {target}"]
        if link == RA and draw.chance(0.3):
            return [*lines, f"c.jalr {_X6}"]
        if link == 0 and draw.chance(0.3):
            return [*lines, f"c.jr {_X6}"]
        offset = rng.choice(_OFFSETS)
        if offset:
            lines.append(f"addi {_X6}, {_X6}, {-offset if offset > -2048 else 2047}")
        if offset == -2048:
            lines.append(f"addi {_X6}, {_X6}, 1")
        if draw.chance(0.2):
            # jalr drops the lowest bit of the sum
            lines.append(f"ori {_X6}, {_X6}, 1")
        if draw.chance(0.3):
            lines += draw.through_memory(_X6)
        return [*lines, f"jalr {ABI_NAMES[link]}, {offset}({_X6})"]

    def _jump(self, context: Context) -> ProgramBlock:
        target = self._draw.label("to")
        children = self.blocks(replace(context, scale=0), self._rng.choice((0, 1, 1, 2)))
        head = self._direct(target, total_bytes(children), context, link=self._draw.destination())
        return ProgramBlock("jump", tuple(head), children, (f"{target}:",))

    def _direct(self, target: str, reach: int, context: Context, link: int) -> list[str]:
        """Return a jump to ``target`` that writes no register but ``link`` or a free link register."""
        if self._draw.chance(0.4):
            return self._indirect(target, link)
        if reach < _SHORT_JUMP and self._draw.chance(0.5):
            return [f"c.j{'al' if RA in context.links and self._draw.chance(0.5) else ''} {target}"]
        return [f"jal {ABI_NAMES[link]}, {target}"]

    def _jump_to(self, target: str, context: Context) -> str:
        jumps = (f"jal {ABI_NAMES[self._draw.destination()]}, {target}", f"c.j {target}")
        return self._rng.choice((*jumps, f"c.jal {target}") if RA in context.links else jumps)

    def _subroutine(self, context: Context) -> ProgramBlock | None:
        if not context.links:
            return None
        link = self._rng.choice(sorted(context.links))
        inside = replace(context, links=context.links - {link})
        children = self.blocks(inside, self._rng.choice((0, 1, 2)))
        entry, back = self._draw.label("sub"), self._draw.label("back")
        call = [f"jal {ABI_NAMES[link]}, {entry}"]
        if self._draw.chance(0.4):
            call = self._indirect(entry, link)
        elif link == RA and self._draw.chance(0.5):
            call = [f"c.jal {entry}"]
        short = total_bytes(children) < _SHORT_JUMP and self._draw.chance(0.5)
        head = (*call, f"c.j {back}" if short else f"jal zero, {back}", f"{entry}:")
        ret = f"c.jr {ABI_NAMES[link]}" if self._draw.chance(0.5) else f"jalr zero, 0({ABI_NAMES[link]})"
        return ProgramBlock("subroutine", head, children, (ret, f"{back}:"))

    def _may_call(self, context: Context) -> bool:
        """Return whether code may call a function, which overwrites ra and the other link register."""
        return bool(self.functions) and context.links >= {RA, LINK}

    def _call(self, context: Context) -> ProgramBlock | None:
        if not self._may_call(context):
            return None
        name = self._rng.choice([*self.functions])
        self.left -= context.scale * self.functions[name]
        call = self._indirect(name, RA) if self._draw.chance(0.5) else [f"jal {_RA}, {name}"]
        return ProgramBlock("call", tuple(call))

    def _affordable(self, context: Context, children: int) -> int:
        """Return how many iterations of a loop with ``children`` blocks the budget allows."""
        return max(0, self.left) // (2 * max(1, context.scale) * (1 + _CHILD_COST * children))

    def _counted(self, context: Context) -> ProgramBlock | None:
        if not context.counters:
            return None
        counter, children = self._rng.choice(sorted(context.counters)), self._rng.choice((0, 1, 1, 2))
        count = min(self._rng.choice((1, 2, 3, 5, 8)), max(1, self._affordable(context, children)))
        after, start = self._draw.label("done"), self._draw.label("again")
        counters, exits = context.counters - {counter}, (*context.exits, after)
        inside = replace(context, scale=context.scale * count, counters=counters, exits=exits)
        body = self.blocks(inside, children)
        name = ABI_NAMES[counter]
        short = counter == SHORT_COUNTER and total_bytes(body) < _SHORT_BRANCH
        step = f"c.addi {name}, -1" if self._draw.chance(0.5) else f"addi {name}, {name}, -1"
        back = f"c.bnez {name}, {start}" if short else f"bne {name}, zero, {start}"
        return ProgramBlock("counted", (f"li {name}, {count}", f"{start}:"), body, (step, back, f"{after}:"))

    def _loop(self, context: Context) -> ProgramBlock | None:
        """Return a hardware loop, sometimes with an inner loop that shares its end."""
        if not context.loops:
            return None
        rng = self._rng
        number = _OUTER if _OUTER in context.loops and self._draw.chance(0.7) else rng.choice(sorted(context.loops))
        children = rng.choice((0, 0, 1, 1, 2, 3))
        count = self._turns(self._affordable(context, children))
        after = self._draw.label("after")
        loops, exits = context.loops - {number}, (*context.exits, after)
        inside = replace(context, scale=context.scale * max(1, count), loops=loops, exits=exits)
        body = (*self._first(inside), *self.blocks(inside, children))
        deepest, inner, passes = inside, (), 0
        has_inner = number == _OUTER and _INNER in context.loops and self._draw.chance(0.3)
        if has_inner:
            passes = self._turns(self._affordable(inside, 1))
            deepest = replace(inside, scale=inside.scale * max(1, passes), loops=inside.loops - {_INNER})
            inner = self.blocks(deepest, rng.choice((0, 1)))
        before, last = self._last(number, after, deepest)
        start, end = (self._draw.label(stem) for stem in ("start", "end"))
        if has_inner:
            # loop 0 at the end of the body shares the last instruction
            before = (ProgramBlock("inner loop", tuple(self._plain_setup(_INNER, passes, end)), (*inner, *before)),)
        body += before
        head = self._setup(number, count, start, end, total_bytes(body))
        return ProgramBlock(f"loop {number}", head, body, (f"{end}:", last, f"{after}:"))

    def _first(self, context: Context) -> tuple[ProgramBlock, ...]:
        """Return at random nothing or a requantisation, to be placed directly after the start of a loop or a branch."""
        texts = self._draw.requantised(0.7)
        self.left -= context.scale * len(texts)
        return single_lines("arithmetic", texts)

    def _last(self, number: int, after: str, context: Context) -> tuple[tuple[ProgramBlock, ...], str]:
        """Return the last instruction of a loop body, and the blocks that it needs before it."""
        draw, rng = self._draw, self._rng
        self.left -= context.scale
        match rng.randrange(12):
            case 0 | 1:
                styles = [style for style in STYLES if style not in OPTIONAL or draw.groups[OPTIONAL[style]]]
                run = MemoryRun(draw, rng.choice(styles)).block(rng.randrange(1, 4))
                if run.children:
                    return (replace(run, children=run.children[:-1]),), run.children[-1].head[0]
            case 2:
                *before, last = self._condition(after, _LONGEST_BODY)
                return single_lines("condition", before), last
            case 3:
                return (), self._jump_to(after, context)
            case 4:
                return (), self.system.trap().head[0]
            case 5:
                return (), self.system.csr(last=True).head[0]
            case 6:
                forms = (f"lp.counti {number}, 1", f"lp.counti {number}, 0", f"lp.count {number}, zero")
                return (), rng.choice((*forms, f"lp.starti {number}, pc+0", f"lp.endi {number}, pc+0"))
            case 7:
                return (), rng.choice(("fence", "fence.i", "c.nop"))
            case 8 if self._may_call(context):
                name = rng.choice([*self.functions])
                self.left -= context.scale * self.functions[name]
                return (), f"jal {_RA}, {name}"
            case 9 if context.scale <= _SLOW_SCALE:
                wait = self.system.wait()
                return (replace(wait, head=wait.head[:-1]),), wait.head[-1]
            case 10 if draw.chance(0.5):
                lines = ("csrrci zero, mstatus, 8", f"la {_X6}, {after}", f"csrrw zero, mepc, {_X6}")
                return (ProgramBlock("mepc", lines),), "mret"
            case 11:
                return (), draw.arithmetic(group=Group.COMPRESSED)
            case _:
                pass
        return (), draw.arithmetic()

    def _plain_setup(self, number: int, count: int, end: str) -> list[str]:
        register = self._rng.choice((SCRATCH, *POOL))
        return [*self._draw.constant(register, count), f"lp.setup {number}, {ABI_NAMES[register]}, {end}"]

    def _setup(self, number: int, count: int, start: str, end: str, size: int) -> tuple[str, ...]:
        draw, rng = self._draw, self._rng
        kind = rng.randrange(5)
        fits = count <= _LARGEST_IMMEDIATE
        if kind < 2 and fits and size <= _NEAR_BYTES:
            return (f"lp.setupi {number}, {count}, {end}",)
        if kind < 3:
            return tuple(self._plain_setup(number, count, end))
        by_csr = draw.chance(0.5)
        separate = [f"lp.starti {number}, {start}", f"lp.endi {number}, {end}"]
        lines = self._by_csr(number, start, end) if by_csr else separate
        register = rng.choice(POOL)
        if not by_csr and fits and draw.chance(0.5):
            lines.append(f"lp.counti {number}, {count}")
        else:
            lines += draw.constant(register, count)
            write = (
                f"csrrw {ABI_NAMES[self._draw.destination()]}, lpcount{number}, " if by_csr else f"lp.count {number}, "
            )
            lines.append(write + ABI_NAMES[register])
        if draw.chance(0.3):
            lines.append(draw.arithmetic())
        return (*lines, f"{start}:")

    def _by_csr(self, number: int, start: str, end: str) -> list[str]:
        lines: list[str] = []
        for name, label in (("lpstart", start), ("lpend", end)):
            lines.append(f"la {_X6}, {label}")
            if self._draw.chance(0.3):
                lines.append(f"ori {_X6}, {_X6}, 1")
            lines.append(f"csrrw {ABI_NAMES[self._draw.destination()]}, {name}{number}, {_X6}")
        return lines

    def _turns(self, limit: int) -> int:
        rng = self._rng
        choices = [0, 1, 2, 2, 3, rng.randrange(3, 9), rng.randrange(8, 40), rng.randrange(100, 1000)]
        return rng.choice([count for count in choices if count <= max(limit, 2)])
