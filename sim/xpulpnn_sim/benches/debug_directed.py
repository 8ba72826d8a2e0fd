"""Directed tests of the debug module: single flags, registers, words, commands and errors."""

from itertools import product

from xpulpnn.isa.debug import DEBUG_BYTES, DMI_ADDRESS_BITS, Command, Control, DmReg, Flag, Place
from xpulpnn.isa.debug import CommandError as Error
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches import debug_env as debug
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.golden.debug_memory import memory_words

_EVERYWHERE = range(0, DEBUG_BYTES, WORD_BYTES)


@debug.debug_test
async def each_flag_is_of_its_hart(env: debug.DebugEnv) -> None:
    """Random reports of harts and writes of the debugger change only the status of the hart concerned."""
    rng, count = env.rng, env.count
    numbers = 1 << max(count - 1, 1).bit_length()
    for step in range(bench_data()["flags"]):
        match rng.randrange(6):
            case 0:
                await env.write(DmReg.HAWINDOW, rng.getrandbits(32))
            case 1:
                env.dut.unavailable.value = word = rng.getrandbits(count) & rng.getrandbits(count)
                for place, hart in enumerate(env.model.harts):
                    hart.unavailable = bool(word >> place & 1)
            case 2 | 3:
                await env.notify(rng.choice((Place.HALTED, Place.HALTED, Place.RESUMING)), rng.randrange(env.aliases))
            case _:
                likely = (Control.HALTREQ, Control.RESUMEREQ, Control.ACKHAVERESET, Control.HASEL)
                bits = sum(bit for bit in likely if rng.random() < 0.4)
                bits |= sum(bit for bit in (Control.HARTRESET, Control.NDMRESET) if rng.random() < 0.2)
                # bits without a meaning are random
                bits |= rng.getrandbits(32) & ~(sum(Control) | numbers - 1 << 16) | rng.randrange(numbers) << 16
                await env.write(DmReg.DMCONTROL, bits | Control.DMACTIVE * (rng.random() < 0.95))
        await env.compare(*debug.HALT_REGISTERS, where=f"step {step}")
        env.compare_outputs(f"step {step}")
        await env.expect(Error.NONE, f"step {step}")
        for hart in range(count if step % 8 == 0 else 0):
            await env.select(hart)
            await env.compare(DmReg.DMSTATUS, where=f"step {step}, hart {hart}")
    env.dut.unavailable.value = 0


@debug.debug_test
async def every_bit_of_registers_is_kept(env: debug.DebugEnv) -> None:
    """Registers hold words and their complements; read data are stable; an inactive module reads as 0."""
    rng = env.rng
    words = {register: rng.getrandbits(32) for register in debug.DM_REGISTERS}
    order = sorted({*debug.DM_REGISTERS} - {DmReg.ABSTRACTCS, DmReg.COMMAND, DmReg.DMCONTROL, DmReg.SBCS})
    rng.shuffle(order)
    for flip in (0, WORD_MASK):
        value = words[DmReg.DMCONTROL] ^ flip
        # in both orders, so that each is written before and after any other
        order.reverse()
        for register in (*order, DmReg.SBCS):
            await env.write(register, words[register] ^ flip)
        for control in ((value | Control.NDMRESET | Control.DMACTIVE) ^ Control.NDMRESET, 0, Control.DMACTIVE):
            await env.write(DmReg.DMCONTROL, control)
            env.compare_outputs(f"control {control:#x}")
            for register in debug.DM_REGISTERS:
                # reading sbdata0 must not start an access
                if register == DmReg.SBDATA0:
                    await env.write(DmReg.SBCS, 0)
                # read twice, an odd number of cycles apart, so that a toggling bit is detected
                for _ in range(2):
                    observed = await env.access(register)
                    expected = env.model.read(register)
                    env.board.equal(hex(observed), hex(expected), f"register {register:#x}, {control:#x}")
                    await env.expect_stable(observed)
            for address in () if control else {*range(1 << DMI_ADDRESS_BITS)} - {DmReg.DMCONTROL}:
                await env.access(address, rng.choice((value, value ^ WORD_MASK)))


@debug.debug_test
async def every_word_of_the_memory_is_known(env: debug.DebugEnv) -> None:
    """Harts read all words of the module's memory during a command or a resume request; other writes change nothing."""
    rng, count = env.rng, env.count
    # one bit away from the words that report something, while no hart has halted
    near = {event ^ 1 << bit: rng.getrandbits(32) for event in debug.NOTIFICATIONS for bit in range(2, 12)}
    await env.access_memory(elsewhere := sorted({*near} - {*debug.NOTIFICATIONS}), near)
    await env.compare(*debug.HALT_REGISTERS, where=f"behind {len(elsewhere)} words")
    words = [rng.getrandbits(32) for _ in debug.DATA_REGISTERS]
    for started in (rng.randrange(count), None):
        words = [word ^ WORD_MASK for word in words]
        for register, word in zip(debug.DATA_REGISTERS, words, strict=True):
            await env.write(register, word)
        for hart in range(count):
            await env.notify(rng.choice((Place.HALTED, Place.RESUMING)), hart)
        if started is None:
            await env.write(DmReg.HAWINDOW, WORD_MASK)
            await env.select(0, Control.HASEL | Control.RESUMEREQ)
        else:
            await env.notify(Place.HALTED, started)
            await env.select(started)
            await env.write_command(
                rng.choice((0, Command.POSTEXEC)) | debug.TRANSFER_WRITE | rng.randrange(0x1000, 0x1020)
            )
        flags = {place: Flag.RESUME for place, hart in enumerate(env.model.harts) if hart.resuming}
        flags |= {} if started is None else {started: Flag.GO}
        where = f"hart {started} starts"
        # only the data registers accept writes of harts
        data = [word ^ WORD_MASK for word in words[:2]]
        written = {
            at: rng.getrandbits(32) for at in _EVERYWHERE if at not in debug.NOTIFICATIONS and started is not None
        }
        written |= {Place.DATA + WORD_BYTES * place: word for place, word in enumerate(data)}
        await env.access_memory(written, written)
        for register, word in zip(debug.DATA_REGISTERS, data, strict=False):
            env.model.write(register, word)
        observed = await env.access_memory(_EVERYWHERE)
        expected = memory_words(env.command, words[2:], data, flags, count)
        rows = zip(_EVERYWHERE, observed, expected, strict=True)
        env.board.equal({hex(at): hex(word) for at, word, known in rows if word != known}, {}, f"{where}: words")
        await env.expect(Error.NONE, where, busy=started is not None, started=started)
        if started is not None:
            await env.finish(started)
        await env.compare(*debug.HALT_REGISTERS, *debug.DATA_REGISTERS, where=where)


@debug.debug_test
async def commands_become_instructions(env: debug.DebugEnv) -> None:
    """The instructions of a command are checked for every register, every bit of a CSR number and every command bit."""
    rng = env.rng
    await env.notify(Place.HALTED)
    csrs = [rng.getrandbits(12) for _ in range(4)]
    csrs += [csr ^ 0xFFF for csr in csrs]
    for number, write in product((*range(0x1000, 0x1020), *csrs), (0, Command.WRITE)):
        await env.write_command(debug.TRANSFER | write | number)
        await env.expect_code("written")
        await env.finish(0)
    carrying = [(1 << bit) - 1 for bit in range(13)]
    for number in (*carrying, *csrs[4:], 0x1000 + rng.randrange(16) * 2, 0x1007):
        await env.write_command(debug.TRANSFER | Command.POSTINCREMENT | rng.choice((0, Command.WRITE)) | number)
        await env.finish(0)
        env.command += 1
        await env.expect_code("counted")
        await env.expect(Error.NONE, "counted")
    for bit, transfer in product(range(32), (Command.TRANSFER, 0)):
        command = (2 << 20 | Command.WRITE | 0x100A) ^ 1 << bit ^ transfer
        number, size = command & 0xFFFF, command >> 20 & 7
        wrong = command >> 24 or (command & Command.TRANSFER and (size != 2 or number >= 0x1020))
        await env.write_command(command)
        where = f"command {command:#x}"
        if wrong:
            await env.expect(Error.NOT_SUPPORTED, where)
            await env.clear()
        else:
            await env.expect_code(where)
            await env.expect(Error.NONE, where, busy=True, started=0)
            await env.finish(0)


@debug.debug_test
async def a_command_is_of_one_hart(env: debug.DebugEnv) -> None:
    """Only the selected hart is told to execute a command; only reports and resets of this hart end it."""
    rng, count = env.rng, env.count
    endings = {"exception": Error.EXCEPTION, "late exception": Error.EXCEPTION}
    endings |= dict.fromkeys(("success", "inactive"), Error.NONE)
    endings |= dict.fromkeys(("reset", "mask", "ndmreset"), Error.HALT_RESUME)
    absent = range(count, 1 << max(count - 1, 1).bit_length())
    for hart in range(count):
        others = [other for other in range(count) if other != hart]
        await env.select(hart)
        await env.halt_only(others)
        await env.expect_refusal(Error.HALT_RESUME, f"hart {hart} alone is not halted")
        await env.halt_only([hart])
        for other in (*others, *absent):
            await env.select(other)
            await env.expect_refusal(Error.HALT_RESUME, f"hart {hart} alone is halted, not {other}")
        for ending, error in endings.items():
            where = f"hart {hart}, {ending}"
            await env.select(hart)
            await env.halt_only(range(count))
            await env.write_command(debug.TRANSFER_WRITE | Command.POSTINCREMENT | 0x100A)
            await env.select(elsewhere := rng.choice([*others, *absent]))
            for other in range(count):
                await env.notify(Place.HALTED, other)
            await env.expect(Error.NONE, f"{where}: begun", busy=True, started=hart)
            if ending in ("success", "exception", "late exception"):
                if ending != "exception":
                    await env.notify(Place.GOING)
                if ending != "success":
                    await env.notify(Place.EXCEPTION)
                for other in others:
                    await env.notify(Place.HALTED, other)
                await env.expect(error, f"{where}: done", busy=True)
                await env.notify(Place.HALTED, hart)
                env.command += ending == "success"
                await env.expect_code(where)
            elif ending == "reset":
                for other in others:
                    await env.select(other, Control.HARTRESET)
                    await env.expect(Error.NONE, f"{where} of {other}", busy=True, started=hart)
                await env.select(hart, Control.HARTRESET)
            elif ending == "mask":
                await env.write(DmReg.HAWINDOW, 1 << hart)
                await env.select(elsewhere, Control.HASEL | Control.HARTRESET)
            elif ending == "ndmreset":
                await env.select(elsewhere, Control.NDMRESET)
            else:
                await env.write(DmReg.DMCONTROL, 0)
                await env.write(DmReg.DMCONTROL, Control.DMACTIVE)
            await env.expect(error, f"{where}: ended")
            await env.clear()
            await env.notify(Place.GOING)
            await env.notify(Place.EXCEPTION)
            await env.expect(Error.NONE, f"{where}: over")
            await env.compare(*debug.HALT_REGISTERS, where=where)


@debug.debug_test
async def a_command_is_not_disturbed(env: debug.DebugEnv) -> None:
    """Each forbidden access during a command sets the sticky busy error; all other accesses are made."""
    rng = env.rng
    for register in debug.DATA_REGISTERS:
        await env.write(register, rng.getrandbits(32))
    await env.notify(Place.HALTED)
    await env.select(0)
    forbidden = [*product(debug.DATA_REGISTERS, (None, rng.getrandbits(32)))]
    forbidden += [
        (DmReg.ABSTRACTCS, debug.CLEAR),
        (DmReg.COMMAND, debug.TRANSFER | 0x1015),
        (DmReg.ABSTRACTAUTO, WORD_MASK),
    ]
    for place, (register, value) in enumerate(forbidden):
        where = f"{'read' if value is None else 'write'} of {register:#x}"
        for at_once in (True, False):
            await env.write_command(debug.TRANSFER_WRITE | 0x100A, at_once=at_once)
            await env.access(register, value)
            await env.expect(Error.BUSY, where, busy=True, started=0)
            match place % 3:
                case 0:
                    await env.finish(0)
                case 1:
                    await env.notify(Place.EXCEPTION)
                    await env.notify(Place.HALTED)
                case _:
                    await env.select(0, Control.HARTRESET)
                    await env.select(0)
                    await env.notify(Place.HALTED)
            await env.expect(Error.BUSY, f"{where}: ended")
            await env.expect_code(where)
            await env.clear()
    await env.compare(*debug.DATA_REGISTERS, DmReg.ABSTRACTAUTO, where="as before")
    others = {*range(1 << DMI_ADDRESS_BITS)} - {
        *debug.DATA_REGISTERS,
        DmReg.ABSTRACTCS,
        DmReg.ABSTRACTAUTO,
        DmReg.DMCONTROL,
    }
    for busy in (True, False):
        if busy:
            await env.write_command(debug.TRANSFER_WRITE | 0x100A)
        for address in others if busy else others - {*DmReg}:
            await env.compare(address, where=f"busy {busy}")
            if address != DmReg.COMMAND:
                await env.write(address, rng.getrandbits(32))
        await env.expect(Error.NONE, "other accesses", busy=busy, started=0 if busy else None)
        if busy:
            await env.finish(0)
        await env.compare(*debug.DM_REGISTERS, where="behind other accesses")


@debug.debug_test
async def each_register_may_start_a_command(env: debug.DebugEnv) -> None:
    """Each abstractauto bit makes accesses to its register start a command, except after an error."""
    rng = env.rng
    await env.notify(Place.HALTED)
    await env.select(0)
    await env.write_command(debug.TRANSFER_WRITE | 0x100A)
    await env.finish(0)
    for register in debug.DATA_REGISTERS:
        bit = 1 << (register - DmReg.DATA0 if register < DmReg.PROGBUF0 else register - DmReg.PROGBUF0 + 16)
        await env.access(DmReg.ABSTRACTAUTO, bit | rng.getrandbits(32) & ~0x00FF_0003)
        for other, value in product(debug.DATA_REGISTERS, (None, rng.getrandbits(32))):
            if other != register:
                await env.access(other, value)
        await env.expect(Error.NONE, f"all but {register:#x}")
        for value in (None, rng.getrandbits(32)):
            await env.access(register, value)
            await env.expect(Error.NONE, f"{register:#x}", busy=True, started=0)
            await env.finish(0)
    for error, cleared in product((Error.BUSY, Error.NOT_SUPPORTED, Error.EXCEPTION, Error.HALT_RESUME), range(8)):
        await env.access(DmReg.ABSTRACTAUTO, 0)
        await env.select(int(error == Error.HALT_RESUME))
        await env.write_command(1 << 24 if error == Error.NOT_SUPPORTED else debug.TRANSFER_WRITE | 0x100A)
        if error == Error.BUSY:
            await env.access(DmReg.DATA0)
        if error == Error.EXCEPTION:
            await env.notify(Place.EXCEPTION)
        await env.finish(0)
        await env.select(0)
        await env.access(DmReg.ABSTRACTAUTO, WORD_MASK)
        await env.access(DmReg.ABSTRACTCS, cleared << 8 | rng.getrandbits(32) & ~debug.CLEAR)
        remaining = error & ~cleared
        if remaining:
            await env.access(DmReg.COMMAND, debug.TRANSFER | 0x1015)
        await env.access(rng.choice(debug.DATA_REGISTERS))
        if remaining or error == Error.NOT_SUPPORTED:
            await env.expect(remaining or error, f"{error!r} without {cleared}")
        else:
            await env.expect(Error.NONE, f"{error!r} cleared", busy=True, started=0)
            await env.finish(0)
        await env.expect_code(f"{error!r} without {cleared}")
        await env.clear()
