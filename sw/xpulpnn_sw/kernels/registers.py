"""Registers that kernels may use, and an allocator of registers for intermediate numbers."""

from xpulpnn_sw.kernels.terms import Term

FREE = (*range(10, 18), *range(5, 8), *range(28, 32), 8, 9, *range(18, 28), 1)
"""Registers a kernel may use: those of arguments, temporary ones, saved ones and ``ra``; not ``sp``, ``gp``, ``tp``."""


class FreeRegisters:
    def __init__(self) -> None:
        self._free = list(FREE)

    def take(self, count: int) -> list[int]:
        taken, self._free = self._free[:count], self._free[count:]
        assert len(taken) == count
        return taken

    def take_pairs(self, count: int) -> list[int]:
        """Take ``count`` pairs, each an even register and its successor; return the even registers."""
        first = [register for register in self._free if register % 2 == 0 and register + 1 in self._free][:count]
        assert len(first) == count
        self._free = [register for register in self._free if register & ~1 not in first]
        return first

    def give_back(self, registers: list[int]) -> None:
        self._free = [*registers, *self._free]

    def take_one(self) -> int:
        return self.take(1)[0]

    def rest(self) -> list[int]:
        return self.take(len(self._free))


class RegisterAllocator:
    """Allocator of registers for intermediate numbers, which also remembers the terms that registers hold."""

    def __init__(self, registers: list[int]) -> None:
        self.free, self._users = registers, dict.fromkeys(registers, 0)
        self.holds: dict[Term, int] = {}  # register that still holds each term

    def find(self, value: Term) -> int | None:
        register = self.holds.get(value)
        return None if register is None else self.use(register)

    def use(self, register: int) -> int:
        if register in self._users:
            self._users[register] += 1
            if register in self.free:
                self.free.remove(register)
        return register

    def take(self, home: int | None = None) -> int:
        """Return the register to write a result to: ``home``, or a free register, preferably one that holds no term."""
        if home is None:
            held = {*self.holds.values()}
            home = next((register for register in self.free if register not in held), self.free[0])
            self.free.remove(home)
            self._users[home] = 1
        self.forget(home)
        return home

    def spare(self, count: int) -> list[int]:
        """Return free registers that the next instructions may overwrite."""
        registers = self.free[:count]
        assert len(registers) == count
        for register in registers:
            self.forget(register)
        return registers

    def give_back(self, register: int) -> None:
        if register in self._users:
            self._users[register] -= 1
            if not self._users[register]:
                self.free.append(register)

    def forget(self, register: int) -> None:
        for value in [value for value, holder in self.holds.items() if holder == register]:
            del self.holds[value]
