"""Conversion of counted loops to hardware loops.

The set-up precedes the first instruction of an iteration, on every path into the loop; the end is the last instruction
before the test. Three facts preserve the behaviour, whatever the registers hold:

* The count is at least 1 and at most the number of iterations that the test allows. When it is used up, the compiler's
  test decides; if the loop continues, it passes the set-up again.
* The last instruction belongs to this loop only, so it is never executed without a set-up of this loop before it. A
  break or return leaves the loop registers set, which is harmless for the same reason.
* Nothing in the loop touches the registers of its hardware loop: no calls, no other uses, and nested loops take
  different ones.

If the count is exact and nothing else reads the counter, counter and test are removed.

A set-up costs the same for any number of iterations. If that number is unknown, a loop is left unchanged if its set-up
takes longer than a few iterations save, fewer for a nested loop, which is set up again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.machine import WORD_BYTES, XLEN, Cost
from xpulpnn.isa.table import find
from xpulpnn_sw.assembly.disasm import ABI_NAMES
from xpulpnn_sw.assembly.looppass import counting
from xpulpnn_sw.assembly.looppass.counting import LoopError
from xpulpnn_sw.assembly.looppass.listing import SETUP_SIZE, BasicBlock, ListedFunction
from xpulpnn_sw.assembly.looppass.operation import GP, RA, SP, TP, FlowKind, ListedOperation, make

_FARTHEST = WORD_FIELDS["lpoff12"].high  # most bytes from lp.setup to the end
_NEAREST_FARTHEST = WORD_FIELDS["lpoff5"].high  # most bytes from lp.setupi to the end
_LARGEST_COUNT = WORD_FIELDS["lpcnt12"].high
_LEVELS = 2
_FEW_TURNS, _FEW_INNER_TURNS = 5, 3  # iterations that must pay for the set-up, of an outermost and of a nested loop
_SAVED_CYCLES = 1 + Cost.TAKEN_BRANCH.cycles  # cycles saved in each iteration but the last
_PADDING_CYCLES = 1  # cycles of padding before the set-up
_RESERVED = frozenset({0, RA, SP, GP, TP})


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    function: str
    source: str  # file and line of the loop's first instruction
    level: int | None  # hardware loop 0 or 1; None if unchanged
    reason: str = ""  # reason why it is unchanged, else empty


@dataclass(frozen=True, slots=True)
class _Shape:
    loop: counting.NaturalLoop
    start: int
    end: int
    test: counting.Condition
    is_tested_at_end: bool


def _shape(flow: counting.FlowGraph, loop: counting.NaturalLoop) -> _Shape:
    if len(loop.latches) != 1:
        raise LoopError("jumps back from several places")
    header, end = loop.header, loop.latches[0]
    last = flow.blocks[end].terminator
    if last is not None and last.kind is FlowKind.BRANCH:
        following, target = flow.blocks[end].successors
        leaving = following if target == header else target
        if leaving == header or leaving in loop.blocks:
            raise LoopError("its last test does not end it")
        return _Shape(loop, header, end, counting.held_condition(last, taken=target == header), True)
    if flow.blocks[end].successors != [header]:
        raise LoopError("its last block has several ends")
    # tested before each iteration, by a block that does nothing else
    first = flow.blocks[header]
    branch = first.terminator
    if branch is None or branch.kind is not FlowKind.BRANCH or len(first.operations) != 1:
        raise LoopError("tested in the middle")
    inside = [index for index in first.successors if index in loop.blocks]
    if len(inside) != 1 or flow.blocks[inside[0]].predecessors != [header] or flow.blocks[inside[0]].is_entered:
        raise LoopError("tested in the middle")
    test = counting.held_condition(branch, taken=first.successors[1] == inside[0])
    return _Shape(loop, inside[0], end, test, False)


def _check_contents(flow: counting.FlowGraph, loop: counting.NaturalLoop) -> None:
    for index in sorted(loop.blocks):
        if flow.blocks[index].is_entered:
            raise LoopError("entered in ways that are not seen")
        for operation in flow.blocks[index].operations:
            if operation.kind is FlowKind.CALL:
                raise LoopError("calls a function")
            if operation.kind is FlowKind.INDIRECT:
                raise LoopError("jumps to a computed address")
            if operation.kind is FlowKind.SYSTEM and "csr" not in operation.values:
                raise LoopError(f"contains {operation.name}")


def _distance(blocks: Sequence[BasicBlock], shape: _Shape) -> int:
    between = blocks[shape.start : shape.end + 1]
    if not between or any(block.section != between[0].section for block in between):
        raise LoopError("its blocks are not in order")
    last = between[-1].terminator
    outside = SETUP_SIZE + (0 if last is None else last.size)
    distance = WORD_BYTES + sum(block.size for block in between) - outside
    if distance > _FARTHEST:
        raise LoopError(f"longer than {_FARTHEST} bytes")
    return distance


class HardwareLoops:
    def __init__(self, function: ListedFunction, prefix: str) -> None:
        self.function = function
        self._prefix = prefix
        blocks = function.blocks
        self._written = {register for block in blocks for op in block.operations for register in op.writes}
        self._made: list[tuple[frozenset[int], int]] = []
        kinds = {operation.kind for block in blocks for operation in block.operations}
        self.has_own = FlowKind.LOOP in kinds  # loops of the programmer, whose ends are not in the flow graph

    def run(self) -> list[LoopOutcome]:
        """Convert loops to hardware loops where possible, inner loops first; return the outcome of each loop."""
        outcomes: list[LoopOutcome] = []
        names = {operation.name for block in self.function.blocks for operation in block.operations}
        flow = counting.FlowGraph(self.function)
        loops = flow.natural_loops()
        for loop in loops:
            level, reason = None, ""
            try:
                if self.has_own:
                    raise LoopError("the function uses hardware loops itself")
                if "mret" in names:
                    raise LoopError("the function is an interrupt handler")
                is_inner = any(loop.blocks < other.blocks for other in loops)
                few_turns = _FEW_INNER_TURNS if is_inner else _FEW_TURNS
                level = self._turn(counting.FlowGraph(self.function), loop, few_turns)
            except LoopError as error:
                reason = str(error)
            outcomes.append(LoopOutcome(self.function.name, flow.blocks[loop.header].source, level, reason))
        return outcomes

    def _turn(self, flow: counting.FlowGraph, loop: counting.NaturalLoop, few_turns: int) -> int:
        level = max((level + 1 for blocks, level in self._made if blocks & loop.blocks), default=0)
        if level >= _LEVELS:
            raise LoopError("more than two levels deep")
        _check_contents(flow, loop)
        shape = _shape(flow, loop)
        distance = _distance(flow.blocks, shape)
        counter = counting.find_counter(flow, loop, shape.test, shape.end)
        end = f"{self._prefix}{len(self._made)}"
        setup, is_exact = self._setup(flow, shape, counter, end, level, distance)
        if _cycles(setup) > (few_turns - 1) * _SAVED_CYCLES:
            raise LoopError("its set-up takes longer than a few turns save")
        blocks = self.function.blocks
        if is_exact:
            place, last = blocks[counter.place], blocks[shape.end]
            place.operations = [op for op in place.operations if counter.register not in op.writes]
            last.operations = last.body
        blocks[shape.start].setup = setup
        blocks[shape.end].end_label = end
        self.function.loops.append((shape.start, shape.end))
        self._made.append((loop.blocks, level))
        return level

    def _setup(
        self, flow: counting.FlowGraph, shape: _Shape, counter: counting.Counter, end: str, level: int, distance: int
    ) -> tuple[list[ListedOperation], bool]:
        entry = counting.at_entry(flow, shape.loop, counter) if shape.is_tested_at_end else counting.Entry()
        turns = entry.turns(counter)
        is_exact = turns is not None or (shape.is_tested_at_end and entry.is_exact(counter))
        is_exact = is_exact and self._is_private(flow, shape, counter)
        distance -= WORD_BYTES * is_exact
        if turns is not None and turns <= _LARGEST_COUNT and distance <= _NEAREST_FARTHEST:
            return [_setup("lp.setupi", end, L=level, lpcnt12=turns)], is_exact
        # a counter that nothing else reads may hold the count
        live = flow.live_in[shape.start] | _RESERVED
        free = [counter.register] if is_exact else sorted(self._written - live)
        if counter.bound == 0 and counter.relation == "ne" and counter.step == -1:
            setup, count = [], counter.register
        elif not free:
            raise LoopError("no free register")
        else:
            count = free[0]
            setup = _count(counter, free, is_exact=is_exact) if turns is None else [_load_constant(count, turns)]
        return [*setup, _setup("lp.setup", end, L=level, rs1=count)], is_exact

    def _is_private(self, flow: counting.FlowGraph, shape: _Shape, counter: counting.Counter) -> bool:
        """Return whether only test and increment read the counter, so that both can be removed with it."""
        if shape.end != counter.place and not shape.is_tested_at_end:
            return False
        register, loop = counter.register, shape.loop
        for index in loop.blocks:
            block = flow.blocks[index]
            readers = [op for op in block.all if register in op.reads]
            own = [op for op in readers if op.name == "addi" and index == counter.place and op.step(register)]
            tests = [op for op in readers if op is block.terminator and index == shape.end]
            if len(readers) != len(own) + len(tests):
                return False
            for successor in block.successors:
                if successor not in loop.blocks and (successor < 0 or register in flow.live_in[successor]):
                    return False
        return True


def _setup(mnemonic: str, end: str, **values: int) -> ListedOperation:
    """Return the set-up of a loop; the assembler computes the distance to the label ``end``."""
    insn = find(mnemonic)
    distance = insn.tokens[-1].field
    word = insn.encode(**values, **{distance.name: 0})
    operands = [ABI_NAMES[value] if name == "rs1" else str(value) for name, value in values.items()]
    text = f".4byte 0x{word:08x} + (({end} - .) << {distance.shift})  # {mnemonic} {', '.join([*operands, end])}"
    reads = frozenset(value for name, value in values.items() if name == "rs1")
    return ListedOperation(text=text, kind=FlowKind.LOOP, values={}, reads=reads)


def _cycles(setup: Sequence[ListedOperation]) -> int:
    numbers = sum("li" in operation.values for operation in setup)
    products = sum(operation.name == "mulhu" for operation in setup)
    return _PADDING_CYCLES + len(setup) + numbers + Cost.MULTIPLY_HIGH.cycles * products


def _load_constant(register: int, value: int) -> ListedOperation:
    text = f"li {ABI_NAMES[register]}, {value}"
    return ListedOperation(text=text, values={"li": value}, writes=frozenset({register}), size=8)


def _count(counter: counting.Counter, free: Sequence[int], *, is_exact: bool) -> list[ListedOperation]:
    count, register, bound = free[0], counter.register, counter.bound
    size, upward = abs(counter.step), counter.step > 0
    high, low = (bound, register) if upward else (register, bound)
    operations: list[ListedOperation] = []
    if counter.is_ordered and not is_exact:
        # an ordering that fails from the start gives distance 0, for the one iteration before the test
        unsigned = "u" if counter.relation.endswith("u") else ""
        operations.append(make(f"p.max{unsigned}", rd=count, rs1=high, rs2=low))
        high = count
    if low or high == count or operations:
        operations.append(make("sub", rd=count, rs1=high, rs2=low))
    else:
        operations.append(make("addi", rd=count, rs1=high, imm12=0))
    if is_exact:
        return operations
    inclusive = counter.relation[:2] in ("le", "ge")
    places = (size & -size).bit_length() - 1
    odd = size >> places
    if odd > 1 and len(free) == 1:
        raise LoopError("no free register")
    if odd == 1 or not counter.is_ordered:
        # a loop whose step does not divide the distance never ends; others are divided modulo a power of 2
        if odd > 1:
            operations.append(_load_constant(free[1], pow(odd, -1, 1 << XLEN)))
            operations.append(make("mul", rd=count, rs1=count, rs2=free[1]))
        if places:
            operations.append(make("srli", rd=count, rs1=count, uimm5=places))
    else:
        # the upper word of the product is at most the quotient
        operations.append(_load_constant(free[1], (1 << XLEN) // size))
        operations.append(make("mulhu", rd=count, rs1=count, rs2=free[1]))
    if inclusive:
        operations.append(make("addi", rd=count, rs1=count, imm12=1))
    return operations
