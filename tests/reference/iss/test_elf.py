"""Executables: what is read of them, and one clear line for everything that is wrong with one."""

import re
from contextlib import suppress
from random import Random

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.reference.programs.elf import ElfError, FunctionSymbol, Segment, load, parse_ram, windows

CODE = 0x8000_0000
TEXT = bytes(range(64))
FUNCTION, LABEL, LOCAL = 0x12, 0x10, 0x00
TOHOST = {"tohost": (CODE + 0x1000, 8, LABEL)}
DATA_SEGMENT = (CODE + 0x1000, b"\x01\x02\x03", 0x22)


@pytest.fixture
def elf(tmp_path, elf_bytes):
    def write(segments=((CODE, TEXT, 64), DATA_SEGMENT), symbols=TOHOST, entry=CODE, **header):
        path = tmp_path / "program.elf"
        path.write_bytes(elf_bytes(segments, symbols, entry, **header))
        return path

    return write


def refused(path, **options):
    with pytest.raises(ElfError) as caught:
        load(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path} ")
    return text.removeprefix(f"{path} ")


def test_content(elf):
    program = load(elf(symbols=TOHOST | {"fromhost": (CODE + 0x1008, 8, LABEL)}))
    assert program.entry == CODE
    assert program.segments == (Segment(CODE, TEXT, 64), Segment(CODE + 0x1000, b"\x01\x02\x03", 0x22))
    assert (program.tohost, program.fromhost) == (CODE + 0x1000, CODE + 0x1008)
    assert windows(program) == ((CODE, 64), (CODE + 0x1000, 0x24))
    # bit 0 of the entry is dropped, and fromhost is optional
    program = load(elf(entry=CODE + 5))
    assert (program.entry, program.fromhost) == (CODE + 4, None)


def test_content_with_a_load_address_of_its_own(elf):
    """Start-up code copies it: memory is needed at both places."""
    program = load(elf([(CODE, TEXT, 64), (CODE + 0x1000, b"abcd", 16, CODE + 0x40)]))
    assert program.segments == (
        Segment(CODE, TEXT, 64),
        Segment(CODE + 0x40, b"abcd", 4),
        Segment(CODE + 0x1000, b"", 16),
    )
    assert windows(program) == ((CODE, 0x44), (CODE + 0x1000, 16))


def test_windows_are_joined_with_ram(elf):
    program = load(elf())
    assert windows(program, [(CODE + 0x40, 0xFC0), (0, 16)]) == ((0, 16), (CODE, 0x1024))


def test_functions_and_labels(elf):
    """A sized function hides labels inside; a label without a size reaches to the next; made-up names are left out."""
    symbols = TOHOST | {
        "main": (CODE + 8, 16, FUNCTION),
        "inside": (CODE + 12, 0, LOCAL),
        "$x": (CODE, 0, LOCAL),
        ".L1": (CODE + 2, 0, LOCAL),
        "start": (CODE, 0, LABEL),
        "alias": (CODE + 32, 0, LOCAL),
        "last": (CODE + 32, 0, LABEL),
    }
    program = load(elf(symbols=symbols))
    assert program.functions == (
        FunctionSymbol(CODE, 8, "start"),
        FunctionSymbol(CODE + 8, 16, "main"),
        FunctionSymbol(CODE + 32, 32, "last"),
    )
    names = [program.symbol_at(CODE + offset) for offset in (0, 4, 8, 0x17, 0x18, 0x3F, 0x40)]
    assert names == ["start", "start+0x4", "main", "main+0xf", "", "last+0x1f", ""]
    assert program.symbol_at(0) == ""
    assert program.symbols["inside"] == CODE + 12


def test_global_symbols_hide_local_ones(elf, elf_bytes, tmp_path):
    content = elf_bytes(((CODE, TEXT, 64), DATA_SEGMENT), TOHOST | {"Tohost": (CODE + 4, 0, LOCAL)}, CODE)
    path = tmp_path / "two.elf"
    path.write_bytes(content.replace(b"Tohost", b"tohost"))
    assert load(path).tohost == CODE + 0x1000


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"klass": 2}, "a 32-bit little-endian ELF file, not 64-bit little-endian for EM_RISCV"),
        ({"data": 2}, "a 32-bit little-endian ELF file, not 32-bit big-endian for 62208"),
        ({"type": 1}, "an executable, not a relocatable object: link it"),
        ({"machine": 40}, "a RISC-V program, not for machine EM_ARM"),
        ({"phnum": 0}, "something to load, not no segment"),
        ({"phoff": 0xFFFF_0000}, "a whole ELF file, not truncated before its program headers"),
        ({"symbols": {}}, "the symbol tohost, not end without telling its result"),
        ({"symbols": {"tohost": (CODE + 0x1024, 8, LABEL)}}, "its tohost inside memory, not at 0x80001024"),
        ({"symbols": {"tohost": (CODE + 0x1002, 8, LABEL)}}, "its tohost at a multiple of 4, not at 0x80001002"),
        ({"entry": CODE + 64}, "its entry inside memory, not at 0x80000040"),
        (
            {"segments": [(CODE, TEXT, 64), (CODE + 60, b"", 16)]},
            "segments apart from each other, not two at 0x8000003c",
        ),
        ({"segments": [(CODE, TEXT, 60), DATA_SEGMENT]}, "segments that hold their content, not 0x80000000"),
    ],
)
def test_wrong_files(elf, changes, rule):
    assert re.fullmatch(f"must (be|have|define) {rule}", refused(elf(**changes)))


def test_ram_may_hold_the_exit_channel_and_the_last_byte_of_the_address_space_is_usable(elf):
    path = elf([(CODE, TEXT, 64), (0xFFFF_FFF0, b"", 16)], {"tohost": (0x100, 8, LABEL)})
    assert load(path, ram=[(0x100, 4)]).tohost == 0x100
    assert "tohost inside memory" in refused(path, ram=[(0x104, 4)])


def test_no_elf_file(tmp_path):
    path = tmp_path / "file"
    assert refused(path) == "must be an existing file, and there is none of this name"
    assert refused(tmp_path) == "must be a file, not a folder"
    for name, content, kind in (
        ("file", b"", "empty"),
        ("file", b"#!/bin/sh\n" * 20, "a text, which begins with '#!/bin/sh'"),
        ("file", b"\x89PNG\r\n\x1a\n", "binary data, which begins with the bytes 89 50 4e 47"),
        ("file", b"!<arch>\n", "a library of objects: xpulpnn cc links it"),
        ("core.v", b"module core;", "Verilog, of which a simulator makes a model, not a program"),
    ):
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path / name) == f"must be an ELF file, not {kind}"


@pytest.mark.flow
def test_every_truncation_is_one_clear_error(elf):
    path = elf(symbols=TOHOST | {"main": (CODE, 8, FUNCTION)})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert any(word in refused(path) for word in ("truncated", "empty")), f"length {length}"
    path.write_bytes(whole)
    load(path)


@pytest.mark.flow
def test_damage_is_one_clear_error_or_harmless(elf):
    rng = Random(11)
    path = elf(symbols=TOHOST | {"main": (CODE, 8, FUNCTION)})
    whole = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        with suppress(ElfError):
            load(path)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("0x80000000:1M", (1 << 31, 1 << 20)),
        ("4096:0x20", (4096, 32)),
        ("64k:2K", (1 << 16, 2048)),
        ("0:4G", (0, 1 << 32)),
    ],
)
def test_ram(text, window):
    assert parse_ram(text) == window


@pytest.mark.parametrize(
    "text", ["", "1000", "0x100:", ":4", "a:4", "0:0", "0:-4", "-4:8", "2:4", "0:6", "4:4G", "0:1T"]
)
def test_wrong_ram(text):
    with pytest.raises(InputError) as caught:
        parse_ram(text)
    assert str(caught.value) == (
        f"memory must be BASE:SIZE within 4 GiB, both multiples of 4, such as 0x80000000:1M, not {text}"
    )
