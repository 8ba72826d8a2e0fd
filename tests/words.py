"""The word of one instruction."""

from xpulpnn_sw.asm import assemble


def encode_line(text: str) -> int:
    (word,) = assemble(text).words
    return word
