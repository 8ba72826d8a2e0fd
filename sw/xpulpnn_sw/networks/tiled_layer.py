"""A layer of a network in tiles: maps and filters outside the cluster, pieces of them in its memory for a while."""

from collections.abc import Iterator
from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.networks.kernels import buffer_of, length
from xpulpnn_sw.networks.network import Stage
from xpulpnn_sw.tiling.geometry import Product, divides, footprint_of, product_of, rates_of, shape_of
from xpulpnn_sw.tiling.plan import Demand, Plan, aligned, planned
from xpulpnn_sw.tiling.schedule import Operand, Step, schedule

CALLS = "calls"
"""What a layer in tiles has beside operands: the argument structures of its tiles, two of which are there at a time."""

CALL_SLOTS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class TiledLayer:
    """A layer in tiles.

    Parameters
    ----------
    name : str
        Of the layer.
    run : Product
        Its kernel, for any tile.
    plan : Plan
        The tiles.
    steps : tuple of Step
        What happens from barrier to barrier.
    """

    name: str
    run: Product
    plan: Plan
    steps: tuple[Step, ...]

    @property
    def call_bytes(self) -> int:
        """Of an argument structure."""
        return aligned(len(self.run.structure.fields) * WORD_BYTES)

    def buffer(self, operand: Operand, slot: int) -> str:
        """Name of the piece of memory of an operand."""
        return f"{self.name}.{operand.value}{slot}"

    def call(self, slot: int) -> str:
        """Name of the piece of memory of an argument structure."""
        return f"{self.name}.{CALLS}{slot}"

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Names and bytes of what it needs as long as it is computed."""
        for operand, (count, size) in self.plan.buffers.items():
            yield from ((self.buffer(operand, slot), size) for slot in range(count))
        yield from ((self.call(slot), self.call_bytes) for slot in range(CALL_SLOTS))
        if (shared := buffer_of(self.run)) is not None:
            yield f"{self.name}.{shared}", length(self.run, shared)

    def fetched_call(self, step: int) -> int | None:
        """The tile whose argument structure comes in a step: that of the next one, if there is one."""
        following = self.steps[step + 1] if step + 1 < len(self.steps) else None
        return following.work.number if following and following.work else None


def tiled_layer(stage: Stage, run: KernelRun, cores: int, memory: int, always: int) -> TiledLayer:
    """A layer, whose kernel has room for ``cores`` cores, in tiles that take ``memory`` bytes less ``always`` at most.

    Raises :class:`LayerError`, which names the layer, if it cannot be divided, or no tile is small enough.
    """
    try:
        product = product_of(run)
        shared = buffer_of(run)
        # a call for each slot besides
        fixed = always + CALL_SLOTS * aligned(len(run.structure.fields) * WORD_BYTES)
        fixed += aligned(length(run, shared)) if shared else 0
        plan = planned(shape_of(product), footprint_of(product, fixed), rates_of(product), cores, memory, Demand())
    except LayerError as error:
        raise LayerError(f"{stage.name}: {error}") from None
    return TiledLayer(name=stage.name, run=product, plan=plan, steps=tuple(schedule(plan.tiles, overlap=True)))


def can_be_tiled(run: KernelRun) -> bool:
    """Whether a layer can be computed in tiles."""
    return divides(run)
