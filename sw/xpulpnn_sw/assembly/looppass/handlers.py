"""Interrupt handlers that call functions keep the hardware loops of the interrupted code.

A function with the attribute ``interrupt`` saves the registers it uses, and all that a call may change, but the
compiler does not know the loop registers, which a function it calls may use now. A handler that is written in assembly
saves them itself; this leaves it alone, since its stack may be anything.
"""

from xpulpnn.isa.csr import CSR_BY_NAME
from xpulpnn_sw.assembly.looppass.listing import ListedFunction, strip_comment
from xpulpnn_sw.assembly.looppass.operation import SP, FlowKind, Operation, parse

# in the order in which they are restored: the count arms a loop, so it comes last
_SAVED = tuple(CSR_BY_NAME[f"lp{part}{loop}"].address for loop in (0, 1) for part in ("start", "end", "count"))
_WORD = 4
_FRAME = 32  # bytes of the six registers and one more, on a stack that stays aligned to 16
_SPARE_AT = _WORD * len(_SAVED)


def _is_compiled(function: ListedFunction) -> bool:
    """Return whether the compiler wrote the return and the frame, not a statement in assembly."""
    in_statement, found = False, False
    for line in function.text:
        marker = line.strip()
        if marker in ("#APP", "#NO_APP"):
            in_statement = marker == "#APP"
        elif strip_comment(line) == "mret":
            if in_statement:
                return False
            found = True
    first = next((op for block in function.blocks[:1] for op in block.operations), None)
    return found and first is not None and (first.step(SP) or 0) < 0


def _instructions(*texts: str) -> list[Operation]:
    return [parse(text) for text in texts]


def _saving() -> list[Operation]:
    moves = [(f"csrr t0, 0x{csr:x}", f"sw t0, {_WORD * place}(sp)") for place, csr in enumerate(_SAVED)]
    head = (f"addi sp, sp, {-_FRAME}", f"sw t0, {_SPARE_AT}(sp)")
    return _instructions(*head, *(text for pair in moves for text in pair))


def _restoring() -> list[Operation]:
    moves = [(f"lw t0, {_WORD * place}(sp)", f"csrw 0x{csr:x}, t0") for place, csr in enumerate(_SAVED)]
    tail = (f"lw t0, {_SPARE_AT}(sp)", f"addi sp, sp, {_FRAME}")
    return _instructions(*(text for pair in moves for text in pair), *tail)


def keep_loops(function: ListedFunction) -> bool:
    """Save and restore the loop registers in a handler that calls; returns whether the function is one."""
    calls = any(operation.kind is FlowKind.CALL for block in function.blocks for operation in block.operations)
    entry = function.blocks[0]
    if not calls or not _is_compiled(function) or entry.predecessors:
        return False
    for block in function.blocks:
        if block.terminator is not None and block.terminator.name == "mret":
            block.replace_body([*block.body, *_restoring()])
    # in front of the frame of the compiler, which is the first thing in the block
    entry.setup = _saving()
    return True
