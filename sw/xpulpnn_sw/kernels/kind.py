"""What there is to know about a kernel by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import Level
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layout import Placement
from xpulpnn_sw.precision import Precision


class Build(Protocol):
    """Writes a kernel and lays out its operands.

    ``name`` is one of the variants, ``tensors`` what :attr:`Kind.random` gives; buffers and stacks are for ``cores``
    cores. A specialised function is for this layer only. ``placement`` is that of what cores read side by side.
    """

    def __call__(
        self,
        layer: Any,
        precision: Precision,
        name: str,
        tensors: Any,
        *,
        cores: int = 1,
        specialise: bool = False,
        placement: Placement = "padded",
    ) -> KernelRun:
        """The kernel."""
        ...


def same_precision(_: Any, precision: Precision) -> Precision:
    """Of a kernel that leaves to the caller what its results are."""
    return precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kernel that the command line knows."""

    name: str
    help: str  # what it computes, in a few words
    layer: type[Layer]  # layers it computes; no two kinds have the same
    form: str  # how a layer is written
    usual: str  # layer unless another is given: for one core, and one that fits into the TCDM
    usual_in_cluster: str  # layer unless another is given: for one core, and one that fits into the TCDM
    variants: Mapping[str, Level]  # ways to write it, by name
    usual_variants: tuple[str, ...]  # those meant by none
    uniform: Callable[[int], Precision] = Precision.uniform  # the precision that one width for all means
    # the precision for a layer: as given, unless the layer itself says what its results are
    precision: Callable[[Any, Precision], Precision] = same_precision
    rules: tuple[Rule, ...] = ()  # how its results may come of accumulators; none: there is no choice
    # operands for a layer and a precision out of a generator; for a `rule`, a keyword, if there are `rules`
    random: Callable[..., Any]
    build: Build  # the kernel for a layer, a precision, the name of a variant and operands

    def tensors(self, layer: Any, precision: Precision, rng: np.random.Generator, rule: Rule = Rule.BN32) -> Any:
        """Random operands of a layer whose results come by a rule."""
        return self.random(layer, precision, rng, rule=rule) if self.rules else self.random(layer, precision, rng)

    def variant(self, name: str) -> Level:
        """The variant called ``name``; raises :class:`LayerError` for an unknown one."""
        try:
            return self.variants[name]
        except KeyError:
            raise LayerError(f"variant must be one of {', '.join(self.variants)}, not {name}") from None
