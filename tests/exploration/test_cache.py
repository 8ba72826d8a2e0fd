"""Results of flows on disk: what is a hit, what is not, and what happens to broken entries."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest
from tests.exploration.sample_results import RecordingFlow, design

from xpulpnn.config import CoreConfig, preset
from xpulpnn.errors import ConfigError
from xpulpnn.field_values import apply_settings
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.exploration.results import cached_flow, emit_design

pytestmark = [pytest.mark.flow, pytest.mark.usefixtures("own_cache")]
DESIGN = design("module a; endmodule", "a")


@pytest.mark.parametrize(
    ("flow", "verilog", "known"),
    [
        (RecordingFlow(), DESIGN.verilog, True),
        (RecordingFlow(), "// widths = 8\nmodule a; endmodule\n  // end", True),
        (RecordingFlow(version="2"), DESIGN.verilog, False),
        (RecordingFlow(script="speed"), DESIGN.verilog, False),
        (RecordingFlow(name="builtin"), DESIGN.verilog, False),
        (RecordingFlow(), "module a; wire b; endmodule", False),
    ],
)
def test_whatever_determines_the_result_is_in_the_key(flow: RecordingFlow, verilog: str, known: bool) -> None:
    first, hit = cached_flow(RecordingFlow(), DESIGN)
    assert not hit
    second, hit = cached_flow(flow, replace(DESIGN, verilog=verilog))
    assert (hit, len(flow.seen)) == (known, not known)
    assert second == first or not known


@pytest.mark.parametrize("text", ["", "{", "[]", '{"flow": "asic"}', '{"tools": {}, "conditions": [], "path": 1}'])
def test_broken_entries_are_made_anew(own_cache: Path, text: str) -> None:
    flow = RecordingFlow()
    first, _ = cached_flow(flow, DESIGN)
    (entry,) = (own_cache / "flows").iterdir()
    entry.write_text(text)
    assert cached_flow(flow, DESIGN) == (first, False)
    assert cached_flow(flow, DESIGN) == (first, True)


def test_designs_are_emitted_once_per_configuration(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = preset("xpulpnn")
    emitted = emit_design("nnrf", config)
    assert (emitted.top, emitted.module, emitted.config) == ("nnrf", "nnrf", config)
    assert "module nnrf" in emitted.verilog
    emit_design("nnrf", apply_settings(config, {"widths": "16,8"}))
    assert len([entry for entry in (own_cache / "designs").iterdir() if entry.name.startswith("nnrf-")]) == 2
    monkeypatch.setattr("xpulpnn_sim.tools.components.emit_top", None)
    assert emit_design("nnrf", config) == emitted


def test_who_asks_at_the_same_time_waits_for_the_design(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted: list[str] = []

    def emit_top(top: str, config: CoreConfig, *, both_edges: bool) -> EmittedVerilog:
        emitted.append(top)
        sleep(0.2)
        return EmittedVerilog(header="", modules={top: "module\n"}, manifest={"top": top}, rtlil={})

    monkeypatch.setattr("xpulpnn_sim.tools.components.emit_top", emit_top)
    with ThreadPoolExecutor(3) as pool:
        emissions = list(pool.map(lambda _: cached_emission("nnrf", preset("xpulpnn")), range(3)))
    assert emitted == ["nnrf"]
    assert emissions == [("\nmodule\n", {"top": "nnrf"})] * 3
    assert len(list((own_cache / "designs").iterdir())) == 1


def test_a_component_the_configuration_lacks_is_refused() -> None:
    with pytest.raises(ConfigError):
        emit_design("nnrf", preset("ri5cy"))
