"""Registers that a function computes its numbers with when it starts."""

from xpulpnn_sw.kernels.terms import Term


class Pool:
    """Registers for numbers on their way, and what each of them still holds."""

    def __init__(self, registers: list[int]) -> None:
        """All are free and hold nothing known."""
        # those given back last are last
        self._free, self._users = registers, dict.fromkeys(registers, 0)
        self._holds: dict[Term, int] = {}

    @property
    def room(self) -> int:
        """How many are free."""
        return len(self._free)

    def knows(self, value: Term) -> bool:
        """Whether a register still holds a term."""
        return value in self._holds

    def find(self, value: Term) -> int | None:
        """The register that still holds a term, in use from now on."""
        register = self._holds.get(value)
        return None if register is None else self.use(register)

    def use(self, register: int) -> int:
        """A register that holds a number, in use once more."""
        if register in self._users:
            self._users[register] += 1
            if register in self._free:
                self._free.remove(register)
        return register

    def take(self, home: int | None = None) -> int:
        """``home`` or a free register, best one that holds nothing, which is to be written."""
        if home is None:
            held = {*self._holds.values()}
            home = next((register for register in self._free if register not in held), self._free[0])
            self._free.remove(home)
            self._users[home] = 1
        self.forget(home)
        return home

    def spare(self, count: int) -> list[int]:
        """Free registers that are written and free again."""
        registers = self._free[:count]
        assert len(registers) == count
        for register in registers:
            self.forget(register)
        return registers

    def remember(self, value: Term, register: int) -> None:
        """A register holds a term."""
        self._holds[value] = register

    def give_back(self, register: int) -> None:
        """One use of a register has ended."""
        if register in self._users:
            self._users[register] -= 1
            if not self._users[register]:
                self._free.append(register)

    def forget(self, register: int) -> None:
        """A register is written."""
        for value in [value for value, holder in self._holds.items() if holder == register]:
            del self._holds[value]
