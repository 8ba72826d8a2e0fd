"""Serves gdb's remote protocol for a program on the simulator."""

import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from xpulpnn.errors import InputError
from xpulpnn.isa.csr import CSR_BY_ADDRESS, NN_BASE, CsrGroup
from xpulpnn.isa.machine import NNRF_WORDS, REGISTERS, WORD_BYTES
from xpulpnn_sim.reference.iss.library import BREAK
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_PC, _CSRS = REGISTERS, 65  # gdb's numbers of pc and of the CSR with the address 0
_FOREVER = 1 << 62  # instructions
_STOPPED = "S05"  # by the signal of a breakpoint
_CTRL_C = b"\x03"  # gdb sends it between packets
_WATCHES = {"2": "watch", "3": "rwatch", "4": "awatch"}  # names of watchpoints in stop replies, by those in packets


class GdbServer:
    """A server for one gdb, which writes ``ebreak`` where it sets breakpoints."""

    def __init__(
        self,
        begin: Callable[[str], IssSession],
        text_of: Callable[[IssSession, exits.Exit], str],
        tell: Callable[[str], None],
    ) -> None:
        # `begin` loads the program at a path, or a default one; `tell` reports its end or why it cannot be loaded
        self._begin, self._text_of, self._tell = begin, text_of, tell
        self._restart(begin(""))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._received = b""  # what has not been answered

    def _run(self, path: str) -> str:
        try:
            self._restart(self._begin(path))
        except InputError as error:
            self._tell(str(error))
            return "E01"
        return _STOPPED

    def _restart(self, session: IssSession) -> None:
        self._session = session
        self._iss = self._session.iss
        self._iss.state.debugged = 1
        self.end: exits.Exit | None = None  # of the program
        memory = session.memory
        self._words = [*memory.native.watched]  # that are watched without watchpoints
        self._watchpoints = set[tuple[str, int, int]]()  # kind, address and bytes
        memory.watchers.append(partial(self._accessed, "24"))
        memory.load_watchers.append(partial(self._accessed, "34"))

    def serve(self) -> None:
        """Answer packets until gdb leaves."""
        with suppress(OSError), self._listener, self._listener.accept()[0] as self._connection:
            # many small packets, each of which gdb waits for
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := self._connection.recv(1 << 14):
                self._received += data
                while match := re.search(rb"\$([^#]*)#..", self._received):
                    before, behind = self._received[: match.start()], self._received[match.end() :]
                    self._received = before.replace(b"+", b"") + behind
                    self._connection.sendall(b"+")
                    answer = self._answer(match[1].decode("latin-1"))
                    if answer is not None:
                        self._connection.sendall(f"${answer}#{sum(answer.encode()) % 256:02x}".encode())

    def close(self) -> None:
        """Wait no longer for gdb."""
        with suppress(OSError):  # it serves no longer
            self._listener.shutdown(socket.SHUT_RDWR)

    def _answer(self, packet: str) -> str | None:
        kind, (first, *rest) = packet[:1], re.split("[,:;=]", packet[1:])
        match kind:
            case "?":
                return _STOPPED
            case "g":
                return "".join(map(self._register, range(_PC + 1)))
            case "p":
                return self._register(int(first, 16))
            case "P":
                self._set_register(int(first, 16), int.from_bytes(bytes.fromhex(rest[0]), "little"))
            case "m" | "M":
                return self._access(int(first, 16), int(rest[0], 16), bytes.fromhex("".join(rest[1:])))
            case "c" | "C" | "s" | "S":
                return self._resume(_FOREVER if kind in "cC" else self._iss.executed + 1)
            case "Z" | "z" if first in _WATCHES:
                return self._watch(kind == "Z", (first, int(rest[0], 16), int(rest[1], 16)))
            case "k":
                return None
            case "v" if first == "Run":
                return self._run(bytes.fromhex(rest[0]).decode())
            case "q" if packet.startswith("qSupported"):
                return "PacketSize=4000;qXfer:features:read+"
            case "q" if packet.startswith("qXfer:features:read:target.xml:"):
                begin, size = (int(number, 16) for number in rest[3:])
                text = self._description()
                return ("m" if begin + size < len(text) else "l") + text[begin : begin + size]
            case _ if kind not in "DH!":
                return "1" if packet.startswith("qAttached") else ""
        return "OK"

    def _description(self) -> str:
        """Return the description of all registers, with the words of the NN-RF as CSRs in every core."""
        present = {address for address, access in enumerate(self._iss.state.access) if access}
        csrs = [CSR_BY_ADDRESS[address] for address in present.union(range(NN_BASE, NN_BASE + NNRF_WORDS))]
        names = {_CSRS + csr.address: csr.name if csr.group is CsrGroup.BASE else f"csr_{csr.name}" for csr in csrs}
        text = '<?xml version="1.0"?><target><architecture>riscv:rv32</architecture>'
        for feature, registers in (("cpu", dict(enumerate((*ABI_NAMES, "pc")))), ("csr", names)):
            rows = (f'<reg name="{name}" bitsize="32" regnum="{number}"/>' for number, name in registers.items())
            text += f'<feature name="org.gnu.gdb.riscv.{feature}">{"".join(rows)}</feature>'
        return f"{text}</target>"

    def _register(self, number: int) -> str:
        state = self._iss.state
        is_csr = number > _PC
        value = self._iss.csrs.call("read_csr", number - _CSRS) if is_csr else (*state.regs, state.pc)[number]
        return value.to_bytes(WORD_BYTES, "little").hex()

    def _set_register(self, number: int, value: int) -> None:
        state = self._iss.state
        if number > _PC:
            self._iss.csrs.call("write_csr", number - _CSRS, value)
        elif number == _PC:
            state.pc = value
        elif number:
            state.regs[number] = value

    def _access(self, address: int, size: int, data: bytes) -> str:
        memory = self._session.memory
        if not memory.inside(address, size):
            return "E01"
        memory.write_bytes(address, data)
        return "OK" if data else memory.read_bytes(address, size).hex()

    def _watch(self, adds: bool, watchpoint: tuple[str, int, int]) -> str:
        memory, points = self._session.memory, self._watchpoints - {watchpoint} | ({watchpoint} if adds else set())
        words = [(word, kind) for kind, at, size in points for word in range(at & -WORD_BYTES, at + size, WORD_BYTES)]
        if len(words) >= len(self._words):
            return "E01"
        self._watchpoints, memory.native.watched[:] = points, self._words
        for word, kind in words:
            (memory.watch if kind == "2" else memory.watch_loads)(word)
        return "OK"

    def _accessed(self, kinds: str, address: int, size: int) -> None:
        for kind, base, length in self._watchpoints:
            if kind in kinds and base - size < address < base + length:
                self._hit = f"T05{_WATCHES[kind]}:{base:x};"
                self._iss.halt()

    def _resume(self, limit: int) -> str:
        """Execute up to ``limit`` instructions in all, up to a breakpoint, Ctrl-C or the end of the program."""
        self._hit = ""  # answer of a watchpoint
        end = self._session.run(limit, self._poll)
        if self._hit and end.reason in (exits.Reason.MAX_CYCLES, exits.Reason.INTERRUPTED):
            return self._hit
        if end.reason is exits.Reason.MAX_CYCLES or self._iss.status == BREAK:
            return _STOPPED
        if end.reason is exits.Reason.INTERRUPTED:
            self._received = self._received.replace(_CTRL_C, b"")
            return "S02"
        self.end = end
        self._tell(self._text_of(self._session, end))
        # what has crashed stays to be looked at
        if end.reason is exits.Reason.PASS or (end.reason is exits.Reason.FAIL and end.code < exits.RUNTIME_CODES):
            return f"W{end.code:02x}"
        return "S0b" if end.reason in (exits.Reason.BAD_ACCESS, exits.Reason.BAD_FETCH) else "S06"

    def _poll(self, _executed: int) -> None:
        is_left = False
        if select.select([self._connection], [], [], 0)[0]:
            data = self._connection.recv(1 << 14)
            self._received, is_left = self._received + data, not data
        if self._iss.status == BREAK or self._hit or is_left or _CTRL_C in self._received:
            raise exits.StoppedError
