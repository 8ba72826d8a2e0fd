"""Reference semantics of every instruction: ``execute(insn, sources) -> effects``.

The functions are chosen by ``Insn.op``; where operand 2 comes from is read off ``Insn.operands``. Compressed rows are
executed as the row they expand to, with ``Sources.length = 2``.
"""

from collections.abc import Callable, Iterable

from xpulpnn.errors import EncodingError
from xpulpnn.isa.insn import NN_FORM_OPS, REQUANTISE_OPS, Insn
from xpulpnn_sim.reference.golden import bitmanip, dotp, fixedpoint, memory, requantise, scalar, simd
from xpulpnn_sim.reference.golden.effects import Effects, Sources

Handler = Callable[[Insn, Sources], Effects]

SEQUENCER_OPS = (
    "fence",
    "fence.i",
    "ecall",
    "ebreak",
    "mret",
    "wfi",
    "csrrw",
    "csrrs",
    "csrrc",
    "lp.starti",
    "lp.endi",
    "lp.count",
    "lp.setup",
)
"""Operations on state that belongs to the instruction-set simulator: CSRs, traps, hardware loops. No effect here."""


def _no_effect(insn: Insn, src: Sources) -> Effects:
    return Effects()


def _all(ops: Iterable[str], handler: Handler) -> dict[str, Handler]:
    return dict.fromkeys(ops, handler)


HANDLERS: dict[str, Handler] = {
    **_all(scalar.BINARY, scalar.binary),
    **_all(scalar.UNARY, scalar.unary),
    **_all(scalar.COMPARISONS, scalar.branch),
    **_all(("mac", "msu"), scalar.multiply_accumulate),
    **_all(("lui", "auipc"), scalar.upper_immediate),
    **_all(("jal", "jalr"), scalar.jump),
    **_all(bitmanip.COUNTS, bitmanip.count),
    **_all(("clip", "clipu"), bitmanip.clip),
    **_all(bitmanip.FIELD_OPERATIONS, bitmanip.bit_field),
    "ror": bitmanip.rotate,
    **fixedpoint.ADDITIONS,
    **fixedpoint.MULTIPLICATIONS,
    **_all(memory.LOADS, memory.load),
    **_all(memory.STORES, memory.store),
    **_all(simd.OPERATIONS, simd.lane_wise),
    "pv.abs": simd.absolute,
    **_all(("pv.extract", "pv.extractu"), simd.extract),
    "pv.insert": simd.insert,
    **_all(("pv.shuffle", "pv.shufflei"), simd.shuffle),
    "pv.shuffle2": simd.shuffle2,
    **_all(simd.PACK_LANES, simd.pack_elements),
    **_all((f"pv.{s}dot{signs}" for s in ("", "s") for signs in ("up", "usp", "sp")), dotp.dot_product),
    **_all(NN_FORM_OPS, dotp.mac_load_nn),
    "pv.cusdot": dotp.mac_load_cu,
    "pv.rqld": requantise.load_parameter,
    **_all(REQUANTISE_OPS, requantise.requantise),
    **_all(SEQUENCER_OPS, _no_effect),
}
"""Reference function of each table op but ``pv.qnt``, which needs a memory: see ``golden.quant``."""


def execute(insn: Insn, src: Sources) -> Effects:
    """Effects of N executions of the row ``insn``.

    Raises :class:`EncodingError` for ``pv.qnt``; its reads depend on each other, so that it takes a memory reader.
    """
    handler = HANDLERS.get(insn.op)
    if handler is None:
        raise EncodingError(f"`insn.op` must be one of the reference operations, not `{insn.op}`")
    return handler(insn, src)
