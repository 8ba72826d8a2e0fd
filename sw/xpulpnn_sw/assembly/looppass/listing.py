"""Conversion of assembly to functions with basic blocks, and back to text.

Lines that are not instructions of a function keep their positions: directives, labels of the debug information,
comments.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.assembly.looppass.operation import FlowKind, ListedOperation, parse_operation, unknown
from xpulpnn_sw.assembly.relaxation import SHORT_NOP, at_full_length, filled_alignment

_LABEL = re.compile(r'\s*("?[\w.$]+"?)\s*:(.*)')
_NAME = re.compile(r"[A-Za-z_.$][\w.$]*")
_TYPE = re.compile(r'\s*\.type\s+("?[\w.$]+"?)\s*,\s*[@%]function')
_SIZE = re.compile(r'\s*\.size\s+("?[\w.$]+"?)\s*,')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
_SECTION = re.compile(r"\s*\.(section|pushsection|text|data|bss|popsection|previous)\b\s*([\w.$]*)")
_DATA = re.compile(r"\s*\.(?:byte|2byte|4byte|8byte|half|short|word|long|dword|quad)\b(.*)")
_PAIR = re.compile(r"%pcrel_lo\([^)]*\)")  # names the instruction with the upper part, which is no jump target
_PLACING = re.compile(r"\s*\.(?:p2align|align)\s+(\d+)")
_ENCODING = re.compile(r"\s*\.(?:p2align|align|option)\b")  # directives that depend on the sizes of instructions
_HARMLESS = re.compile(r"\s*(?:\.(?:loc|cfi_\w+|type|globl|local|weak|option|file|p2align|align)\b.*)?")
_DEBUG_SECTIONS = (".debug", ".note", ".comment", ".eh_frame", ".riscv")
# kinds of operations that end a block
LEAVING = frozenset({FlowKind.BRANCH, FlowKind.JUMP, FlowKind.INDIRECT, FlowKind.LEAVE})
_LOCAL = ".L"  # beginning of labels of the compiler, which are unknown outside of the file
SETUP_SIZE = 32  # most bytes of the instructions that set up a hardware loop


@dataclass(slots=True)
class BasicBlock:
    first: int  # first line in the file, counted from 1
    section: int  # number of the section within the function; blocks with equal numbers are contiguous
    source: str  # file and line of the C source from debug information, or line of the assembly
    # instructions; a branch or jump is the last
    operations: list[ListedOperation] = field(default_factory=list[ListedOperation])
    # other lines, with their numbers
    anchors: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    labels: list[str] = field(default_factory=list[str])
    # indices of the blocks after this one; -1 for a place outside the function
    successors: list[int] = field(default_factory=list[int])
    # indices of the blocks before this one
    predecessors: list[int] = field(default_factory=list[int])
    is_entered: bool = False  # whether unknown jumps may reach the block: the entry, targets of pointers
    # set-up of a hardware loop before the first instruction; iterations begin after it
    setup: list[ListedOperation] = field(default_factory=list[ListedOperation])
    # directives before the instruction of the set-up
    opening: Sequence[str] = ()
    # label of the last instruction of a hardware loop, the last of this block that is no branch
    end_label: str = ""
    is_looped: bool = False  # whether it is part of a hardware loop, so that the linker must not change its length

    @property
    def all(self) -> list[ListedOperation]:
        return [*self.setup, *self.operations]

    @property
    def terminator(self) -> ListedOperation | None:
        last = self.operations[-1] if self.operations else None
        return last if last is not None and last.kind in LEAVING else None

    @property
    def body(self) -> list[ListedOperation]:
        return self.operations[:-1] if self.terminator else self.operations

    def replace_body(self, body: Sequence[ListedOperation]) -> None:
        terminator = self.terminator
        self.operations = [*body, *([terminator] if terminator else [])]

    @property
    def size(self) -> int:
        padding = sum(1 << int(match[1]) for _, text in self.anchors if (match := _PLACING.match(text)))
        return padding + SETUP_SIZE + sum(operation.size for operation in self.operations)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the block, with labels and directives at their old places between the instructions."""
        anchors = deque(self.anchors)

        def anchored(last: float) -> Iterator[str]:
            while anchors and anchors[0][0] <= last:
                text = anchors.popleft()[1]
                padded = filled_alignment(text, WORD_BYTES) if self.is_looped else None
                yield text if padded is None else padded

        yield from anchored(min((line.origin for line in self.operations if line.origin >= 0), default=inf))
        for operation in self.setup:
            if operation.kind is FlowKind.LOOP and operation.insn is None:
                yield from self.opening
            yield f"\t{operation.text}"
        last = len(self.body) - 1
        if self.end_label and last < 0:
            yield from (f"{self.end_label}:", "\tnop")
        for index, operation in enumerate(self.operations):
            yield from anchored(operation.origin)
            if self.end_label and index == last:
                yield f"{self.end_label}:"
            is_whole = self.is_looped and operation.may_shrink
            yield f"\t{at_full_length(operation.text) if is_whole else operation.text}{operation.comment}"
        yield from anchored(inf)


@dataclass(slots=True)
class ListedFunction:
    name: str
    text: list[str]  # lines as the compiler wrote them
    blocks: list[BasicBlock]  # in the order of the text
    # reason to leave the function unchanged, such as an instruction that cannot be read; else empty
    obstacle: str = ""
    # first and last block of each hardware loop, in the order of the text
    loops: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def lines(self) -> Iterator[str]:
        if self.obstacle:
            yield from self.text
            return
        self._open_loops()
        for block in self.blocks:
            yield from block.lines()

    def _open_loops(self) -> None:
        """Set alignment directives of hardware loops, and mark the blocks whose length the linker must not change.

        An iteration that starts with a 32-bit instruction across two words takes one more cycle. Outermost loops are
        aligned by the linker. So that nested loops are aligned too, all instructions from there to the last nested loop
        are 32 bits long.
        """
        for start, end in self.loops:
            if any(first < start <= stop or (first == start and end < stop) for first, stop in self.loops):
                continue
            # a compiler may put part of a nested loop behind the end of the outer one
            for first, stop in sorted(self.loops):
                end = max(end, stop) if start <= first <= end else end
            for block in self.blocks[start : end + 1]:
                block.is_looped = True
            opening = ["\t.balign 4"]
            inner = sorted(first for first, _ in self.loops if start < first <= end)
            padded = self.blocks[start : max(inner, default=start) + 1]
            are_words = not any(_ENCODING.match(text) for block in padded for _, text in block.anchors)
            for first in inner:
                self.blocks[first].opening = [] if are_words else [f"\t.balignw 4, {SHORT_NOP:#06x}"]
            if inner and are_words:
                opening += ["\t.option push", "\t.option norvc"]
                self.blocks[inner[-1]].opening = ["\t.option pop"]
            self.blocks[start].opening = opening


@dataclass(slots=True)
class _Line:
    """A line of a function; a line without an operation is a label, directive or comment."""

    number: int
    text: str
    section: int
    label: str = ""
    operation: ListedOperation | None = None


def strip_comment(text: str) -> str:
    return text.partition("#")[0].strip()


class Listing:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._files = {match[1]: match[2] for line in self._lines if (match := _FILE.match(line))}
        self._addressed = self._names_in_data()
        self.parts: list[str | ListedFunction] = []
        self._read()

    @property
    def functions(self) -> list[ListedFunction]:
        return [part for part in self.parts if isinstance(part, ListedFunction)]

    def text(self) -> str:
        lines: list[str] = []
        for part in self.parts:
            if isinstance(part, ListedFunction):
                lines.extend(part.lines())
            else:
                lines.append(part)
        return "\n".join(lines) + "\n"

    def _names_in_data(self) -> set[str]:
        names: set[str] = set()
        section = ".text"
        for line in self._lines:
            if match := _SECTION.match(line):
                section = match[2] or match[1]
            elif (match := _DATA.match(line)) and not section.startswith(_DEBUG_SECTIONS):
                names.update(_NAME.findall(match[1]))
        return names

    def _read(self) -> None:
        kinds = {match[1] for line in self._lines if (match := _TYPE.match(line))}
        index = 0
        while index < len(self._lines):
            label = _LABEL.match(self._lines[index])
            end = self._end(index, label[1]) if label is not None and label[1] in kinds else None
            if label is None or end is None:
                self.parts.append(self._lines[index])
                index += 1
                continue
            self.parts.append(self._function(label[1].strip('"'), index, end))
            index = end

    def _end(self, start: int, name: str) -> int | None:
        matches = ((index, _SIZE.match(self._lines[index])) for index in range(start, len(self._lines)))
        return next((index for index, match in matches if match and match[1] == name), None)

    def _function(self, name: str, start: int, end: int) -> ListedFunction:
        lines = self._classified(start, end)
        targets = {line.operation.target for line in lines if line.operation is not None}
        addressed = set(self._addressed)
        for line in lines:
            operation = line.operation
            if operation is not None and operation.kind not in (FlowKind.BRANCH, FlowKind.JUMP):
                addressed.update(_NAME.findall(_PAIR.sub("", operation.text)))
        blocks = self._blocks(lines, targets | addressed)
        bad = next((op for block in blocks for op in block.operations if op.kind is FlowKind.UNKNOWN), None)
        obstacle = "" if bad is None else f"not understood: {' '.join(bad.text.split())}"
        if not obstacle:
            _connect(blocks, addressed)
        return ListedFunction(name, self._lines[start:end], blocks, obstacle)

    def _classified(self, start: int, end: int) -> list[_Line]:
        lines: list[_Line] = []
        section, is_code = 0, True
        for index in range(start, end):
            text, number = self._lines[index], index + 1
            if match := _SECTION.match(text):
                section += 1
                is_code = match[1] == "text" or match[2].startswith(".text")
                lines.append(_Line(number, text, section))
                continue
            label = _LABEL.match(text) if is_code else None
            if label is not None:
                alone = not strip_comment(label[2])
                lines.append(_Line(number, text if alone else f"{label[1]}:", section, label=label[1]))
                if label[1].isdecimal():
                    lines.append(_Line(number, "", section, operation=unknown(f"label {label[1]}", number)))
                if alone:
                    continue
                text = label[2]
            statement = strip_comment(text)
            if not is_code or _HARMLESS.fullmatch(statement):
                lines.append(_Line(number, text, section))
            elif ";" in statement or (statement.startswith(".") and not statement.startswith(".insn")):
                lines.append(_Line(number, text, section, operation=unknown(statement, number)))
            else:
                comment = text.rstrip()[len(text[: text.index(statement)]) + len(statement) :]
                operation = replace(parse_operation(statement, number), comment=comment)
                lines.append(_Line(number, text, section, operation=operation))
        return lines

    def _blocks(self, lines: Sequence[_Line], referred: set[str]) -> list[BasicBlock]:
        blocks: list[BasicBlock] = []
        is_closed, is_located = True, False
        locations = [match for line in lines if (match := _LOC.match(line.text))]
        # lines of inline functions in headers are not the function's own
        own_file = locations[0][1] if locations else ""
        place = ""
        for line in lines:
            is_local = line.label.startswith(_LOCAL)
            starts = bool(line.label) and (line.label in referred or not is_local)
            # the entry is separate from a loop that begins with the first instruction
            is_new = blocks and starts and is_local and not all(name.startswith(_LOCAL) for name in blocks[-1].labels)
            if is_closed or is_new or (starts and (blocks[-1].operations or blocks[-1].section != line.section)):
                blocks.append(BasicBlock(line.number, line.section, ""))
                is_closed, is_located = False, False
            block = blocks[-1]
            if starts:
                block.labels.append(line.label)
            if (match := _LOC.match(line.text)) and match[1] == own_file and match[2] != "0":
                place = f"{self._files.get(match[1], 'file')}:{match[2]}"
                if not is_located:
                    block.source, is_located = place, True
            operation = line.operation
            if operation is None:
                block.anchors.append((line.number, line.text))
                continue
            if not block.operations:
                block.section = line.section
                block.source = block.source or place or f"line {line.number}"
            block.operations.append(operation)
            is_closed = operation.kind in LEAVING
        return blocks


def _connect(blocks: Sequence[BasicBlock], addressed: set[str]) -> None:
    places = {label: index for index, block in enumerate(blocks) for label in block.labels}
    entered = {index for label, index in places.items() if label in addressed or not label.startswith(_LOCAL)}
    for index in entered | {0}:
        blocks[index].is_entered = True
    for index, block in enumerate(blocks):
        last = block.terminator
        following = index + 1 if index + 1 < len(blocks) else -1
        match None if last is None else last.kind:
            case None:
                block.successors = [following]
            case FlowKind.BRANCH if last is not None:
                block.successors = [following, places.get(last.target, -1)]
            case FlowKind.JUMP if last is not None:
                block.successors = [places.get(last.target, -1)]
            case FlowKind.INDIRECT:
                block.successors = [-1, *sorted(entered)]
            case _:
                block.successors = []
    for index, block in enumerate(blocks):
        for successor in block.successors:
            if successor >= 0 and index not in blocks[successor].predecessors:
                blocks[successor].predecessors.append(index)
