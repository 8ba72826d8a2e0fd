"""Faults of the core of the preset xpulpnn2, each of which a property between instructions must find."""

from dataclasses import replace

from amaranth.hdl import Cat, Mux

from xpulpnn.core.control import MacLoad, System
from xpulpnn.core.controller import Controller
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.hwloops import HwLoops
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.isa.machine import ExceptionCause
from xpulpnn_sim.proofs.faults.core import CORE_FAULTS
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.faults.instructions import INSTRUCTION_FAULTS

_ALSO_FOUND_ELSEWHERE = {
    "a dropped word is taken": "fetches",
    "the second word of an instruction may fail": "fetches",
    "nothing is forwarded from WB": "registers",
    "no wait for a value being loaded": "registers",
    "the second access goes to the first word": "data",
    "bytes of a load in the wrong order": "data",
    "csrrc sets": "system",
    "mepc loses a bit": "system",
    "a redirect changes a waiting request": "obi",
    "a failed access stays under way": "progress",
    "the word on its way to an entry is missed": "mac_load",
}
"""Faults that a check of riscv-formal or the proof of an instruction finds too, and the property here."""


def _waits_for_registers(_, u):
    """Nothing else than the registers that an instruction uses can keep it waiting."""
    uses = {"rs1_read": "rs1_used", "rs2_read": "rs2_used", "rs3_read": "rd_used"}
    waits = Cat(u(f"decoder.ctrl.{used}") & ~u(f"{read}.ready") for read, used in uses.items())
    return waits != 0


def _entry_in_use(right, u):
    reloads = (u("decoder.ctrl.mac_load") == MacLoad.NN) & u("insn.payload.word")[23]
    return Mux(reloads, u("nn_act_addr"), right)


def _cause_of_ecall(right, u):
    breaks = ~u(".illegal") & (u("decoder.ctrl.system") == System.EBREAK)
    return Mux(breaks, ExceptionCause.ENVIRONMENT_CALL, right)


SEQUENCE_FAULTS = (
    *(
        replace(fault, check=_ALSO_FOUND_ELSEWHERE[fault.name])
        for fault in (*CORE_FAULTS, *INSTRUCTION_FAULTS)
        if fault.name in _ALSO_FOUND_ELSEWHERE
    ),
    CoreFault(
        "a taken branch counts",
        HwLoops,
        {".counted": lambda right, u: right | Mux(u("ex_leaves"), u(".late"), 0)},
        "loops",
    ),
    CoreFault(
        "both loops count at a common end", HwLoops, {".id_goes_back[1]": lambda _, u: u(".id_again")[1]}, "loops"
    ),
    CoreFault("fetching past the end of a loop is not corrected", HwLoops, {"wrong": lambda *_: 0}, "loops"),
    CoreFault("no wait for the entry being loaded", IdStage, {".id_late_operand": _waits_for_registers}, "mac_load"),
    CoreFault("both update bits reload the activation in use", IdStage, {"id_ex.nn_addr": _entry_in_use}, "mac_load"),
    CoreFault(
        "a second access before the first is answered", Lsu, {"data.req": lambda _, u: u("ex_ctrl.valid")}, "obi"
    ),
    CoreFault(
        "an interrupt does not wait for what is older",
        Controller,
        {"irq_ack": lambda _, u: u(".wanted") & u("id_valid") & ~u(".sleeping") & ~u(".faulted")},
        "interrupts",
    ),
    CoreFault(
        "an interrupt drops the instruction behind it",
        Controller,
        {"enter_pc": lambda right, u: Mux(u(".faulted"), right, u("id_next"))},
        "interrupts",
    ),
    CoreFault(
        "mret leaves interrupts off", CsrFile, {".mstatus_bits[0]": lambda right, u: right & ~u("leave")}, "system"
    ),
    CoreFault("ebreak is ecall", IdStage, {"trap.cause": _cause_of_ecall}, "system"),
    CoreFault("fence.i keeps what was fetched", Controller, {".flush": lambda *_: 0}, "system"),
    CoreFault(
        "fence.i does not wait for what is older",
        IdStage,
        {".id_drains": lambda right, u: right & (u("decoder.ctrl.system") != System.FENCE_I)},
        "system",
    ),
    CoreFault(
        "wfi sleeps although an interrupt waits",
        Controller,
        {".sleeping": lambda right, u: right | u(".sleeping")},
        "progress",
    ),
)
"""Faults, at least two for each property."""
