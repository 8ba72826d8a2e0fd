"""Writes combinational processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.emit.clocked import ArrayOfRegisters
from xpulpnn.emit.expr import verilog_literal
from xpulpnn.emit.layout import COLUMNS, INDENT, TextPiece, declared_range
from xpulpnn.emit.nets import Nets
from xpulpnn.emit.process import Note, ProcessPrinter
from xpulpnn.emit.rtlil import Assign, process_target, statement_sigs
from xpulpnn.emit.tree import PRIORITY_WIDTH, ChoiceNode, Node, covers_all, disjoint, merged, tree, without_repeats
from xpulpnn.emit.values import Sig, Slice, sig_width, wires_of

_MAX_ARMS = 3  # conditions in one conditional expression; `if` reads better for more


@dataclass(slots=True)
class _Block:
    targets: list[str]
    nodes: list[Node]
    sources: set[str]


class Combinational:
    def __init__(self, nets: Nets, arrays: Mapping[str, tuple[ArrayOfRegisters, int]], note: Note) -> None:
        self._nets, self._arrays = nets, arrays
        self._print = ProcessPrinter(nets, "=", note)
        self.targets: set[str] = set()

    def pieces(self) -> list[TextPiece]:
        pieces: list[TextPiece] = []
        blocks: list[_Block] = []
        for process in self._nets.module.processes:
            target = process_target(process)
            if target in self._nets.next_state:
                continue
            nodes = tree(process)
            if self._always_sets(nodes[1:], target):
                nodes = nodes[1:]
            nodes = without_repeats(nodes, self._nets.wires[target].width)
            sources = self._nets.sources(statement_sigs(process))
            text = self._element(nodes, target) or self._expression(nodes, target)
            if text is not None:
                pieces.append(self._nets.piece(target, text, sources))
                continue
            self.targets.add(target)
            blocks.append(_Block([target], nodes, sources))
        for block in self._merge_blocks(blocks):
            lines = self._print.lines(block.nodes)
            pieces.append(TextPiece("", ["always @* begin", *(INDENT + line for line in lines), "end"], block.sources))
        return pieces

    def _always_sets(self, nodes: Sequence[Node], target: str) -> bool:
        return any(self._sets(node, target) for node in nodes)

    def _sets(self, node: Node, target: str) -> bool:
        if isinstance(node, Assign):
            return node.target.width == self._nets.wires[target].width
        if not all(self._always_sets(body, target) for _, body in node.arms):
            return False
        if node.selector is None or self._always_sets(node.default, target):
            return self._always_sets(node.default, target)
        width = sig_width(node.selector)
        return width < PRIORITY_WIDTH and covers_all(disjoint([(patterns, []) for patterns, _ in node.arms]), width)

    def _element(self, nodes: list[Node], target: str) -> str | None:
        """Return ``array[index]`` if the process selects an element of an array of registers; None if it does not."""
        first, last = nodes[0], nodes[-1]
        if len(nodes) > 2 or isinstance(last, Assign) or last.selector is None or last.default:
            return None
        chosen: dict[int, str] = {}
        for patterns, body in last.arms:
            source = self._nets.whole_net(body[0].value) if len(body) == 1 and isinstance(body[0], Assign) else None
            pattern, *others = patterns
            if others or "-" in pattern or source is None or source not in self._arrays:
                return None
            chosen[int(pattern, 2)] = source
        arrays = {self._arrays[source] for source in chosen.values()}
        array = next(iter(arrays))[0]
        if any(self._arrays[source] != (array, number) for number, source in chosen.items()):
            return None
        missing = [number for number in range(1 << sig_width(last.selector)) if number not in chosen]
        for source in chosen.values():
            self._nets.note_read(Slice(source, 0, self._nets.wires[source].width))
        word = f"{array.name}[{self._nets.printer.sig(last.selector).text}]"
        if not missing:
            return word
        other = self._assigned([first], target) if len(nodes) > 1 else None
        if len(missing) > 1 or other is None:
            return None
        rest = verilog_literal(f"{missing[0]:0{sig_width(last.selector)}b}")
        return f"({self._nets.printer.sig(last.selector).operand} == {rest}) ? {other} : {word}"

    def _expression(self, nodes: list[Node], target: str) -> str | None:
        """Return the final value of the process as one expression; None if it is too long to read."""
        if _arms(nodes) > _MAX_ARMS:
            return None
        text = self._assigned(nodes, target)
        wire = self._nets.wires[target]
        head = f"wire {declared_range(wire.width)}{self._nets.names[target]} = "
        lines = 1 if _arms(nodes) > 1 else 2
        return text if text is not None and len(head) + len(text) < lines * COLUMNS else None

    def _assigned(self, nodes: Sequence[Node], target: str) -> str | None:
        """Return the expression whose value the statements assign to a net; None if they leave bits unassigned."""
        if not nodes:
            return None
        *before, last = nodes
        if isinstance(last, Assign):
            whole = last.target.width == self._nets.wires[target].width
            enumeration = self._nets.enumerations.of((last.target,))
            return self._nets.printer.sig(last.value, enumeration).text if whole else None
        if last.selector is not None:
            return None
        parts = []
        for sig, body in last.arms:
            value = self._assigned([*before, *body], target)
            if value is None:
                return None
            condition = self._nets.printer.sig(sig).operand
            parts.append(f"{condition} ? {f'({value})' if ' ? ' in value else value} : ")
        rest = self._assigned([*before, *last.default], target)
        return None if rest is None else "".join(parts) + rest

    def _merge_blocks(self, blocks: Sequence[_Block]) -> list[_Block]:
        """Merge processes that test the same conditions, unless one depends on the other."""
        reads = self._dependencies()
        gathered: list[_Block] = []
        for block in blocks:
            for known in gathered:
                nodes = merged(known.nodes, block.nodes)
                if nodes is None or _reaches(reads, known.targets, block.targets):
                    continue
                if _reaches(reads, block.targets, known.targets):
                    continue
                known.nodes = nodes
                known.sources |= block.sources
                known.targets += block.targets
                joint = known.targets[0]
                reads[joint] = set().union(*(reads[target] for target in known.targets))
                for target in known.targets[1:]:
                    reads[target] = {joint}
                    reads[joint].discard(target)
                break
            else:
                gathered.append(block)
        return gathered

    def _dependencies(self) -> dict[str, set[str]]:
        reads: dict[str, set[str]] = {}
        for cell in self._nets.module.cells:
            if cell.is_operator:
                reads[cell.result] = _wires(*self._nets.netlist.inputs(cell))
        for process in self._nets.module.processes:
            reads[process_target(process)] = _wires(*statement_sigs(process))
        for name, sig in (*self._nets.aliases.items(), *self._nets.fields.items()):
            reads.setdefault(name, _wires(sig))
        # an output of an instance may depend on any of its inputs
        for cell in self._nets.module.cells:
            if cell.is_submodule:
                inputs, outputs = _wires(*self._nets.netlist.inputs(cell)), self._nets.netlist.cell_outputs(cell)
                for wire in wires_of(*(sig for port, sig in cell.ports.items() if port in outputs)):
                    reads[wire] = reads.get(wire, set()) | inputs
        return reads


def _arms(nodes: Sequence[Node]) -> int:
    choices = [node for node in nodes if isinstance(node, ChoiceNode)]
    return sum(len(choice.arms) + sum(map(_arms, choice.bodies())) for choice in choices)


def _wires(*sigs: Sig) -> set[str]:
    return set(wires_of(*sigs))


def _reaches(reads: dict[str, set[str]], start: Sequence[str], goals: Sequence[str]) -> bool:
    goal_wires, seen = set(goals), set(start)
    stack = [wire for name in start for wire in reads.get(name, ())]
    while stack:
        wire = stack.pop()
        if wire in goal_wires:
            return True
        if wire not in seen:
            seen.add(wire)
            stack += reads.get(wire, ())
    return False
