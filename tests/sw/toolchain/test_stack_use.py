"""Stacks of linked programs: frames along their calls."""

import re
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS, ClusterConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sim.reference.programs.elf import load_for
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.build_options import ClusterLayout, Options

FRAMES = """#include <xp_cluster.h>
static void work(void *argument) {
    volatile char big[WORK];
    big[xp_core()] = argument != big;
}
static __attribute__((noinline)) int deeper(int turns) {
    volatile char big[0x200];
    big[turns & 1] = 1;
    return turns ? deeper(turns - 1) + big[0] : 0;
}
int main(void) {
    volatile char big[MAIN];
    big[xp_core()] = 1;
    xp_fork(0, work, 0);
    return deeper(DEPTH) < big[0];
}
"""


@pytest.mark.flow
@pytest.mark.parametrize("kind", compilers.COMPILERS)
def test_stacks_are_checked_when_linking(tmp_path: Path, kind: str):
    """Frames along direct calls and of work that is forked; what recursion takes more is found below the memory."""

    try:
        compilers.find_compiler(kind)
    except ToolError:
        pytest.skip(f"{kind} is not installed")

    def built(depth: int, main: int, work: int) -> Path:
        source, define = tmp_path / "main.c", (f"DEPTH={depth}", f"MAIN={main}", f"WORK={work}")
        source.write_text(FRAMES)
        options = Options(cluster=ClusterLayout(cores=2), define=define)
        build([source], tmp_path / "x.elf", compiler=kind, options=options)
        return tmp_path / "x.elf"

    cases = [
        (0x2000, 0x300, "stack", 2048, r"main \(8\d\d\d\) > xp_fork \(\d+\) > work \(\d+\)"),
        (0x200, 0x400, "core stack", 1024, r"xp_worker \(\d+\) > work \(10\d\d\)"),
    ]
    for main, work, name, size, path in cases[: 1 if kind == "zig" else None]:
        with pytest.raises(InputError, match=rf"^{name} must be at least \d+ bytes, not {size}, for {path}$") as raised:
            built(0, main, work)
        frames = map(int, re.findall(r"\((\d+)\)", str(raised.value)))
        assert f"at least {sum(frames)} bytes" in str(raised.value)
    if kind == "zig":
        return
    config = ClusterConfig(core=PRESETS["xpulpnn2"], cores=2)
    ended = ClusterSession(load_for(built(5, 0x200, 0x200), config, ()), config, output=lambda _: None).run(100_000)
    assert ended.reason is Reason.BAD_ACCESS
    assert re.search(
        r"stack overflow: store of \d bytes?: address 0x[0-9a-f]+ \(__stacks_bottom-0x[0-9a-f]+\), ", ended.text
    )
