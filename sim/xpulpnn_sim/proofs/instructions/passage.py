"""An instruction's way through the back end: issued by ID, then EX, then WB, in three clock cycles of any state.

In each of the three cycles only the registers that follow the instruction are what the cycle before made of them; all
others, and all inputs, are any. So the cycles need not follow each other: what is proved of them holds for whatever the
instruction waits in between, provided that nothing changes these registers while it waits, see :func:`waiting`.

The units left out compute what other proofs hold them to: ``xpulpnn prove units dotp`` and ``mult`` prove the gates of
both equal to these sums for all operands. Of the divider only the operands and the function are checked here. The back
end is that of an emitted core as gates, with every signal at hand; what goes in and comes out of these units is seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, gates_between
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, Word
from xpulpnn_sim.proofs.engine.integers import Integers, constant, low, unsigned
from xpulpnn_sim.proofs.instructions.execution import Before, accepted
from xpulpnn_sim.proofs.units.dotp import lane_products
from xpulpnn_sim.tools.yosys import Yosys

_DOTPS = ("ex_stage.dotp", "ex_stage.dotp2")  # units of two products
LEFT_OUT = ("ex_stage.mult", "ex_stage.div", *_DOTPS, "ex_stage.quantiser", "id_stage.regfile")
"""Units whose gates are not there, by their place in the back end."""

_IN_EX = ("id_stage.id_ex__", "rvfi_tap.ex_", "rvfi_tap.wb_valid_value")
_IN_WB = ("wb_stage.", "rvfi_tap.wb_", "lsu.wb_")
"""Beginnings of the names of the registers that follow an instruction through EX, and through WB."""


class BackendGates:
    """Gates and registers of a back end, with its signals by their names."""

    def __init__(self, verilog: str, manifest: Mapping[str, Any], yosys: Yosys) -> None:
        hierarchy = manifest["hierarchy"]
        core = next(iter(hierarchy))
        places = {unit: f"{core}.backend.{unit}" for unit in LEFT_OUT}
        left_out = {unit: hierarchy[place] for unit, place in places.items() if place in hierarchy}
        self.gates = gates_between(verilog, hierarchy[f"{core}.backend"], [*dict.fromkeys(left_out.values())], yosys)
        self.in_ex = self._registers(_IN_EX)
        self.in_wb = [net for net in self._registers(_IN_WB) if net not in set(self.in_ex)]
        #: Nets of the ports of units left out, and of the fields of their words of control, by their names.
        self.pins = {unit: self._pins(unit, manifest["modules"][name]["ports"]) for unit, name in left_out.items()}

    def _pins(self, unit: str, ports: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[int]]:
        found = {port["name"]: self.gates.ports[f"{unit}.{port['name']}"] for port in ports}
        fields = (field for port in ports if port["name"] == "ctrl" for field in port["fields"])
        return found | {each["name"]: found["ctrl"][each["lsb"] :][: each["width"]] for each in fields}

    def _registers(self, beginnings: tuple[str, ...]) -> list[int]:
        """Nets of registers whose names begin so."""
        names = (name for name in self.gates.ports if name.startswith(beginnings))
        nets = dict.fromkeys(net for name in names for net in self.gates.ports[name])
        return [net for net in nets if net in self.gates.registers]

    def has(self, name: str) -> bool:
        """Return whether there is a signal of this name."""
        return name in self.gates.ports


class BackendFrame(ClockCycle):
    """A clock cycle of a back end."""

    def __init__(
        self,
        graph: GateGraph,
        backend: BackendGates,
        given: Mapping[str, Sequence[int]],
        state: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(graph, backend.gates, {"rst": [FALSE], **given}, state or {})
        self._backend, self._given = backend, given
        self.graph = graph

    def word(self, name: str) -> list[int]:
        """Literals of a signal."""
        if not self._backend.has(name):
            raise ToolError(f"the back end must have a signal {name}")
        return self.port(name)

    def pins(self, unit: str) -> dict[str, list[int]]:
        """Literals of the ports of a unit left out, and of the fields of its word of control."""
        return {name: self.nets(nets) for name, nets in self._backend.pins[unit].items()}

    def bit(self, name: str) -> int:
        """Literal of a signal of one bit."""
        return self.word(name)[0]

    def changed(self, given: Mapping[str, Sequence[int]]) -> "BackendFrame":
        """The same cycle with other literals of some signals."""
        return BackendFrame(self.graph, self._backend, {**self._given, **given}, self.variables())

    def where(self, values: Mapping[str, int]) -> tuple["BackendFrame", list[int]]:
        """The cycle in the cases in which signals of one bit have these values, and the literals of these cases."""
        cases = [self.bit(name) ^ value ^ 1 for name, value in values.items()]
        return self.changed({name: [value] for name, value in values.items()}), cases

    def following(self, registers: Iterable[int]) -> dict[int, int]:
        """Literals of registers after this cycle."""
        wanted = list(registers)
        data = self._backend.gates.registers
        return dict(zip(wanted, self.nets(data[net] for net in wanted), strict=True))

    def register(self, name: str) -> list[int]:
        """Nets of a signal that is a register."""
        return list(self._backend.gates.ports[name])


_HALF = 16
_WORD_OP, _HALF_OP, _HIGH_OP = 0, 1, 2  # kinds of multiplication in the multiplier's control word

Pins = Mapping[str, Word]  # ports of a unit, and the fields of its word of control


def _dot_product(pins: Pins, z: Integers) -> list[int]:
    """``rd * accumulate + sum(rs1[i] * rs2[i])`` of the unit's inputs, for any control word."""
    (a_signed,), (b_signed,), (accumulate,) = (pins[name] for name in ("a_signed", "b_signed", "accumulate"))
    old = z.choose(accumulate, unsigned(pins["rd"]), constant(0))
    found = constant(0)
    for each in ElemFmt:
        here = z.equal(unsigned(pins["fmt"]), constant(each.value))
        if here == FALSE:
            continue
        found = z.choose(
            here, z.add(old, lane_products(z, each, (pins["rs1"], pins["rs2"]), (a_signed, b_signed))), found
        )
    return low(found, XLEN)


def product(pins: Pins, z: Integers) -> list[int]:
    """Products of the multiplier by its control word."""
    op_a, op_b, op_c = (unsigned(pins[name]) for name in ("op_a", "op_b", "op_c"))
    (upper,), (signed,), (rounds,) = (pins[name] for name in ("upper", "a_signed", "round"))
    (accumulate,), (subtract,), (other_signed,) = (pins[name] for name in ("accumulate", "subtract", "b_signed"))
    old = z.choose(accumulate, op_c, constant(0))

    def kind(code: int) -> int:
        return z.equal(unsigned(pins["op"]), constant(code))

    found = constant(0)
    if kind(_WORD_OP) != FALSE:
        requantises = pins["requantise"][0] if "requantise" in pins else FALSE
        words = constant(0)
        if requantises != TRUE:
            whole = z.multiply(op_a, op_b)
            words = z.choose(subtract, z.subtract(old, whole), z.add(old, whole))
        if requantises != FALSE:
            kappa, summand = (unsigned(pins[f"nn_{name}"]) for name in ("kappa", "lambda"))
            if "upper" in pins:
                scaled = z.add(scaled_product(pins, z), z.choose(signed, constant(0), summand))
            else:
                scaled = z.add(z.multiply(kappa, op_b), summand)
            words = z.choose(requantises, scaled, words)
        found = z.choose(kind(_WORD_OP), words, found)
    if kind(_HALF_OP) != FALSE:
        halves = [z.choose(upper, z.right(one, constant(_HALF)), one) for one in (op_a, op_b)]
        x, y = (z.extended(low(one, _HALF), signed) for one in halves)
        amount = unsigned(pins["shamt"])
        rounding = z.right(z.left(z.choose(rounds, constant(1), constant(0)), amount), constant(1))
        total = low(z.add(z.add(old, z.multiply(x, y)), rounding), XLEN)
        found = z.choose(kind(_HALF_OP), z.right(z.extended(total, signed), amount), found)
    if kind(_HIGH_OP) != FALSE:
        exact = z.multiply(z.extended(pins["op_a"], signed), z.extended(pins["op_b"], other_signed))
        found = z.choose(kind(_HIGH_OP), z.right(exact, constant(XLEN)), found)
    return low(found, XLEN)


def scaled_product(pins: Pins, z: Integers) -> list[int]:
    """Product of the factors of a requantisation, of a multiplier that has its upper word."""
    factors = (("op_a", "a_signed"), ("nn_kappa", "b_signed"))
    x, y = (z.extended(pins[factor], pins[signed][0]) for factor, signed in factors)
    return z.multiply(x, y)


def array_products(pins: Pins, z: Integers, *, lanes: bool) -> dict[str, list[int]]:
    """Outputs of arrays that make both dot products, with ``lanes``, or products of words and half-words."""
    common = {name: pins[f"dotp_{name}"] for name in ("fmt", "a_signed", "b_signed", "accumulate")}
    word, lower, upper = pins["dotp_form"]
    if lanes:
        both = {"first": ("dotp_a", "op_c"), "second": ("act2", "op_b")}
        found = {
            name: unsigned(_dot_product({**common, "rs1": pins[one], "rs2": pins["dotp_b"], "rd": pins[old]}, z))
            for name, (one, old) in both.items()
        }
        is_right = z.is_true([word, lower, upper]) ^ 1
        return {name: low(z.choose(is_right, sums, constant(0)), XLEN) for name, sums in found.items()}
    (signed,), (other_signed,) = common["a_signed"], common["b_signed"]
    (accumulate,), (subtract,), (rounds,), (shifts,) = (
        pins[name] for name in ("accumulate", "subtract", "round", "a_signed")
    )
    old = z.choose(accumulate, unsigned(pins["op_c"]), constant(0))
    total = half = constant(0)
    if word != FALSE:
        whole = z.multiply(z.extended(pins["dotp_a"], signed), z.extended(pins["dotp_b"], other_signed))
        summand = old
        if "requantise" in pins:
            scaled = z.graph.and_(pins["requantise"][0], shifts ^ 1)
            summand = z.choose(scaled, unsigned(pins["nn_lambda"]), old)
        total = z.choose(subtract, z.subtract(summand, whole), z.add(summand, whole))
    if lower != FALSE or upper != FALSE:
        halves = [z.right(unsigned(pins[name]), z.choose(upper, constant(_HALF), constant(0))) for name in _FACTORS]
        x, y = (z.extended(low(one, _HALF), signed) for one in halves)
        amount = unsigned(pins["shamt"])
        rounding = z.right(z.left(z.choose(rounds, constant(1), constant(0)), amount), constant(1))
        narrow = low(z.add(z.add(old, z.multiply(x, y)), rounding), XLEN)
        half = z.right(z.extended(narrow, shifts), amount)
    is_right = z.equal(unsigned(common["fmt"]), constant(ElemFmt.H.value))
    total, half = (z.choose(is_right, one, constant(0)) for one in (total, half))
    return {
        "result": low(z.choose(word, total, half), XLEN),
        "second": low(total, XLEN),
        "upper": low(z.right(total, constant(XLEN)), XLEN),
    }


def division(pins: Pins, z: Integers) -> list[int]:
    """Quotient or remainder of the divider, as functions that nothing is said of."""
    op_a, op_b, (signed,), (remainder,) = (pins[name] for name in ("op_a", "op_b", "signed", "remainder"))
    x, y = (z.extended(word, signed) for word in (op_a, op_b))
    by_zero = z.is_true(op_b) ^ 1
    quotients = z.choose(by_zero, constant(-1), z.opaque("quotient", x, y))
    remainders = z.choose(by_zero, unsigned(op_a), z.opaque("remainder", x, y))
    return low(z.choose(remainder, remainders, quotients), XLEN)


_FACTORS = ("dotp_a", "dotp_b")
_ENTRIES = ("nn_act0", "nn_act1", "nn_wgt0", "nn_wgt1", "nn_wgt2", "nn_wgt3")
_PARAMETERS = ("nn_kappa", "nn_lambda")
_SECOND_PAIR = ("nn_act2", "nn_act3")
_SECONDS = ("nn_act1", "nn_act3")  # second activation of each pair
_NNRF = "ex_stage.nnrf."
_COMPUTED_BEFORE = {"ex_stage.alu.result": 32, "ex_stage.alu.sum": 32, "ex_stage.alu.comparison": 1}
_ISSUES = {"id_stage.id_goes": TRUE, "id_stage.kill": FALSE, "rvfi_tap.ex_ready": TRUE}
_EXECUTES = {"rvfi_tap.ex_ready": TRUE}
_LEAVES = {"rvfi__valid": TRUE, "rvfi__trap": FALSE}
"""Signals of one bit and their values in the cycles in which an instruction leaves ID, EX and WB."""

_READS = {"id_stage.regfile.rs1": 15, "id_stage.regfile.rs2": 20, "id_stage.regfile.rs3": 7}
"""Read ports of the register file, and the lowest bit of the field that each reads."""

_WRITES = {
    "id_stage.id_ex__ex_we": "id_stage.id_ex__ex_addr",
    "id_stage.id_ex__wb_we": "id_stage.id_ex__wb_addr",
    "id_stage.wb__we": "id_stage.wb__addr",
    "wb_stage.wrote": "wb_stage.old_addr",
}
"""Writes under way, and their registers."""

_EX_READY, _EX_VALID = "rvfi_tap.ex_ready", "rvfi_tap.wb_valid_value"


_UNITS = {1: ("ex_stage.mult", product), 2: ("ex_stage.div", division), 3: ("ex_stage.dotp", _dot_product)}
"""By its code each unit left out, and its result."""


class Passage:
    """The way of any word of a row through the back end."""

    def __init__(self, backend: BackendGates, insn: Insn) -> None:
        graph = GateGraph()
        self.graph, self.integers = graph, Integers(graph, opaque_products=insn.is_exact)
        self.insn = insn
        self._backend = backend
        self.word = [
            insn.match >> place & 1 if insn.mask >> place & 1 else graph.input() for place in range(len(insn.pattern))
        ]
        given = {"insn__valid": [TRUE], "insn__payload__word": self.word, "insn__payload__error": [FALSE]}
        # what the instruction before it computes is anything
        given |= {name: graph.inputs(width) for name, width in _COMPUTED_BEFORE.items()}
        #: Number of the register that is read in place of rs2: of two products the one behind that in field rd.
        self.read_as_rs2 = [TRUE, *self.word[8:12]] if insn.is_pair else self.word[20:25]
        numbers = {port: self.word[lowest : lowest + 5] for port, lowest in _READS.items()}
        numbers["id_stage.regfile.rs2"] = self.read_as_rs2
        # x0 reads 0
        for port, number in numbers.items():
            is_register = self.integers.is_true(number)
            given[port] = [graph.and_(bit, is_register) for bit in graph.inputs(32)]
        # where the word traps that is a claim that fails, so that the rest need not hold
        found, (self.excepted,) = BackendFrame(graph, backend, given).where({"id_stage.excepted": FALSE})
        self.excepted ^= 1
        self.issue, issues = found.where(_ISSUES)
        in_ex = self.issue.following(backend.in_ex)
        execute, executes = BackendFrame(graph, backend, {}, in_ex).where(_EXECUTES)
        self.execute = execute.changed(self._results(execute))
        self.leave, leaves = BackendFrame(graph, backend, {}, self.execute.following(backend.in_wb)).where(_LEAVES)
        self.assumed = [*accepted(insn, self.word, self.integers), *_never_x0(self.issue), *issues, *executes, *leaves]

    def _results(self, frame: BackendFrame) -> dict[str, list[int]]:
        z, unit = self.integers, unsigned(frame.word("ex_stage.ctrl_unit"))
        used = {name: result for code, (name, result) in _UNITS.items() if z.equal(unit, constant(code)) != FALSE}
        if self.insn.is_pair:
            used |= dict.fromkeys(_DOTPS, _dot_product)
        multiplier = _UNITS[1][0]
        pins = frame.pins(multiplier)
        if "dotp_form" in pins:
            # both dot products and all multiplications are made by the same unit
            lanes = self.insn.is_pair or _UNITS[3][0] in used
            units = {name: result for name, result in used.items() if name == _UNITS[2][0]}
            found = {f"{name}.result": result(frame.pins(name), z) for name, result in units.items()}
            if lanes or multiplier in used:
                words = array_products(pins, z, lanes=lanes)
                found |= {f"{multiplier}.{name}": word for name, word in words.items()}
            return found
        # of other instructions the results are any
        found = {
            f"{name}.result": result(frame.pins(name), z) for name, result in used.items() if name in self._backend.pins
        }
        if self.insn.is_exact:
            total = z.right(scaled_product(pins, z), constant(XLEN))
            found[f"{multiplier}.upper"] = low(total, XLEN)
        return found

    def before(self) -> Before:
        """Return what the instruction finds, by its retirement; the NN-RF as it is in the cycle of the read."""
        leave, issue = self.leave, self.issue
        return Before(
            word=self.word,
            compressed=issue.bit("insn__payload__compressed"),
            pc=leave.word("rvfi__pc_rdata"),
            registers={name: leave.word(f"rvfi__{name}_rdata") for name in ("rs1", "rs2", "rd")},
            entries=self._entries(),
            loaded=leave.word("rvfi__mem_rdata"),
        )

    def _entries(self) -> list[list[int]]:
        """The NN-RF: entries behind the cycle of issue, in which the last word may arrive; parameters and the second
        activation of a pair in EX."""
        found: list[list[int]] = []
        # the summand of an exact requantisation is read with rs1, the factor of arrays with other factors
        on_arrays = "dotp_form" in self._backend.pins[_UNITS[1][0]]
        in_id = {"nn_kappa": on_arrays, "nn_lambda": self.insn.is_exact}
        parameters = [name for name in _PARAMETERS if not in_id[name]]
        read_in_ex = (*parameters, *(_SECONDS if self.insn.is_pair else ()))
        for name in (*_ENTRIES, *_PARAMETERS, *_SECOND_PAIR):
            if not self._backend.has(_NNRF + name):
                found.append(self.graph.inputs(32))
                continue
            nets = self.issue.register(_NNRF + name)
            if name in read_in_ex:
                found.append(self.execute.nets(nets))
            else:
                following = self.issue.following(nets)
                found.append([following[net] for net in nets])
        return found


def _never_x0(frame: BackendFrame, *, after: bool = False) -> list[int]:
    """Literals: that no write of x0 is under way, now or after this cycle."""
    found: list[int] = []
    for enable, number in _WRITES.items():
        nets = [*frame.register(enable), *frame.register(number)]
        values = [*frame.following(nets).values()] if after else frame.nets(nets)
        found.append(frame.graph.and_(values[0], Integers(frame.graph).is_true(values[1:]) ^ 1) ^ 1)
    return found


class Invariant(NamedTuple):
    """Two words that are equal in every cycle in which something holds."""

    name: str
    graph: GateGraph  # holds everything
    assumed: list[int]
    got: list[int]
    wanted: list[int]


def waiting(backend: BackendGates) -> list[Invariant]:
    """Return what :class:`Passage` takes for granted of a back end in any state.

    Whatever is in EX has just been issued, or has been there with the same registers; whatever is in WB without having
    trapped has just left EX, or has been there with the same registers. After a reset both are empty.
    """
    graph = GateGraph()
    frame = BackendFrame(graph, backend, {})
    ex_valid, wb_valid, trap = map(frame.register, (_EX_VALID, "rvfi_tap.wb_valid", "rvfi_tap.wb_trap"))
    busy, outstanding = map(frame.register, ("lsu.wb_busy", "lsu.outstanding"))
    after = frame.following([*ex_valid, *wb_valid, *trap, *busy, *outstanding])
    issued, leaves = frame.bit("id_stage.issue"), graph.and_(frame.bit(_EX_READY), frame.nets(ex_valid)[0])
    under_way = graph.and_(frame.nets(busy)[0], frame.nets(outstanding)[0] ^ 1) ^ 1
    stays_so = graph.and_(after[busy[0]], after[outstanding[0]] ^ 1) ^ 1
    reset_graph = GateGraph()
    reset = BackendFrame(reset_graph, backend, {"rst": [TRUE]})
    enables = [net for name in _WRITES for net in reset.register(name)]
    empty = [*reset.following([*ex_valid, *wb_valid, *busy, *enables]).values()]
    return [
        Invariant("nothing writes x0", graph, _never_x0(frame), _never_x0(frame, after=True), [TRUE] * len(_WRITES)),
        Invariant("what is issued enters EX", graph, [frame.bit("id_stage.id_goes")], [frame.bit(_EX_READY)], [TRUE]),
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
