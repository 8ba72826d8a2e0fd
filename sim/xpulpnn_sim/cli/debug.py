"""``xpulpnn debug``: debug a program on the design, or on the simulator, with gdb."""

import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn.isa.csr import CSRS, CsrGroup
from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE
from xpulpnn_sim.cli.common import FAILED, OK, progress_bar, tell
from xpulpnn_sim.cli.configurations import ClusterOptions
from xpulpnn_sim.cli.options import Repeated, arguments, command
from xpulpnn_sim.cli.programs import LoadOptions, load_program, show, with_named_core
from xpulpnn_sim.cosimulation.model.libraries import engine_of, model_library
from xpulpnn_sim.cosimulation.model.machine import ALL_CYCLES, Machine
from xpulpnn_sim.cosimulation.workloads.debugger import CONFIGURATION, GDB_SCRIPT, Debugger, debugged, end_text, serving
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.gdb_server import GdbServer
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.exits import Exit
from xpulpnn_sim.reference.programs.failures import explain
from xpulpnn_sw.toolchain.build_options import DEFAULT_RAM, DEFAULT_ROM

_GDB = ("gdb-multiarch", "riscv64-unknown-elf-gdb", "riscv32-unknown-elf-gdb")
_PATIENCE_S = 60.0
_LINKED = (TEXT_BASE, DEFAULT_ROM), (DATA_BASE, DEFAULT_RAM)
"""Memory of a debugged program, large enough for other programs that gdb loads later."""


@arguments
class DebugOptions(LoadOptions, ClusterOptions):
    execute: Annotated[Repeated, Parameter(name=("--ex", "-ex"), metavar="COMMAND")] = ()
    """Command for gdb, behind those that connect it; repeatable. -x FILE runs those of a file."""
    iss: bool = False
    """Run the program on the instruction-set simulator, which is faster and needs no OpenOCD."""
    batch: bool = False
    """Let gdb end behind these commands; the command fails if the program does."""


@command("debug")
def debug_command(options: DebugOptions) -> int:
    """
    xpulpnn debug prog.elf  # gdb before the first instruction
    xpulpnn debug prog.elf --iss  # the same on the instruction-set simulator
    xpulpnn debug prog.elf --batch --ex 'break main' --ex continue --ex 'info registers'  # commands alone
    """
    if options.batch and not options.execute:
        raise InputError("--batch must come with --ex COMMAND, what gdb is to do, not alone")
    options = with_named_core(options)
    gdb = next((path for name in _GDB if (path := shutil.which(name))), None)
    if gdb is None:
        raise ToolError("gdb-multiarch must be installed to debug: apt-get install gdb-multiarch")
    if options.iss:
        return _on_simulator(options, gdb)
    config = debugged(options.simulated_target)
    executable = load_program(options, config)
    linked = _LINKED[: 1 if isinstance(config, ClusterConfig) else None]  # a cluster has its own data memory
    given = {"ram": (*options.windows, *linked), "l2_latency": options.l2_latency or 1}
    machine = Machine.of(options, max_cycles=ALL_CYCLES[1], **given)
    if shutil.which("openocd") is None:
        raise ToolError("openocd must be installed to debug: apt-get install openocd")
    with progress_bar("compiling the model", None):
        library = model_library(engine_of(config, debugged=True), config)
    with ExitStack() as stack:
        debugger = stack.enter_context(serving(0, holds=True, tell=lambda end: tell(end, "gdb halts it as by Ctrl-C")))
        model = Thread(
            target=run_program,
            args=(executable, config, machine),
            kwargs={"library": library, "output": show, "debugger": debugger},
            daemon=True,
        )
        model.start()
        stack.callback(model.join, _PATIENCE_S)
        stack.callback(setattr, debugger, "closing", True)
        return _gdb(stack, gdb, _server(stack, debugger, config), debugger, options)


def _on_simulator(options: DebugOptions, gdb: str) -> int:
    target = options.target
    if isinstance(target, ClusterConfig):
        raise InputError("--iss must be left out with --cores")
    given = {"errors": options.bus_errors, "hart_id": options.hart_id, "clint": options.clint, "output": show}

    def begin(path: str) -> IssSession:
        executable = load_program(replace(options, program=Path(path or options.program)), target)
        return IssSession(executable, target, ram=(*options.windows, *_LINKED), **given)

    def text_of(session: IssSession, end: Exit) -> str:
        return end_text(end, explain(session.executable, end, session.trapped, target, options.title))

    with progress_bar("compiling the simulator", None):
        server = GdbServer(begin, text_of, tell)
    serving_gdb = Thread(target=server.serve, daemon=True)
    serving_gdb.start()
    with ExitStack() as stack:
        stack.callback(serving_gdb.join)
        stack.callback(server.close)
        return _gdb(stack, gdb, server.port, server, options)


def _server(stack: ExitStack, debugger: Debugger, config: CoreConfig | ClusterConfig) -> int:
    """Start OpenOCD; return its port for gdb."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    access = "sysbus" if config.cores == 1 else "{sysbus progbuf}"
    own = config.core.csr_groups - {CsrGroup.BASE, CsrGroup.DEBUG, CsrGroup.TRIGGER}
    csrs = " ".join(f"{csr.address}={csr.name}" for csr in CSRS if csr.group in own)
    words = {"PORT": debugger.port, "GDB_PORT": port, "HARTS": config.cores, "ACCESS": access, "CSRS": f"{{{csrs}}}"}
    settings = [word for name, value in words.items() for word in ("-c", f"set {name} {value}")]
    line = ["openocd", *settings, "-f", str(CONFIGURATION)]
    # signals for gdb such as Ctrl-C must not reach the server
    server = subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace", start_new_session=True
    )
    stack.callback(server.wait)
    stack.callback(server.terminate)
    assert server.stderr is not None
    seen: list[str] = []
    for text in server.stderr:
        seen.append(text)
        if f"Listening on port {port}" in text:
            Thread(target=server.stderr.read, daemon=True).start()
            return port
    raise ToolError(f"openocd must serve gdb, not end with: {''.join(seen[-5:]).strip()}")


def _gdb(stack: ExitStack, gdb: str, port: int, debugger: Debugger | GdbServer, options: DebugOptions) -> int:
    batch, quiet = (["-batch"], ["set pagination off", "set confirm off"]) if options.batch else ([], [])
    engine = f"set $simulated = {int(options.iss)}", f"set $triggers = {options.simulated_target.core.triggers}"
    commands = (*quiet, f"target extended-remote localhost:{port}", *options.execute)
    before, words = ([word for text in each for word in ("-ex", text)] for each in (engine, commands))
    # Ctrl-C reaches both processes, and is gdb's: it halts the program
    stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, lambda *_: None))
    session = subprocess.Popen([gdb, "-q", *batch, *before, "-x", str(GDB_SCRIPT), *words, str(options.program)])
    stack.callback(session.wait)
    stack.callback(session.kill)
    if isinstance(debugger, Debugger):
        debugger.halt = partial(session.send_signal, signal.SIGINT)
    code = session.wait()
    end = debugger.end if options.batch else None
    return code if end is None else OK if end.ok else FAILED
