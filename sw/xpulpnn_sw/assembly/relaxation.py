"""Code that keeps its length while a linker shortens the code around it (relaxation).

The set-up of a hardware loop holds the distance to its end, so nothing in between may be shortened. If a variable is
close to the constant value of a register (gp), the linker removes the instruction with the upper part of the address,
and makes every instruction with the lower part use that register. Here the linker is forbidden to remove upper parts,
as an unused upper part does no harm. It may still change lower parts, which keep their length, as it may have removed
the upper part elsewhere.
"""

import re

SHORT_NOP = 0x0001  # c.nop
_LOWER_PART = re.compile(r"%\w*lo\(")
_ALIGNMENT = re.compile(r"\s*\.(align|p2align|balign)\s+(\w+)\s*(?:,\s*(?:,\s*(\w+)\s*)?)?")


def at_full_length(statement: str) -> str:
    """Return an instruction so that the linker keeps its length, as it always does with a lower address part."""
    if _LOWER_PART.search(statement):
        return statement
    return f".option push; .option norelax; {statement.strip()}; .option pop"


def filled_alignment(directive: str, most: int | None = None) -> str | None:
    """Return an alignment directive with explicit padding, to at most ``most`` bytes; None for any other text."""
    match = _ALIGNMENT.fullmatch(directive)
    if match is None:
        return None
    kind, number, limit = match.groups(default="")
    if most is not None and number.isdecimal():
        size = int(number) if kind == "balign" else 1 << int(number)
        return f"\t.balignw {min(size, most)}, {SHORT_NOP:#06x}"
    name = "balignw" if kind == "balign" else "p2alignw"
    return f"\t.{name} {number}, {SHORT_NOP:#06x}" + (f", {limit}" if limit else "")
