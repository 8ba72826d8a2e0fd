"""Programs from start to end: exit channel, every way to end, memory and its windows."""

import re
import socket
import struct
from threading import Thread

import pytest
from tests.programs import program_of

from xpulpnn.config import PRESETS
from xpulpnn_sim.reference.iss.gdb_server import GdbServer
from xpulpnn_sim.reference.iss.memory import AccessError, Memory
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.exits import Reason

CODE, DATA, TOHOST, FROMHOST = 0x1C00_0000, 0x1000_0000, 0x1000_0800, 0x1000_0808
ENTRY = CODE + 0x80
EXIT = "li x31, tohost; li x30, {}; sw x30, 0(x31); addi x29, x29, 1; j pc+0"


def session(source, vectors="", data=b""):
    printed = []
    made = IssSession(program_of(source, vectors, data), PRESETS["xpulpnn"], output=printed.append)
    made.printed = printed
    return made


def ended(session, limit=10_000):
    end = session.run(limit)
    return end.reason, end.text


def test_pass_stops_right_after_the_store():
    made = session(EXIT.format(1))
    end = made.run(1000)
    assert (end.reason, end.ok, end.code, end.text) == (Reason.PASS, True, 0, "pass")
    assert made.iss.state.regs[29] == 0
    assert made.iss.executed == made.iss.csrs["minstret"] == (end.pc - ENTRY) // 4 + 1
    assert made.memory.read(TOHOST, 4) == 1


@pytest.mark.parametrize(
    ("code", "text"), [(33, "33"), (0x1005, "4101 (0x1005)"), (0x3000, "12288 (0x3000, abort called)")]
)
def test_failing_code(code, text):
    made = session(EXIT.format(2 * code + 1))
    end = made.run(1000)
    assert (end.reason, end.ok, end.code) == (Reason.FAIL, False, code)
    assert end.text == f"fail: the program reports code {text} at 0x{end.pc:08x}"


@pytest.mark.parametrize(
    ("stores", "code"),
    [
        ("li x30, 5; sb x30, 0(x31)", 2),
        ("li x30, 6; sb x30, 1(x31); j pc+0", 0x300),
        ("li x30, 0x0700; sh x30, -1(x31); j pc+0", 3),
    ],
)
def test_final_value_in_pieces_counts_as_the_word(stores, code):
    end = session(f"li x31, tohost; {stores}").run(100)
    assert (end.reason, end.code) == (Reason.FAIL, code)


def test_stores_beside_the_channel_do_not_end():
    made = session("li x31, tohost; li x30, 1; sw x30, 4(x31); sw x30, -4(x31); sw x0, 0(x31); nop")
    assert made.run(7).reason is Reason.MAX_CYCLES


def call_block(descriptor=1, call=64, buffer=DATA + 0x100, length=5):
    return struct.pack("<4Q", call, descriptor, buffer, length).ljust(0x100, b"\0") + b"hello"


PRINT = """
    li x31, tohost; li x30, data; sw x30, 0(x31)
wait: lw x29, 8(x31); beq x29, x0, wait
    lw x28, 0(x31)
    sw x0, 8(x31)
    li x27, 1
    sw x27, 0(x31)
"""


@pytest.mark.parametrize("descriptor", [1, 2])
def test_printing_goes_on_after_the_call(descriptor):
    made = session(PRINT, data=call_block(descriptor))
    assert made.run(100).ok
    assert [(printed.descriptor, printed.data) for printed in made.printed] == [(descriptor, b"hello")]
    assert made.iss.state.regs[28:30] == [0, 1]


def test_a_call_must_be_aligned():
    made = session(PRINT.replace("li x30, data", "li x30, data+4"), data=bytes(4) + call_block())
    end = made.run(100)
    assert (end.reason, end.code, made.printed) == (Reason.FAIL, (DATA + 4) >> 1, [])


@pytest.mark.parametrize(
    "block",
    [
        call_block(descriptor=3),
        call_block(call=63),
        call_block(buffer=0x10),
        call_block(length=0x1000),
        call_block(buffer=1 << 32),
        call_block(length=1 << 40),
        call_block(buffer=(1 << 32) - 4),
    ],
)
def test_other_even_values_are_failures(block):
    made = session(PRINT, data=block)
    end = made.run(100)
    assert (end.reason, end.code, made.printed) == (Reason.FAIL, DATA >> 1, [])


FIRST, SECOND = f"0x{ENTRY:08x} (main)", f"0x{ENTRY + 4:08x} (main+0x4)"
STUCK = "endless loop at {}, no interrupt can end it"
TRAPS = f"trap loop: the exception handler at 0x{CODE:08x} traps at its first instruction (mcause "
AGAIN = f"trap loop: the exception handler at 0x{CODE + 12:08x} traps again and again, as behind a stack overflow"
AGAIN += " (mcause 11)"
OUTSIDE = "execution outside memory: pc 0x{:08x}, coming from {}"
ENDS = {
    "main: nop; j pc+0": (Reason.ENDLESS_LOOP, STUCK.format(SECOND)),
    "main: nop; beq x0, x0, pc+0": (Reason.ENDLESS_LOOP, STUCK.format(SECOND)),
    "main: nop; c.j pc+0": (Reason.ENDLESS_LOOP, STUCK.format(SECOND)),
    "main: auipc x5, 0; jalr x0, 4(x5)": (Reason.ENDLESS_LOOP, STUCK.format(SECOND)),
    "main: auipc x5, 0; addi x5, x5, 8; c.jr x5": (Reason.ENDLESS_LOOP, STUCK.format(f"0x{ENTRY + 8:08x} (main+0x8)")),
    "main: wfi; nop": (Reason.ENDLESS_LOOP, STUCK.format(FIRST)),
    # the handler's first instruction traps: it would do so for ever
    "ecall|ecall": (Reason.TRAP_LOOP, f"{TRAPS}11)"),
    "ecall|ebreak": (Reason.TRAP_LOOP, f"{TRAPS}3)"),
    "ecall|.word 0": (Reason.TRAP_LOOP, f"{TRAPS}2)"),
    "ecall|j pc+8; nop; addi x5, x5, 1; ecall": (Reason.TRAP_LOOP, AGAIN),
    "main: csrrw x0, mtvec, x0; ecall": (Reason.BAD_FETCH, OUTSIDE.format(0, SECOND)),
    "main: nop; jr x0": (Reason.BAD_FETCH, OUTSIDE.format(0, SECOND)),
    "main: lui x5, 0x70000; jalr x1, 6(x5)": (Reason.BAD_FETCH, OUTSIDE.format(0x7000_0006, SECOND)),
    "main: nop": (Reason.BAD_FETCH, OUTSIDE.format(ENTRY + 4, FIRST)),
}
"""Programs, with what is at the vectors behind a bar, and how they end."""


@pytest.mark.parametrize("source", ENDS)
def test_every_program_ends(source):
    text, _, vectors = source.partition("|")
    assert ended(session(text, vectors)) == ENDS[source]


def test_limits():
    made = session("main: addi x5, x5, 1; j main")
    text = f"not finished after 1001 instructions, at 0x{ENTRY + 4:08x} (main+0x4)"
    assert ended(made, 1001) == (Reason.MAX_CYCLES, text)
    assert (made.iss.executed, made.iss.state.regs[5]) == (1001, 501)


def test_a_trap_that_is_handled_is_no_loop():
    handler = "csrrs x6, mepc, x0; addi x6, x6, 4; csrrw x0, mepc, x6; addi x7, x7, 1; mret"
    made = session("ecall; ecall; .word 0;" + EXIT.format(1), vectors=handler)
    assert made.run(1000).ok
    assert made.iss.state.regs[7] == 3


@pytest.mark.parametrize(
    ("access", "text"),
    [
        ("lw x5, -4(x8)", "load of 4 bytes outside memory: address 0x0ffffffc"),
        ("lh x5, -1(x8)", "load of 2 bytes outside memory: address 0x0fffffff"),
        ("sb x5, -1(x8)", "store of 1 byte outside memory: address 0x0fffffff"),
        ("p.sw x5, 4(x9!)", "store of 4 bytes outside memory: address 0x10000ffd"),
        ("pv.mlsdotsup.b x5, (x9!), 8", "load of 4 bytes outside memory: address 0x10000ffd"),
        ("lw x5, 0(x0)", "load of 4 bytes outside memory: address 0x00000000"),
        ("lw x5, -2(x0)", "load of 4 bytes outside memory: address 0xfffffffe"),
    ],
)
def test_accesses_outside_memory(access, text):
    made = session(f"li x8, data; li x9, data+0xffd; main: {access}")
    end = made.run(100)
    assert end.reason is Reason.BAD_ACCESS
    assert end.text == f"{text}, instruction at 0x{end.pc:08x} (main)"
    assert f"0x{end.address:08x}" in text
    assert made.executed == (end.pc - ENTRY) // 4 + 1


def test_the_last_bytes_of_memory_are_usable():
    made = session("li x8, data+0xffc; lw x5, 0(x8); sb x5, 3(x8); lh x5, 2(x8); sw x5, 0(x8);" + EXIT.format(1))
    assert made.run(100).ok


def test_half_a_word_at_the_end_of_memory():
    """A compressed instruction may be the last half-word, a long one may not begin there."""
    source = "c.nop; j pc+4; .half {}"
    compressed = session(source.format(0x0285))
    assert compressed.run(100).pc == ENTRY + 8
    assert compressed.iss.state.regs[5] == 1
    assert session(source.format(0x0013)).run(100).pc == ENTRY + 6


def test_half_a_word_at_the_end_of_the_last_page():
    size = 0x1000 - 0x80
    source = "j pc+{}; {} .half 0x0013".format(size - 2, ".word 0;" * ((size - 8) // 4) + ".half 0;")
    end = session(source).run(100)
    assert (end.reason, end.pc) == (Reason.BAD_FETCH, CODE + 0xFFE)


@pytest.mark.parametrize("source", ["addi x5, x5, 1; j pc-4", "csrrs x6, mscratch, x0; j pc-4"])
def test_progress_is_told_now_and_then(source, monkeypatch):
    monkeypatch.setattr("xpulpnn_sim.reference.iss.session._CHUNK", 1000)
    progress = []
    session(source).run(5000, progress.append)
    assert 3 <= len(progress) <= 5
    assert progress == sorted(progress)


def test_memory_is_sparse_little_endian_and_wraps():
    memory = Memory()
    memory.write(0xFFF, 4, 0x4433_2211)
    assert memory.read_bytes(0xFFE, 6) == bytes([0, 0x11, 0x22, 0x33, 0x44, 0])
    assert memory.read(0x1000, 2) == 0x3322
    memory.write(0xFFFF_FFFF, 2, 0xABCD)
    assert (memory.read(0, 1), memory.read(0xFFFF_FFFF, 2)) == (0xAB, 0xABCD)
    assert memory.read(0x8000_0000, 4) == 0


def test_memory_across_pages_that_exist():
    memory = Memory()
    for page in (0x1000, 0x2000):
        memory.write(page, 1, 0)
    memory.write(0x1FFE, 4, 0x4433_2211)
    memory.write(0x2FFF, 2, 0x6655)
    assert memory.read_bytes(0x1FFD, 6) == bytes([0, 0x11, 0x22, 0x33, 0x44, 0])
    assert memory.read_bytes(0x2FFE, 4) == bytes([0, 0x55, 0x66, 0])
    assert memory.read(0x1FFF, 2) == 0x3322


def test_memory_with_windows():
    """Only what lies in one window is accessible, to the byte; the rest reads as zeros for the host."""
    memory = Memory([(0x1004, 0x1FFA), (0xFFFF_FFFE, 2), (0, 4)])
    memory.write(0x1004, 1, 1)
    memory.write(0x2FFD, 1, 2)
    memory.write(0xFFFF_FFFE, 4, 0x8765_4321)
    assert (memory.read(0x1004, 2), memory.read(0x2FFC, 2), memory.read(0xFFFF_FFFF, 2)) == (1, 0x200, 0x6543)
    for address, size in ((0x1003, 2), (0x1003, 1), (0x2FFE, 1), (0x2FFC, 4), (0x5000, 4), (0xFFFF_FFFD, 1), (3, 2)):
        for kind in ("load", "store"):
            with pytest.raises(AccessError) as caught:
                memory.read(address, size) if kind == "load" else memory.write(address, size, 0)
            assert (caught.value.kind, caught.value.address, caught.value.size) == (kind, address, size)
    assert memory.read_bytes(0x1000, 6) == bytes([0, 0, 0, 0, 1, 0])


TOUCHES = "li x8, data+0x100; p.sw x8, 8(x8!); sb x8, -3(x8); lw x5, 0(x8); sw x5, 4(x8); sh x0, -1(x8); lw x5, 0(x0)"
WATCH = "T05watch:10000104;"
SPIN = "spin: addi x5, x5, 1; j spin"
PACKETS = {
    "ctrl-c between two steps": (SPIN, b"$s#73/\x03$s#73$s#73", ["S05", "S02", "S05"]),
    "ctrl-c at once": (SPIN, b"$c#63\x03", ["S02"]),
    "ctrl-c late": (SPIN, b"+$c#63|+\x03", ["S02"]),
    "exit": (EXIT.format(7), b"$c#63", ["W03"]),
    "run again": (EXIT.format(1), b"$c#63$vRun;#33$s#73$C05#a8", ["W00", "S05", "S05", "W00"]),
    "abort": (EXIT.format(2 * 0x3000 + 1), b"$c#63", ["S06"]),
    "watch": (TOUCHES, b"$Z2,10000104,8#00$c#63|$c#63|$z2,10000104,8#00$c#63", ["OK", WATCH, WATCH, "OK", "S0b"]),
    "watch in a step": (TOUCHES, b"$Z2,10000101,1#00$s#73|$s#73|$s#73", ["OK", "S05", "S05", "T05watch:10000101;"]),
    "rwatch": (TOUCHES, b"$Z3,10000108,4#00$c#63|$c#63", ["OK", "T05rwatch:10000108;", "S0b"]),
    "awatch": (TOUCHES, b"$Z4,10000108,1#00$c#63|$c#63|$c#63", ["OK", *2 * ["T05awatch:10000108;"], "S0b"]),
    "watch too much": (TOUCHES, b"$Z2,10000100,40#00$c#63", ["E01", "S0b"]),
    "fault": ("lw x5, 0(x0)", b"$c#63$C0b#d5", ["S0b", "S0b"]),
    "endless loop": ("j pc+0", b"$c#63", ["S06"]),
}


@pytest.mark.parametrize("case", PACKETS)
def test_gdb_is_told_why_the_program_has_stopped(case):
    source, packets, answers = PACKETS[case]
    ends = []
    server = GdbServer(lambda _path: session(source), lambda _session, end: end.text, ends.append)
    serving = Thread(target=server.serve, daemon=True)
    serving.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as gdb:
        first, *rest = re.split(rb"([|/])", packets)  # sends on when the first is acknowledged, or answered
        gdb.sendall(first)
        received = b""
        for mark, piece in zip(rest[::2], rest[1::2], strict=True):
            while (b"#" if mark == b"/" else b"+") not in received:
                received += gdb.recv(1)
            gdb.sendall(piece)
        while received.count(b"#") < len(answers):
            received += gdb.recv(100)
    serving.join(20)
    assert re.findall(r"\$([\w:;]+)#", received.decode()) == answers
    assert len(ends) == sum(text in ("S06", "S0b") or text[0] == "W" for text in answers)
