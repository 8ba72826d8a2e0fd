"""Programs that Csmith draws, as functions that return their checksum."""

import re
import shutil
import subprocess
from pathlib import Path

from xpulpnn.errors import ToolError

# short programs: the simulator takes some million times as long for an instruction as a processor
_OPTIONS = (
    *("--no-argc", "--concise", "--no-float"),
    *("--max-funcs", "4", "--max-block-depth", "3", "--max-block-size", "4", "--max-expr-complexity", "5"),
)
# the same number has the same type on a machine whose long is longer
_LONG = re.compile(r"\b(0[xX][0-9A-Fa-f]+|\d+)(U?)L\b")
_MAIN = re.compile(r"\bint main \(void\)")
_END = re.compile(r"platform_main_end\((.*), print_hash_value\);\s*return 0;")


def header_folder() -> Path:
    """Folder of Csmith's headers; raises :class:`ToolError` without it or Csmith."""
    command = shutil.which("csmith")
    if command is not None:
        found = sorted(Path(command).parent.parent.glob("include/csmith*/csmith.h"))
        if found:
            return found[-1].parent
    raise ToolError("csmith and its headers must be installed (apt-get install csmith libcsmith-dev), not missing")


def csmith_program(seed: int) -> str:
    """A C file that defines ``uint32_t program_SEED(void)``."""
    done = subprocess.run(["csmith", "--seed", str(seed), *_OPTIONS], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"csmith must draw program {seed}, not say: {done.stderr.strip()}")
    text, mains = _MAIN.subn(f"uint32_t program_{seed}(void)", _LONG.sub(r"\1\2", done.stdout))
    text, ends = _END.subn(r"return \1;", text)
    if mains != 1 or ends != 1:
        raise ToolError(f"csmith must write main as version 2.3 does, not as in program {seed}")
    return text
