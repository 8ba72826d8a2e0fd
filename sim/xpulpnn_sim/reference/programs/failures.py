"""Explains the end of a program that has failed."""

from xpulpnn.config import CoreConfig
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import Exit, Reason, Trapped, describe

EXCEPTION, SOURCE = "last exception", "source"


def explain(
    executable: Executable, ended: Exit, trapped: Trapped | None, config: CoreConfig, core: str
) -> dict[str, str]:
    """Return the last exception and the source line of a failure, where there are such."""
    why, fault, came = dict[str, str](), ended.pc, ended.previous
    if trapped is not None and not ended.ok and (ended.reason is not Reason.BAD_FETCH or trapped.pc != ended.pc):
        why[EXCEPTION] = describe(trapped, config, core, executable.symbol_at)
        came = trapped.previous(executable.symbol_at)
        fault = trapped.pc if ended.reason in (Reason.FAIL, Reason.TRAP_LOOP) else fault
    # a failure that the program reports itself has no source line
    if not ended.ok and (ended.reason is not Reason.FAIL or why):
        from xpulpnn_sim.reference.programs.objects import SourceLines

        lines = SourceLines(executable.path)
        line = lines.location(fault) or ("" if came is None else lines.location(came))
        why |= {SOURCE: line} if line else {}
    return why
