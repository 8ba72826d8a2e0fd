"""Memory of a cluster: the TCDM in its three views, memory outside, and the registers of the peripherals."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import CONTROL, TCDM_ALIAS, TCDM_BASE, TEST_SET_BIT
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.reference.golden.cluster_map import destination
from xpulpnn_sim.reference.golden.dma import Moves
from xpulpnn_sim.reference.iss.memory import PAGE_BITS, AccessError, BusError, Memory, PostponedError

_VIEW = 1 << TEST_SET_BIT
_TEST_SET = TCDM_BASE | _VIEW
_DEVICES_END = CONTROL + _VIEW


class Peripherals(Protocol):
    """Peripherals of the cluster, by address."""

    def connect_dma(self, move: Callable[[Moves], None]) -> None:
        """Make the DMA engine, if there is one, with what makes its transfers."""
        ...

    def access(self, core: int, address: int, value: int | None) -> int | None:
        """A load, or a store of ``value``, of the word at ``address``: the word, 0 for a store; None if it waits.

        Raises ``LookupError`` where there is nothing.
        """
        ...


def canonical(address: int) -> int:
    """The address at which a byte of the TCDM is plain memory; of others the same."""
    for base in (TCDM_ALIAS, _TEST_SET):
        if base <= address < base + TCDM_SPACE:
            return TCDM_BASE + address - base
    return address


class ClusterMemory(Memory):
    """Memory as the harts of a cluster see it.

    Loads of the test&set view of the TCDM return what is there and make it all ones. The alias of the TCDM is the same
    memory. Accesses to peripherals are made by :attr:`devices` on behalf of :attr:`core`; they raise
    :class:`PostponedError` unless :attr:`exact` is set. Where nothing is inside the cluster, the bus answers with an
    error.
    """

    def __init__(
        self,
        windows: Iterable[tuple[int, int]],
        config: ClusterConfig,
        devices: Peripherals,
        errors: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Start with an empty memory."""
        super().__init__([*windows, (TCDM_ALIAS, config.tcdm_bytes)])
        self.errors = tuple(errors)
        self._config = config
        self.devices = devices
        self.core = 0
        self.exact = False
        self._tcdm_bytes = config.tcdm_bytes
        for offset in range(0, config.tcdm_bytes, 1 << PAGE_BITS):
            self._share((TCDM_BASE + offset) >> PAGE_BITS, (TCDM_ALIAS + offset) >> PAGE_BITS)
        devices.connect_dma(self._move)

    def _move(self, moves: Moves) -> None:
        """A transfer of the DMA engine, which sees the TCDM at its base and the memory outside."""
        for source, target, size in moves.pieces():
            for address, kind in ((source, "load"), (target, "store")):
                if address < TCDM_ALIAS + TCDM_SPACE or not self.inside(address, size):
                    raise AccessError(kind, address, size)
            super()._write(target, size, super()._read(source, size, "load").to_bytes(size, "little"))

    @property
    def keeps_code(self) -> bool:
        """A word that is fetched changes by stores only, of which the watchers are told."""
        return True

    def watch(self, address: int) -> None:
        """Report stores into the page that holds ``address``, through either view."""
        for same in self._same(address):
            super().watch(same)

    def _same(self, address: int) -> tuple[int, ...]:
        """The addresses of the same byte in the views of plain memory."""
        for base in (TCDM_BASE, TCDM_ALIAS):
            if base <= address < base + self._tcdm_bytes:
                return TCDM_BASE + address - base, TCDM_ALIAS + address - base
        return (address,)

    def _tell(self, address: int, size: int) -> None:
        for same in self._same(address):
            super()._tell(same, size)

    def _read(self, address: int, size: int, kind: str) -> int:
        if kind == "load":
            if _TEST_SET <= address and address + size <= _TEST_SET + self._tcdm_bytes:
                plain = address - _VIEW
                value = super()._read(plain, size, kind)
                self.write(plain, size, -1)
                return value
            if CONTROL <= address < _DEVICES_END:
                return self._load(address, size)
            self._require_something(address, size)
        return super()._read(address, size, kind)

    def _write(self, address: int, size: int, data: bytes) -> None:
        if _TEST_SET <= address and address + size <= _TEST_SET + self._tcdm_bytes:
            self.write(address - _VIEW, size, int.from_bytes(data, "little"))
        elif CONTROL <= address < _DEVICES_END:
            self._store(address, size, data)
        else:
            self._require_something(address, size)
            super()._write(address, size, data)

    def _require_something(self, address: int, size: int) -> None:
        """Raise :class:`BusError` where the cluster has nothing and no memory was asked for."""
        if not self.inside(address, size) and destination(address, self._config) == "hole":
            raise BusError

    def _load(self, address: int, size: int) -> int:
        word = self._access(address, size, None, "load")
        return word >> BYTE_BITS * (address % WORD_BYTES) & ((1 << BYTE_BITS * size) - 1)

    def _store(self, address: int, size: int, data: bytes) -> None:
        value = int.from_bytes(data, "little") << BYTE_BITS * (address % WORD_BYTES)
        self._access(address, size, value, "store")

    def _access(self, address: int, size: int, value: int | None, kind: str) -> int:
        if not self.exact:
            raise PostponedError(waits=False)
        if address % WORD_BYTES + size > WORD_BYTES:
            raise AccessError(kind, address, size)
        try:
            word = self.devices.access(self.core, address // WORD_BYTES * WORD_BYTES, value)
        except LookupError:
            raise BusError from None
        if word is None:
            raise PostponedError(waits=True)
        return word
