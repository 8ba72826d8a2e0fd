"""Registers of kernels: which there are, who gets them, and what those for numbers on their way hold."""

from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.terms import Term

FREE = tuple(
    map(
        register_number,
        (*(f"a{n}" for n in range(8)), *(f"t{n}" for n in range(7)), *(f"s{n}" for n in range(12)), "ra"),
    )
)
"""Registers a kernel may use, those of the caller last; ``sp``, ``gp`` and ``tp`` are never touched."""


class FreeRegisters:
    """Hands out the registers of :data:`FREE`, each once."""

    def __init__(self) -> None:
        self._free = list(FREE)

    def take(self, count: int) -> list[int]:
        taken, self._free = self._free[:count], self._free[count:]
        assert len(taken) == count
        return taken

    def take_pairs(self, count: int) -> list[int]:
        """The even ones of the next ``count`` pairs of an even register and the one after it."""
        first = [register for register in self._free if register % 2 == 0 and register + 1 in self._free][:count]
        assert len(first) == count
        self._free = [register for register in self._free if register & ~1 not in first]
        return first

    def give_back(self, registers: list[int]) -> None:
        """Make these the next registers again."""
        self._free = [*registers, *self._free]

    def take_one(self) -> int:
        return self.take(1)[0]

    def rest(self) -> list[int]:
        """All that are left."""
        return self.take(len(self._free))


class RegisterAllocator:
    """Registers for numbers on their way, and what each of them still holds."""

    def __init__(self, registers: list[int]) -> None:
        # those given back last are last
        self.free, self._users = registers, dict.fromkeys(registers, 0)
        self.holds: dict[Term, int] = {}  # registers that still hold a term

    def find(self, value: Term) -> int | None:
        """The register that still holds a term, in use from now on."""
        register = self.holds.get(value)
        return None if register is None else self.use(register)

    def use(self, register: int) -> int:
        """A register that holds a number, in use once more."""
        if register in self._users:
            self._users[register] += 1
            if register in self.free:
                self.free.remove(register)
        return register

    def take(self, home: int | None = None) -> int:
        """``home`` or a free register, best one that holds nothing, which is to be written."""
        if home is None:
            held = {*self.holds.values()}
            home = next((register for register in self.free if register not in held), self.free[0])
            self.free.remove(home)
            self._users[home] = 1
        self.forget(home)
        return home

    def spare(self, count: int) -> list[int]:
        """Free registers that are written and free again."""
        registers = self.free[:count]
        assert len(registers) == count
        for register in registers:
            self.forget(register)
        return registers

    def give_back(self, register: int) -> None:
        """One use of a register has ended."""
        if register in self._users:
            self._users[register] -= 1
            if not self._users[register]:
                self.free.append(register)

    def forget(self, register: int) -> None:
        """A register is written."""
        for value in [value for value, holder in self.holds.items() if holder == register]:
            del self.holds[value]
