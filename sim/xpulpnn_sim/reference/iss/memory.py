"""Memory of the instruction-set simulator: sparse, little-endian, any alignment, initially zero."""

import ctypes
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from xpulpnn.isa.machine import ADDRESS_SPACE, BYTE_BITS, HALF_BYTES, HALF_MASK, LENGTH_MASK, WORD_BYTES
from xpulpnn_sim.reference.iss import library
from xpulpnn_sim.reference.iss.library import PAGE_BITS

_PAGE = 1 << PAGE_BITS
_ADDRESS_MASK = ADDRESS_SPACE - 1

Listener = Callable[[int, int], None]  # takes address and size of a store


class AccessError(Exception):
    def __init__(self, kind: str, address: int, size: int) -> None:
        super().__init__(f"{kind} of {size} bytes at 0x{address:08x}")
        self.kind, self.address, self.size = kind, address, size


class BusError(Exception):
    """The bus answers an access with an error: an access fault. The access has no effect, unless it is a store across a
    word boundary whose second part fails: then the first part is stored."""


class PostponedError(Exception):
    """An access to a peripheral cannot be made yet; the instruction must be executed again later."""


class Memory:
    """A 32-bit address space of bytes, allocated in pages."""

    def __init__(
        self, windows: Iterable[tuple[int, int]] | None = None, errors: Iterable[tuple[int, int]] = ()
    ) -> None:
        self._windows = None if windows is None else tuple(windows)
        self._pages: dict[int, bytearray] = {}
        self._watched: set[int] = set()
        self.watchers: list[Listener] = []
        self.load_watchers: list[Listener] = []
        self.errors = tuple(errors)  # address ranges
        self.raised: BaseException = BusError()  # the last exception in an access of compiled code
        # addresses of whole pages, of those that are neither watched nor code, and of pages that are memory in part
        self._tables = library.table(), library.table(), library.table()
        addresses, me = map(ctypes.addressof, self._tables), weakref.proxy(self)
        pieces = ((0, ADDRESS_SPACE),) if self._windows is None else self._windows
        self._pieces = (ctypes.c_uint64 * (2 * len(pieces)))(*(end for piece in pieces for end in piece))
        listed = ctypes.addressof(self._pieces), len(pieces)
        self.native = library.NativeMemory(
            *addresses, *listed, library.Read(partial(Memory._load, me)), library.Write(partial(Memory._store, me))
        )

    @property
    def keeps_code(self) -> bool:
        """Return whether compiled code may access pages itself: not if a derived class has other bytes."""
        names = ("read", "write", "fetch", "read_bytes")
        return all(getattr(type(self), name) is getattr(Memory, name) for name in names)

    def status_of(self, access: Callable[[], None]) -> int:
        try:
            access()
        except BusError:
            return library.BUS_ERROR
        except BaseException as error:
            self.raised = error
            return library.RAISED
        return library.DONE

    def _load(self, address: int, size: int, value: Any) -> int:
        if size & library.RAW:
            value[0] = int.from_bytes(self.read_bytes(address, size - library.RAW), "little")
            return library.DONE
        for watcher in self.load_watchers:
            watcher(address, size)
        return self.status_of(lambda: value.__setitem__(0, self.read(address, size)))

    def _store(self, address: int, size: int, value: int) -> int:
        return self.status_of(lambda: self.write(address, size, value))

    def inside(self, address: int, size: int) -> bool:
        if self._windows is None:
            return True
        end = address + size
        if end > ADDRESS_SPACE:
            return self.inside(address, ADDRESS_SPACE - address) and self.inside(0, end - ADDRESS_SPACE)
        return any(base <= address and end <= base + length for base, length in self._windows)

    def watch(self, address: int) -> None:
        """Report future stores to the page of ``address`` to the watchers."""
        number, word, words = address >> PAGE_BITS, address & -WORD_BYTES, self.native.watched
        self._watched.add(number)
        self._tables[1][number] = None
        if word not in words:
            words[:] = [word, *words[:-1]]

    def watch_loads(self, address: int) -> None:
        """Report future stores to the page of ``address``, and to the load watchers future loads of its word."""
        self.watch(address)
        self._page(address >> PAGE_BITS)
        self._tables[0][address >> PAGE_BITS] = None

    def _page(self, number: int) -> bytearray:
        if number not in self._pages:
            self._share(number)
        return self._pages[number]

    def _share(self, *numbers: int) -> None:
        page = bytearray(_PAGE)
        for number in numbers:
            self._place(number, page)

    def _place(self, number: int, page: bytearray) -> None:
        self._pages[number] = page
        if self.keeps_code and not self._fails(number << PAGE_BITS, _PAGE):
            is_whole = self.inside(number << PAGE_BITS, _PAGE)
            address = ctypes.addressof(ctypes.c_char.from_buffer(page))
            places = is_whole, is_whole and number not in self._watched, True
            for pages, is_there in zip(self._tables, places, strict=True):
                pages[number] = address if is_there else None

    def read_bytes(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes from ``address``, wrapping at 2**32; zeros outside memory."""
        data = bytearray()
        while len(data) < count:
            where = (address + len(data)) & _ADDRESS_MASK
            offset = where % _PAGE
            piece = min(_PAGE - offset, count - len(data))
            page = self._pages.get(where >> PAGE_BITS)
            data += bytes(piece) if page is None else page[offset : offset + piece]
        return bytes(data)

    def write_bytes(self, address: int, data: bytes) -> None:
        """Store ``data`` from ``address``, wrapping at 2**32, without notifying watchers."""
        done = 0
        while done < len(data):
            where = (address + done) & _ADDRESS_MASK
            offset = where % _PAGE
            piece = data[done : done + _PAGE - offset]
            self._page(where >> PAGE_BITS)[offset : offset + len(piece)] = piece
            done += len(piece)
        self.forget(address, len(data))

    def forget(self, address: int, size: int) -> None:
        """Drop the translated instructions that overlap these bytes."""
        if self.native.harts:
            library.library().forget(ctypes.byref(self.native), address & _ADDRESS_MASK, size)

    def read(self, address: int, size: int) -> int:
        """Return the ``size``-byte number at ``address``, zero-extended."""
        return self._read(address, size, "load")

    def _read(self, address: int, size: int, kind: str) -> int:
        if self._fails(address, size, kind):
            raise BusError
        if not self.inside(address, size):
            raise AccessError(kind, address, size)
        for end in (address, (address + size - 1) & _ADDRESS_MASK):
            self._page(end >> PAGE_BITS)
        return int.from_bytes(self.read_bytes(address, size), "little")

    def fetch(self, address: int) -> int:
        """Return the half-word at ``address`` if it is a compressed instruction, else the word."""
        number, offset = address >> PAGE_BITS, address % _PAGE
        if self._tables[0][number] and offset <= _PAGE - WORD_BYTES:
            word = int.from_bytes(self._pages[number][offset : offset + WORD_BYTES], "little")
            return word if word & LENGTH_MASK == LENGTH_MASK else word & HALF_MASK
        half, behind = self._read(address, HALF_BYTES, "fetch"), address + HALF_BYTES & _ADDRESS_MASK
        if half & LENGTH_MASK != LENGTH_MASK:
            return half
        return half | self._read(behind, HALF_BYTES, "fetch") << BYTE_BITS * HALF_BYTES

    def _fails(self, address: int, size: int, kind: str = "fetch") -> bool:
        """Return whether the bus answers any of ``size`` bytes from ``address`` with an error; addresses wrap at 2**32.
        In derived classes it may depend on the ``kind`` of the access."""
        return bool(self.errors) and any(
            base < at + size and at < base + length
            for base, length in self.errors
            for at in (address, address - ADDRESS_SPACE)
        )

    def write(self, address: int, size: int, value: int) -> None:
        """Store the low bytes of ``value``. Raises :class:`AccessError` and :class:`BusError` as :meth:`read`."""
        data = (value & ((1 << BYTE_BITS * size) - 1)).to_bytes(size, "little")
        self._write(address, size, data)

    def _write(self, address: int, size: int, data: bytes) -> None:
        if self._fails(address, size, "store"):
            before = -address % WORD_BYTES
            if 0 < before < size and not self._fails(address, before, "store"):
                self._write(address, before, data[:before])
            raise BusError
        if not self.inside(address, size):
            raise AccessError("store", address, size)
        self.write_bytes(address, data)
        last = (address + size - 1) & _ADDRESS_MASK
        if self._watched and (address >> PAGE_BITS in self._watched or last >> PAGE_BITS in self._watched):
            self._tell(address, size)

    def _tell(self, address: int, size: int) -> None:
        for watcher in self.watchers:
            watcher(address, size)
