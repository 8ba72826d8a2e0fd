"""A component in Amaranth's own simulator, and its Verilog fed with the same inputs by Icarus Verilog."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.sim import Simulator

from xpulpnn.emit.hierarchy import component_ports

Draw = Callable[[random.Random, int], int]
PULSES = {
    "none": "",
    "sync": "rst = 1; #1; clk = 1; #1; clk = 0; #1; rst = 0;",
    "async-low": "rst_n = 0; #1; rst_n = 1; #1;",
}


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def tool(name: str) -> str:
    path = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def simulate(dut, testbench, *, clocked: bool = False) -> None:
    """Run a test bench on a circuit in Amaranth's own simulator."""
    simulator = Simulator(dut)
    if clocked:
        simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def _simulated(component: wiring.Component, cycles: int, rng: random.Random, draw: Draw) -> list[str]:
    """Bits of all inputs and outputs of every cycle, in port order."""
    rows: list[str] = []
    ports = component_ports(component)
    values = [Value.cast(value) for _path, _member, value in component.signature.flatten(component)]

    async def bench(ctx):
        for _ in range(cycles):
            for port, value in zip(ports, values, strict=True):
                if port.direction == "input":
                    ctx.set(value, draw(rng, port.width))
            shown = [ctx.get(v) & ((1 << p.width) - 1) for p, v in zip(ports, values, strict=True)]
            rows.append("".join(f"{value:0{p.width}b}" for p, value in zip(ports, shown, strict=True)))
            await ctx.tick()

    simulate(component, bench, clocked=True)
    return rows


def _bench(ports, top: str, count: int, rows: Path, reset: str) -> str:
    """A bench that resets a module, applies recorded inputs and compares outputs, from the third cycle on if reset."""
    inputs = [port.name for port in ports if port.direction == "input"]
    outputs = [port.name for port in ports if port.direction == "output"]
    wiring_of = ", ".join(f".{port.name}(s_{port.name})" for port in ports)
    first = 0 if reset == "none" else 2
    lines = [
        "module bench; reg clk = 0, rst = 0, rst_n = 1; integer row, bad = 0;",
        f"reg [{sum(port.width for port in ports) - 1}:0] rows[0:{count - 1}];",
        *(f"{'reg' if p.direction == 'input' else 'wire'} [{p.width - 1}:0] s_{p.name};" for p in ports),
        *(f"reg [{port.width - 1}:0] v_{port.name};" for port in ports),
        f"{top} dut(.clk(clk), .{'rst_n(rst_n)' if reset == 'async-low' else 'rst(rst)'}, {wiring_of});",
        f'initial begin $readmemh("{rows}", rows);',
        *(f"s_{name} = 0;" for name in inputs if reset != "none"),
        PULSES[reset],
        f"for (row = 0; row < {count}; row = row + 1) begin",
        f"{{{', '.join(f'v_{port.name}' for port in ports)}}} = rows[row];",
        *(f"s_{name} = v_{name};" for name in inputs),
        "#1;",
        *(
            f'if (row >= {first} && s_{name} !== v_{name}) begin bad = bad + 1; $display("%0d {name}", row); end'
            for name in outputs
        ),
        'clk = 1; #1; clk = 0; #1; end $display("differences: %0d", bad); end endmodule',
    ]
    return "\n".join(lines)


def require_same(
    component: wiring.Component, text: str, top: str, folder: Path, draw: Draw, *, seed: int, reset: str = "none"
) -> None:
    """The outputs of ``text`` are those of ``component`` in each of 400 cycles with random inputs."""
    rows = _simulated(component, 400, random.Random(seed), draw)
    vectors, source = folder / "rows.hex", folder / "replayed.v"
    vectors.write_text("\n".join(f"{int(bits, 2):x}" for bits in rows))
    source.write_text(text + _bench(component_ports(component), top, len(rows), vectors, reset))
    run(tool("iverilog"), "-g2005", "-o", folder / "bench", source)
    assert run(tool("vvp"), "-n", folder / "bench").splitlines()[-1] == "differences: 0", f"seed {seed}"
