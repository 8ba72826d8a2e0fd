"""The testbench of the DMA engine: transfers, and what they make of two memories."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE, Dma, DmaCommand
from xpulpnn_sim.package.cluster.memories import obi_port
from xpulpnn_sim.package.cluster.wiring import Nets
from xpulpnn_sim.package.core_testbench import SIMULATED_NS
from xpulpnn_sim.package.design import Design
from xpulpnn_sim.package.listing import hex_words, little_endian_words
from xpulpnn_sim.package.template import fill, template

_SEED = 20
_BYTES = 1 << 13
"""Of each memory. Sources are in the lower half, targets in the upper one."""

_TRANSFERS = 48
_LONGEST_WORDS = 7
_MOST_BYTES = 300
_WATCHDOG = 20_000
_EVERY_LENGTH_UP_TO = 20


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a transfer: first byte, bytes of a line, bytes from one line to the next."""

    first: int
    line: int
    stride: int

    def places(self, length: int) -> Iterator[int]:
        """The bytes in their order."""
        for number in range(length):
            yield self.first + number // self.line * self.stride + number % self.line


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A transfer: its direction, its bytes, where they come from and go to."""

    direction: str
    length: int
    source: _Side
    target: _Side

    def words(self) -> list[int]:
        """The command, as it is written to the port."""
        inside, outside = (self.source, self.target) if self.direction == "out" else (self.target, self.source)
        flags = DmaCommand.INCREMENT | DmaCommand.EVENT
        flags |= 0 if self.direction == "out" else DmaCommand.FROM_EXTERNAL
        base = TCDM_BASE if self.direction == "within" else L2_BASE
        words = [inside.first, base + outside.first]
        for side, flag in ((outside, DmaCommand.EXTERNAL_2D), (inside, DmaCommand.TCDM_2D)):
            if side.line < self.length:
                flags |= flag
                words += [side.line, side.stride]
        return [self.length | flags, *words]

    def described(self) -> str:
        """In words."""
        sides = (
            f"{side.first:#06x}" + (f" in lines of {side.line}, {side.stride} apart" if side.line < self.length else "")
            for side in (self.source, self.target)
        )
        return f"{self.direction}: {self.length} bytes from {' to '.join(sides)}"


def _transfers(rng: Random) -> list[_Transfer]:
    def side(base: int, length: int) -> _Side:
        line = rng.choice((length, rng.randint(max(1, length // 8), length)))
        lines = -(-length // line)
        stride = line + rng.randint(0, 9) if lines > 1 else 0
        reach = _BYTES // 2 - (lines - 1) * stride - line
        return _Side(base + rng.randrange(reach), line, stride)

    transfers: list[_Transfer] = []
    for number in range(_TRANSFERS):
        length = number + 1 if number < _EVERY_LENGTH_UP_TO else rng.randint(1, _MOST_BYTES)
        direction = ("in", "out", "within")[number % 3]
        transfers.append(_Transfer(direction, length, side(0, length), side(_BYTES // 2, length)))
    return transfers


def dma_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the DMA engine, by name."""
    config = design.cluster
    rng = Random(_SEED)
    transfers = _transfers(rng)
    memories = {name: bytearray(rng.randbytes(_BYTES)) for name in ("tcdm", "outside")}
    top = design.top
    files = {f"{top}_{name}.hex": hex_words(little_endian_words(bytes(data))) for name, data in memories.items()}
    for transfer in transfers:
        source = memories["outside" if transfer.direction == "in" else "tcdm"]
        target = memories["outside" if transfer.direction == "out" else "tcdm"]
        for place, origin in zip(
            transfer.target.places(transfer.length), transfer.source.places(transfer.length), strict=True
        ):
            target[place] = source[origin]
    for name, data in memories.items():
        files[f"{top}_{name}_expected.hex"] = hex_words(little_endian_words(bytes(data)))
    rows = [transfer.words() for transfer in transfers]
    padded = [[len(words), *words, *[0] * (_LONGEST_WORDS - len(words))] for words in rows]
    files[f"{top}_commands.hex"] = hex_words(word & 0xFFFF_FFFF for words in padded for word in words)
    texts = enumerate(transfers, start=1)
    files[f"{top}_commands.lst"] = "".join(f"{number:5}  {transfer.described()}\n" for number, transfer in texts)
    nets = Nets(design)
    ports = [
        obi_port("tcdm", 32, f"tcdm[tcdm_place{place}]", place, place=place, accept=f"tcdm_accept[{place}]")
        for place in range(4)
    ]
    word = "{outside[ext_place + 1], outside[ext_place]}"
    ports.append(obi_port("ext", 64, word, len(ports), accept="ext_accept"))
    shared = sum(number % (config.cores + 1) == config.cores for number in range(_TRANSFERS))
    return files | {
        "obi_port.v": template("obi_port.v"),
        f"{design.identifier}_tb.v": fill(
            "dma_tb.v",
            module=design.module,
            top=top,
            top_name=design.identifier,
            count=len(transfers),
            longest=_LONGEST_WORDS,
            cores=config.cores,
            words=_BYTES // 4,
            command_at=int(Dma.COMMAND),
            status_at=int(Dma.STATUS),
            base=f"{L2_BASE:08x}",
            outside_block=f"{L2_BASE // _BYTES:x}",
            tcdm_block=f"{TCDM_BASE // _BYTES:x}",
            watchdog=_WATCHDOG,
            # nobody is told the ends of transfers of the shared port
            told=len(transfers) - shared,
            half_period=SIMULATED_NS // 2,
            path="tb",
            wires=nets.declarations(),
            memories="\n".join(ports),
            connections=nets.connections(),
            access=template("obi_access.v").replace("{{name}}", "ports"),
        ),
    }
