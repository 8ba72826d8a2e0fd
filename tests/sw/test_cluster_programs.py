"""Programs for the cores of a cluster, simulated and on the design: kernels, C with every compiler, copies by DMA."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.designs import FOUR

from xpulpnn.config import PRESETS, ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn_sim import simulate as simulate_program
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import cluster_executable
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors, reference
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.programs import bare
from xpulpnn_sw.kernels.programs.bare import cluster_program
from xpulpnn_sw.layers.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.build import Options
from xpulpnn_sw.toolchain.build_options import ClusterLayout
from xpulpnn_sw.toolchain.headers.generate import cluster_map

from .elf import FORK, SOURCES, ClusterBuild, run, simulate


@pytest.mark.flow
@pytest.mark.parametrize(("kind", "cores", "quanta"), [("gcc", 1, (64,)), ("gcc", 3, (1, 1000)), ("zig", 5, (64,))])
def test_teams(build: ClusterBuild, kind: str, cores: int, quanta: tuple[int, ...]):
    path = build("cluster_team.c", cores=cores, kind=kind)
    for quantum in quanta:
        ran = simulate(path, cores, quantum)
        assert ran.end.ok, f"quantum {quantum}: {ran.end.text}: line of cluster_team.c"
        assert sorted(ran.output.split("\n")[:-1]) == sorted(f"core {core}" for core in range(cores))
    # cores beyond those of the program stay out of it
    if cores == 3:
        ran = simulate(path, 5)
        assert ran.end.ok
        assert max(iss.executed for iss in ran.session.harts[3:]) < 30 < ran.session.harts[2].executed


@pytest.mark.cosim
def test_teams_on_the_design(build: ClusterBuild):
    program = load(build("cluster_team.c", cores=FOUR.cores))
    result = run_program(program, FOUR, Machine(max_cycles=200_000), check=True)
    assert result.exit.ok, result.exit.text
    assert result.mismatches == 0


@pytest.mark.cosim
def test_interrupts_of_the_timer_are_counted(build: ClusterBuild):
    program = load(build("cluster_timer.c", cores=FOUR.cores))
    result = run_program(program, FOUR, Machine(max_cycles=20_000), check=True)
    assert (result.exit.ok, result.mismatches, result.interrupts) == (True, 0, 3)


HEIGHT, WIDTH, CHANNELS, OUTPUTS, KERNEL, MULTIPLIER, SHIFT = 6, 4, 8, 4, 3, 5, 12


def layer_data() -> str:
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, (HEIGHT, WIDTH, CHANNELS))
    filters = rng.integers(-128, 128, (OUTPUTS, KERNEL, KERNEL, CHANNELS))
    sums = layers.conv(image, filters, None, (1, 1), layers.Pads(1, 1, 1, 1)).astype(np.int64)
    bias = (128 << SHIFT) // MULTIPLIER - sums.mean(axis=(0, 1)).astype(np.int64)
    results = np.clip((sums + bias) * MULTIPLIER >> SHIFT, 0, 255)
    assert 10 < results.mean() < 245
    assert len(np.unique(results)) > 30
    sizes = {"HEIGHT": HEIGHT, "WIDTH": WIDTH, "CHANNELS": CHANNELS, "OUTPUTS": OUTPUTS, "KERNEL": KERNEL}
    sizes |= {"MULTIPLIER": MULTIPLIER, "SHIFT": SHIFT}
    tensors = {"L2_SPACE uint8_t input": image, "L2_SPACE int8_t filters": filters}
    tensors |= {"L2_SPACE uint8_t expected": results, "L1_SPACE int32_t bias": bias}
    lines = [f"#define {name} {value}" for name, value in sizes.items()]
    for name, values in tensors.items():
        lines.append(f"{name}[{values.size}] = {{{','.join(map(str, values.ravel().tolist()))}}};")
    return "\n".join(lines)


@pytest.mark.flow
@pytest.mark.parametrize(("kind", "cores", "define"), [("gcc", 4, ("OLDER",)), ("zig", 8, ())])
def test_programs_in_the_shape_of_public_ones(build: ClusterBuild, tmp_path: Path, kind: str, cores: int, define):
    (tmp_path / "layer_data.h").write_text(layer_data())
    names = (*define, f"NUM_CORES={cores}")
    path = build("cluster_layer.c", cores=cores, kind=kind, define=names, include=(tmp_path,))
    cycles = set()
    for quantum in (3, 64) if cores == 4 else (64,):
        ran = simulate(path, cores, quantum)
        assert ran.end.ok, ran.output
        assert ran.output.endswith("wrong 0\n")
        cycles.add(int(ran.output.split()[1]))
        executed = [iss.executed for iss in ran.session.harts]
        assert min(executed[1:3]) > 1000
    # time is exact wherever a turn ends, but for the wait of a hart for the end of a turn
    assert max(cycles) - min(cycles) <= 2 * 64


@pytest.mark.flow
def test_one_core_runs_the_same_source(tmp_path: Path):
    (tmp_path / "layer_data.h").write_text(layer_data())
    path = tmp_path / "one.elf"
    toolchain.build([SOURCES / "cluster_layer.c"], path, options=Options(include=(tmp_path,)))
    assert run(path, preset("xpulpnn2")).end.ok
    with pytest.raises(InputError, match="to run on 2 cores, not for one core: xpulpnn cc --cluster --cores 2 does"):
        simulate(path, 2)


COUNTED = """
#include <pmsis.h>
PI_L1 static volatile int words[64];
PI_L1 static uint32_t found[NUM_CORES][3];
static void work(void *argument) {
    pi_perf_conf(1 << PI_PERF_LD | 1 << PI_PERF_ST | 1 << PI_PERF_INSTR | 1 << PI_PERF_CYCLES);
    pi_perf_reset();
    pi_perf_start();
    for (int i = 0; i < 20 * (pi_core_id() + 1); ++i) (void)words[i & 63];
    pi_perf_stop();
    const int events[3] = {PI_PERF_LD, PI_PERF_ST, PI_PERF_TCDM_CONT};
    for (int i = 0; i < 3; ++i) found[pi_core_id()][i] = pi_perf_read(events[i]);
}
int main(void) {
    pi_cl_team_fork(NUM_CORES, work, NULL);
    for (int core = 0; core < NUM_CORES; ++core)
        printf("%u %u %u\\n", (unsigned)found[core][0], (unsigned)found[core][1], (unsigned)found[core][2]);
    return 0;
}
"""


@pytest.mark.flow
def test_counters_are_those_of_the_core(build: ClusterBuild):
    core = replace(PRESETS["xpulpnn"], performance_counters=True)
    ran = simulate(build(COUNTED, cores=3, core=core), 3, core=core)
    assert ran.end.ok, ran.end.text
    counts = [list(map(int, line.split())) for line in ran.output.splitlines()]
    # the loop loads once in each turn; starting and stopping loads and stores a few times
    for number, (loads, stores, contention) in enumerate(counts, 1):
        assert 20 * number <= loads < 20 * number + 10
        assert stores < 10
        assert contention == 0


def test_public_names_of_events_are_as_many_as_there_are():
    names = re.findall(r"PREFIX##(\w+)", (compilers.RUNTIME / "include/pmsis.h").read_text())
    assert names[len(PERFORMANCE_EVENTS) - 1 :] == ["TCDM_CONT", "CYCLES"]


KEPT = """
static void work(void *argument) {
    xp_critical_enter();
}
int main(void) {
    xp_fork(0, work, 0);
    return 0;
}
"""


@pytest.mark.flow
@pytest.mark.parametrize("kind", compilers.COMPILERS)
def test_a_deadlock_names_the_lines_of_the_program(build: ClusterBuild, kind: str):
    end = simulate(build(KEPT, cores=3, kind=kind), 3).end
    assert end.reason is Reason.DEADLOCK
    assert "core 0: waits for barrier 0 at 0x1c" in end.text
    line = (FORK + KEPT).split("\n").index("    xp_critical_enter();") + 1
    assert re.search(rf"cores 1, 2: waits for mutex 0 at 0x1c[0-9a-f]+ \(work[^)]*\), main\.c:{line}$", end.text)


OVERFLOW = """
static void deep(void *argument) {
    volatile char big[0x300];
    if (xp_core() != 1) return;
    for (unsigned i = 0; i < sizeof big; ++i) big[i] = (char)i;
    if (argument) deep((char *)argument - 1);
    for (unsigned i = 0; i < sizeof big; ++i) big[i] += 1;
}
int main(void) {
    xp_fork(0, deep, (void *)DEPTH);
    return 0;
}
"""


@pytest.mark.flow
def test_a_stack_that_overflows_is_reported(build: ClusterBuild):
    assert simulate(build(OVERFLOW, cores=2, define=("DEPTH=0",)), 2).end.ok
    ran = simulate(build(OVERFLOW, cores=2, define=("DEPTH=1",)), 2)
    assert ran.end.code == 0x4000
    assert ran.errors + ran.output == "the stack of core 1 has overflowed: give it more with --stack or --core-stack\n"
    layout = ClusterLayout(cores=2, core_stack=0x800)
    assert simulate(build(OVERFLOW, define=("DEPTH=1",), layout=layout), 2).end.ok


@pytest.mark.flow
def test_too_large_a_team(build: ClusterBuild):
    ran = simulate(build("int main(void) { xp_fork(3, 0, 0); }", cores=2), 2)
    assert ran.end.code == 0x3000
    assert ran.errors + ran.output == "a team must have at most 2 cores, not 3\n"
    with pytest.raises(compilers.CompileError, match="NUM_CORES must be at most the cores of the cluster"):
        build("#include <pmsis.h>\nint main(void) { return 0; }", cores=2, define=("NUM_CORES=3",))


LARGE = "#include <pmsis.h>\nPI_L1 char large[SIZE];\nint main(void) { return large[5]; }"


@pytest.mark.flow
@pytest.mark.parametrize("kind", compilers.COMPILERS)
def test_programs_larger_than_the_memory_do_not_link(build: ClusterBuild, kind: str):
    layout = ClusterLayout(cores=2, tcdm=16 << 10)
    with pytest.raises(compilers.CompileError, match="tcdm"):
        build(LARGE, kind=kind, layout=layout, define=("SIZE=16000",))
    if kind == "zig":
        return
    path = build(LARGE, kind=kind, layout=layout, define=("SIZE=12000",))
    assert simulate(path, 2, tcdm_bytes=16 << 10).end.ok
    with pytest.raises(InputError, match=r"^tcdm_bytes must be at least 16384"):
        simulate(path, 2, tcdm_bytes=8 << 10)
    with pytest.raises(InputError, match=r"^cores must be at least 2"):
        simulate(path, 1)


def test_layouts():
    wrong = {"cores": {"cores": 17}, "TCDM": {"tcdm": 3000}, "core stack": {"core_stack": 24}, "stack": {"stack": 0}}
    for named, values in (wrong | {"stacks": {"tcdm": 4096}}).items():
        with pytest.raises(InputError, match=f"^{named} must be "):
            ClusterLayout(**values)


MANUAL = """
TCDM                          0x10000000
L2                            0x1c000000
EVENT_UNIT                    0x10204000
SHARED_EVENT_UNIT             0x10200800
TIMER                         0x10200400
CONTROL                       0x10200000
DMA                           0x10204400
TEST_SET_BIT                  20
EU_DISPATCH_FIFO              0x80
EU_MUTEX                      0xc0
EU_BARRIER                    0x200
EU_BARRIER_TRIGGER_WAIT_CLEAR 0x1c
EU_WAIT_CLEAR                 0x3c
EU_LINE_DISPATCH              18
CONTROL_RETURN_DONE           0x80000000
TIMER_COUNT_LOW               0x8
DMA_FROM_EXTERNAL             0x20000
"""
"""Addresses as software for PULP has them, typed independently of the enumerations."""


def test_the_map_for_c_is_that_of_the_manual():
    defined = [line.split() for line in cluster_map().splitlines() if line.startswith("#define XP_")]
    numbers = {words[1].removeprefix("XP_"): int(words[2].rstrip("u"), 0) for words in defined if len(words) == 3}
    manual = {name: int(value, 0) for name, value in map(str.split, MANUAL.strip().splitlines())}
    assert {name: numbers[name] for name in manual} == manual


@pytest.mark.flow
def test_the_commands(written, refused, capfd):
    written("main.c", FORK + "int main(void) { return XP_CORES != 5 || XP_TCDM_BYTES != 32768; }\n")
    assert cli.main(["cc", "main.c", "--cluster", "--cores", "5", "--tcdm", "32K", "--core-stack", "512"]) == 0
    assert cli.main(["iss", "main.elf"]) == 0
    assert " instructions on 5 cores" in capfd.readouterr().err
    assert cli.main(["iss", "main.elf", "--cores", "6"]) == 0
    assert " instructions on 6 cores" in capfd.readouterr().err
    done = simulate_program("main.elf", config=ClusterConfig(core=PRESETS["xpulpnn2"], cores=6), quantum=10)
    assert done.exit.ok
    assert done.instructions > 100
    assert simulate_program("main.elf").exit.ok
    with pytest.raises(InputError, match=r"main.elf must be run with --cores 5"):
        simulate_program("main.elf", config="xpulpnn2")
    assert cli.main(["iss", "main.elf", "--preset", "xpulpnn3"]) == 0
    assert " instructions on 5 cores" in capfd.readouterr().err
    assert refused("cc", "main.c", "--cluster", "--tcdm", "many").startswith("--tcdm must be a number of bytes")
    assert cli.main(["cc", "--headers", "sdk", "--preset", "cluster"]) == 0
    assert "#define XP_CORES 8" in Path("sdk/xp_config.h").read_text()
    assert ".stacks" in Path("sdk/link.ld").read_text()


COPIES = "cluster_dma.c"
BYTES = 66_000

OUTSIDE = """#include <pmsis.h>
PI_L1 static char inside[64];
int main(void) {
    pi_cl_dma_cmd_t copy;
    pi_cl_dma_cmd(0x30000000u, (uint32_t)(uintptr_t)inside, 64, PI_CL_DMA_DIR_EXT2LOC, &copy);
    pi_cl_dma_cmd_wait(&copy);
    return 0;
}
"""

EXHAUSTED = """#include <pmsis.h>
int main(void) {
    for (int i = 0; i < 17; ++i) xp_dma_identifier();
    return 0;
}
"""


@pytest.mark.cosim
def test_copies(build: ClusterBuild):
    path = build(COPIES, cores=FOUR.cores)
    ran = simulate(path, FOUR.cores, 5)
    assert ran.end.ok, f"{ran.end.text}: line of {COPIES}"
    assert ran.output.startswith(f"{BYTES} bytes in ")
    executable, printed = load(path), []
    machine = Machine(max_cycles=400_000, l2_latency=4)
    result = run_program(executable, FOUR, machine, check=True, output=lambda output: printed.append(output.data))
    assert result.exit.ok, f"{result.exit.text}: line of {COPIES}"
    assert result.mismatches == 0
    cycles = int(b"".join(printed).split()[-2])
    # 8 bytes per cycle but for the calls, whose code may have to be fetched, the latency and the last write
    assert BYTES / 8 < cycles < BYTES / 8 + 1000


@pytest.mark.cosim
def test_copies_from_nowhere_end_the_run(build: ClusterBuild):
    path = build(OUTSIDE, cores=FOUR.cores)
    result = run_program(load(path), FOUR, Machine(max_cycles=100_000))
    assert result.exit.reason is Reason.BAD_ACCESS
    assert result.exit.text == "the DMA engine reads outside memory: address 0x30000000"
    end = simulate(path, FOUR.cores).end
    assert end.reason is Reason.BAD_ACCESS
    assert "address 0x30000000" in end.text


@pytest.mark.flow
def test_without_identifiers_there_is_a_deadlock(build: ClusterBuild):
    end = simulate(build(EXHAUSTED, cores=2), 2).end
    assert end.reason is Reason.DEADLOCK
    assert "core 0: waits for an identifier of the DMA engine at 0x1c" in end.text


FULL = preset("xpulpnn-full")


def results(layer, variant: str, cores: int, quantum: int, placement="padded") -> tuple[str, np.ndarray, np.ndarray]:
    bits = 4
    precision = KERNELS["conv" if isinstance(layer, ConvLayer) else "matmul"].uniform(bits)
    config = preset("xpulpnn2") if variant.startswith("x2") else FULL
    cluster = ClusterConfig(core=config, cores=cores)
    case = Case(layer=layer, precision=precision, variant=variant, config=cluster, placement=placement)
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    program = cluster_program(kernel, cores)
    ran = run(cluster_executable(case, program), cluster, quantum=quantum)
    memory = np.frombuffer(ran.session.memory.read_bytes(TCDM_BASE, len(program.data)), np.uint8)
    return ran.end.text, kernel.output.decode(kernel.image, memory), reference(layer, tensors, precision)


@pytest.mark.flow
@pytest.mark.parametrize(("text", "variant", "cores", "quantum"), [
    # other variants and layers: xpulpnn cosim KERNEL --cores N --variant all
    ("5x6x8:8x3x3", "nn_4x4", 1, 64), ("4x3x8:4x3x3", "nn_4x4", 8, 1), ("4x3x8:4x3x3", "rv32im_2x2", 3, 1000),
    ("4x3x8:4x3x3", "x2_4x4", 3, 5), ("7x4x8:4x2x3:s=2x1", "cu_4x2", 16, 5), ("4x16x13", "nn_4x2", 8, 3),
])  # fmt: skip
def test_cores_compute_the_layer_together(text, variant, cores, quantum):
    layer = ConvLayer.parse(text) if ":" in text else MatmulLayer.parse(text)
    end, got, expected = results(layer, variant, cores, quantum)
    assert (end, got.tolist()) == ("pass", expected.tolist())


@pytest.mark.flow
def test_a_program_without_its_barrier_ends_too_early(monkeypatch):
    """Core 0 is done first and reports at once; the shares of the others are not there yet."""
    waits = "    p.elw t0, {barrier}(gp)\n"
    begin, *others, end = bare.CLUSTER_CALLER.split(waits)
    assert len(others) == 2
    monkeypatch.setattr(bare, "CLUSTER_CALLER", begin + waits + "".join(others) + end)
    end, got, expected = results(ConvLayer.parse("5x6x8:8x3x3"), "nn_4x4", 8, 10_000)
    assert end == "pass"
    assert (got != expected).any()


@pytest.mark.flow
@pytest.mark.parametrize(("right", "wrong", "ends"), [
    ("bne a1, zero, set", "bne a1, zero, sleep", r"deadlock.*waits for barrier 0"),
    # another value in a register of the caller
    ("csrr s1, mcycle", "csrr s1, mcycle; li s2, 5", "core 0: fail"),
])  # fmt: skip
def test_wrong_callers_are_noticed(monkeypatch, right, wrong, ends):
    monkeypatch.setattr(bare, "CLUSTER_CALLER", bare.CLUSTER_CALLER.replace(right, wrong))
    end, _, _ = results(ConvLayer.parse("5x6x8:8x3x3"), "nn_4x4", 4, 64)
    assert re.match(ends, end, re.DOTALL), end
