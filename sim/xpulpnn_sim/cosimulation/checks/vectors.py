"""Reads single-instruction vectors from JSON lines, and compares them with the golden models."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, require, unreadable
from xpulpnn.isa import machine
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import ALL_WORDS, INSNS, by_mnemonic, enabled
from xpulpnn_sim.cosimulation.model.statics import register
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import HANDLERS, SEQUENCER_OPS, execute
from xpulpnn_sim.reference.iss.fetched import Fetched

# numbers in the register fields of every vector's word, and of one whose instruction has two sums
VECTOR_REGISTERS, PAIR_REGISTERS = {"rd": 10, "rs1": 11, "rs2": 12}, {"rd": 10, "rd2": 11, "rs1": 12}

_NUMBERS = ("word", "rs1", "rd_in", "rd_out", "rs2", "rs1_out")  # fields that are words


@dataclass(slots=True, kw_only=True)
class Vector:
    """An execution of an instruction: registers before (``_in``) and after it (``_out``, None if not given)."""

    origin: tuple[str, int] = "", 0  # file and line
    insn: Insn
    word: int
    rs1: int
    rs2: int
    rd_in: int
    rd_out: int | None = None
    rs1_out: int | None = None
    rd2_in: int = 0  # second sum of Mac&Load of two products
    rd2_out: int = 0
    nnrf_in: list[int] = field(default_factory=list[int])  # empty except for Mac&Load and requantisation
    nnrf_out: list[int] = field(default_factory=list[int])
    mem: dict[int, int] = field(default_factory=dict[int, int])  # memory words by byte address
    checks_rd: bool = False  # whether the instruction writes a register other than x0 in field rd


@dataclass(frozen=True, slots=True)
class VectorMismatch:
    vector: Vector
    field: str
    expected: int
    got: int

    def record(self) -> dict[str, Any]:
        file, line = self.vector.origin
        return {
            "file": file,
            "line": line,
            "insn": self.vector.insn.mnemonic,
            "word": self.vector.word,
            "field": self.field,
            "expected": self.expected,
            "got": self.got,
        }


def registers_of(insn: Insn) -> dict[str, int]:
    return PAIR_REGISTERS if insn.is_pair else VECTOR_REGISTERS


def expressible(insn: Insn) -> bool:
    """Return whether vectors can describe an instruction: it must not jump or store, and change only registers."""
    return (
        insn.size == machine.WORD_BYTES
        and insn.op in HANDLERS
        and insn.op not in SEQUENCER_OPS
        and insn.op != "auipc"
        and not (insn.is_branch or insn.is_jump or insn.is_store)
    )


class VectorReader:
    def __init__(self, config: CoreConfig) -> None:
        self.skipped = 0
        self._most_entries = (
            machine.NNRF_WORDS if config.mac_load_pair else max(config.nnrf_entries, machine.NNRF_ENTRIES)
        )
        self._known: dict[tuple[str, int], Insn] = {}
        self._present = {id(row) for row in enabled(config.extensions, config.widths) if expressible(row)}

    def read(self, path: Path) -> Iterator[Vector]:
        """Yield the vectors of a file, plain or gzip. Raises :class:`InputError` if it is invalid or has none."""
        empty = True
        try:
            with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        empty = False
                        try:
                            vector = self._parse(line)
                        except InputError as error:
                            raise InputError(f"{path} line {number}: {error}") from None
                        if vector is not None:
                            vector.origin = str(path), number
                            yield vector
        except (OSError, EOFError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError | IsADirectoryError):
                raise InputError(unreadable(path, error)) from None
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"vector file must be readable text or gzip, not {path} ({reason})") from None
        require(not empty, f"vector file must hold vectors, not nothing: {path}")

    def _parse(self, line: str) -> Vector | None:
        try:
            entry = json.loads(line)
        except (json.JSONDecodeError, RecursionError, ValueError) as error:
            reason = getattr(error, "msg", "too deep or too long")
            raise InputError(f"vector must be a JSON object, not: {_shown(line.strip())} ({reason})") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("insn"), str):
            raise InputError(f"vector must be a JSON object with the name `insn`, not {_shown(line.strip())}")
        with_entries = "nnrf_in" in entry
        needed = {"word", "rs1", "rd_in", "rd_out", "rs1_out" if with_entries else "rs2"}
        numbers: dict[str, Any] = {"rs2": 0}
        numbers |= {name: _unsigned(entry, name) for name in _NUMBERS if name in needed or name in entry}
        word = numbers["word"]
        vector = Vector(insn=INSNS[0], mem=_memory(entry.get("mem", {})), **numbers)
        if with_entries:
            vector.nnrf_in, vector.nnrf_out = _entries(entry, "nnrf_in"), _entries(entry, "nnrf_out")
        # files repeat few words: each is looked up once
        row = self._known.get((entry["insn"], word)) or self._row(entry["insn"], word)
        if row is None or id(row) not in self._present:
            self.skipped += 1
            return None
        vector.insn = row
        if (entry["insn"], word) not in self._known:
            _check_registers(vector)
            self._known[entry["insn"], word] = row
        vector.checks_rd = row.writes_rd and register(vector.word, "rd") != 0
        require(with_entries or not row.uses_nnrf, f"nnrf_in must be given for {row.mnemonic}, not left out")
        if row.is_pair:
            vector.rd2_in, vector.rd2_out = _unsigned(entry, "rd2_in"), _unsigned(entry, "rd2_out")
        if with_entries:
            own = row.requantises or row.loads_parameter
            fewest = machine.NNRF_WORDS if row.is_pair else machine.NNRF_ENTRIES + machine.NNRF_PARAMETERS * own
            _check_lengths(vector, fewest, self._most_entries)
        if "imm" in entry and row.is_nn_form and _unsigned(entry, "imm") != register(vector.word, "rs2"):
            raise InputError(f"imm must be the immediate of word, {register(vector.word, 'rs2')}, not {entry['imm']}")
        if bool(entry.get("rd_is_x0", register(vector.word, "rd") == 0)) != (register(vector.word, "rd") == 0):
            raise InputError(f"rd_is_x0 must tell whether the rd field of word is 0, not {entry['rd_is_x0']}")
        return vector

    def _row(self, name: str, word: int) -> Insn | None:
        """Decode a word, which must encode ``name``; None if there is no instruction of that name."""
        named = by_mnemonic(name)
        if not named:
            return None
        row = ALL_WORDS.decode(word)
        if row is None or not any(alias is row or alias.matches(word) for alias in named):
            shown = "an illegal word" if row is None else row.mnemonic
            raise InputError(f"word must encode {name}, not {shown} (0x{word:08x})")
        return row


_SHOWN = 40


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _unsigned(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    if type(value) is not int or not 0 <= value < machine.ADDRESS_SPACE:
        shown = "left out" if name not in entry else _shown(json.dumps(value))
        raise InputError(f"{name} must be an unsigned 32-bit integer, not {shown}")
    return value


def _entries(entry: dict[str, Any], name: str) -> list[int]:
    values = entry.get(name)
    if not isinstance(values, list):
        raise InputError(f"{name} must be a list of words, not {_shown(json.dumps(values))}")
    return [_unsigned({name: value}, name) for value in values]


_LENGTHS = (machine.NNRF_ENTRIES, machine.NNRF_ENTRIES + machine.NNRF_PARAMETERS, machine.NNRF_WORDS)


def _check_lengths(vector: Vector, fewest: int, most: int) -> None:
    lengths = [length for length in _LENGTHS if fewest <= length <= most]
    for name, values in (("nnrf_in", vector.nnrf_in), ("nnrf_out", vector.nnrf_out)):
        if len(values) not in lengths:
            rule = " or ".join(map(str, lengths))
            raise InputError(f"{name} must be a list of {rule} words, not {_shown(json.dumps(values))}")
    if len(vector.nnrf_in) != len(vector.nnrf_out):
        raise InputError(f"nnrf_out must be as long as nnrf_in, not {len(vector.nnrf_out)} words")


def _memory(mem: object) -> dict[int, int]:
    if not isinstance(mem, dict):
        raise InputError(f"mem must be an object of address and word, not {_shown(json.dumps(mem))}")
    words: dict[int, int] = {}
    for address, word in mem.items():
        try:
            number = int(address, 0)
        except ValueError:
            number = int(address) if address.isdecimal() else -1
        if not 0 <= number < machine.ADDRESS_SPACE:
            raise InputError(f"mem address must be an unsigned 32-bit integer, not {_shown(address)}")
        words[number] = _unsigned({"mem word": word}, "mem word")
    return words


def _check_registers(vector: Vector) -> None:
    for name in sorted(vector.insn.reads | ({"rd"} if vector.insn.writes_rd else set())):
        number = register(vector.word, name)
        expected = registers_of(vector.insn)[name]
        require(number in (expected, 0), f"{name} field of word must be x{expected}, not x{number}")


def source(vector: Vector, name: str) -> int:
    if vector.insn.is_pair and name == "rs2":
        # the second sum is read in place of rs2
        return vector.rd2_in if register(vector.word, "rd") else 0
    if register(vector.word, name) == 0:
        return 0
    return {"rs1": vector.rs1, "rs2": vector.rs2, "rd": vector.rd_in}[name]


def _loaded(vector: Vector, address: int) -> int:
    """Return the word at ``address`` of the vector's memory, in which bytes that are not given are 0."""
    if address in vector.mem:
        return vector.mem[address]
    held = {
        (at + i) % machine.ADDRESS_SPACE: word >> machine.BYTE_BITS * i & machine.BYTE_MASK
        for at, word in vector.mem.items()
        for i in range(machine.WORD_BYTES)
    }
    return sum(
        held.get((address + i) % machine.ADDRESS_SPACE, 0) << machine.BYTE_BITS * i for i in range(machine.WORD_BYTES)
    )


def check_golden(vectors: Iterable[Vector]) -> list[VectorMismatch]:
    groups: dict[tuple[str, str], list[Vector]] = {}
    for vector in vectors:
        groups.setdefault(vector.insn.key, []).append(vector)
    pairs = (pair for group in groups.values() for pair in zip(group, states_after(group), strict=True))
    return [mismatch for vector, after in pairs for mismatch in differences(vector, after)]


def states_after(group: Sequence[Vector]) -> Iterator[dict[str, Any]]:
    insn = group[0].insn

    def column(values: Iterable[int]) -> Any:
        return np.fromiter(values, np.uint32, len(group))

    sources = Sources(
        word=column(v.word for v in group),
        rs1=column(source(v, "rs1") for v in group),
        rs2=column(source(v, "rs2") for v in group),
        rd=column(source(v, "rd") for v in group),
    )
    if insn.is_mac_load or insn.requantises:
        entries = [_factor_entries(vector) for vector in group]
        sources.act = column(v.nnrf_in[first] for v, (first, _) in zip(group, entries, strict=True))
        sources.wgt = column(v.nnrf_in[second] for v, (_, second) in zip(group, entries, strict=True))
        if insn.is_pair:
            sources.act2 = column(v.nnrf_in[first + 1] for v, (first, _) in zip(group, entries, strict=True))
    if insn.is_load or insn.writes_base:
        addresses = execute(insn, sources).address
        assert addresses is not None
        sources.loaded = column(_loaded(v, at) for v, at in zip(group, addresses.tolist(), strict=True))
    effects = execute(insn, sources)
    for i, vector in enumerate(group):
        after = {"rd_out": source(vector, "rd"), "rs1_out": vector.rs1, "nnrf_out": list(vector.nnrf_in)}
        accessed = effects.accessed is not None and effects.accessed[i]
        if accessed and effects.base is not None:
            after["rs1_out"] = int(effects.base[i])
        if effects.rd is not None and register(vector.word, "rd"):
            after["rd_out"] = int(effects.rd[i])
        if effects.rd2 is not None:
            after["rd2_out"] = int(effects.rd2[i]) if register(vector.word, "rd") else vector.rd2_in
        if accessed and effects.nn_index is not None:
            after["nnrf_out"][int(effects.nn_index[i])] = int(sources.loaded[i])
        yield after


def _factor_entries(vector: Vector) -> tuple[int, int]:
    if vector.insn.requantises:
        return machine.FIRST_PARAMETER, machine.FIRST_PARAMETER + 1
    fetched = Fetched(vector.word, vector.insn, vector.word, machine.WORD_BYTES)
    return fetched.nn_activation or 0, fetched.nn_weight or 0


def differences(vector: Vector, after: dict[str, Any]) -> Iterator[VectorMismatch]:
    names = ["rd_out"] * (vector.checks_rd and vector.rd_out is not None)
    names += ["rd2_out"] * (vector.checks_rd and vector.insn.is_pair)
    names += ["rs1_out"] * (vector.rs1_out is not None)
    for name in names:
        if getattr(vector, name) != after[name]:
            yield VectorMismatch(vector, name, getattr(vector, name), after[name])
    for i, (want, got) in enumerate(zip(vector.nnrf_out, after["nnrf_out"], strict=False)):
        if want != got:
            yield VectorMismatch(vector, f"nnrf_out[{i}]", want, got)
