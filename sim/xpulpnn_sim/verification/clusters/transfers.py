"""Random transfers of the DMA engine: commanded, waited for, given back."""

from random import Random

from xpulpnn.isa.cluster import PRIVATE_DMA, PRIVATE_EVENT_UNIT, Dma, DmaCommand, EventLine, EventRegister
from xpulpnn_sim.verification.clusters.layout import ARENA, L2_ARENA, L2_SHARED_PIECE, SHARED_PIECE, SLOT
from xpulpnn_sim.verification.random.blocks import Block
from xpulpnn_sim.verification.random.labels import Labels

_LONGEST = 300
_STATUS = f"0x{Dma.STATUS:x}"

Piece = tuple[int, int]


class Transfers:
    """Writes transfers."""

    def __init__(self, rng: Random, labels: Labels) -> None:
        self._rng = rng
        self._labels = labels

    def block(self, meanwhile: tuple[Block, ...]) -> Block:
        """One or two commands with one identifier, other work, and the wait for their end."""
        rng = self._rng
        by_event = rng.randrange(2)
        commands = [self._command(event=bool(by_event)) for _ in range(rng.choice((1, 1, 1, 2)))]
        head = [f"li t1, 0x{PRIVATE_DMA:x}", "lw s0, 0(t1)", f"sw s0, 0x{SLOT:x}(sp)"]
        for words in commands:
            for word in words:
                head += [f"li s1, 0x{word:x}", "sw s1, 0(t1)"]
        again, done = self._labels.new("transfer"), self._labels.new("moved")
        tail = [f"lw s0, 0x{SLOT:x}(sp)", "addi s3, zero, 1", "sll s3, s3, s0", f"li t1, 0x{PRIVATE_DMA:x}"]
        tail += [f"li s4, 0x{PRIVATE_EVENT_UNIT:x}"]
        if by_event:
            tail += [f"li s1, 0x{1 << EventLine.DMA:x}", f"sw s1, {EventRegister.MASK}(s4)"]
        tail += [f"{again}: lw s1, {_STATUS}(t1)", "and s1, s1, s3", f"beq s1, zero, {done}"]
        if by_event:
            tail.append(f"p.elw s1, 0x{EventRegister.WAIT_CLEAR:x}(s4)")
        tail += [f"jal zero, {again}", f"{done}: sw s3, {_STATUS}(t1)"]
        return Block("transfer", tuple(head), meanwhile, tuple(tail))

    def _command(self, *, event: bool) -> list[int]:
        """The words of a command."""
        rng = self._rng
        length = rng.choice((rng.randrange(1, 9), rng.randrange(1, 40), rng.randrange(1, _LONGEST)))
        to_tcdm = bool(rng.randrange(2))
        inside, outside = rng.choice((ARENA, ARENA, SHARED_PIECE)), rng.choice((L2_ARENA, L2_ARENA, L2_SHARED_PIECE))
        if rng.randrange(6) == 0:
            # within the TCDM; the halves of the arena do not overlap
            base, size = ARENA
            inside, outside = (base, size // 2), (base + size // 2, size // 2)
        command = length | DmaCommand.INCREMENT
        command |= DmaCommand.FROM_EXTERNAL if to_tcdm else 0
        command |= DmaCommand.EVENT if event else 0
        command |= DmaCommand.BROADCAST if event and rng.randrange(4) == 0 else 0
        addresses, lines = [], list[int]()
        for flag, piece, written in (
            (DmaCommand.EXTERNAL_2D, outside, not to_tcdm),
            (DmaCommand.TCDM_2D, inside, to_tcdm),
        ):
            two = self._two_dimensions(length, piece, written=written) if rng.randrange(3) == 0 else None
            extent = length
            if two is not None:
                count, stride, extent = two
                command |= flag
                lines += [count, stride]
            addresses.append(piece[0] + rng.randrange(piece[1] - extent))
        return [command, addresses[1], addresses[0], *lines]

    def _two_dimensions(self, length: int, piece: Piece, *, written: bool) -> tuple[int, int, int] | None:
        """Bytes of a line, of the distance between two, and of all; None if they do not fit. Written lines do not
        overlap."""
        rng = self._rng
        count = rng.randrange(1, length + 1)
        count = max(count, length // 8, 1)
        stride = rng.randrange(count if written else 1, count + 40)
        extent = (length - 1) // count * stride + count
        return (count, stride, extent) if extent < piece[1] else None
