"""Pixel groups that each of several cores computes.

Rows that lie ready cost the same everywhere: each core takes a piece. In a convolution the groups on the border of the
input take longer, so the cores take turns, and each turn begins one core later, lest a core meets the same border in
every row: group ``g`` is computed by core ``(g + g // cores) % cores``. A core that is alone takes all groups in one
turn, and nothing between two of them.
"""

from xpulpnn_sw.kernels.builder import ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, lesser, positive, shared

# groups between two in consecutive turns, fewer than there are cores: the core's last one and that of the turn
_PASSED = 2


def group_shares() -> dict[str, Term]:
    """First group and number of groups of a core, one after the other, of the name ``groups``."""
    groups, core = Name("groups"), Argument("core")
    return {"first_group": shared(groups * core), "group": shared(groups * (core + 1)) - Name("first_group")}


def even_share(total: Term) -> dict[str, Term]:
    """``begin`` and ``count`` of the core's share of so many things; the last cores may have less, or none."""
    core, cores, size, begin = Argument("core"), Argument("cores"), Name("piece"), Name("begin")
    return {
        "piece": shared(total + cores - 1),
        "begin": core * size,
        "count": lesser(size, positive(total - begin)),
    }


def group_turns() -> dict[str, Term]:
    """The first group of a core and how many follow at once; for :func:`take_next` those ``left`` and its ``turn``."""
    core, cores, count = Argument("core"), Argument("cores"), Name("count")
    are_several = Number(1) - positive(Number(2) - cores)
    return {
        "first_group": core,
        "turn": core,
        "cores": cores,
        "count": positive(Name("groups") - core),
        # from the core's group on, those of others included; none to take turns for if it is alone
        "left": count * are_several,
        "group": count - positive(Name("left") - 1),
    }


def take_next(b: Builder, frame: Frame, npx: int, out: list[int], start: Label, registers: list[int]) -> None:
    """Move on to the core's next group and go to ``start``; fall through if there is none."""
    left, turn, passed, cores, work, *others = registers
    done, next_row = Label(), Label()
    frame.load_all(left=left, turn=turn)
    cores = frame.register("cores", cores)
    b("addi", passed, cores, -_PASSED)
    with b.skipped("bne", turn, ZERO):
        b("add", passed, passed, cores)
        b.mv(turn, cores)
    b("addi", turn, turn, -1)
    b("sub", left, left, passed)
    b("addi", left, left, -1)
    b.branch("bge", ZERO, left, done)
    frame.store_all(left=left, turn=turn)
    b("slli", passed, passed, npx.bit_length() - 1)
    b("mul", work, passed, frame.register("out_stride", work))
    for register in out:
        b("add", register, register, work)
    x, y, source = (frame.home(name) or others.pop(0) for name in ("x", "y", "source"))
    frame.load_all(x=x, y=y, source=source)
    for register, name in ((x, "stride_x"), (source, "stride_x_bytes")):
        b("mul", work, passed, frame.register(name, work))
        b("add", register, register, work)
    end = frame.register("x_end", left)
    steps = [(x, "x_back", turn), (y, "stride_y", passed), (source, "line_step", cores)]
    moves = [(register, frame.value(name, temporary)) for register, name, temporary in steps]
    with b.skipped("blt", x, end):
        b.place(next_row)
        for register, distance in moves:
            b.add(register, distance, work)
        b.branch("bge", x, end, next_row)
    frame.store_all(x=x, y=y, source=source)
    b.li(work, 1)
    frame.store("group", work)
    b.jump(start)
    b.place(done)
