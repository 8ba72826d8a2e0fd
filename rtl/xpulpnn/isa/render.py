"""The instruction table as documents: ``python -m xpulpnn.isa.render FOLDER`` writes ``isa.md`` and ``isa.json``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from xpulpnn.isa.csr import CSRS
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.table import INSNS, Insn


def markdown() -> str:
    """One table per extension, the CSRs last."""
    lines = ["# Instruction set", "", "Generated from the instruction table by `python -m xpulpnn.isa.render`.", ""]
    for extension in Extension:
        rows = [insn for insn in INSNS if insn.extension is extension]
        lines += [f"## {extension.value} ({sum(not insn.alias for insn in rows)} instructions)", ""]
        lines += ["| mnemonic | operands | pattern | second name |", "|---|---|---|---|"]
        lines += [f"| {insn.mnemonic} | {insn.operands} | `{insn.pattern}` | {_second(insn)} |" for insn in rows]
        lines.append("")
    lines += ["## CSRs", "", "| address | name | access |", "|---|---|---|"]
    lines += [f"| {csr.address:#05x} | {csr.name} | {csr.access.name} |" for csr in CSRS]
    return "\n".join(lines) + "\n"


def _second(insn: Insn) -> str:
    return "yes" if insn.alias else ""


def table() -> list[dict[str, str | bool]]:
    """The rows as plain data."""
    return [
        {
            "mnemonic": insn.mnemonic,
            "operands": insn.operands,
            "pattern": insn.pattern,
            "extension": insn.extension.value,
            "alias": insn.alias,
        }
        for insn in INSNS
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Write both documents into the folder named by the only argument."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1:
        print("usage: python -m xpulpnn.isa.render FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "isa.md").write_text(markdown())
    (folder / "isa.json").write_text(json.dumps(table(), indent=1) + "\n")
    print(f"{folder / 'isa.md'} and isa.json: {len(INSNS)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
