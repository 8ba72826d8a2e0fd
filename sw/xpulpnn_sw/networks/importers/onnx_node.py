"""A node of an ONNX graph, and what its operator works in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.assembly import NetworkAssembly
from xpulpnn_sw.networks.importers.policy import Policy
from xpulpnn_sw.networks.importers.values import Map, Quantised, Sums, Value


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxNode:
    """A node."""

    operator: str  # name of the operator
    name: str  # name of the node, or of its output if it has none
    inputs: tuple[str, ...]  # names of tensors; an empty one is left out
    outputs: tuple[str, ...]  # names of tensors
    attributes: Mapping[str, Any]
    proto: Any  # as onnx has it

    def __str__(self) -> str:
        return f"{self.operator} {self.name}"

    def check(self, model: Any) -> None:
        """Raise :class:`InputError` unless it is as onnx defines its operator, if it does, in a ``ModelProto``."""
        from onnx import defs

        if not self.outputs:
            raise InputError(f"{self}: outputs must be one at least, not none")
        # without a version the newest
        versions = [one.version for one in model.opset_import if one.domain in _STANDARD] or [defs.onnx_opset_version()]
        if not defs.has(self.operator):
            return
        if (domain := self.proto.domain) not in (*_STANDARD, _RUNTIME):
            raise InputError(f"{self}: domain of the operator must be that of ONNX, not {domain}")
        if defs.has(self.operator, max_inclusive_version=versions[0], domain=""):
            least = defs.get_schema(self.operator, versions[0]).min_input
            if len(self.inputs) < least:
                raise InputError(f"{self}: inputs must be {least} at least, not {len(self.inputs)}")

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def number(self, name: str, default: int) -> int:
        """An attribute that is a whole number; raises :class:`InputError` for another."""
        return self._whole(name, self.attributes.get(name, default))

    def numbers(self, name: str, default: Sequence[int]) -> list[int]:
        """An attribute that is a list of whole numbers; raises :class:`InputError` for another."""
        values: Any = self.attributes.get(name, default)
        try:
            found = list(values)
        except TypeError:
            raise InputError(f"{name} must be whole numbers, not {values}") from None
        return [self._whole(name, one) for one in found]

    def real(self, name: str, default: float) -> float:
        """An attribute that is a number; raises :class:`InputError` for another."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or not isfinite(value):
            raise InputError(f"{name} must be a number, not {value}")
        return float(value)

    def _whole(self, name: str, value: Any) -> int:
        if not isinstance(value, int) or abs(value) >= _MOST:
            raise InputError(f"{name} must be a whole number below {_MOST}, not {value}")
        return value


_STANDARD = ("", "ai.onnx")
# domains of ONNX's operators; of ONNX Runtime's, which has some of them for more types. QONNX has a domain where `Conv`
# and others take channels last.
_RUNTIME = "com.microsoft"
_MOST = 1 << 31  # of attributes that are whole numbers


@dataclass(eq=False, kw_only=True)
class ImportContext:
    """The network so far and the policy, for reading the next node."""

    assembly: NetworkAssembly  # the network so far
    policy: Policy | None  # how what has no quantiser is quantised
    note: Callable[[str], None]  # is told what the network has not of the model
    _quantised: dict[Sums, Map] = field(default_factory=dict[Sums, Map], init=False)

    def map_of(self, value: Value | None, tensor: str, *, padded: bool = False) -> Map:
        """A value in memory; raises :class:`InputError` if nothing says how it is quantised.

        Unless ``padded`` there may be nothing around it.
        """
        if isinstance(value, Map):
            if not padded:
                value.check_unpadded()
            return value
        if not isinstance(value, Sums):
            raise InputError(f"{tensor or 'input'} must depend on the input of the model, not be a constant")
        if self.policy is None:
            raise InputError(
                f"{tensor} must come from a quantiser, not in floating point (--quantise makes quantisers)"
            )
        # a map that several layers read is quantised once
        if value not in self._quantised:
            self._quantised[value] = self.assembly.quantised(value, self.policy.levels(tensor, value))
        return self._quantised[value]

    def weights_of(self, value: Value | None, tensor: str, *, channel_axis: int | None) -> Quantised:
        """Constants as integers; ``channel_axis`` has a scale for each number; None: one for all."""
        if isinstance(value, Quantised):
            return value
        if not isinstance(value, np.ndarray):
            raise InputError(f"{tensor} must be a constant, not depend on the input of the model")
        if self.policy is not None:
            return self.policy.weights(tensor, value, channel_axis)
        if value.dtype.kind not in "fiu" or not np.array_equal(value, np.rint(value)) or np.abs(value).max() >= _MOST:
            raise InputError(
                f"{tensor} must come from a quantiser, not in floating point (--quantise makes quantisers)"
            )
        return whole(value)


def whole(value: NDArray[Any]) -> Quantised:
    """Constants that are whole numbers."""
    from fractions import Fraction

    return Quantised(values=value.astype(np.int64), scale=np.full(value.shape, Fraction(1), object))


Given = Sequence[Value | None]  # the inputs of a node; None: left out
OnnxOperator = Callable[[ImportContext, OnnxNode, Given], Value]
