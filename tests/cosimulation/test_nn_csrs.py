"""Words of the NN-RF as CSRs: directed programs, and interrupt handlers and tasks that use Mac&Load."""

from dataclasses import replace

import pytest
from tests.cosimulation.test_debug import CONFIG

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import ConfigError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.directed.case import programs
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sw.toolchain.build import Options, build

pytestmark = [pytest.mark.cosim, pytest.mark.flow]

PROGRAMS = programs("""
== NN-RF as CSRs: loaded right before, written right before
    jal zero, 1f; word: .word 0x04030201; second: .word 0x08070605
    1: la s2, word; pv.mlsdotup.b zero, (s2!), 16; csrrs a2, nn2, zero => a2 0x04030201
    pv.mlsdotup.b zero, (s2!), 8; csrrwi a3, nn0, 3; csrrs a4, nn0, zero => a3 0x08070605, a4 3
    li a0, 0x01010101; csrrw zero, nn0, a0; pv.mlsdotup.b a5, (s2!), 0 => a5 10
    csrrw zero, nn2, a0; pv.mlsdotup.b a6, (s2!), 0 => a6 4
    csrrci a7, nn2, 1; csrrsi s3, nn2, 6; csrrs s4, nn2, zero => a7 0x01010101, s3 0x01010100, s4 0x01010106
    la s2, word; pv.rqld 0, (s2!); csrrs s5, nn6, zero => s5 0x04030201
    li a0, 5; csrrw zero, nn6, a0; csrrwi zero, nn7, 7; li a1, 3; pv.rqu.b s6, a1, zero, 0 => s6 22
== NN-RF as CSRs: each word is another one, and those that are not there are illegal
    li a0, 1; csrrw zero, nn0, a0; csrrwi zero, nn1, 2; csrrwi zero, nn2, 3; csrrwi zero, nn3, 4
    csrrwi zero, nn4, 5; csrrwi zero, nn5, 6; csrrwi zero, nn6, 7; csrrwi zero, nn7, 8
    csrrs a0, nn0, zero; csrrs a1, nn1, zero; csrrs a2, nn2, zero; csrrs a3, nn3, zero
    csrrs a4, nn4, zero; csrrs a5, nn5, zero; csrrs a6, nn6, zero; csrrs a7, nn7, zero
    => a0 1, a1 2, a2 3, a3 4, a4 5, a5 6, a6 7, a7 8
    csrrs s2, nn8, zero; csrrs s3, mcause, zero; csrrwi zero, mcause, 0; csrrwi zero, nn9, 1; csrrs s4, mcause, zero
    => s3 2, s4 2
""")


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_directed(case):
    result = run_program(case.program().executable(), CONFIG, Machine(max_cycles=30_000), lockstep=True, check=True)
    assert result.difference is None, result.difference
    assert result.exit.ok
    assert case.problems(result.read) == []


PROGRAM = """
#include <xpulpnn.h>
#include <xpulpnn_rt.h>
static const uint32_t act = 0x04030201, wgt = 0x05060708, other = 0x7f7f7f7f;
static int32_t product(uint32_t a, uint32_t w) {
    const uint32_t *p = &a, *q = &w;
    xp_nn_load(&p, 8);
    xp_nn_load(&q, 16);
    const uint32_t *none = 0;
    for (volatile int i = 0; i < 3; ++i) ;
    return xp_mlsdotup_b(0, &none, 0);
}
static volatile unsigned handled;
void xp_irq_7(void) { handled += product(other, other) == 4 * 0x7f * 0x7f; }
int main(void) {
    struct xp_context mine, yours;
    unsigned wrong = 0;
    xp_irq_enable(7);
    xp_irq_on();
    for (int i = 0; i < 200; ++i) wrong += product(act, wgt) != 5 * 4 + 6 * 3 + 7 * 2 + 8;
    xp_irq_off();
    product(act, wgt);
    xp_context_save(&mine);
    product(other, other);
    xp_context_save(&yours);
    xp_context_restore(&mine);
    const uint32_t *none = 0;
    wrong += xp_mlsdotup_b(0, &none, 0) != 60;
    xp_context_restore(&yours);
    wrong += xp_mlsdotup_b(0, &none, 0) != 4 * 0x7f * 0x7f;
    return wrong ? 1 : handled < 5 ? 2 : 0;
}
"""


def test_handlers_and_tasks_use_mac_load(tmp_path):
    source, program = tmp_path / "tasks.c", tmp_path / "tasks.elf"
    source.write_text(PROGRAM)
    build([source], program, options=Options(config=CONFIG))
    lines = tuple((cycle, 7) for cycle in range(2_000, 60_000, 331))
    result = run_program(load(program), CONFIG, Machine(irqs=lines, max_cycles=400_000))
    assert result.exit.ok, result.exit.text


def test_a_core_without_mac_load_has_none():
    with pytest.raises(ConfigError, match="mac_load_nn or mac_load_cu must be true with nn_csrs, not false"):
        replace(PRESETS["ri5cy"], nn_csrs=True)
    assert not CoreConfig().nn_csrs
