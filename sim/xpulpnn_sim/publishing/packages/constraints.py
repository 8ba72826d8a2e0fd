"""Timing constraints (SDC): clock, delays of inputs and outputs, reset."""

from xpulpnn_sim.publishing.packages.design import CLOCK, GENERATED, LICENCE, RESETS, Design

IO_FRACTION = 0.2  # part of the period that is spent outside, before inputs and after outputs

CONSTANT_INPUTS = ("boot_addr", "hart_id", "cluster_id")  # inputs that do not change while a core runs


def constraints(design: Design) -> str:
    """The SDC file. A component without a clock gets a virtual one: its paths go from input to output."""
    clocked = design.clocked
    target = f"[get_ports {CLOCK}]" if clocked else ""
    lines = [
        f"# {GENERATED}",
        f"# {LICENCE}",
        f"# Constraints of {design.module}. Times are in the time unit of the library, here taken as nanoseconds.",
        "",
        f"set clock_period {design.clock_ns:g}",
        "# part of the period spent outside, before inputs and after outputs",
        f"set io_fraction {IO_FRACTION}",
        "",
        *(
            []
            if clocked
            else ["# no registers: the clock is virtual, its period bounds the paths from input to output"]
        ),
        f"create_clock -name {CLOCK} -period $clock_period {target}".rstrip(),
        "",
        "set io_delay [expr {$clock_period * $io_fraction}]",
        "set data_inputs {}",
        "foreach port [all_inputs] {",
        f'    if {{[get_property $port full_name] ne "{CLOCK}"}} {{ lappend data_inputs $port }}',
        "}",
        f"set_input_delay $io_delay -clock {CLOCK} $data_inputs",
        f"set_output_delay $io_delay -clock {CLOCK} [all_outputs]",
    ]
    if design.reset is not None:
        kind = (
            "asynchronous, to be released at a clock edge: recovery and removal are checked like other inputs"
            if RESETS[design.reset]
            else "synchronous: timed like every other input, by the delay above"
        )
        lines += ["", f"# {design.reset} is {kind}", f"set_ideal_network [get_ports {design.reset}]"]
    constant = [name for name in CONSTANT_INPUTS if name in design.by_name]
    if constant:
        ports = " ".join(f"{name}[*]" for name in constant)
        lines += ["", "# constant while a core runs", f"set_false_path -from [get_ports {{{ports}}}]"]
    return "\n".join([*lines, ""])
