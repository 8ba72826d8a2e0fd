"""Allocation of the numbers that a kernel needs: to constants, registers or words of its stack frame.

Everything that a kernel derives from its arguments is a :class:`~xpulpnn_sw.kernels.terms.Term` over their names. A
term becomes a constant if all its names have known values when the code is generated; otherwise the function computes
it at its start.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest

from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.builder import IMMEDIATE, WORD, ZERO, Builder, Held, Label, Value, fits_immediate
from xpulpnn_sw.kernels.terms import TERM_OPERATIONS, Argument, Combination, Name, Number, Term, arguments_of

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


SP = register_number("sp")
ARGUMENTS_POINTER, CORE, CORES = map(register_number, ("a0", "a1", "a2"))

RA = register_number("ra")
SAVED = (RA, *(register_number(f"s{number}") for number in range(12)))  # callee-saved registers
STACK_ALIGNMENT = 16

_SHIFTS = {"mul": "slli", "divu": "srli"}  # operations with a power of two as shifts
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "divu": 1}  # right operands that leave the left one unchanged
_WORKING = 4  # registers reserved for computing a term

# a number that is 0 or not 0, and the numbers of which only the first or the second group is then computed
Alternatives = tuple[str, Collection[str], Collection[str]]


class Frame:
    """The numbers that a kernel needs, each in a constant, a register or a stack slot.

    The numbers in ``homes`` have the registers given there, ``preferred`` numbers get registers from the list ``spare``
    as long as there are any, and all others are on the stack. ``clobbered`` are the registers that the function
    changes, by default all that a callee must save. ``intermediates`` are numbers that only serve to compute others.
    """

    def __init__(
        self,
        b: Builder,
        fields: Sequence[str],
        terms: Mapping[str, Term],
        *,
        known: Mapping[str, int] | None = None,
        homes: Mapping[str, int] | None = None,
        preferred: Sequence[str] = (),
        spare: list[int] | None = None,
        clobbered: Collection[int] | None = None,
        intermediates: Collection[str] = (),
        alternatives: Alternatives | None = None,
    ) -> None:
        homes, spare = homes or {}, [] if spare is None else spare
        self._b, self._known, self._terms, self.homes = b, known or {}, terms, dict(homes)
        self._alternatives = alternatives
        self._offsets = {name: number * WORD for number, name in enumerate(fields)}
        self.constants: dict[str, int] = {}
        for name, value in terms.items():
            if (constant := self._fold(value)) is not None:
                self.constants[name] = constant
        for name in preferred:
            if name not in self.constants and name not in homes and spare:
                self.homes[name] = spare.pop(0)
        changed = {*(SAVED if clobbered is None else clobbered), *self.homes.values()}
        self._saved = tuple(register for register in SAVED if register in changed)
        self._intermediates = [name for name in terms if name in intermediates and name not in self.constants]
        missing = max(0, len(self._intermediates) + _WORKING - len(self._free()))
        # spare registers used for intermediates must be saved too
        changed |= {*spare[:missing]}
        self._saved = tuple(register for register in SAVED if register in changed)
        self._intermediates = self._intermediates[: max(0, len(self._free()) - _WORKING)]
        elsewhere = {*self.constants, *self.homes, *self._intermediates}
        in_memory = [name for name in terms if name not in elsewhere]
        self._slots = {name: number * WORD for number, name in enumerate(in_memory)}
        words = len(self._slots) * WORD + len(self._saved) * WORD
        self._size = -(-words // STACK_ALIGNMENT) * STACK_ALIGNMENT

    def value(self, name: str, temporary: int) -> Value:
        """Return a number as a constant or in a register; a number on the stack is loaded into ``temporary``."""
        if name in self.homes:
            return Held(self.homes[name])
        if name in self.constants:
            return self.constants[name]
        self._b("lw", temporary, self._slots[name], SP)
        return Held(temporary)

    def register(self, name: str, temporary: int) -> int:
        value = self.value(name, temporary)
        if isinstance(value, Held):
            return value.register
        self._b.li(temporary, value)
        return temporary

    def load(self, name: str, register: int) -> None:
        if (source := self.register(name, register)) != register:
            self._b.mv(register, source)

    def load_all(self, **registers: int) -> None:
        for name, register in registers.items():
            self.load(name, register)

    def store_all(self, **registers: int) -> None:
        for name, register in registers.items():
            self.store(name, register)

    def store(self, name: str, register: int) -> None:
        home = self.homes.get(name)
        if home is None:
            self._b("sw", register, self._slots[name], SP)
        elif home != register:
            self._b.mv(home, register)

    def advance(self, name: str, distance: Value, temporary: int, other: int) -> None:
        """Add ``distance`` to a number; ``temporary`` and ``other`` may be clobbered."""
        register = self.register(name, temporary)
        self._b.add(register, distance, other)
        self.store(name, register)

    @contextmanager
    def repeated(self, name: str, temporary: int) -> Generator[None]:
        """Repeat the instructions written in the context; the number ``name`` counts the iterations down to 0."""
        start = Label(self._b.position)
        yield
        self.advance(name, -1, temporary, temporary)
        self._b.far_branch("bne", self.homes.get(name) or temporary, ZERO, start)

    def address(self, name: str, rd: int) -> None:
        self._b("addi", rd, SP, self._slots[name])

    @contextmanager
    def function(self) -> Generator[None]:
        """Write prologue and epilogue around the body written in the context, which must not use the arguments."""
        self._begin()
        yield
        for number, register in enumerate(self._saved):
            self._b("lw", register, self._place(number), SP)
        if self._size:
            self._b("addi", SP, SP, self._size)
        self._b("jalr", ZERO, 0, RA)

    def _begin(self) -> None:
        if self._size:
            self._b("addi", SP, SP, -self._size)
        for number, register in enumerate(self._saved):
            self._b("sw", register, self._place(number), SP)
        if self._alternatives is None:
            self._compute(self._terms)
            return
        flag, if_set, if_clear = self._alternatives
        self._compute([name for name in self._terms if name not in {*if_set, *if_clear}])
        write_others = partial(self._compute, if_clear)
        with self._b.replaced("beq", self.register(flag, self._free()[0]), ZERO, write_others):
            self._compute(if_set)

    def _compute(self, names: Collection[str]) -> None:
        allocator = RegisterAllocator(self._free())
        computed = [name for name in names if name not in self.constants or name in self.homes]
        for name, following in zip_longest(computed, computed[1:]):
            value = self._terms[name]
            for item in (name, following):
                self._load_arguments(item, allocator)
            # compute it in its home register unless another register holds it already
            home = self.homes.get(name)
            register = self._evaluate(value, allocator, home)
            if name in self._intermediates:
                self.homes[name] = register
                continue
            if home is not None and home != register:
                allocator.forget(home)
            self.store(name, register)
            allocator.holds[Name(name)] = register
            allocator.give_back(register)
        for name in self._intermediates:
            del self.homes[name]

    def _free(self) -> list[int]:
        taken = {*self.homes.values(), ARGUMENTS_POINTER, CORE, CORES} | ({*SAVED} - {*self._saved})
        return [register for register in FREE if register not in taken]

    def _place(self, number: int) -> int:
        return self._size - (number + 1) * WORD

    def _fold(self, value: Term) -> int | None:
        match value:
            case Number(number):
                return number
            case Argument(name):
                return self._known.get(name)
            case Name(name):
                return self.constants.get(name)
            case Combination(mnemonic, left, right):
                a, b = self._fold(left), self._fold(right)
                if (a == 0 and mnemonic in ("mul", "divu", "and")) or (b == 0 and mnemonic in ("mul", "and")):
                    return 0
                return None if a is None or b is None else TERM_OPERATIONS[mnemonic](a, b)
            case _:
                return None

    def _load_arguments(self, name: str | None, allocator: RegisterAllocator) -> None:
        value = None if name is None or self._fold(self._terms[name]) is not None else self._terms[name]
        for argument in arguments_of(value) if isinstance(value, Combination) else ():
            is_there = argument.name in ("core", "cores") or argument in allocator.holds
            if is_there or self._fold(argument) is not None or len(allocator.free) <= _WORKING:
                continue
            register = allocator.take()
            self._b("lw", register, self._offsets[argument.name], ARGUMENTS_POINTER)
            allocator.holds[argument] = register
            allocator.give_back(register)

    def _evaluate(self, value: Term, allocator: RegisterAllocator, target: int | None = None) -> int:
        match value:
            case Argument("core"):
                return CORE
            case Argument("cores"):
                return CORES
            case Name(name) if name in self.homes:
                return allocator.use(self.homes[name])
            case _:
                pass
        if (known := allocator.find(value)) is not None:
            return known
        if (constant := self._fold(value)) is not None:
            register = allocator.take(target)
            self._b.li(register, constant)
        elif isinstance(value, Combination):
            register = self._operate(value, allocator, target)
        else:
            assert isinstance(value, Argument | Name)
            register = allocator.take(target)
            is_argument = isinstance(value, Argument)
            place = (self._offsets, ARGUMENTS_POINTER) if is_argument else (self._slots, SP)
            self._b("lw", register, place[0][value.name], place[1])
        allocator.holds[value] = register
        return register

    def _operate(self, value: Combination, allocator: RegisterAllocator, target: int | None) -> int:
        mnemonic, constant = value.mnemonic, self._fold(value.right)
        if constant is not None and constant == _NEUTRAL.get(mnemonic):
            return self._evaluate(value.left, allocator, target)
        a = ZERO if self._fold(value.left) == 0 else self._evaluate(value.left, allocator)
        if constant is not None and (short := self._immediate(mnemonic, constant)) is not None:
            result = allocator.take(target)
            self._b(short[0], result, a, short[1])
        else:
            b = ZERO if constant == 0 else self._evaluate(value.right, allocator)
            result = allocator.take(target)
            match mnemonic:
                case "max0" | "min" if self._b.xpulp:
                    self._b("p.max" if mnemonic == "max0" else "p.min", result, a, b)
                case "max0":
                    self._b.mv(result, a)
                    self._b.positive(result, *allocator.spare(1))
                case "min":
                    # the result may have the register of b
                    lesser, *work = allocator.spare(3)
                    self._b.mv(lesser, a)
                    self._b.at_most(lesser, b, *work)
                    self._b.mv(result, lesser)
                case "share":
                    self._share(result, a, b)
                case _:
                    self._b(mnemonic, result, a, b)
            allocator.give_back(b)
        allocator.give_back(a)
        return result

    @staticmethod
    def _immediate(mnemonic: str, constant: int) -> tuple[str, int] | None:
        if mnemonic == "sub":
            mnemonic, constant = "add", -constant
        if mnemonic in ("add", "and") and fits_immediate(constant):
            return IMMEDIATE[mnemonic], constant
        if mnemonic in _SHIFTS and constant > 0 and constant.bit_count() == 1:
            return _SHIFTS[mnemonic], constant.bit_length() - 1
        return None

    def _share(self, rd: int, a: int, divisor: int) -> None:
        b, divide = self._b, partial(self._b, "divu", rd, a, divisor)
        if not b.xpulp:
            divide()
            return
        b("p.cnt", rd, divisor)
        b("addi", rd, rd, -1)
        with b.replaced("bne", rd, ZERO, divide):
            b("p.ff1", rd, divisor)
            b("srl", rd, a, rd)
