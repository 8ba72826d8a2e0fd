"""Damaged model files: bytes, numbers and pieces that are others, and what the import of such a file must come to."""

import contextlib
import io
import signal
import struct
from pathlib import Path
from random import Random

from xpulpnn_sim.cli import main as cli
from xpulpnn_sw.networks.network_file import read_network

SECONDS = 60
"""An import of a small model takes no longer."""
EXTREMES = (0, 1, 2, 255, -1, -2, 127, 1 << 16, 1 << 31, (1 << 31) - 1, 1 << 30, 0x7F800000, 0x7FC00000, 1)
SMALLEST = 8  # bytes that stay: those that tell the kind of file


def damaged(whole: bytes, random: Random) -> bytes:
    """The file with one to four kinds of damage, each at a few places."""
    content = bytearray(whole)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at, length = random.randrange(SMALLEST, max(len(content), SMALLEST + 1)), random.choice((1, 4, 8, 32, 200))
        match random.randrange(8):
            case 0:
                content[at : at + length] = random.randbytes(min(length, len(content) - at))
            case 1:
                content[at : at + 1] = bytes([(content[at] ^ 1 << random.randrange(8)) if at < len(content) else 0])
            case 2 | 3:
                at -= at % 4
                content[at : at + 4] = struct.pack("<I", random.choice(EXTREMES) & 0xFFFF_FFFF)
            case 4:
                at -= at % 4
                old = int.from_bytes(content[at : at + 4], "little")
                content[at : at + 4] = struct.pack("<I", old + random.choice((-4, -1, 1, 4)) & 0xFFFF_FFFF)
            case 5:
                del content[at : at + length]
            case 6:
                other = random.randrange(SMALLEST, max(len(content), SMALLEST + 1))
                content[at : at + length] = content[other : other + length]
            case _:
                if random.random() < 0.2:
                    del content[at:]
    return bytes(content)


def fault(content: bytes, path: Path) -> str:
    """What is wrong with the import of a file; empty if it gives a network, or a line, code 2 and nothing written."""
    path.write_bytes(content)
    net, weights = path.with_name("net.json"), path.with_name("net.npz")
    for file in (net, weights):
        file.unlink(missing_ok=True)
    shown, errors = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
            code = cli.main(["net", "import", str(path), "-o", str(net)])
        if code == 0:
            read_network(net)
            return "" if not errors.getvalue() else f"a network, and {errors.getvalue()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    lines = errors.getvalue().splitlines()
    if code != 2 or len(lines) != 1 or not lines[0].startswith("error: ") or shown.getvalue():
        return f"code {code}, {errors.getvalue()}{shown.getvalue()}"
    return "files although it failed" if net.exists() or weights.exists() else ""


def _late(*_: object) -> None:
    raise TimeoutError(f"no end in {SECONDS} s")
