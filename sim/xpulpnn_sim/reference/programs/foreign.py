"""Descriptions of files that are no ELF files, for error messages."""

from pathlib import Path

MAGIC = b"\x7fELF"
_SHOWN = 30  # most letters of a text
_BY_SUFFIX = {
    **dict.fromkeys((".c", ".s", ".S"), "a source: xpulpnn cc compiles it"),
    **dict.fromkeys((".v", ".sv"), "Verilog, of which a simulator makes a model, not a program"),
}


def described(path: Path | str, content: bytes) -> str:
    if not content:
        return "empty"
    if MAGIC.startswith(content):
        return "truncated"
    if known := _BY_SUFFIX.get(Path(path).suffix):
        return known
    if content.startswith(b"!<arch>"):
        return "a library of objects: xpulpnn cc links it"
    try:
        line = content.decode().strip().partition("\n")[0]
    except UnicodeDecodeError:
        line = ""
    if line.isprintable() and line:
        return f"a text, which begins with {line[:_SHOWN]!r}"
    return f"binary data, which begins with the bytes {content[:4].hex(' ')}"
