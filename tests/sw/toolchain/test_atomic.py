"""Atomic operations of memory give what the host's give, and neither interrupts nor other cores come between."""

import random
import shutil
import subprocess
from itertools import accumulate
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cli import main as cli
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain.build import Options
from xpulpnn_sw.toolchain.build_options import ClusterLayout

from ..elf import FORK, run

CORE = PRESETS["xpulpnn"]

OPERATIONS = """\
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define SHOW(value) printf("%llx ", (unsigned long long)(value))
#define TRY(type) { \\
    type place = (type)0x8123456789abcdefull, old = place, one = (type)0xf0f1f2f3f4f5f6f7ull; \\
    SHOW(__atomic_fetch_add(&place, one, 5)); \\
    SHOW(__atomic_fetch_sub(&place, 99, 5)); \\
    SHOW(__atomic_fetch_xor(&place, one, 5)); \\
    SHOW(__atomic_fetch_or(&place, 0x41, 5)); \\
    SHOW(__atomic_fetch_nand(&place, one, 5)); \\
    SHOW(__atomic_fetch_and(&place, 0x7e, 5)); \\
    SHOW(__atomic_add_fetch(&place, 7, 5)); \\
    SHOW(__atomic_exchange_n(&place, one, 5)); \\
    SHOW(__sync_lock_test_and_set(&place, old)); \\
    SHOW(__sync_fetch_and_nand(&place, 3)); \\
    SHOW(__sync_fetch_and_sub(&place, 8)); \\
    SHOW(__sync_val_compare_and_swap(&place, one, old)); \\
    SHOW(__sync_val_compare_and_swap(&place, place, old)); \\
    SHOW(__sync_bool_compare_and_swap(&place, old, one)); \\
    for (int i = 0; i < 2; ++i) { \\
        SHOW(__atomic_compare_exchange_n(&place, &old, 5, 0, 5, 5)); \\
        SHOW(old); \\
        SHOW(__atomic_load_n(&place, 5)); \\
    } \\
    __atomic_store_n(&place, 77, 5); \\
    SHOW(place); \\
    puts(""); }
struct odd { char bytes[24]; } first = {"first words."}, second = {"second text."}, got, last;
_Atomic struct odd shared;
_Atomic double real = 1.5;
int main(void) {
    TRY(uint8_t) TRY(uint16_t) TRY(uint32_t) TRY(uint64_t)
    atomic_store(&shared, first);
    got = atomic_exchange(&shared, second);
    puts(got.bytes);
    for (int i = 0; i < 2; ++i) {
        SHOW(atomic_compare_exchange_strong(&shared, &got, first));
        puts(got.bytes);
    }
    last = atomic_load(&shared);
    real += 2;
    printf("%s %g\\n", last.bytes, real);
    return 0;
}
"""

INTERRUPTED = """\
#include <stdatomic.h>
#include <stdio.h>
#include <xpulpnn_rt.h>
static _Atomic unsigned sum, taken;
void xp_irq_16(void) { ++sum; ++taken; }
int main(void) {
    xp_irq_enable(16);
    xp_irq_on();
    for (int i = 0; i < 400; ++i)
        ++sum;
    xp_irq_off();
    printf("%u %d\\n", sum - taken, taken > 30);
    return 0;
}
"""

CLUSTER = (
    FORK
    + """\
#include <stdatomic.h>
static _Atomic unsigned sum;
static _Atomic unsigned long long wide;
static void each(void *unused) {
    for (int i = 0; i < 100; ++i) {
        ++sum;
        wide += 0x100000001;
    }
}
int main(void) {
    xp_fork(XP_CORES, each, NULL);
    printf("%u %llx\\n", sum, wide);
    return 0;
}
"""
)


@pytest.mark.flow
def test_operations_are_those_of_the_host(kind: str, tmp_path: Path):
    host = shutil.which("gcc")
    if host is None:
        pytest.skip("no GCC for this machine")
    (tmp_path / "main.c").write_text(OPERATIONS)
    subprocess.run([host, "-w", "main.c", "-latomic", "-o", "host"], cwd=tmp_path, check=True)
    expected = subprocess.run(["./host"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    toolchain.build(
        [tmp_path / "main.c"], tmp_path / "a.elf", compiler=kind, options=Options(config=CORE, extra=("-w",))
    )
    ran = run(tmp_path / "a.elf", CORE)
    assert (ran.end.ok, ran.output) == (True, expected)


@pytest.mark.flow
def test_nothing_interrupts_an_operation(kind: str, tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(INTERRUPTED)
    toolchain.build([Path("main.c")], Path("a.elf"), compiler=kind, options=Options(config=CORE, extra=("-w",)))
    rng = random.Random(4)
    places = accumulate((rng.randrange(150, 250) for _ in range(70)), initial=600)
    lines = [word for at in places for word in ("--irq", f"16@{at}")]
    assert cli.main(["iss", "a.elf", *lines]) == 0
    assert capfd.readouterr().out == "400 1\n"


@pytest.mark.cosim
@pytest.mark.parametrize("command", ["iss --quantum 7", "run --lockstep"])
def test_cores_of_a_cluster_take_turns(command: str, tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(CLUSTER)
    options = Options(config=CORE, cluster=ClusterLayout(cores=4), extra=("-w",))
    toolchain.build([Path("main.c")], Path("a.elf"), options=options)
    assert cli.main([*command.split(), "a.elf"]) == 0
    assert capfd.readouterr().out == "400 19000000190\n"
