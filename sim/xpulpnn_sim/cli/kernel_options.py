"""Options of commands about kernels: precisions, rules, functions for one layer."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.options import Words, arguments, listed
from xpulpnn_sim.cosimulation.workloads.kernel_run import short_precision
from xpulpnn_sw.kernels.kinds import KINDS, kind
from xpulpnn_sw.kernels.requantisation import RULES, Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.toolchain.compilers import COMPILERS

WIDTHS = ("16", "8", "4", "2", "1")

KERNELS = "; ".join(f"{one.name}: {one.help}" for one in KINDS.values())  # the kernels, with what they are, as help

Kernel = Annotated[str, Parameter(choices=tuple(KINDS), help=KERNELS, metavar="KERNEL", show_choices=False)]


FORMS = ", ".join(f"{name}: {one.form}" for name, one in KINDS.items())  # how their layers are written, as help


@arguments
class Precisions:
    """Widths to compute with."""

    bits: Annotated[tuple[str, ...], listed(WIDTHS)] = ()
    """Widths of inputs, weights and results together, out of 16, 8, 4, 2, 1 (default 8; of cosim 8+4+2)."""
    precision: Annotated[Words, Parameter(metavar="XxWxY")] = ()
    """The three widths, such as 8x8x8+8x4x4."""

    def precisions(self, kernel: str, usual: Sequence[object] = (8,)) -> list[Precision]:
        """The precisions asked for, or those of the ``usual`` widths."""
        if self.precision:
            if self.bits:
                raise InputError("--bits must be left out with --precision")
            return [Precision.parse(text) for text in self.precision]
        # only products are those of single bits
        known = WIDTHS if kind(kernel).rules else WIDTHS[:-1]
        for text in self.bits:
            if text not in known:
                raise InputError(f"--bits must be a list out of {','.join(known)}, not {text}")
        return [short_precision(kernel, int(str(text))) for text in self.bits or usual]


@arguments
class Requantising:
    """Conversion of accumulators to results."""

    requantise: Annotated[
        str | None,
        Parameter(
            choices=RULES,
            help="How results below 32 bits come of the accumulators: kappa*acc + lambda in 32 or in 64 bits, shifted, "
            "or one factor for all and a shift, or a shift alone, or thresholds of 16 bits, or (qnt) those by pv.qnt, "
            "for results of 4 and 2 bits on a core with --set qnt=true (default bn32; results of one bit by a "
            "threshold).",
        ),
    ] = None

    @property
    def rule(self) -> Rule:
        """The rule asked for."""
        return Rule(self.requantise or Rule.BN32)


@arguments
class Specialising:
    """Functions for one layer."""

    specialise: bool = False
    """Kernel functions for the one layer, its sizes constants: faster, and more code."""


@arguments
class CompilerChoice:
    """Choice of the C compiler."""

    compiler: Annotated[str | None, Parameter(choices=COMPILERS)] = None
    """C compiler (default: the first installed)."""
