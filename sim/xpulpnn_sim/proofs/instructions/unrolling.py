"""Unroll an instruction through the back end: three clock cycles, in ID, EX and WB, from any state.

Only registers that carry the instruction from stage to stage keep their values between the cycles; all other registers
and inputs are free. The cycles therefore need not be adjacent: proofs hold for any stalls that leave these registers
unchanged (:func:`stall_invariants`). The units :data:`CUT_UNITS` are black boxes, which models replace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xpulpnn.errors import ToolError, require
from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, gates_between
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, Word
from xpulpnn_sim.proofs.engine.integers import Integers, constant, low, unsigned
from xpulpnn_sim.proofs.instructions.statement_gates import PriorState, allowed_fields
from xpulpnn_sim.proofs.units import unit_models
from xpulpnn_sim.tools.probes import BACKEND_NETS, EX_REGISTERS, NNRF_NETS, UNIT_INSTANCES, WB_REGISTERS
from xpulpnn_sim.tools.yosys import Yosys

_MULT, _DIV, _DOTP, _DOTP2 = (UNIT_INSTANCES[name] for name in ("mult", "div", "dotp", "dotp2"))
CUT_UNITS = (_MULT, _DIV, _DOTP, _DOTP2, UNIT_INSTANCES["quantiser"], UNIT_INSTANCES["regfile"])
"""Units that models replace in proofs, by path in the back end."""


class BackendGates:
    def __init__(self, verilog: str, manifest: Mapping[str, Any], yosys: Yosys) -> None:
        hierarchy = manifest["hierarchy"]
        core = next(iter(hierarchy))
        places = {unit: f"{core}.backend.{unit}" for unit in CUT_UNITS}
        left_out = {unit: hierarchy[place] for unit, place in places.items() if place in hierarchy}
        self.gates = gates_between(verilog, hierarchy[f"{core}.backend"], [*dict.fromkeys(left_out.values())], yosys)
        self.in_ex = self._registers(EX_REGISTERS)
        self.in_wb = [net for net in self._registers(WB_REGISTERS) if net not in set(self.in_ex)]
        #: Nets of cut units' ports and of their control words' fields, by name.
        self.pins = {unit: self._pins(unit, manifest["modules"][name]["ports"]) for unit, name in left_out.items()}

    def _pins(self, unit: str, ports: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[int]]:
        pins = {port["name"]: self.gates.ports[f"{unit}.{port['name']}"] for port in ports}
        return unit_models.with_fields(pins, ports)

    def _registers(self, beginnings: tuple[str, ...]) -> list[int]:
        names = (name for name in self.gates.ports if name.startswith(beginnings))
        nets = dict.fromkeys(net for name in names for net in self.gates.ports[name])
        return [net for net in nets if net in self.gates.registers]

    def has(self, name: str) -> bool:
        return name in self.gates.ports


class BackendFrame(ClockCycle):
    def __init__(
        self,
        graph: GateGraph,
        backend: BackendGates,
        given: Mapping[str, Sequence[int]],
        state: Mapping[int, int] | None = None,
    ) -> None:
        given = {BACKEND_NETS.get(name, name): word for name, word in given.items()}
        super().__init__(graph, backend.gates, {"rst": [FALSE], **given}, state or {})
        self._backend, self._given = backend, given
        self.graph = graph

    def word(self, name: str) -> list[int]:
        return self.port(self._net(name))

    def _net(self, name: str) -> str:
        net = BACKEND_NETS.get(name, name)
        require(self._backend.has(net), f"the back end must have a signal {net}", ToolError)
        return net

    def pins(self, unit: str) -> dict[str, list[int]]:
        return {name: self.nets(nets) for name, nets in self._backend.pins[unit].items()}

    def has(self, name: str) -> bool:
        return self._backend.has(BACKEND_NETS.get(name, name))

    def bit(self, name: str) -> int:
        return self.word(name)[0]

    def changed(self, given: Mapping[str, Sequence[int]]) -> "BackendFrame":
        return BackendFrame(self.graph, self._backend, {**self._given, **given}, self.variables())

    def where(self, values: Mapping[str, int]) -> tuple["BackendFrame", list[int]]:
        """Return a copy of this cycle in which single-bit signals are forced to ``values``.

        The second result has, for each signal, a literal that is 1 if the signal has the forced value anyway.
        """
        cases = [self.bit(name) ^ value ^ 1 for name, value in values.items()]
        return self.changed({name: [value] for name, value in values.items()}), cases

    def following(self, registers: Iterable[int]) -> dict[int, int]:
        nets = list(registers)
        data = self._backend.gates.registers
        return dict(zip(nets, self.nets(data[net] for net in nets), strict=True))

    def register(self, name: str) -> list[int]:
        return list(self._backend.gates.ports[self._net(name)])


_ENTRIES = ("act0", "act1", "wgt0", "wgt1", "wgt2", "wgt3")
_PARAMETERS = ("kappa", "lambda")
_SECOND_PAIR = ("act2", "act3")
_SECONDS = ("act1", "act3")  # second activation of each pair

_COMPUTED_BEFORE = {"alu_result": 32, "alu_sum": 32, "alu_comparison": 1}  # results of the previous instruction
_ISSUES = {"id_goes": TRUE, "id_kill": FALSE, "ex_ready": TRUE}
_EXECUTES = {"ex_ready": TRUE}
_LEAVES = {"rvfi__valid": TRUE, "rvfi__trap": FALSE}
"""Values of single-bit signals when an instruction leaves ID (``_ISSUES``), EX (``_EXECUTES``) and WB (``_LEAVES``)."""

_READS = {"read_rs1": "rs1", "read_rs2": "rs2", "read_rs3": "rd"}  # register-file ports, and the fields that they read

_WRITES = {"ex_we": "ex_addr", "late_we": "late_addr", "wb_we": "wb_addr", "wb_wrote": "wb_old_addr"}
"""Signals of each pending register write: its enable, and its register number."""

_PAIR_ADDS = {"ex_op_b": XLEN // BYTE_BITS, "adder_subtract": 0, "adder_fmt": 0, "adder_result": 0}
"""Adder control for pair products that load; ID does not repeat it for stalled instructions."""

_UNITS = {
    1: (_MULT, unit_models.product),
    2: (_DIV, unit_models.division),
    3: (_DOTP, unit_models.dot_product),
}
"""Cut units with their models, by unit code."""


def register_field(word: Word, name: str) -> Word:
    lowest, _, width = WORD_FIELDS[name].parts[0]
    return word[lowest : lowest + width]


class Unrolling:
    """Any encoding of an instruction in the cycles in which it passes ID, EX and WB."""

    def __init__(self, backend: BackendGates, insn: Insn) -> None:
        graph = GateGraph()
        self.graph, self.integers = graph, Integers(graph, opaque_products=insn.is_exact)
        self.insn = insn
        self._backend = backend
        self.word = [insn.match >> bit & 1 if insn.mask >> bit & 1 else graph.input() for bit in range(XLEN)]
        given = {"insn__valid": [TRUE], "insn__payload__word": self.word, "insn__payload__error": [FALSE]}
        # the previous instruction's results are free
        given |= {name: graph.inputs(width) for name, width in _COMPUTED_BEFORE.items()}
        #: Number of the register that is read in place of rs2: for pair products, the odd register after rd.
        rd, rs2 = (register_field(self.word, name) for name in ("rd", "rs2"))
        self.read_as_rs2 = [TRUE, *rd[1:]] if insn.is_pair else rs2
        numbers = {port: register_field(self.word, field) for port, field in _READS.items()}
        numbers["read_rs2"] = self.read_as_rs2
        # x0 reads as 0
        for port, number in numbers.items():
            is_register = self.integers.is_true(number)
            given[port] = [graph.and_(bit, is_register) for bit in graph.inputs(32)]
        # a trap violates a claim of its own, so all else is proved without one
        legal, (self.excepted,) = BackendFrame(graph, backend, given).where({"id_excepted": FALSE})
        self.excepted ^= 1
        self.issue, issues = legal.where(_ISSUES)
        in_ex = self.issue.following(backend.in_ex)
        execute, executes = BackendFrame(graph, backend, {}, in_ex).where(_EXECUTES)
        self.execute = execute.changed(self._results(execute))
        self.leave, leaves = BackendFrame(graph, backend, {}, self.execute.following(backend.in_wb)).where(_LEAVES)
        found_so = [*_never_x0(self.issue), *_pair_adds(self.issue)]
        self.assumed = [*allowed_fields(insn, self.word, self.integers), *found_so, *issues, *executes, *leaves]

    def _results(self, frame: BackendFrame) -> dict[str, list[int]]:
        z, unit = self.integers, unsigned(frame.word("ex_unit"))
        used = {name: result for code, (name, result) in _UNITS.items() if z.equal(unit, constant(code)) != FALSE}
        if self.insn.is_pair:
            used |= dict.fromkeys((_DOTP, _DOTP2), unit_models.dot_product)
        pins = frame.pins(_MULT)
        if "dotp_form" in pins:
            # one unit makes both dot products and all multiplications
            lanes = self.insn.is_pair or _DOTP in used
            units = {name: result for name, result in used.items() if name == _DIV}
            results = {f"{name}.result": result(frame.pins(name), z) for name, result in units.items()}
            if lanes or _MULT in used:
                words = unit_models.array_products(pins, z, lanes=lanes)
                results |= {f"{_MULT}.{name}": word for name, word in words.items()}
            return results
        # results of other instructions are free
        results = {f"{name}.result": used[name](frame.pins(name), z) for name in used if name in self._backend.pins}
        if self.insn.is_exact:
            total = z.shift_right(unit_models.scaled_product(pins, z), constant(XLEN))
            results[f"{_MULT}.upper"] = low(total, XLEN)
        return results

    def before(self) -> PriorState:
        leave, issue = self.leave, self.issue
        return PriorState(
            word=self.word,
            compressed=issue.bit("insn__payload__compressed"),
            pc=leave.word("rvfi__pc_rdata"),
            registers={name: leave.word(f"rvfi__{name}_rdata") for name in ("rs1", "rs2", "rd")},
            entries=self._entries(),
            loaded=leave.word("rvfi__mem_rdata"),
        )

    def _entries(self) -> list[list[int]]:
        """Return the NN-RF entries at the time at which the instruction reads them.

        Entries are read after issue, since the previous load may still write them; parameters and second activations
        are read in EX.
        """
        entries: list[list[int]] = []
        # read with rs1: the summand of an exact requantisation, and the factor for arrays
        on_arrays = "dotp_form" in self._backend.pins[_MULT]
        in_id = {"kappa": on_arrays, "lambda": self.insn.is_exact}
        parameters = [name for name in _PARAMETERS if not in_id[name]]
        read_in_ex = (*parameters, *(_SECONDS if self.insn.is_pair else ()))
        for name in (*_ENTRIES, *_PARAMETERS, *_SECOND_PAIR):
            if not self._backend.has(NNRF_NETS + name):
                entries.append(self.graph.inputs(32))
                continue
            nets = self.issue.register(NNRF_NETS + name)
            if name in read_in_ex:
                entries.append(self.execute.nets(nets))
            else:
                following = self.issue.following(nets)
                entries.append([following[net] for net in nets])
        return entries


def _never_x0(frame: BackendFrame, *, after: bool = False) -> list[int]:
    """Return literals that are 1 if no pending write is to x0 in this cycle, or with ``after`` in the next one."""
    claims: list[int] = []
    for enable, number in _WRITES.items():
        nets = [*frame.register(enable), *frame.register(number)]
        values = [*frame.following(nets).values()] if after else frame.nets(nets)
        claims.append(frame.graph.and_(values[0], Integers(frame.graph).is_true(values[1:]) ^ 1) ^ 1)
    return claims


def _pair_adds(frame: BackendFrame, *, after: bool = False) -> list[int]:
    """Return literals that are 1 if a Mac&Load of two products in EX, when it loads, adds one word to its address."""
    if not frame.has("ex_pair"):
        return []
    loads = ("ex_pair", "ex_lsu_valid")
    nets = {name: frame.register(name) for name in (*loads, *_PAIR_ADDS)}
    following = frame.following([net for each in nets.values() for net in each]) if after else None
    words = {name: [following[net] for net in each] if following else frame.nets(each) for name, each in nets.items()}
    graph = frame.graph
    waits = graph.all(words[name][0] for name in loads) ^ 1
    return [graph.or_(waits, graph.is_value(words[name], value)) for name, value in _PAIR_ADDS.items()]


class Invariant(NamedTuple):
    """Two words that are equal in every cycle in which the assumptions hold."""

    name: str
    graph: GateGraph  # of all literals
    assumed: list[int]
    actual: list[int]
    expected: list[int]


def stall_invariants(backend: BackendGates) -> list[Invariant]:
    """Return the inductive invariants on which :class:`Unrolling` relies.

    An instruction in EX was just issued, or stayed there with unchanged registers; an instruction in WB without a trap
    just left EX, or stayed in WB with unchanged registers. After a reset both stages are empty.
    """
    graph = GateGraph()
    frame = BackendFrame(graph, backend, {})
    ex_valid, wb_valid, trap = map(frame.register, ("ex_valid", "wb_valid", "wb_trap"))
    busy, outstanding = map(frame.register, ("lsu_busy", "lsu_outstanding"))
    after = frame.following([*ex_valid, *wb_valid, *trap, *busy, *outstanding])
    issued, leaves = frame.bit("id_issue"), graph.and_(frame.bit("ex_ready"), frame.nets(ex_valid)[0])
    under_way = graph.and_(frame.nets(busy)[0], frame.nets(outstanding)[0] ^ 1) ^ 1
    stays_so = graph.and_(after[busy[0]], after[outstanding[0]] ^ 1) ^ 1
    adds, adds_after = _pair_adds(frame), _pair_adds(frame, after=True)
    reset_graph = GateGraph()
    reset = BackendFrame(reset_graph, backend, {"rst": [TRUE]})
    enables = [net for name in _WRITES for net in reset.register(name)]
    loads = reset.register("ex_lsu_valid")
    empty = [*reset.following([*ex_valid, *wb_valid, *busy, *enables, *loads]).values()]
    return [
        Invariant("nothing writes x0", graph, _never_x0(frame), _never_x0(frame, after=True), [TRUE] * len(_WRITES)),
        *([Invariant("pairs add a word", graph, adds, adds_after, [TRUE] * len(adds))] if adds else []),
        Invariant("what is issued enters EX", graph, [frame.bit("id_goes")], [frame.bit("ex_ready")], [TRUE]),
        Invariant(
            "EX keeps what it holds",
            graph,
            [after[ex_valid[0]], issued ^ 1],
            [*frame.following(backend.in_ex).values(), *frame.nets(ex_valid)],
            [*frame.nets(backend.in_ex), TRUE],
        ),
        Invariant("an access in WB is under way", graph, [under_way], [stays_so], [TRUE]),
        Invariant(
            "WB keeps what it holds",
            graph,
            [under_way, after[wb_valid[0]], after[trap[0]] ^ 1, leaves ^ 1],
            [*frame.following(backend.in_wb).values(), *frame.nets(wb_valid)],
            [*frame.nets(backend.in_wb), TRUE],
        ),
        Invariant("after a reset EX and WB are empty", reset_graph, [], empty, [FALSE] * len(empty)),
    ]
