"""A Verilog debugger for testbenches, which halts cores through a JTAG port."""

from xpulpnn.isa.csr import csr_address
from xpulpnn.isa.debug import (
    COMMAND_SIZE_LSB,
    COMMAND_WORD,
    HARTSELLO_LSB,
    IDCODE,
    IDLE_CYCLES,
    Command,
    Control,
    DmReg,
    Status,
    TapRegister,
)
from xpulpnn_sim.publishing.packages.design import Design, fill

_HALTS = """
    wire [31:0] halts;
{reset}\
    jtag_halts #(.HARTS({harts}), .FIRST({first})) debugger (
        .clk(clk), .rst(rst), .tck(tck_clk), .tck_rst({net}), .tms(tms), .tdi(tdi), .tdo(tdo),
        .pause({pause}), .paused({paused}), .halts(halts)
    );
"""
_PAUSES = "    reg         pause = 1'b0;\n    wire        paused;\n"
_PAUSED = """\
            pause = 1'b1;
            while (!paused) @(negedge clk);
            rst   = 1'b1;
            pause = 1'b0;
"""
_INVERTED = "    wire        jtag_rst;\n    assign tck_rst_n = ~jtag_rst;\n"
_HALTED = """\
            if (halts < 3)
                $display("the debugger has halted the harts %0d times, must do so at least 3 times", halts);
"""
_HALTED_CYCLES = 20  # factor of the cycle limit with a debugger


def watchdog(design: Design, cycles: int) -> int:
    """Return the cycle limit of a testbench whose program needs ``cycles``."""
    return cycles * (_HALTED_CYCLES if design.has_jtag else 1)


def before_reset(design: Design) -> str:
    """Return testbench code that makes the debugger pause before the core is reset between programs."""
    return _PAUSED if design.has_jtag else ""


def debugging(design: Design, harts: int, first: int, *, pauses: bool = False) -> dict[str, str]:
    """Return the testbench code that concerns the debugger, by placeholder of the template."""
    if not design.has_jtag:
        return dict.fromkeys(("debugger", "halted", "and_halted"), "")
    inverted = "tck_rst_n" in design.by_name
    reset, net = (_INVERTED, "jtag_rst") if inverted else ("", "tck_rst")
    pause, paused = ("pause", "paused") if pauses else ("1'b0", "")
    reset += _PAUSES if pauses else ""
    debugger = _HALTS.format(reset=reset, net=net, harts=harts, first=first, pause=pause, paused=paused)
    return {"debugger": debugger, "halted": _HALTED, "and_halted": " && halts >= 3"}


def debugger(design: Design) -> dict[str, str]:
    """Return the debugger's Verilog file by its name; empty for a component without a JTAG port."""
    if not design.has_jtag:
        return {}
    command = Command.TRANSFER | COMMAND_WORD << COMMAND_SIZE_LSB | csr_address("mhartid")
    values = {"active": Control.DMACTIVE, "halt": Control.HALTREQ, "resume": Control.RESUMEREQ, "many": Control.HASEL}
    values |= {"idcode": IDCODE, "tap_idcode": TapRegister.IDCODE, "tap_dmi": TapRegister.DMI, "read_hart": command}
    values |= {"dmstatus": DmReg.DMSTATUS, "dmcontrol": DmReg.DMCONTROL, "hawindow": DmReg.HAWINDOW}
    values |= {"command": DmReg.COMMAND, "data": DmReg.DATA0}
    # the "all" flag of dmstatus is one bit above the "any" flag
    places = {"all_halted": Status.HALTED + 1, "all_resumed": Status.RESUMEACK + 1}
    places |= {"hartsel": HARTSELLO_LSB, "idle": IDLE_CYCLES + 1}
    text = {name: f"{value:x}" for name, value in values.items()} | {name: str(bit) for name, bit in places.items()}
    return {"jtag_halts.v": fill("jtag_halts.v", design, **text)}
