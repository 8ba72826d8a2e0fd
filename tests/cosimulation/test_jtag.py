"""Raw accesses by JTAG to programs on the compiled designs: cores that halt together, and hostile debuggers."""

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from random import Random

import pytest
from tests.jtag import Jtag

from xpulpnn.isa.csr import CSR_BY_NAME, DCSR_STOPCOUNT_BIT
from xpulpnn.isa.debug import IDCODE, Control, DmReg, Status, TapRegister
from xpulpnn_sim.reference.programs.elf import load

pytestmark = [pytest.mark.cosim, pytest.mark.flow]

XPULPNN = (sys.executable, "-m", "xpulpnn_sim")
DCSR, MCYCLE, DPC = (CSR_BY_NAME[name].address for name in ("dcsr", "mcycle", "dpc"))
HOSTILE_S = 600  # seconds of a long run
TOGETHER = 10  # cycles within which all cores are in debug mode
READS, READ_CYCLES = 20, 200  # of a register of the module, and the most cycles that one takes on halted cores
LONG = "XPULPNN_DEBUG_TESTS" in os.environ

BARRIERS = """
#include <xp_team.h>
#ifdef XP_CLUSTER
#define SHARED __attribute__((section(".data_l1"))) volatile unsigned
#else
#define SHARED volatile unsigned
#endif
/* what lies outside of the cluster takes longer than a halt may */
SHARED rounds[XP_CORES] = {0}, total = 0, wrong = 0, enough = 0, last = 0;
static void work(void *argument) {
    (void)argument;
    unsigned mine = xp_core(), round = 0;
    do {
        rounds[mine] = ++round;
        for (volatile unsigned wait = 0; wait < 3 * mine; ++wait) {
        }
        xp_critical_enter();
        ++total;
        xp_critical_exit();
        if (mine == 0)
            last = enough;
        xp_barrier();
        for (unsigned core = 0; core < XP_CORES; ++core)
            wrong += rounds[core] != round;
        xp_barrier();
    } while (!last);
}
int main(void) {
    total = wrong = 0;
    xp_fork(0, work, 0);
    return wrong != 0 || total != XP_CORES * rounds[0];
}
"""


@contextmanager
def served(program, *options):
    """A program that runs, its process and a way to the port at which it serves a debugger."""
    line = [*XPULPNN, "run", str(program), "--jtag", "0", *options]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            for text in run.stdout:
                if match := re.search(r"served at port (\d+)", text):
                    yield run, int(match[1])
                    break
        finally:
            run.kill()


def compiled(source, folder, *options):
    if shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("riscv64-unknown-elf-gcc is not installed")
    (folder / "program.c").write_text(source)
    program = folder / "program.elf"
    subprocess.run([*XPULPNN, "cc", folder / "program.c", *options, "-o", program], check=True, capture_output=True)
    return program, load(program).symbols


def cycles_of_reads(jtag):
    """Cycles that pass for the selected core, which is halted, while a debugger asks now and then."""
    before = jtag.csr(DCSR)
    jtag.set_csr(DCSR, before & ~(1 << DCSR_STOPCOUNT_BIT))
    begun = jtag.csr(MCYCLE)
    for _ in range(READS):
        jtag.read(DmReg.DMSTATUS)
        time.sleep(0.005)
    passed = jtag.csr(MCYCLE) - begun
    jtag.set_csr(DCSR, before)
    return passed


@pytest.mark.parametrize(
    ("preset", "cores"),
    [("cluster-ri5cy", 2), pytest.param("cluster2", 8, marks=pytest.mark.skipif(not LONG, reason="by hand"))],
)
def test_cores_at_barriers_halt_together_and_go_on(preset, cores, tmp_path):
    options = ("--preset", preset, "--cores", str(cores))
    program, symbols = compiled(BARRIERS, tmp_path, *options)
    everybody, rng, places, spreads = (1 << cores) - 1, Random(1), set(), []
    # what the program does not use is left out, so that the model is compiled sooner
    smaller = () if LONG else ("--banks", "4", "--set", "dma=false")
    with served(program, *options, *smaller) as (run, port):
        jtag = Jtag(port)
        jtag.activate()
        for number in range(20 if LONG else 6):
            # cores that a reset has started together count the same cycles until they halt
            together = number % 2 == 0
            if together:
                jtag.control(Control.NDMRESET)
                jtag.control(0)
            jtag.idle(rng.randrange(2000))
            jtag.control(Control.HALTREQ, harts=everybody)
            jtag.wait(Status.HALTED)
            cycles = []
            for core in range(cores):
                jtag.control(0, core)
                cycles.append(jtag.csr(MCYCLE))
                places.add(jtag.csr(DPC))
            spreads += [max(cycles) - min(cycles)] * together
            if number == 0:
                waited = cycles_of_reads(jtag)
            jtag.control(Control.RESUMEREQ, harts=everybody)
            jtag.wait(Status.RESUMEACK)
        # scans take few cycles of the simulation, but enough for an access
        assert jtag.write_all(DmReg.DATA0, range(100))
        assert jtag.read(DmReg.DATA0) == 99
        jtag.store(symbols["enough"], 1)
        jtag.close()
        assert run.wait(60) == 0, run.stdout.read()
    print(f"cycles between the first core in debug mode and the last: {spreads}")
    print(f"cycles of a read: {waited / READS}")
    assert len(places) > 3
    assert waited <= READS * READ_CYCLES
    assert max(spreads) <= TOGETHER, spreads


def test_hostile_debuggers_change_nothing(tmp_path):
    options = ("--preset", "ri5cy")
    program, symbols = compiled(BARRIERS, tmp_path, *options)
    rng, begun, orderly, halted = Random(2), time.monotonic(), 0, 0
    with served(program, *options) as (run, port):
        while orderly < 8 or (LONG and time.monotonic() < begun + HOSTILE_S):
            jtag = Jtag(port)
            if rng.random() < 0.5:
                jtag.break_off(rng)
                continue
            jtag.disturb(rng, rng.randrange(4000))
            jtag.close(orderly=rng.random() < 0.5)
            jtag = Jtag(port)
            assert jtag.scan(TapRegister.IDCODE, 0, 32) == IDCODE
            # bits at random may be a request to halt, or a reset
            jtag.activate()
            if jtag.read(DmReg.DMSTATUS) >> Status.HALTED & 1:
                halted += 1
                jtag.control(Control.RESUMEREQ, 0)
                jtag.wait(Status.RESUMEACK)
            jtag.write(DmReg.DMCONTROL, 0)
            jtag.close(orderly=rng.random() < 0.5)
            orderly += 1
        jtag = Jtag(port)
        jtag.activate()
        jtag.store(symbols["enough"], 1)
        jtag.close()
        assert run.wait(60) == 0, run.stdout.read()
    print(f"{orderly} debuggers, {halted} found the core halted")
