"""The compiled simulator: a library with a function for every row of the instruction table, built once per machine."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterable
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_uint32, c_uint64, c_void_p
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import Any

import xpulpnn.isa
from xpulpnn.config import TCDM_SPACE
from xpulpnn.errors import ToolError, require
from xpulpnn.isa import cluster, csr, machine, retirement
from xpulpnn.isa.csr import CSR_BY_ADDRESS, CSRS, NN_BASE, PERFORMANCE_EVENTS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.semantics import STATE, STATE_WORDS
from xpulpnn.isa.table import INSNS
from xpulpnn.isa.xif import XIF_ROWS
from xpulpnn.user_cache import cached_file
from xpulpnn_sim.reference.programs.exits import MOST_STEPS, MOST_TRAPS
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS
from xpulpnn_sim.reference.statements import cpp

Read = CFUNCTYPE(c_uint32, c_uint32, c_uint32, POINTER(c_uint32))
Write = CFUNCTYPE(c_uint32, c_uint32, c_uint32, c_uint32)

DONE, BUS_ERROR, RAISED, TRAP, AGAIN, RESTS, TRAPS, DIFFERS, BREAK = range(9)  # status of a hart
PRESENT, READ_ONLY, WRITE_ONLY = 1, 2, 4  # bits of Hart::access
STOP, BRANCH, JUMP, REGISTER_JUMP, LEADS, STORE, UPDATES, PAIR = (1 << bit for bit in range(8))  # flags of an operation
PAGE_BITS = 12
PATH = 1 << 17  # most addresses of instructions that are noted before Python reads them
RAW = 1 << 31  # bit of the size of a load that ignores errors

ALWAYS = ("insn", "trap", "cause", "nn_we", "rd2_we", "mem_rmask", "mem_wmask", "pc_wdata")
"""Fields that are valid in every record."""

COMPARED = (*WORD_FIELDS, "order", "interrupt", "bus_req", "bus_addr", "bus_we", "bus_be", "bus_wdata")
"""Fields of a record, and other effects in which a design may differ."""

_CSR_ADDRESSES = 1 << 12
_CONSTANTS = {
    **{name.upper(): place for name, place in cpp.CSR_PLACES.items()},
    **{name.upper(): number for number, name in enumerate(PERFORMANCE_EVENTS)},
    **{f"PLACE_{name}": place for place, name in enumerate(COMPARED)},
    **{
        name: value
        for module in (cluster, csr, machine, retirement)
        for name, value in vars(module).items()
        if type(value) is int and name[0] != "_"
    },
    **{cause.name: cause.value for cause in machine.ExceptionCause},
    **{f"{line.name}_LINE": line.value for line in machine.Interrupt},
    "TCDM_SPACE": TCDM_SPACE,
    "MTIME_ADDRESS": machine.CLINT_BASE + machine.Clint.MTIME,
    "DEBUG_WAIT": retirement.WaitCause.DEBUG,
    "MOST_STEPS": MOST_STEPS,
    "MOST_TRAPS": MOST_TRAPS,
    "EVENTS": len(PERFORMANCE_EVENTS),
    **{f"{name.upper()}_ADDRESS": csr.CSR_BY_NAME[name].address for name in ("mip", "pccr0")},
    "CSR_COUNT": len(CSRS),
    "CSR_ADDRESSES": _CSR_ADDRESSES,
    "NN_CSR": CSRS.index(CSR_BY_ADDRESS[NN_BASE]),
    "STATE_WORDS": STATE_WORDS,
    "FAILED": STATE["FAILED"],
    "PAGE_BITS": PAGE_BITS,
    "PATH": PATH,
    "ALWAYS": sum(1 << WORD_FIELDS.index(name) for name in ALWAYS),
}
_PLACE_AT = {each.address: place for place, each in enumerate(CSRS)}
_TABLES: dict[str, Iterable[int]] = {
    "IRQ_PRIORITY": machine.IRQ_PRIORITY,
    "CSR_AT": [_PLACE_AT.get(address, 0) for address in range(_CSR_ADDRESSES)],  # place of each CSR
    "CSR_WRITABLE": [each.writable for each in CSRS],
    # place of the CSR that another one, such as cycle, shows
    "CSR_SHOWN": [cpp.CSR_PLACES.get(f"m{each.name}", place) for place, each in enumerate(CSRS)],
}
_HEADERS = [Path(__file__).parent / "native" / f"{name}.hpp" for name in ("hart", "system", "follow", "cluster")]
_DECLARATIONS = "\n".join(path.read_text() for path in _HEADERS)
_TYPES: dict[str, Any] = {"Function": c_void_p, "Read": Read, "Write": Write}
_TYPES |= {f"{kind[2]}{bits}": getattr(ctypes, f"{kind}{bits}") for kind in ("c_uint", "c_int") for bits in (8, 32, 64)}


def _fields(name: str) -> list[tuple[str, Any]]:
    """Return the fields of a structure of the header, whose declarations have one line each."""
    body = _DECLARATIONS.partition(f"struct {name} {{")[2].partition("\n\n")[0]
    fields: list[tuple[str, Any]] = []
    for kind, declared in re.findall(r"^  (\w+) ([^;()]+);", body, re.MULTILINE):
        for each in declared.split(", "):
            field, _, size = each.lstrip("*").rstrip("]").partition("[")
            scalar = c_void_p if each[0] == "*" else _TYPES[kind]
            fields.append((field, scalar * (_CONSTANTS.get(size) or int(size)) if size else scalar))
    return fields


def _structure(name: str) -> Any:
    return type(name, (Structure,), {"_fields_": _fields(name)})


Operation: Any = _structure("Op")  # a translated instruction
Translate = _TYPES["Translate"] = CFUNCTYPE(c_uint32, c_uint32, POINTER(Operation))
_wide, _words = (("order", c_uint64), ("cycle", c_uint64)), tuple((name, c_uint32) for name in WORD_FIELDS)
_TYPES["Record"] = type("Record", (Structure,), {"_fields_": (*_wide, *_words)})
NativeMemory: Any = _structure("Memory")
NativeHart: Any = _structure("Hart")
Grant: Any = _structure("Grant")
_TYPES["Grant"] = Grant
Follower: Any = _structure("Follower")
Walk: Any = _structure("Walk")
Turns: Any = _structure("Turns")

Table = c_void_p * (1 << 32 - PAGE_BITS)


def table() -> Any:
    """Return an array with a null pointer for each page of the address space."""
    return Table.from_buffer(mmap(-1, ctypes.sizeof(Table)))


_ROWS = (*INSNS, *XIF_ROWS)
_PLACES = {insn.key: place for place, insn in enumerate(_ROWS)}

_COMMAND = ("g++", "-std=c++17", "-O2", "-fwrapv", "-g0", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-x", "c++", "-")


def _source() -> str:
    return "\n".join(
        [
            "#include <cstdint>",
            *(f"constexpr uint64_t {name} = {value};" for name, value in _CONSTANTS.items()),
            *(f"constexpr uint32_t {name}[] = {{{', '.join(map(str, of))}}};" for name, of in _TABLES.items()),
            f"struct Record {{ uint64_t order, cycle; uint32_t {', '.join(WORD_FIELDS)}; }};",
            _DECLARATIONS,
            cpp.functions(_ROWS),
        ]
    )


def _build(made: Path) -> None:
    if shutil.which(_COMMAND[0]) is None:
        raise ToolError(f"{_COMMAND[0]} must be installed to compile the simulator: apt-get install {_COMMAND[0]}")
    line = [*_COMMAND, "-o", str(made)]
    done = subprocess.run(line, input=_source(), capture_output=True, text=True, check=False)
    require(not done.returncode, f"{_COMMAND[0]} must compile the simulator, not fail:\n{done.stderr}", ToolError)


@cache
def library() -> Any:
    folders = (Path(xpulpnn.isa.__file__).parent, Path(cpp.__file__).parent)
    sources = (*(path for folder in folders for path in sorted(folder.glob("*.py"))), *_HEADERS, Path(__file__))
    identity = (_COMMAND, [path.read_bytes() for path in sources])
    loaded: Any = ctypes.CDLL(str(cached_file(identity, ".so", _build)))
    loaded.functions = (c_void_p * len(_ROWS)).in_dll(loaded, "ROWS")
    loaded.run.restype = loaded.walk.restype = c_uint64
    loaded.take_turns.restype = c_bool
    return loaded


def function_of(insn: Insn | str) -> int:
    """Return the address of the function that executes a row of the instruction table, or that has a name."""
    if isinstance(insn, str):
        return ctypes.cast(getattr(library(), insn), c_void_p).value or 0
    return library().functions[_PLACES[insn.key]]
