"""Another input for the program of a network: all else of it stays."""

from collections.abc import Mapping
from dataclasses import replace

from xpulpnn_sim.elf import Executable, Segment
from xpulpnn_sim.harness.network_case import NetworkCase
from xpulpnn_sw.layout import Ints, Symbol
from xpulpnn_sw.networks.kernels import packed_input


def with_input(executable: Executable, symbols: Mapping[str, Symbol], case: NetworkCase, image: Ints) -> Executable:
    """``executable``, which was made of ``case`` and has its input at ``symbols``, with ``image`` in its place."""
    if image is case.image:
        return executable
    placed = executable
    for name, words in packed_input(
        case.computed, replace(case, image=image).given, case.variants, cores=case.cores
    ).items():
        placed = _patched(placed, symbols[name], words.tobytes())
    return placed


def _patched(executable: Executable, symbol: Symbol, content: bytes) -> Executable:
    """``executable`` with other bytes at the beginning of a symbol, which has room for them."""
    assert len(content) <= symbol.length
    segments: list[Segment] = []
    for segment in executable.segments:
        at = symbol.address - segment.address
        data = segment.data
        if 0 <= at < len(data):
            data = data[:at] + content + data[at + len(content) :]
        segments.append(replace(segment, data=data))
    return replace(executable, segments=tuple(segments))
