"""Emission of what users build: mixtures of everything, bare modules and memories; every choice of style."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Array, Cat, ClockDomain, DomainRenamer, Instance, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, enum, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from tests.rtl.replay import require_same, run, tool

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.core.regfile import RegFile
from xpulpnn.emit.names import KEYWORDS, snake_case
from xpulpnn.errors import InputError, ToolError
from xpulpnn.verilog import emit, plain


class Mode(enum.Enum, shape=unsigned(2)):
    ADD = 0
    SUB = 1
    MUL = 2
    SHIFT = 3


class Ctrl(data.Struct):
    mode: Mode
    a_signed: 1
    b_signed: 1
    shamt: 5


class Item(data.Struct):
    word: 32
    addend: 32
    mode: Mode


class Lane(wiring.Component):
    """Product of two elements."""

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__(
            {
                #: a, b: Factors.
                "a": In(width),
                "b": In(width),
                "signed": In(2),  #: Each of them is signed.
                #: product: Their product, in the
                #:   same cycle.
                "product": Out(signed(2 * width + 2)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        a = Signal(signed(self._width + 1))
        b = Signal(signed(self._width + 1))
        m.d.comb += a.eq(Cat(self.a, self.a[-1] & self.signed[0]))
        m.d.comb += b.eq(Cat(self.b, self.b[-1] & self.signed[1]))
        m.d.comb += self.product.eq(a * b)
        return m


class Mixture(wiring.Component):
    """A bit of everything that the emission must handle."""

    ctrl: In(Ctrl)  #: Control word.
    #: i.payload: One operand pair.
    i: In(stream.Signature(Item))  #: Operands.
    o: Out(stream.Signature(signed(32)))
    unused: In(7)
    constant: Out(8)
    undriven: Out(4)
    vec: In(8).array(4)
    total: Out(10)
    x: In(signed(8))
    y: In(signed(5))
    flags: Out(11)
    mixed: Out(16)
    nibble: Out(4)
    contexts: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.lane0 = lane0 = Lane(8)
        m.submodules.lane1 = lane1 = Lane(8)
        m.submodules.narrow = narrow = Lane(4)
        item = Signal(Item)
        valid = Signal()
        history = Signal(data.ArrayLayout(Mode, 3), init=[Mode.SUB, Mode.ADD, Mode.MUL])
        signs = Cat(self.ctrl.a_signed, self.ctrl.b_signed)
        for lane, low in ((lane0, 0), (lane1, 8), (narrow, 16)):
            high = low + len(lane.a)
            m.d.comb += [
                lane.a.eq(self.i.payload.word[low:high]),
                lane.b.eq(self.i.payload.addend[low:high]),
                lane.signed.eq(signs),
            ]
        m.d.comb += [
            self.constant.eq(0x5A),
            self.i.ready.eq(self.o.ready | ~valid),
            self.total.eq(sum(self.vec[i] for i in range(4))),
            self.mixed.eq(
                (self.x >> self.y[:3].as_unsigned()) + (self.y << self.vec[0][:3]) - Mux(self.unused[1], self.x, -1)
            ),
            self.flags.eq(
                Cat(
                    self.x < self.y,
                    self.x >= -self.y,
                    self.vec[0] < 256,
                    self.vec[1] >= 0,
                    self.vec[1] == self.x,
                    self.vec[2].any() ^ self.vec[2].all(),
                    self.vec[3].xor(),
                    (self.x >> 1) == (self.vec[3].as_signed() >> 2),
                    self.x < -3,
                    (~(self.vec[0] | self.vec[1])).any(),
                    (~self.vec[2]).xor(),
                )
            ),
            self.nibble.eq(self.i.payload.word.word_select(self.vec[2][:3], 4)),
            self.contexts.eq(
                Cat(
                    (self.x >> self.vec[0][:4]) & (self.vec[1] << 3)[:8],
                    ~self.vec[2] + (self.x >> self.vec[1][:2]),
                    self.vec[0].bit_select(self.vec[1][:3], 5),
                    (self.x >> self.vec[0][:2]).as_unsigned() & self.vec[1],
                    (~self.vec[2]).as_unsigned() + self.vec[3],
                    (self.vec[0] + self.vec[1])[:8] + self.vec[2],
                )
            ),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            m.d.sync += history.eq(Cat(self.ctrl.mode, history))
            with m.If(self.i.valid):
                m.d.sync += item.eq(self.i.payload)
            with m.Else():
                m.d.sync += item.word[4:9].eq(history)
        result = Signal(signed(32))
        with m.Switch(item.mode):
            with m.Case(Mode.ADD):
                m.d.comb += result.eq(item.word + item.addend)
            with m.Case(Mode.SUB):
                m.d.comb += result.eq(item.word - item.addend)
            with m.Case(Mode.MUL):
                m.d.comb += result.eq(lane0.product + lane1.product - narrow.product)
            with m.Default():
                m.d.comb += result.eq(item.word.as_signed() >> self.ctrl.shamt)
        with m.Switch(item.word[:8]):
            with m.Case("1----000"):
                m.d.comb += result[:16].eq(1)
            with m.Case("1-1--0-0", "01--1001"):
                m.d.comb += result[4:10].eq(self.vec[1])
            with m.Case("--------"):
                m.d.comb += result[0].eq(item.word[9])
        with m.If(self.unused[0] & self.vec[0][0]):
            m.d.comb += result[8:16].eq(Array(self.vec[i] for i in range(4))[item.word[:2]])
        with m.Elif(self.unused[2]):
            m.d.comb += result[20:].eq(self.x)
        with m.Elif(self.unused[3:6] == 5):
            pass
        with m.Else():
            m.d.comb += result[30].eq(1)
        with m.FSM():
            with m.State("IDLE"), m.If(self.i.valid):
                m.next = "RUN"
            with m.State("RUN"), m.If(self.o.ready):
                m.next = "DONE"
            with m.State("DONE"):
                m.next = "IDLE"
                m.d.comb += self.mixed.eq(0)
        m.d.comb += [self.o.payload.eq(result), self.o.valid.eq(valid)]
        return m


def mixture() -> str:
    return emit(Mixture(), "mixture", config=CoreConfig()).text


@pytest.mark.unit
def test_names_are_those_of_the_source():
    manifest = emit(Mixture(), "mixture", config=CoreConfig()).manifest
    assert manifest["hierarchy"] == {
        "mixture": "mixture",
        "mixture.lane0": "lane",
        "mixture.lane1": "lane",
        "mixture.narrow": "lane_2",
    }
    top = manifest["modules"]["mixture"]
    assert top["instances"] == {"lane0": "lane", "lane1": "lane", "narrow": "lane_2"}
    registers = {register["name"]: (register["width"], register["reset"]) for register in top["registers"]}
    assert registers == {"o__valid": (1, 0), "history": (6, 0b100001), "item": (66, 0), "fsm_state": (2, 0)}
    assert {"result", "valid", "item_word", "lane0_product"} <= {signal["name"] for signal in top["signals"]}


@pytest.mark.unit
def test_ports_carry_width_direction_and_meaning():
    manifest = emit(Mixture(), "mixture", config=CoreConfig()).manifest
    ports = {port["name"]: (port["direction"], port["width"], port["meaning"]) for port in manifest["ports"]}
    assert ports["ctrl"] == ("input", 9, "Control word.")
    assert ports["i__payload"] == ("input", 66, "One operand pair.")
    assert ports["i__ready"] == ("output", 1, "Operands.")
    assert ports["vec__3"] == ("input", 8, "")
    assert list(ports)[:3] == ["clk", "rst", "ctrl"]
    lane = manifest["modules"]["lane"]["ports"]
    assert [port["meaning"] for port in lane[:2]] == ["Factors.", "Factors."]
    assert lane[2]["name"] == "signed_"
    assert lane[3]["meaning"] == "Their product, in the same cycle."


@pytest.mark.unit
def test_configuration_is_echoed_as_json_types():
    assert plain(CoreConfig())["dotp"] == {
        "widths": [2, 4, 8, 16],
        "multipliers": "shared",
        "isolation": "none",
        "adders": "carry-save",
    }
    assert plain({"mode": (Mode.ADD, None)}) == {"mode": ["ADD", None]}


@pytest.mark.unit
def test_text_is_plain_verilog():
    text = mixture()
    assert text.startswith("// Generated by xpulpnn ")
    assert "\\" not in text
    assert "(*" not in text
    assert str(Path(__file__).parent) not in text
    assert not re.search(r"\$(?!(un)?signed\()", text)
    assert not re.search(r"\bn\d+\b", text), "no net without a name"
    assert not re.search(r"\{[^{},]*\}", re.sub(r"\{\d+\{[^{}]*\}\}", "", text)), "no concatenation of one value"
    assert not any(re.search(rf"\b(wire|reg) (\[\d+:0\] )?{word};", text) for word in KEYWORDS)


@pytest.mark.unit
def test_registers_reset_by_name():
    text = mixture()
    assert "history = 6'h21;" in text
    assert re.search(r"if \(rst\) begin\n(.*<=.*\n)* +history <= 6'h21;\n(.*<=.*\n)* +end else if \(i__ready\)", text)


class Latch(wiring.Component):
    """A bit, a cycle later."""

    a: In(1)
    hit: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.hit.eq(self.a)
        return m


class Shell(wiring.Component):
    """What the part inside says, under the same name and masked."""

    a: In(1)
    hit: Out(1)
    mask: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.latch = latch = Latch()
        m.d.comb += [latch.a.eq(self.a), self.hit.eq(Cat([latch.hit]).any()), self.mask.eq(Mux(latch.hit, 5, 0))]
        return m


class Overwriting(wiring.Component):
    go: In(1)
    fault: In(1)
    value: In(4)
    held: Out(4)
    flags: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.go):
            with m.If(self.fault):
                m.d.sync += [self.held.eq(self.value), self.flags.eq(self.value)]
            m.d.sync += [self.held.eq(1), self.flags[1:3].eq(0)]
        return m


def test_no_assignment_follows_a_choice_that_assigns_the_same_bits():
    # Yosys 0.70 would take it for one before the choice
    text = emit(Overwriting(), "overwriting", config={}).text
    assert "held <= value" not in text
    assert "flags <= value" not in text
    assert "flags[0] <= value[0];" in text
    assert "flags[3] <= value[3];" in text


def test_output_named_as_that_of_a_submodule_is_driven():
    assert "assign hit = latch_hit;" in emit(Shell(), "shell", config={}).text


@pytest.mark.unit
@pytest.mark.flow
def test_same_configuration_gives_same_bytes():
    script = "from test_verilog import mixture; import sys; sys.stdout.write(mixture())"
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join([str(Path(__file__).parent), *filter(None, sys.path)])},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert texts == {mixture()}


@pytest.mark.unit
@pytest.mark.parametrize(("name", "expected"), [("DotpUnit", "dotp_unit"), ("NNRf", "nn_rf"), ("Lane2d", "lane2d")])
def test_module_names_are_snake_case(name: str, expected: str):
    assert snake_case(name) == expected


@pytest.mark.flow
@pytest.mark.parametrize("options", [[], ["-g2005"], ["-g2005-sv"]], ids=["default", "2005", "2005-sv"])
def test_icarus_reads_it(tmp_path: Path, options: list[str]):
    source = tmp_path / "mixture.v"
    source.write_text(mixture())
    assert run(tool("iverilog"), *options, "-Wall", "-o", tmp_path / "out", source) == ""


@pytest.mark.flow
def test_yosys_reads_it(tmp_path: Path):
    source = tmp_path / "mixture.v"
    source.write_text(mixture())
    run(tool("yosys"), "-q", "-p", f"read_verilog {source}; hierarchy -check -top mixture; proc; check -assert")


def stimulus(rng: random.Random, width: int) -> int:
    return rng.choice([rng.getrandbits(width), rng.getrandbits(width), 0, (1 << width) - 1, 1 << (width - 1)])


@pytest.mark.flow
@pytest.mark.parametrize("seed", range(2))
def test_verilog_behaves_like_the_source(tmp_path: Path, seed: int):
    require_same(Mixture(), mixture(), "mixture", tmp_path, stimulus, seed=seed)


class Accumulator(wiring.Component):
    """Sum of bytes."""

    add: In(8)  #: Summand.
    total: Out(16, init=7)  #: Sum so far.

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.total.eq(self.total + self.add)
        return m


class Soc(wiring.Component):
    """A memory with byte enables, a queue, and logic in bare modules around a component."""

    addr: In(3)
    data: In(16)
    we: In(2)
    read: In(1)
    push: In(1)
    pop: In(1)
    word: Out(16)
    seen: Out(16)
    first: Out(16)
    queued: Out(8)
    waiting: Out(1)
    total: Out(16)
    phase: Out(2)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = memory.Memory(shape=16, depth=8, init=[3, 1, 4, 1, 5, 9, 2, 6])
        write = ram.write_port(granularity=8)
        seen, old, now = ram.read_port(transparent_for=[write]), ram.read_port(), ram.read_port(domain="comb")
        m.submodules.queue = queue = fifo.SyncFIFO(width=8, depth=3)
        m.submodules.around = around = Module()
        around.submodules.inside = inside = Module()
        inside.submodules.accumulator = accumulator = Accumulator()
        inside.d.comb += accumulator.add.eq(self.data[:8] & self.read.replicate(8))
        around.d.comb += self.total.eq(accumulator.total)
        with around.FSM():
            with around.State("IDLE"):
                around.d.comb += self.phase.eq(1)
                with around.If(self.push):
                    around.next = "BUSY"
            with around.State("BUSY"):
                around.d.comb += self.phase.eq(2)
                with around.If(self.pop):
                    around.next = "IDLE"
        for port in (write, seen, old, now):
            m.d.comb += port.addr.eq(self.addr)
        m.d.comb += [
            write.data.eq(self.data),
            write.en.eq(self.we),
            seen.en.eq(self.read),
            self.seen.eq(seen.data),
            self.word.eq(old.data),
            self.first.eq(now.data),
            queue.w_data.eq(self.data),
            queue.w_en.eq(self.push),
            queue.r_en.eq(self.pop),
            self.queued.eq(queue.r_data),
            self.waiting.eq(queue.r_rdy),
        ]
        return m


@pytest.mark.flow
@pytest.mark.parametrize("design", [Mixture, Soc])
def test_verilator_has_no_complaint(tmp_path: Path, design: type[wiring.Component]):
    for name, text in emit(design(), "top", config=CoreConfig()).files().items():
        (tmp_path / name).write_text(text)
    lint = ["--lint-only", "-Wall", "--top-module", "top"]
    assert "Warning" not in run(tool("verilator-cli"), *lint, "-y", tmp_path, tmp_path / "top.v")


@pytest.mark.flow
@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize("reset", ["sync", "async-low"])
def test_system_behaves_like_the_source(tmp_path: Path, reset: str, initial: bool):
    emitted = emit(Soc(), "soc", config={}, prefix="my_", reset=reset, initial=initial)
    require_same(Soc(), emitted.text, "my_soc", tmp_path, random.Random.getrandbits, seed=1, reset=reset)


@pytest.mark.unit
def test_bare_modules_become_a_part_of_what_is_around_them():
    emitted = emit(Soc(), "soc", config={}, prefix="my_")
    assert emitted.manifest["hierarchy"] == {"my_soc": "my_soc", "my_soc.around_inside_accumulator": "my_accumulator"}
    # designs with different prefixes fit into one
    assert re.findall(r"^module (\w+)", emitted.text, re.MULTILINE) == ["my_accumulator", "my_soc"]


class Inside(wiring.Component):
    """A foreign module, or a bare module with a clock domain of its own."""

    value: Out(4)

    def __init__(self, inner: object) -> None:
        self._inner = inner
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = self._inner(self) if callable(self._inner) else self._inner
        return m


@pytest.mark.unit
def test_foreign_modules_are_instantiated():
    text = emit(
        Inside(lambda top: Instance("PAD", p_DEPTH=3, p_KIND="fast", i_a=Signal(2, name="a"), o_y=top.value)),
        "inside",
        config={},
    ).text
    assert re.search(r'PAD #\(\.DEPTH\(3\), \.KIND\("fast"\)\) inner \(\s+\.a\(2\'h0\),\s+\.y\(value\)', text)


def own_domain(local: bool) -> Module:
    inner = Module()
    inner.domains.own = ClockDomain(local=local)
    return inner


@pytest.mark.unit
def test_domain_that_cannot_be_shared_is_refused():
    with pytest.raises(ToolError, match=r"^clock domain own of submodule inner of Inside must be seen by everything"):
        emit(Inside(own_domain(local=True)), "inside", config={})
    emit(Inside(own_domain(local=False)), "inside", config={})


@pytest.mark.unit
def test_other_domains_have_their_own_clock_and_reset():
    text = emit(Inside(DomainRenamer("fast")(Accumulator())), "inside", config={}, reset="async-low").text
    assert ".fast_rst_n(fast_rst_n)" in text
    assert "always @(posedge fast_clk or negedge fast_rst_n)" in text


@pytest.mark.unit
@pytest.mark.parametrize("prefix", ["9x_", "a-b", " "])
def test_prefix_must_begin_an_identifier(prefix: str):
    accumulator = Accumulator()
    with pytest.raises(InputError, match=r"^prefix must be letters, digits and underscores, a letter first, not "):
        emit(accumulator, "accumulator", config={}, prefix=prefix)
    # Amaranth warns of components that are never used
    emit(accumulator, "accumulator", config={})


@pytest.mark.unit
def test_header_says_where_the_text_comes_from():
    emitted = emit(
        Accumulator(), "accumulator", config=PRESETS["ri5cy"], prefix="p_", command="xpulpnn generate", initial=False
    )
    assert re.match(r"// Generated by xpulpnn [\d.]+ ", emitted.text)
    assert "\n// SPDX-License-Identifier: Apache-2.0\n// Command: xpulpnn generate\n" in emitted.header
    assert "xpulpnn = false; mac_load_nn = false;" in emitted.header
    assert "// Sum of bytes.\nmodule p_accumulator (\n    // Clock;" in emitted.text
    assert "    // Summand.\n    input wire [7:0] add,\n" in emitted.text
    assert "initial" not in emitted.modules["p_accumulator"]


@pytest.mark.unit
def test_register_file_is_an_array():
    text = emit(RegFile(), "regfile", config={}).text
    assert "reg [31:0] x [1:31];" in text
    assert "else if (we_b & (addr_b == i[4:0])) x[i] <= data_b;" in text
    assert "assign rs2 = (rs2_addr == 5'h0) ? 32'h0 : x[rs2_addr];" in text
