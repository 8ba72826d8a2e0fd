"""The word of one instruction."""

from xpulpnn_sw.assembly.asm import assemble


def encode_line(text: str) -> int:
    (word,) = assemble(text).words
    return word
