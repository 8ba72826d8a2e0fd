"""Memory of the instruction-set simulator: sparse, little-endian, any alignment, zero where never written."""

_PAGE_BITS = 12
_PAGE = 1 << _PAGE_BITS
_ADDRESS_MASK = 0xFFFF_FFFF


class Memory:
    """A 32-bit address space of bytes, allocated in pages on the first write."""

    def __init__(self) -> None:
        """Start with an empty memory."""
        self._pages: dict[int, bytearray] = {}

    def _byte(self, address: int) -> int:
        page = self._pages.get(address >> _PAGE_BITS)
        return 0 if page is None else page[address % _PAGE]

    def read_bytes(self, address: int, count: int) -> bytes:
        """``count`` bytes from ``address``, wrapping at 2**32."""
        offset = address % _PAGE
        page = self._pages.get((address & _ADDRESS_MASK) >> _PAGE_BITS)
        if page is not None and offset + count <= _PAGE:
            return bytes(page[offset : offset + count])
        return bytes(self._byte((address + index) & _ADDRESS_MASK) for index in range(count))

    def write_bytes(self, address: int, data: bytes) -> None:
        """Store ``data`` from ``address``, wrapping at 2**32."""
        for index, value in enumerate(data):
            where = (address + index) & _ADDRESS_MASK
            page = self._pages.setdefault(where >> _PAGE_BITS, bytearray(_PAGE))
            page[where % _PAGE] = value

    def read(self, address: int, size: int) -> int:
        """The ``size``-byte number at ``address``, zero-extended."""
        return int.from_bytes(self.read_bytes(address, size), "little")

    def write(self, address: int, size: int, value: int) -> None:
        """Store the low ``size`` bytes of ``value`` at ``address``."""
        self.write_bytes(address, (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little"))
