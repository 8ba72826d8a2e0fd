"""The kernels that keep channels apart, for the table of all kernels."""

from xpulpnn_sw.kernels.channelwise.add import add_kernel, random_add
from xpulpnn_sw.kernels.channelwise.avgpool import avgpool_kernel, random_avgpool
from xpulpnn_sw.kernels.channelwise.depthwise import depthwise_kernel, random_depthwise
from xpulpnn_sw.kernels.channelwise.levels import LEVELS, PLAIN_LEVELS, POOL_LEVELS
from xpulpnn_sw.kernels.channelwise.maxpool import check_maxpool, maxpool_kernel, random_maxpool
from xpulpnn_sw.kernels.channelwise.relu import check_relu, random_relu, relu_kernel, relu_precision
from xpulpnn_sw.kernels.channelwise.transpose import (
    TRANSPOSE_LEVELS,
    check_transpose,
    random_transpose,
    transpose_kernel,
)
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.channelwise import (
    ADD_FORM,
    AVERAGE_FORM,
    DEPTHWISE_FORM,
    MAP_FORM,
    MAXIMUM_FORM,
    AddLayer,
    AvgPoolLayer,
    DepthwiseLayer,
    MaxPoolLayer,
    ReluLayer,
    TransposeLayer,
)
from xpulpnn_sw.precision import SIGN_BITS, Precision

_MAXPOOL_LAYER = "32x32x32:3x3:s=2,p=0x1x0x1"
"""The first pooling of the CIFAR-10 network, whose windows are cut off at the right and lower edge."""

_AVGPOOL_LAYER = "16x16x32:2x2:s=2:scaled"
"""As in the public kernels, with requantisation."""

_USUAL = ("xpulpv2", "xpulpnn")


def unsigned(bits: int) -> Precision:
    """Unsigned elements of one width, of one bit -1 and +1."""
    return Precision(bits, bits, bits, w_signed=bits == SIGN_BITS)


CHANNELWISE = (
    Kind(
        name="add",
        help="sum of two feature maps, each scaled",
        layer=AddLayer,
        form=ADD_FORM,
        usual="16x16x32",
        usual_in_cluster="16x16x32",
        variants=LEVELS,
        usual_variants=_USUAL,
        uniform=unsigned,
        random=random_add,
        build=add_kernel,
    ),
    Kind(
        name="avgpool",
        help="average pooling, with or without requantisation",
        layer=AvgPoolLayer,
        form=AVERAGE_FORM,
        usual=_AVGPOOL_LAYER,
        usual_in_cluster="32x32x32:2x2:s=2",
        variants=LEVELS,
        usual_variants=_USUAL,
        uniform=unsigned,
        random=random_avgpool,
        build=avgpool_kernel,
    ),
    Kind(
        name="depthwise",
        help="depthwise convolution",
        layer=DepthwiseLayer,
        form=DEPTHWISE_FORM,
        usual="16x16x32:3x3",
        usual_in_cluster="16x16x32:3x3",
        variants=LEVELS,
        usual_variants=_USUAL,
        rules=(Rule.BN32, Rule.BN64, Rule.MULTIPLY, Rule.SHIFT, Rule.THRESHOLDS),
        random=random_depthwise,
        build=depthwise_kernel,
    ),
    Kind(
        name="maxpool",
        help="maximum pooling, with or without ReLU",
        layer=MaxPoolLayer,
        form=MAXIMUM_FORM,
        usual=_MAXPOOL_LAYER,
        usual_in_cluster=_MAXPOOL_LAYER,
        variants=POOL_LEVELS,
        usual_variants=_USUAL,
        uniform=unsigned,
        precision=check_maxpool,
        random=random_maxpool,
        build=maxpool_kernel,
    ),
    Kind(
        name="relu",
        help="negative elements become 0",
        layer=ReluLayer,
        form=MAP_FORM,
        usual="16x16x32",
        usual_in_cluster="16x16x32",
        variants=PLAIN_LEVELS,
        usual_variants=_USUAL,
        uniform=relu_precision,
        precision=check_relu,
        random=random_relu,
        build=relu_kernel,
    ),
    Kind(
        name="transpose",
        help="a map pixel by pixel comes to lie channel by channel",
        layer=TransposeLayer,
        form=MAP_FORM,
        usual="16x16x32",
        usual_in_cluster="16x16x32",
        variants=TRANSPOSE_LEVELS,
        usual_variants=tuple(TRANSPOSE_LEVELS),
        uniform=unsigned,
        precision=check_transpose,
        random=random_transpose,
        build=transpose_kernel,
    ),
)
"""In the order of the table."""
