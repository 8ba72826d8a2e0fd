"""Random C programs drawn by Csmith, as functions that return Csmith's checksum."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from xpulpnn.errors import ToolError

# short programs: the simulator takes some million times as long for an instruction as a processor
_OPTIONS = (
    *("--no-argc", "--concise", "--no-float"),
    *("--max-funcs", "4", "--max-block-depth", "3", "--max-block-size", "4", "--max-expr-complexity", "5"),
)
# the same number has the same type on a machine whose long is longer
_LONG = re.compile(r"\b(0[xX][0-9A-Fa-f]+|\d+)(U?)L\b")
# what a file of several programs has once, and what each has of its own
_NAMES = re.compile(r"\b(func_|g_|S|U)(\d+)\b")
_CHANGES = (
    (re.compile(r"\bint main \(void\)"), "uint32_t program_{0}(void)"),
    (re.compile(r"crc32_gentab\(\);"), "if (!crc32_tab[1]) crc32_gentab(); crc32_context = 0xFFFFFFFFU;"),
    (re.compile(r"platform_main_end\((.*), print_hash_value\);\s*return 0;"), r"return \1;"),
)


def header_folder() -> Path:
    command = shutil.which("csmith")
    if command is not None:
        headers = sorted(Path(command).parent.parent.glob("include/csmith*/csmith.h"))
        if headers:
            return headers[-1].parent
    raise ToolError("csmith and its headers must be installed (apt-get install csmith libcsmith-dev), not missing")


def csmith_program(seed: int) -> str:
    """Return the C text of ``uint32_t program_SEED(void)``, which may be in one file with other programs."""
    command = ["csmith", "--seed", str(seed), *_OPTIONS]
    # it leaves a file about the machine where it runs
    with tempfile.TemporaryDirectory(prefix="xpulpnn-csmith-") as folder:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise ToolError(f"csmith must draw program {seed}, not say: {done.stderr.strip()}")
    text = _NAMES.sub(rf"\g<0>_{seed}", _LONG.sub(r"\1\2", done.stdout))
    for pattern, by in _CHANGES:
        text, count = pattern.subn(by.format(seed), text)
        if count != 1:
            raise ToolError(f"csmith must write main as version 2.3 does, not as in program {seed}")
    return text
