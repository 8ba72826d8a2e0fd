"""A counterexample for readers: the instructions that retire, and a waveform."""

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from vcd import VCDWriter

from xpulpnn.errors import EncodingError
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sw.assembly.disasm import disassemble

WAVEFORM = "example.vcd"  # file with the waveform, in the folder of the check

_WRAPPER = "wrapper."


def retirements(trace: Sequence[Mapping[str, int]]) -> list[str]:
    """A line for each instruction that retires in a counterexample, with what the port says of it."""
    lines: list[str] = []
    for cycle, values in enumerate(trace):
        if not values.get("rvfi_valid"):
            continue
        word, pc = values["rvfi_insn"], values["rvfi_pc_rdata"]
        parts = [f"cycle {cycle:2}: {pc:08x} {word:08x} {_spelt(word, pc):<28}"]
        sources = {name: values[f"rvfi_{name}_addr"] for name in ("rs1", "rs2")}
        parts += [f"{name} x{number}={values[f'rvfi_{name}_rdata']:08x}" for name, number in sources.items() if number]
        if number := values["rvfi_rd_addr"]:
            parts.append(f"x{number}<-{values['rvfi_rd_wdata']:08x}")
        if values["rvfi_mem_rmask"] or values["rvfi_mem_wmask"]:
            parts.append(f"mem {values['rvfi_mem_addr']:08x}")
        parts.append(f"next {values['rvfi_pc_wdata']:08x}")
        parts += [text for text in ("trap", "intr") if values[f"rvfi_{text}"]]
        lines.append(" ".join(parts))
    return lines


def _spelt(word: int, pc: int) -> str:
    """An instruction as assembly."""
    try:
        return disassemble(word, pc)
    except EncodingError:
        return "no instruction"


def write_waveform(trace: Sequence[Mapping[str, int]], path: Path) -> None:
    """Write a counterexample as a VCD file, a cycle every 10 ns."""
    names = [*trace[0]] if trace else []
    widths = {name: max(1, *(values[name].bit_length() for values in trace)) for name in names}
    text = StringIO()
    with VCDWriter(text, timescale="1 ns", date="", comment="") as writer:
        clock = writer.register_var("example", "clock", "wire", size=1, init=0)
        signals = {
            name: writer.register_var(
                "example", name.removeprefix(_WRAPPER).replace(".", "_"), "wire", size=width, init=0
            )
            for name, width in widths.items()
        }
        for cycle, values in enumerate(trace):
            writer.change(clock, 10 * cycle, 1)
            for name, signal in signals.items():
                writer.change(signal, 10 * cycle, values[name])
            writer.change(clock, 10 * cycle + 5, 0)
    write_text(path, text.getvalue())
