"""Merge pointer increments into memory accesses with post-increment, and address sums into indexed accesses.

Only instructions of the same basic block are merged. Stores keep their order among all accesses; loads change places
with each other only if the source has no volatile objects.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn_sw.assembly.looppass.counting import live_before
from xpulpnn_sw.assembly.looppass.operation import GP, SP, TP, FlowKind, ListedOperation, make

# registers that interrupt handlers may use between two instructions
_KEPT = frozenset({0, SP, GP, TP})
_LOADS = frozenset({"lb", "lh", "lw", "lbu", "lhu"})
_STORES = frozenset({"sb", "sh", "sw"})
_OFFSET = WORD_FIELDS["imm12"]

# counts of changed loads and stores: `increments` of their base, `sums` of two registers as the address
Tally = Counter[str]
Changed = list[ListedOperation] | None
Merge = Callable[[list[ListedOperation], int], Changed]
# longest block that is reordered, as the search takes cubic time
_LONGEST_BLOCK = 120


def _offset(operation: ListedOperation) -> int | None:
    if operation.name in _LOADS:
        return operation.values.get("imm12")
    return operation.values.get("stimm12") if operation.name in _STORES else None


def _is_access(operation: ListedOperation, base: int) -> bool:
    if _offset(operation) is None or operation.values["rs1"] != base:
        return False
    return operation.values.get("rd", operation.values.get("rs2")) != base


def _moves_along(operation: ListedOperation, register: int) -> bool:
    if _is_access(operation, register):
        return True
    values = operation.values
    return operation.name == "addi" and values["rs1"] == register != values["rd"] and "imm12" in values


def _shifted(operation: ListedOperation, register: int, by: int) -> ListedOperation | None:
    """Add ``by`` to the offset of an instruction that uses ``register``; return None if it no longer fits its field."""
    if register not in operation.reads or by == 0:
        return operation
    field = "stimm12" if operation.name in _STORES else "imm12"
    value = operation.values[field] + by
    if not _OFFSET.accepts(value):
        return None
    return replace(
        make(operation.name, None, origin=operation.origin, **{**operation.values, field: value}),
        comment=operation.comment,
    )


def _all_shifted(operations: Sequence[ListedOperation], register: int, by: int) -> Changed:
    shifted = [moved for operation in operations if (moved := _shifted(operation, register, by)) is not None]
    return shifted if len(shifted) == len(operations) else None


def _touches(operation: ListedOperation, register: int) -> bool:
    return register in operation.reads or register in operation.writes


def _is_step(operation: ListedOperation) -> bool:
    return (
        operation.name == "addi"
        and operation.values["rd"] == operation.values["rs1"]
        and operation.values["rd"] not in _KEPT
        and bool(operation.values.get("imm12"))
    )


def _conflict(first: ListedOperation, second: ListedOperation, *, swap_loads: bool) -> bool:
    if first.kind is not FlowKind.PLAIN or second.kind is not FlowKind.PLAIN or "auipc" in (first.name, second.name):
        return True
    if first.writes & (second.reads | second.writes) or second.writes & first.reads:
        return True
    accesses = [access.is_load or access.is_store for access in (first, second)]
    if not all(accesses):
        return first.is_fixed and second.is_fixed
    return first.is_store or second.is_store or first.is_fixed or second.is_fixed or not swap_loads


def _with_late_steps(operations: Sequence[ListedOperation]) -> list[ListedOperation]:
    result = list(operations)
    for index in reversed(range(len(result))):
        step = result[index]
        if not _is_step(step):
            continue
        register, size = step.values["rd"], step.values["imm12"]
        place = index
        while place + 1 < len(result):
            following = result[place + 1]
            if _touches(following, register):
                moved = _shifted(following, register, size) if _moves_along(following, register) else None
                if moved is None:
                    break
                following = moved
            result[place] = following
            place += 1
        result[place] = step if place == index else replace(step, origin=-1)
    return result


def _merged(operations: list[ListedOperation], merge: Merge, tally: Tally, counted: str) -> list[ListedOperation]:
    index = 0
    while index < len(operations):
        changed = merge(operations, index)
        if changed is None:
            index += 1
        else:
            operations = changed
            tally[counted] += 1
    return operations


def _summed(operations: Sequence[ListedOperation], index: int, live_out: frozenset[int]) -> Changed:
    user = _only_user(operations, index, live_out) if operations[index].name == "add" else None
    if user is None:
        return None
    access = _indexed(operations[user], operations[index])
    return [*operations[:index], *operations[index + 1 : user], access, *operations[user + 1 :]]


def _only_user(operations: Sequence[ListedOperation], index: int, live_out: frozenset[int]) -> int | None:
    """Return the index of the only reader of a sum, an access that can become an indexed one; None if there is none."""
    values = operations[index].values
    total, summands = values["rd"], frozenset({values["rs1"], values["rs2"]})
    if total in summands | _KEPT or 0 in summands:
        return None
    for place in range(index + 1, len(operations)):
        operation = operations[place]
        if total in operation.reads:
            if not _is_access(operation, total) and not (operation.name in _LOADS and operation.values["rd"] == total):
                return None
            if _offset(operation) != 0:
                return None
            after = live_before(operations[place + 1 :], live_out)
            return place if total in operation.writes or total not in after else None
        if operation.writes & (summands | {total}) or operation.kind is not FlowKind.PLAIN:
            return None
    return None


def _indexed(access: ListedOperation, addition: ListedOperation) -> ListedOperation:
    base, offset, values = addition.values["rs1"], addition.values["rs2"], access.values
    if access.is_load:
        return make(f"p.{access.name}", "rd,rs2(rs1)", origin=access.origin, rd=values["rd"], rs1=base, rs2=offset)
    return make(f"p.{access.name}", "rs2,rs3(rs1)", origin=access.origin, rs2=values["rs2"], rs1=base, rs3=offset)


def _incrementing(access: ListedOperation, step: int) -> ListedOperation:
    values = access.values
    base = {"origin": access.origin, "rs1": values["rs1"]}
    if access.is_load:
        return make(f"p.{access.name}", "rd,imm12(rs1!)", rd=values["rd"], imm12=step, **base)
    return make(f"p.{access.name}", "rs2,stimm12(rs1!)", rs2=values["rs2"], stimm12=step, **base)


def _fused(operations: Sequence[ListedOperation], index: int, *, swap_loads: bool) -> Changed:
    """Merge the pointer increment at ``index`` into a post-increment access; return None if no access is suitable."""
    step = operations[index]
    if not _is_step(step):
        return None
    register, size = step.values["rd"], step.values["imm12"]
    low = high = index

    def passes(operation: ListedOperation) -> bool:
        return not _touches(operation, register) or _moves_along(operation, register)

    while low > 0 and passes(operations[low - 1]):
        low -= 1
    while high + 1 < len(operations) and passes(operations[high + 1]):
        high += 1
    # every instruction as if the step came after all of them
    behind = _all_shifted(operations[index + 1 : high + 1], register, size)
    if behind is None:
        return None
    window = [*operations[low:index], *behind]
    before, after = list(operations[:low]), list(operations[high + 1 :])
    for place, operation in enumerate(window):
        if _is_access(operation, register) and _offset(operation) == 0:
            rest = _all_shifted(window[place + 1 :], register, -size)
            if rest is not None:
                return [*before, *window[:place], _incrementing(operation, size), *rest, *after]
    taken, rest = _later_access(before, register, swap_loads=swap_loads), _all_shifted(window, register, -size)
    if taken is None or rest is None:
        return None
    access = replace(_incrementing(before[taken], size), origin=-1)
    del before[taken]
    return [*before, access, *rest, *after]


def _later_access(before: Sequence[ListedOperation], register: int, *, swap_loads: bool) -> int | None:
    for place in reversed(range(len(before))):
        operation = before[place]
        if register in operation.writes or operation.kind is not FlowKind.PLAIN:
            return None
        if _is_access(operation, register) and _offset(operation) == 0:
            free = not any(_conflict(operation, later, swap_loads=swap_loads) for later in before[place + 1 :])
            return place if free else None
    return None


def merge_additions(
    body: Sequence[ListedOperation], live_out: frozenset[int], tally: Tally, *, swap_loads: bool
) -> list[ListedOperation]:
    """Return a block's ``body`` (without terminator) with additions merged into accesses where possible."""
    changes = Tally()
    summed = _merged(_with_late_steps(body), partial(_summed, live_out=live_out), changes, "sums")
    result = _merged(summed, partial(_fused, swap_loads=swap_loads), changes, "increments")
    tally.update(changes)
    return result if changes else list(body)


def _stalls(operations: Sequence[ListedOperation]) -> int:
    return sum(_loaded(first) in second.reads for first, second in pairwise(operations))


def _loaded(operation: ListedOperation) -> int:
    insn = operation.insn
    return operation.values["rd"] if insn is not None and insn.is_load else 0


def spread_loads(operations: Sequence[ListedOperation], *, swap_loads: bool) -> list[ListedOperation]:
    """Return the instructions of a block in an order with fewer load-use stalls; the terminator stays last."""
    result = list(operations)
    count = _stalls(result)
    while count and len(result) <= _LONGEST_BLOCK:
        better = _better(result, count, swap_loads=swap_loads)
        if better is None:
            break
        result, count = better, _stalls(better)
    return result


def _better(operations: Sequence[ListedOperation], count: int, *, swap_loads: bool) -> list[ListedOperation] | None:
    for index in range(len(operations) - 1):
        if _loaded(operations[index]) not in operations[index + 1].reads:
            continue
        for source, target in _moves(operations, index):
            moved = operations[source]
            passed = operations[min(source, target) : max(source, target) + 1]
            if any(other is not moved and _conflict(moved, other, swap_loads=swap_loads) for other in passed):
                continue
            order = [*operations[:source], *operations[source + 1 :]]
            order.insert(target, replace(moved, origin=-1))
            if _stalls(order) < count:
                return order
    return None


def _moves(operations: Sequence[ListedOperation], index: int) -> list[tuple[int, int]]:
    """Return moves, as old and new index, that may separate the load at ``index`` from its reader behind it."""
    later = [(source, index + 1) for source in range(index + 2, len(operations))]
    return [*later, *((index, target) for target in reversed(range(index))), *((s, index) for s in range(index))]
