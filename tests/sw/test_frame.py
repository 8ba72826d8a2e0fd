"""Numbers that a kernel derives from its arguments, against the same expressions in Python."""

from random import Random

import numpy as np
import pytest

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension
from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.kernels.builder import WORD, Builder
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, FREE, RA, SAVED, SP, Frame
from xpulpnn_sw.kernels.terms import Argument, Combination, Name, Number, Term, minimum, positive, quotient

DATA, STACK, END = 0x1000_0000, 0x1000_2000, 0x1C00_F000
RESULTS = DATA + 0x400
VALUES = {"a": 7, "b": 64, "c": 3, "d": 1000}
CALL = {"core": 5, "cores": 8}


def value_of(term: Term, named: dict[str, int]) -> int:
    match term:
        case Number(number):
            return number
        case Argument(name):
            return {**VALUES, **CALL}[name]
        case Name(name):
            return named[name]
        case Combination(mnemonic, left, right):
            x, y = value_of(left, named), value_of(right, named)
            if mnemonic in ("divu", "share"):
                return x // y
            meanings = {"add": x + y, "sub": x - y, "mul": x * y, "and": x & y, "max0": max(x, 0), "min": min(x, y)}
            return meanings[mnemonic]
    raise AssertionError(term)


def random_terms(rng: Random) -> dict[str, Term]:
    terms: dict[str, Term] = {}
    parts: list[Term] = [*map(Argument, (*VALUES, *CALL)), Number(0), Number(4), Number(5000)]
    for number in range(12):
        x, y, divisor = rng.choice(parts), rng.choice(parts), Argument(rng.choice("abc"))
        shares = [quotient(positive(x + 3), Argument("cores")), quotient(positive(y), divisor), positive(x) // divisor]
        chosen = rng.choice([x + y, x - y, (x & 255) * (y & 255), minimum(x, y), positive(x - y), x & 1023, *shares])
        terms[f"n{number}"] = chosen
        parts += [chosen, Name(f"n{number}")]
    return terms


def computed(frame: Frame, b: Builder, shown: list[str], *, xpulp: bool = True) -> list[int]:
    """Values a function with these numbers finds for those ``shown``; it must leave the caller's registers alone."""
    with frame.function():
        pointer, work = ARGUMENTS_POINTER, CORE
        b.li(pointer, RESULTS)
        for number, name in enumerate(shown):
            b("sw", frame.register(name, work), number * WORD, pointer)
    program, memory = b.finish(), Memory()
    memory.write_bytes(DATA, np.array(list(VALUES.values()), np.uint32).tobytes())
    extensions = BASE_EXTENSIONS | ({Extension.XPULPV2} if xpulp else set())
    hart = Iss(TEXT_BASE, extensions=extensions, memory=memory)
    hart.memory.write_bytes(TEXT_BASE, program.words.tobytes())
    marks = {register: 0xA5A5_0000 + register for register in SAVED if register != RA}
    start = {ARGUMENTS_POINTER: DATA, CORE: CALL["core"], CORES: CALL["cores"], SP: STACK, RA: END, **marks}
    for register, value in start.items():
        hart.state.regs[register] = value
    hart.run(2000, until=END)
    assert {register: hart.state.regs[register] for register in marks} == marks
    assert hart.state.regs[SP] == STACK
    return np.frombuffer(memory.read_bytes(RESULTS, len(shown) * WORD), np.int32).tolist()


@pytest.mark.flow
@pytest.mark.parametrize("xpulp", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_numbers(seed: int, xpulp: bool):
    rng = Random(seed)
    terms, b = random_terms(rng), Builder(TEXT_BASE, xpulp=xpulp)
    known = {name: VALUES[name] for name in VALUES if rng.random() < 0.2}
    free = [register for register in FREE if register not in (ARGUMENTS_POINTER, CORE, CORES, RA)]
    rng.shuffle(free)
    homes = dict(zip(rng.sample(list(terms), 3), free, strict=False))
    spare = free[3:5]
    clobbered = [*SAVED] if seed % 2 else homes.values()
    intermediates = set(rng.sample(list(terms), 2)) - {*homes}
    shown = [name for name in terms if name not in intermediates]
    frame = Frame(
        b,
        list(VALUES),
        terms,
        known=known,
        homes=homes,
        preferred=rng.sample(shown, 4),
        spare=spare,
        clobbered=clobbered,
        intermediates=intermediates,
    )
    named: dict[str, int] = {}
    for name, chosen in terms.items():
        named[name] = value_of(chosen, named)
    assert computed(frame, b, shown, xpulp=xpulp) == [named[name] for name in shown]


def test_two_numbers_in_one_register():
    product, total = Argument("a") * Argument("b"), Argument("c") + 1
    terms = {"x": product, "first": total, "second": product, "y": total}
    b, home = Builder(TEXT_BASE, xpulp=True), FREE[-2]
    frame = Frame(b, list(VALUES), terms, homes={"first": home, "second": home}, clobbered=())
    assert computed(frame, b, ["x", "second", "y"]) == [448, 448, 4]
