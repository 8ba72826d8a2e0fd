"""Steps that succeed, fail, crash or hang, for processes that have no access to the test that starts them."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.results import EmittedDesign, FlowOutput, FlowResult, cached
from xpulpnn_sim.exploration.task import StepOutcome

LONG_S = 600


def emit(top, config):
    if config.rvfi:
        raise ToolError("generator must be able to build this, not rvfi")
    manifest = {"top": top, "configuration": {"xpulpnn": config.xpulpnn}}
    return EmittedDesign(top=top, module=top, config=config, verilog=f"module {top}; endmodule\n", manifest=manifest)


@dataclass(frozen=True)
class FakeStep:
    """Does ``act`` for designs with ``preset`` (ri5cy: without XpulpNN) and succeeds for all others.

    ``slow`` takes a second for every design, ``cached`` has one result for all, kept in the cache. Each run adds a
    line to ``diary``.
    """

    name: str
    diary: Path
    act: str = ""
    preset: str = "ri5cy"
    version: str = "1"
    kind: str = "flows"
    wall_s: float = 0.0
    repeat: int = 1

    def settings(self):
        return {"repeat": str(self.repeat), "version": self.version, "tool": os.environ.get("FAKE_TOOL", "1.0")}

    def _make(self, line="made"):
        with self.diary.open("a") as file:
            file.write(f"{line}\n")
        fields = {"flow": self.name, "tools": {"fake": self.version}, "wall_s": self.wall_s}
        return FlowOutput(result=FlowResult(conditions=["None."], area_kge=1.5, **fields), files={})

    def run(self, design):
        if self.act == "cached":
            made, _ = cached("flows", "fake", FlowOutput, self._make)
            return StepOutcome(result=made.result)
        preset = "xpulpnn" if design.config.xpulpnn else "ri5cy"
        result = self._make(f"{self.name} {preset}").result
        if self.act == "slow":
            time.sleep(1)
        if self.act in ("", "slow") or preset != self.preset:
            return StepOutcome(result=result)
        if self.act == "wrong":
            return StepOutcome(result=result, error="results must equal the reference, not differ 3 times")
        if self.act == "tool":
            raise ToolError("yosys must be able to\nsynthesise it")
        if self.act == "bug":
            raise ZeroDivisionError("division by zero")
        if self.act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.act == "exit":
            os._exit(3)
        child = subprocess.Popen(["sleep", str(LONG_S)])
        Path(f"{self.diary}.pid").write_text(f"{child.pid} {os.getpid()}")
        time.sleep(LONG_S)
        return StepOutcome(result=result)
