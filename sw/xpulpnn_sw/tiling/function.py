"""A function for the tiles of one layer: what is the same in all of them is a constant."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xpulpnn_sw.kernels.im2col import Im2col
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.requantised_code import product_program
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.tiling.geometry import Form, Product


def specialised(
    run: Product, rule: Rule | None, calls: Sequence[Mapping[str, int]], *, folded: bool = False
) -> Product:
    """The kernel for ``calls`` only, the fields of its argument structure in each of them.

    ``rule`` says how its results come of accumulators, ``folded`` whether columns of them are folded.
    """
    known = {field.name for field in run.structure.fields if not field.pointer}
    constants = {name: calls[0][name] for name in known if len({values[name] for values in calls}) == 1}
    dilated, valued = "dilation" in known, "outside" in known
    im2col = None
    if run.form is Form.MAP:
        is_image = isinstance(run.layer, ImageConvLayer)
        im2col = Im2col(run.variant, run.precision, dilated=dilated, valued=valued, inside=is_image)
    blocking = Blocking(run.variant, run.precision, rule, folded=folded)
    function = product_program(blocking, run.structure, constants, im2col)
    return replace(run, function=function, specialised=True)
