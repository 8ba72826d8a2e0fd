"""Directed tests of the debug module: each flag, register, word, command and error alone."""

from itertools import product

import cocotb

from xpulpnn.isa.debug import DEBUG_BYTES, DMI_ADDRESS_BITS, Command, Control, DmReg, Flag, Place
from xpulpnn.isa.debug import CommandError as Error
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.debug_by_hand import EVENTS, ORDER, ByHand, by_hand
from xpulpnn_sim.benches.debug_scene import CLEAR, HALTS, KNOWN, TRANSFER, WORDS
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.reference.golden.debug_memory import memory_words

_EVERYWHERE = range(0, DEBUG_BYTES, WORD_BYTES)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def each_flag_is_of_its_hart(scene: ByHand) -> None:
    """Whatever any hart writes, however it is selected, reset or unavailable."""
    rng, count = scene.rng, scene.count
    numbers = 1 << max(count - 1, 1).bit_length()
    for step in range(bench_data()["flags"]):
        match rng.randrange(6):
            case 0:
                await scene.write(DmReg.HAWINDOW, rng.getrandbits(32))
            case 1:
                scene.dut.unavailable.value = word = rng.getrandbits(count) & rng.getrandbits(count)
                for place, hart in enumerate(scene.handled):
                    hart.unavailable = bool(word >> place & 1)
            case 2 | 3:
                await scene.tell(rng.choice((Place.HALTED, Place.HALTED, Place.RESUMING)), rng.randrange(scene.aliases))
            case _:
                likely = (Control.HALTREQ, Control.RESUMEREQ, Control.ACKHAVERESET, Control.HASEL)
                bits = sum(bit for bit in likely if rng.random() < 0.4)
                bits |= sum(bit for bit in (Control.HARTRESET, Control.NDMRESET) if rng.random() < 0.2)
                # what has no meaning is anything
                bits |= rng.getrandbits(32) & ~(sum(Control) | numbers - 1 << 16) | rng.randrange(numbers) << 16
                await scene.write(DmReg.DMCONTROL, bits | Control.DMACTIVE * (rng.random() < 0.95))
        await scene.compare(*HALTS, where=f"step {step}")
        scene.compare_outputs(f"step {step}")
        await scene.expect(Error.NONE, f"step {step}")
        for hart in range(count if step % 8 == 0 else 0):
            await scene.select(hart)
            await scene.compare(DmReg.DMSTATUS, where=f"step {step}, hart {hart}")
    scene.dut.unavailable.value = 0


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def every_bit_of_registers_is_kept(scene: ByHand) -> None:
    """Words and their complements; what is read stays until the next access, a module that is not active has none."""
    rng = scene.rng
    words = {register: rng.getrandbits(32) for register in KNOWN}
    order = sorted({*KNOWN} - {DmReg.ABSTRACTCS, DmReg.COMMAND, DmReg.DMCONTROL, DmReg.SBCS})
    rng.shuffle(order)
    for flip in (0, WORD_MASK):
        value = words[DmReg.DMCONTROL] ^ flip
        # each behind any other
        order.reverse()
        for register in (*order, DmReg.SBCS):
            await scene.write(register, words[register] ^ flip)
        for control in ((value | Control.NDMRESET | Control.DMACTIVE) ^ Control.NDMRESET, 0, Control.DMACTIVE):
            await scene.write(DmReg.DMCONTROL, control)
            scene.compare_outputs(f"control {control:#x}")
            for register in KNOWN:
                # sbdata0 is read while that starts nothing
                if register == DmReg.SBDATA0:
                    await scene.write(DmReg.SBCS, 0)
                # a bit that comes and goes is there at one of two times that are odd numbers of cycles apart
                for _ in range(2):
                    found = await scene.access(register)
                    wanted = scene.model.read(register)
                    scene.board.equal(hex(found), hex(wanted), f"register {register:#x}, {control:#x}")
                    await scene.expect_kept(found)
            for address in () if control else {*range(1 << DMI_ADDRESS_BITS)} - {DmReg.DMCONTROL}:
                await scene.access(address, rng.choice((value, value ^ WORD_MASK)))


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def every_word_of_the_memory_is_known(scene: ByHand) -> None:
    """All words, with orders or without; reading, or writing what means nothing, changes nothing."""
    rng, count = scene.rng, scene.count
    # next to what means something, where nobody has halted
    near = {event ^ 1 << bit: rng.getrandbits(32) for event in EVENTS for bit in range(2, 12)}
    await scene.visits(elsewhere := sorted({*near} - {*EVENTS}), near)
    await scene.compare(*HALTS, where=f"behind {len(elsewhere)} words")
    words = [rng.getrandbits(32) for _ in WORDS]
    for goes in (rng.randrange(count), None):
        words = [word ^ WORD_MASK for word in words]
        for register, word in zip(WORDS, words, strict=True):
            await scene.write(register, word)
        for hart in range(count):
            await scene.tell(rng.choice((Place.HALTED, Place.RESUMING)), hart)
        if goes is None:
            await scene.write(DmReg.HAWINDOW, WORD_MASK)
            await scene.select(0, Control.HASEL | Control.RESUMEREQ)
        else:
            await scene.tell(Place.HALTED, goes)
            await scene.select(goes)
            await scene.order(rng.choice((0, Command.POSTEXEC)) | ORDER | rng.randrange(0x1000, 0x1020))
        flags = {place: Flag.RESUME for place, hart in enumerate(scene.handled) if hart.resuming}
        flags |= {} if goes is None else {goes: Flag.GO}
        where = f"hart {goes} goes"
        # of what harts write, the data registers mean something
        data = [word ^ WORD_MASK for word in words[:2]]
        written = {at: rng.getrandbits(32) for at in _EVERYWHERE if at not in EVENTS and goes is not None}
        written |= {Place.DATA + WORD_BYTES * place: word for place, word in enumerate(data)}
        await scene.visits(written, written)
        for register, word in zip(WORDS, data, strict=False):
            scene.model.write(register, word)
        found = await scene.visits(_EVERYWHERE)
        wanted = memory_words(scene.command, words[2:], data, flags, count)
        rows = zip(_EVERYWHERE, found, wanted, strict=True)
        scene.board.equal({hex(at): hex(word) for at, word, known in rows if word != known}, {}, f"{where}: words")
        await scene.expect(Error.NONE, where, busy=goes is not None, goes=goes)
        if goes is not None:
            await scene.finish(goes)
        await scene.compare(*HALTS, *WORDS, where=where)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def commands_become_instructions(scene: ByHand) -> None:
    """Every register, CSRs with every bit, and the number behind those of a command that counts; all bits it has."""
    rng = scene.rng
    await scene.tell(Place.HALTED)
    csrs = [rng.getrandbits(12) for _ in range(4)]
    csrs += [csr ^ 0xFFF for csr in csrs]
    for number, write in product((*range(0x1000, 0x1020), *csrs), (0, Command.WRITE)):
        await scene.order(TRANSFER | write | number)
        await scene.expect_code("written")
        await scene.finish(0)
    carrying = [(1 << bit) - 1 for bit in range(13)]
    for number in (*carrying, *csrs[4:], 0x1000 + rng.randrange(16) * 2, 0x1007):
        await scene.order(TRANSFER | Command.POSTINCREMENT | rng.choice((0, Command.WRITE)) | number)
        await scene.finish(0)
        scene.command += 1
        await scene.expect_code("counted")
        await scene.expect(Error.NONE, "counted")
    for bit, transfer in product(range(32), (Command.TRANSFER, 0)):
        command = (2 << 20 | Command.WRITE | 0x100A) ^ 1 << bit ^ transfer
        number, size = command & 0xFFFF, command >> 20 & 7
        wrong = command >> 24 or (command & Command.TRANSFER and (size != 2 or number >= 0x1020))
        await scene.order(command)
        where = f"command {command:#x}"
        if wrong:
            await scene.expect(Error.NOT_SUPPORTED, where)
            await scene.clear()
        else:
            await scene.expect_code(where)
            await scene.expect(Error.NONE, where, busy=True, goes=0)
            await scene.finish(0)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def a_command_is_of_one_hart(scene: ByHand) -> None:
    """Only the selected hart is told to go; what it writes itself, its reset, or the module's, ends the command."""
    rng, count = scene.rng, scene.count
    endings = {"exception": Error.EXCEPTION, "late exception": Error.EXCEPTION}
    endings |= dict.fromkeys(("success", "inactive"), Error.NONE)
    endings |= dict.fromkeys(("reset", "mask", "ndmreset"), Error.HALT_RESUME)
    absent = range(count, 1 << max(count - 1, 1).bit_length())
    for hart in range(count):
        others = [other for other in range(count) if other != hart]
        await scene.select(hart)
        await scene.halt_only(others)
        await scene.refuse(Error.HALT_RESUME, f"hart {hart} alone is not halted")
        await scene.halt_only([hart])
        for other in (*others, *absent):
            await scene.select(other)
            await scene.refuse(Error.HALT_RESUME, f"hart {hart} alone is halted, not {other}")
        for how, error in endings.items():
            where = f"hart {hart}, {how}"
            await scene.select(hart)
            await scene.halt_only(range(count))
            await scene.order(ORDER | Command.POSTINCREMENT | 0x100A)
            await scene.select(elsewhere := rng.choice([*others, *absent]))
            for other in range(count):
                await scene.tell(Place.HALTED, other)
            await scene.expect(Error.NONE, f"{where}: begun", busy=True, goes=hart)
            if how in ("success", "exception", "late exception"):
                if how != "exception":
                    await scene.tell(Place.GOING)
                if how != "success":
                    await scene.tell(Place.EXCEPTION)
                for other in others:
                    await scene.tell(Place.HALTED, other)
                await scene.expect(error, f"{where}: done", busy=True)
                await scene.tell(Place.HALTED, hart)
                scene.command += how == "success"
                await scene.expect_code(where)
            elif how == "reset":
                for other in others:
                    await scene.select(other, Control.HARTRESET)
                    await scene.expect(Error.NONE, f"{where} of {other}", busy=True, goes=hart)
                await scene.select(hart, Control.HARTRESET)
            elif how == "mask":
                await scene.write(DmReg.HAWINDOW, 1 << hart)
                await scene.select(elsewhere, Control.HASEL | Control.HARTRESET)
            elif how == "ndmreset":
                await scene.select(elsewhere, Control.NDMRESET)
            else:
                await scene.write(DmReg.DMCONTROL, 0)
                await scene.write(DmReg.DMCONTROL, Control.DMACTIVE)
            await scene.expect(error, f"{where}: ended")
            await scene.clear()
            await scene.tell(Place.GOING)
            await scene.tell(Place.EXCEPTION)
            await scene.expect(Error.NONE, f"{where}: over")
            await scene.compare(*HALTS, where=where)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def a_command_is_not_disturbed(scene: ByHand) -> None:
    """Each access that must not be while a command is executed sets an error, which stays; all others are made."""
    rng = scene.rng
    for register in WORDS:
        await scene.write(register, rng.getrandbits(32))
    await scene.tell(Place.HALTED)
    await scene.select(0)
    forbidden = [*product(WORDS, (None, rng.getrandbits(32)))]
    forbidden += [(DmReg.ABSTRACTCS, CLEAR), (DmReg.COMMAND, TRANSFER | 0x1015), (DmReg.ABSTRACTAUTO, WORD_MASK)]
    for place, (register, value) in enumerate(forbidden):
        where = f"{'read' if value is None else 'write'} of {register:#x}"
        for at_once in (True, False):
            await scene.order(ORDER | 0x100A, at_once=at_once)
            await scene.access(register, value)
            await scene.expect(Error.BUSY, where, busy=True, goes=0)
            match place % 3:
                case 0:
                    await scene.finish(0)
                case 1:
                    await scene.tell(Place.EXCEPTION)
                    await scene.tell(Place.HALTED)
                case _:
                    await scene.select(0, Control.HARTRESET)
                    await scene.select(0)
                    await scene.tell(Place.HALTED)
            await scene.expect(Error.BUSY, f"{where}: ended")
            await scene.expect_code(where)
            await scene.clear()
    await scene.compare(*WORDS, DmReg.ABSTRACTAUTO, where="as before")
    others = {*range(1 << DMI_ADDRESS_BITS)} - {*WORDS, DmReg.ABSTRACTCS, DmReg.ABSTRACTAUTO, DmReg.DMCONTROL}
    for busy in (True, False):
        if busy:
            await scene.order(ORDER | 0x100A)
        for address in others if busy else others - {*DmReg}:
            await scene.compare(address, where=f"busy {busy}")
            if address != DmReg.COMMAND:
                await scene.write(address, rng.getrandbits(32))
        await scene.expect(Error.NONE, "other accesses", busy=busy, goes=0 if busy else None)
        if busy:
            await scene.finish(0)
        await scene.compare(*KNOWN, where="behind other accesses")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@by_hand
async def each_register_may_start_a_command(scene: ByHand) -> None:
    """By its own bit of abstractauto alone, read or written; none starts one while anything of an error is left."""
    rng = scene.rng
    await scene.tell(Place.HALTED)
    await scene.select(0)
    await scene.order(ORDER | 0x100A)
    await scene.finish(0)
    for register in WORDS:
        bit = 1 << (register - DmReg.DATA0 if register < DmReg.PROGBUF0 else register - DmReg.PROGBUF0 + 16)
        await scene.access(DmReg.ABSTRACTAUTO, bit | rng.getrandbits(32) & ~0x00FF_0003)
        for other, value in product(WORDS, (None, rng.getrandbits(32))):
            if other != register:
                await scene.access(other, value)
        await scene.expect(Error.NONE, f"all but {register:#x}")
        for value in (None, rng.getrandbits(32)):
            await scene.access(register, value)
            await scene.expect(Error.NONE, f"{register:#x}", busy=True, goes=0)
            await scene.finish(0)
    for error, cleared in product((Error.BUSY, Error.NOT_SUPPORTED, Error.EXCEPTION, Error.HALT_RESUME), range(8)):
        await scene.access(DmReg.ABSTRACTAUTO, 0)
        await scene.select(int(error == Error.HALT_RESUME))
        await scene.order(1 << 24 if error == Error.NOT_SUPPORTED else ORDER | 0x100A)
        if error == Error.BUSY:
            await scene.access(DmReg.DATA0)
        if error == Error.EXCEPTION:
            await scene.tell(Place.EXCEPTION)
        await scene.finish(0)
        await scene.select(0)
        await scene.access(DmReg.ABSTRACTAUTO, 0xFFFF_FFFF)
        await scene.access(DmReg.ABSTRACTCS, cleared << 8 | rng.getrandbits(32) & ~CLEAR)
        left = error & ~cleared
        if left:
            await scene.access(DmReg.COMMAND, TRANSFER | 0x1015)
        await scene.access(rng.choice(WORDS))
        if left or error == Error.NOT_SUPPORTED:
            await scene.expect(left or error, f"{error!r} without {cleared}")
        else:
            await scene.expect(Error.NONE, f"{error!r} cleared", busy=True, goes=0)
            await scene.finish(0)
        await scene.expect_code(f"{error!r} without {cleared}")
        await scene.clear()
