"""A layer of a network in tiles: maps and filters outside the cluster, pieces of them in its memory for a while."""

from collections.abc import Iterator
from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.tiling.division import Division
from xpulpnn_sw.kernels.tiling.maps import MapDivision, divides_by_rows
from xpulpnn_sw.kernels.tiling.plan import TileOperand, TilePlan, TileStep, aligned, schedule
from xpulpnn_sw.kernels.tiling.products import ProductDivision, divides
from xpulpnn_sw.networks.kernels import buffer_of
from xpulpnn_sw.networks.network import Stage

# what a layer in tiles has beside operands: the argument structures of its tiles, two of which are there at a time
CALLS = "calls"
CALL_SLOTS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class TiledLayer:
    """A layer in tiles."""

    name: str
    division: Division  # how its kernel computes a tile
    plan: TilePlan
    steps: tuple[TileStep, ...]  # what happens from barrier to barrier
    cores: int  # that compute; the others wait

    @property
    def call_bytes(self) -> int:
        """Bytes of an argument structure."""
        return _call_bytes(self.division.run)

    @property
    def shared(self) -> str | None:
        """Name of the piece of memory that the kernel needs while it runs."""
        symbol = buffer_of(self.division.run)
        return None if symbol is None else f"{self.name}.{symbol}"

    def buffer(self, operand: TileOperand, slot: int) -> str:
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
        if self.shared is not None:
            yield self.shared, self.division.buffer_bytes(self.plan.lines)

    def fetched_call(self, step: int) -> int | None:
        """The tile whose argument structure comes in a step: that of the next one, if there is one."""
        following = self.steps[step + 1] if step + 1 < len(self.steps) else None
        return following.work.number if following and following.work else None


def tiled_layer(stage: Stage, run: KernelRun, cores: int, memory: int, always: int) -> TiledLayer:
    """A layer, whose kernel has room for ``cores`` cores, in tiles that take ``memory`` bytes less ``always`` at most.

    Raises :class:`LayerError`, which names the layer, if it cannot be divided, or no tile is small enough.
    """
    try:
        division = MapDivision(run, cores) if divides_by_rows(run) else _product(stage, run)
        plan = division.planned(cores, memory, always + CALL_SLOTS * _call_bytes(run))
    except LayerError as error:
        raise LayerError(f"{stage.name}: {error}") from None
    steps = tuple(schedule(plan.tiles, overlap=plan.overlap))
    return TiledLayer(name=stage.name, division=division, plan=plan, steps=steps, cores=cores)


def can_be_tiled(run: KernelRun) -> bool:
    """Return whether a layer can be computed in tiles."""
    return divides(run) or divides_by_rows(run)


def _product(stage: Stage, run: KernelRun) -> ProductDivision:
    return ProductDivision(run, folded=stage.tensors.folded)


def _call_bytes(run: KernelRun) -> int:
    return aligned(len(run.structure.fields) * WORD_BYTES)
