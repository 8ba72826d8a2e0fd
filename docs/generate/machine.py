"""Tables of the core (formats, fields, CSRs, exceptions, costs) and of the cluster (addresses, registers, events)."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from docs.generate import html
from docs.generate.html import comments_beside
from docs.generate.instructions import c_call, encoding

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import require
from xpulpnn.field_values import setting_text
from xpulpnn.isa import cluster
from xpulpnn.isa.cluster import Barrier, Control, EventLine, EventRegister, Timer, TimerConfig
from xpulpnn.isa.csr import CSRS, PERFORMANCE_EVENTS, ZERO_CSRS, Csr, ResetSource
from xpulpnn.isa.fields import HALF_FIELDS, WORD_FIELDS, Field, FieldKind
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension, Op2Mode
from xpulpnn.isa.machine import FIRST_WEIGHT, Cost, ExceptionCause
from xpulpnn.isa.retirement import RETIREMENT_FIELDS, VALID, WAIT, WaitCause
from xpulpnn.isa.table import INSNS, find
from xpulpnn_sw.assembly.asm import assemble

_BLOCKS = (
    (cluster.TCDM_ALIAS, "alias of the TCDM"),
    (cluster.TCDM_BASE, "TCDM"),
    (cluster.TCDM_BASE | 1 << cluster.TEST_SET_BIT, "TCDM, whose loads are test&sets"),
    (cluster.CONTROL, "control"),
    (cluster.TIMER, "timer"),
    (cluster.EVENT_UNIT, "event unit, shared view"),
    (cluster.ICACHE_CONTROL, "instruction caches"),
    (cluster.DMA, "DMA engine, shared command port"),
    (cluster.PRIVATE_EVENT_UNIT, "event unit, what belongs to the core that asks"),
    (cluster.PRIVATE_DMA, "DMA engine, command port of the core that asks"),
    (cluster.CLINT, "core-local interruptor, with `clint`"),
    (cluster.SOC_PERIPHERALS, "outside: peripherals of the SoC"),
    (cluster.L2_BASE, "outside: memory of programs, called L2"),
)

_LINES_OF_A_KIND = {EventLine.ACCELERATOR: 4, EventLine.CLUSTER: 2}
_REGISTERS = {"control": Control, "timer": Timer, "event-unit": EventRegister, "barrier": Barrier}


def address(value: int) -> str:
    return html.code(f"0x{value >> 16:04X}_{value & 0xFFFF:04X}")


def registers(block: str) -> str:
    require(block in _REGISTERS, f"registers must be of one of {', '.join(_REGISTERS)}, not {block}")
    rows = [
        [html.code(f"0x{register.value:02X}"), html.code(register.name), escape(meaning)]
        for register, meaning in comments_beside(_REGISTERS[block]).items()
    ]
    return html.table(("offset", "register", "meaning"), rows)


def _core(name: str) -> str:
    return ", ".join(html.code(known) for known, config in PRESETS.items() if config == CLUSTER_PRESETS[name].core)


def _funct3(fmt: ElemFmt, mode: Op2Mode) -> str:
    row = next((insn for insn in INSNS if insn.op == "pv.add" and insn.fmt is fmt and insn.mode is mode), None)
    return html.code(encoding(row).split()[-3]) if row else "none"


def _bit_list(text: str) -> str:
    return " ".join(f"[{part}]" for part in text.split())


def _field_row(name: str, field: Field) -> list[str]:
    has_sign = field.kind in (FieldKind.IMMEDIATE, FieldKind.TARGET)
    sign = ("signed" if field.signed else "unsigned") if has_sign else ""
    value = _bit_list(field.value_bits)
    return [html.code(name), field.kind.value, _bit_list(field.word_bits), value, sign, escape(field.rule)]


def _fields() -> str:
    headings = ("operand", "kind", "instruction bits", "bits of the value", "", "values")
    wide = html.table(headings, [_field_row(name, field) for name, field in WORD_FIELDS.items()])
    narrow = html.table(headings, [_field_row(name, field) for name, field in HALF_FIELDS.items()])
    note = (
        "`rs3` is the register in the field of rd, used as a source. `lpoff12` and `lpoff5` hold the distance in "
        "half-words; `uimm20` is the upper 20 bits. Values of `nnimm5` with bits 3 and 4 both set are those of "
        "`nnimm5'`, or illegal. The digit of `lane` is the number of its bits. `rd2` names the first of two registers."
    )
    return f"{wide}\n{note}\n\nIn compressed instructions:\n\n{narrow}"


def _selectors(values: Iterable[int]) -> str:
    """Return a table, in two halves side by side, of the NN-RF selectors of Mac&Load instructions (nn form)."""
    rows: list[list[str]] = []
    for value in values:
        activation, weight = value & 1, FIRST_WEIGHT + (value >> 1 & 3)
        reload = ("nothing", f"NN[{activation}]", f"NN[{weight}]", f"NN[{activation ^ 1}]")[value >> 3]
        rows.append([html.code(str(value)), html.code(f"{value:05b}"), f"NN[{weight}] * NN[{activation}]", reload])
    half = (len(rows) + 1) // 2
    pairs = [[*rows[i], *rows[i + half]] for i in range(half)]
    return html.table(("selector", "bits", "product", "reload") * 2, pairs)


_SELECTOR = next(token for token in find("pv.mlsdotup.b").tokens if token.field is WORD_FIELDS["nnimm5"])
_BOTH_UPDATES = WORD_FIELDS["nnimm5'"]


def _reset(csr: Csr) -> str:
    if csr.source is ResetSource.CONSTANT:
        return html.code(f"0x{csr.reset:08x}") if csr.reset else "0"
    low = f", {csr.reset:#x} below" if csr.reset else ""
    return escape({ResetSource.BOOT_ADDRESS: "bits 31:8 of boot_addr"}.get(csr.source, csr.source.value) + low)


def _runs() -> list[tuple[Csr, Csr]]:
    """Return first and last CSR of each table row: consecutive CSRs that read 0 share a row, others have their own."""
    runs: list[tuple[Csr, Csr]] = []
    for csr in CSRS:
        if runs and csr in ZERO_CSRS and runs[-1][1] in ZERO_CSRS and csr.address == runs[-1][1].address + 1:
            runs[-1] = (runs[-1][0], csr)
        else:
            runs.append((csr, csr))
    return runs


def _span(first: str, last: str) -> str:
    return html.code(first) if first == last else f"{html.code(first)} to {html.code(last)}"


def encodings(lines: str) -> str:
    words = {text: int.from_bytes(assemble(text).to_bytes(), "little") for text in lines.splitlines()}
    return html.table(
        ("assembly", "word"), ((html.code(text), html.code(f"0x{word:08X}")) for text, word in words.items())
    )


def _event_lines() -> Iterator[Sequence[str]]:
    yield "0 to 7", "software events"
    for line, meaning in comments_beside(EventLine).items():
        last = line + _LINES_OF_A_KIND.get(line, 1) - 1
        yield str(line.value) if last == line else f"{line.value} to {last}", escape(meaning)


def _extensions() -> Iterator[Sequence[str]]:
    for extension, content in comments_beside(Extension).items():
        count = sum(insn.extension is extension and not insn.alias for insn in INSNS)
        has = [name for name, config in PRESETS.items() if extension in config.extensions]
        shown = "every core" if extension in BASE_EXTENSIONS else ", ".join(has) or "on request"
        yield escape(extension.value), escape(content), str(count), escape(shown)


def _formats() -> Iterator[Sequence[str]]:
    for fmt in ElemFmt:
        yield (
            html.code(f".{fmt.suffix}"),
            {ElemFmt.H: "half-word", ElemFmt.B: "byte", ElemFmt.N: "nibble", ElemFmt.C: "crumb"}[fmt],
            str(fmt.width),
            str(fmt.lanes),
            " / ".join(_funct3(fmt, mode) for mode in Op2Mode),
            {ElemFmt.N: "0", ElemFmt.C: "1"}.get(fmt, "ignored, or imm6[0]"),
            html.code(encoding(find(f"pv.mlsdotup.{fmt.suffix}")).split()[-3]),
        )


def _signs() -> Iterator[Sequence[str]]:
    shown = (
        *((f"pv.dot{signs}.b", "rs1", "rs2 or immediate") for signs in ("up", "usp", "sp")),
        *((f"pv.mlsdot{signs}.b", "weight", "activation") for signs in ("up", "usp", "sup", "sp")),
        *((f"pv.cusdot{signs}.b.0", "weight (NN-RF)", "rs2") for signs in ("up", "usp", "sp")),
    )
    words = {True: "<strong>signed</strong>", False: "unsigned"}
    for mnemonic, first, second in shown:
        insn = find(mnemonic, "rd,rs1,rs2" if mnemonic.startswith("pv.dot") else None)
        names = ".".join(mnemonic.split(".")[:2]).replace("pv.dot", "pv.(s)dot")
        same = (other for other in INSNS if other.alias and (other.match, other.mask) == (insn.match, insn.mask))
        aliases = sorted({other.mnemonic.rsplit(".", 1)[0] for other in same})
        factors = (f"{first}: {words[insn.a_signed]}", f"{second}: {words[insn.b_signed]}")
        yield html.code(names), *factors, ", ".join(map(html.code, aliases))


def _csrs() -> Iterator[Sequence[str]]:
    for first, last in _runs():
        yield (
            _span(f"0x{first.address:03x}", f"0x{last.address:03x}"),
            _span(first.name, last.name),
            first.access.name,
            _reset(first),
            html.code(f"0x{first.writable:08x}") if first.writable else "",
            escape(first.group.value),
        )


def _intrinsics() -> Iterator[Sequence[str]]:
    for insn in INSNS:
        call = "" if insn.reloads_other else c_call(insn)
        if call:
            yield html.code(call), html.code(insn.mnemonic), escape(insn.extension.value)


_SHOWN_SETTINGS = (
    *("xpulpv2", "xpulpnn", "mac_load_nn", "mac_load_cu", "mac_load_cross", "mac_load_dot", "mac_load_pair"),
    *("mixed_weights", "requantise", "requantise_exact", "multiplier", "widths", "nnrf_entries"),
)


TABLES = {
    "fields": _fields(),
    "selectors": _selectors(filter(_SELECTOR.accepts, range(_SELECTOR.field.high + 1))),
    "other-selectors": _selectors(range(_BOTH_UPDATES.low, _BOTH_UPDATES.high + 1)),
    "addresses": html.table(("address", "what"), ((address(base), escape(meaning)) for base, meaning in _BLOCKS)),
    "causes": html.table(
        ("mcause", "event", "mepc"),
        [
            *(
                (str(cause.value), escape(meaning), "address of the instruction")
                for cause, meaning in comments_beside(ExceptionCause).items()
            ),
            ("0x80000000 + id", "interrupt of line id", "address of the next instruction"),
        ],
    ),
    "cluster-presets": html.table(
        ("preset", "cores", "banks", "TCDM, KiB", "core"),
        (
            (html.code(name), str(config.cores), str(config.banks), str(config.tcdm_bytes // 1024), _core(name))
            for name, config in CLUSTER_PRESETS.items()
        ),
    ),
    "costs": html.table(
        ("when", "cycles", "shown as"),
        ((escape(cost.meaning), f"+{cost.cycles}", html.code(cost.cause.name.lower())) for cost in Cost),
    ),
    "csrs": html.table(("address", "name", "access", "after reset", "writable bits", "present"), _csrs()),
    "event-lines": html.table(("line", "event"), _event_lines()),
    "events": html.table(
        ("bit of pcer", "counter", "event"),
        ((str(k), html.code(f"pccr{k}"), escape(name.replace("_", " "))) for k, name in enumerate(PERFORMANCE_EVENTS)),
    ),
    "extensions": html.table(("extension", "content", "instructions", "presets"), _extensions()),
    "formats": html.table(
        ("suffix", "name", "bits", "lanes", "funct3 vector / .sc / .sci", "bit 25", "funct3 of Mac&Load"), _formats()
    ),
    "intrinsics": html.table(("C", "instruction", "extension"), _intrinsics()),
    "presets": html.table(
        ("setting", *PRESETS),
        (
            (html.code(item), *(setting_text(getattr(config, item)) for config in PRESETS.values()))
            for item in _SHOWN_SETTINGS
        ),
    ),
    "retirement": html.table(
        ("port", "bits", "meaning"),
        (
            (html.code(f"rvfi_{field.name}"), str(field.width), escape(field.meaning))
            for field in (VALID, WAIT, *RETIREMENT_FIELDS)
        ),
    ),
    "signs": html.table(("instruction", "first factor", "second factor", "second name"), _signs()),
    "timer-settings": html.table(
        ("bit", "name", "meaning"),
        (
            (str(flag.bit_length() - 1), html.code(str(flag.name)), escape(meaning))
            for flag, meaning in comments_beside(TimerConfig).items()
        ),
    ),
    "waits": html.table(
        ("rvfi_wait", "cause", "meaning"),
        (
            (str(cause.value), html.code(cause.name.lower()), escape(text))
            for cause, text in comments_beside(WaitCause).items()
        ),
    ),
}
"""HTML tables by the name that pages use; none of them takes an argument."""
