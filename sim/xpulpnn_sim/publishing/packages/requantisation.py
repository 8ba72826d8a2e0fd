"""Checks of requantisation: parameters loaded into the NN-RF, then every instruction that uses them."""

from xpulpnn.isa.machine import FIRST_PARAMETER, WORD_BYTES, XLEN
from xpulpnn_sim.publishing.packages.arithmetic import hart
from xpulpnn_sim.publishing.packages.checks import Checks
from xpulpnn_sim.publishing.packages.memory_map import places
from xpulpnn_sim.reference.statements.machine import Statements

_EXECUTIONS = 6
"""Cases of each instruction, in lanes of one register: some in a row, without waiting for each other's results."""


def requantisations(checks: Checks) -> None:
    """pv.rqld of two words, pv.rq* of sums that are often near the bounds of the result."""
    rows = [insn for insn in checks.insns if insn.requantises]
    if not rows:
        return
    checks.title("requantisation: factor and summand loaded, sums scaled, shifted, clipped and put into lanes")
    for insn in rows:
        assert insn.fmt is not None
        place = checks.random.randrange(len(checks.operands) - 2 * WORD_BYTES)
        checks.code(f"    li a0, operands{place:+d}\n    pv.rqld 0, (a0!)\n    pv.rqld 1, (a0!)")
        checks.expect("a0", places()["operands"] + place + 2 * WORD_BYTES, "pointer of pv.rqld")
        parameters = [
            int.from_bytes(checks.operands[at : at + WORD_BYTES], "little") for at in (place, place + WORD_BYTES)
        ]
        machine = hart(checks, [0] * FIRST_PARAMETER + parameters)
        machine.regs[12] = checks.word()
        checks.code(f"    li a2, {machine.regs[12]}")
        for _ in range(_EXECUTIONS):
            a, lane = checks.word(), checks.random.randrange(insn.fmt.lanes)
            places_shifted = checks.random.randrange(XLEN - insn.fmt.width, XLEN + 1)
            machine.regs[10:12] = a, places_shifted
            Statements(insn).execute(insn.encode(rd=12, rs1=10, rs2=11, lane=lane), machine)
            checks.code(f"    li a0, {a}; li a1, {places_shifted}\n    {insn.mnemonic} a2, a0, a1, {lane}")
        checks.expect("a2", machine.regs[12], f"{insn.mnemonic} in {_EXECUTIONS} lanes")
