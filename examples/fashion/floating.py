"""The trained network in floating point as an ONNX model, which `xpulpnn net explore` takes."""

import numpy as np
import torch
from model import CHANNELS, CLASSES, SIDE, Net
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 21, 10


def model(net: Net, clip: float) -> bytes:
    """The file, of a network whose activations are clipped at ``clip``; its inputs are the samples from 0 to 1."""
    tensors, nodes = [], []

    def constant(name: str, values: torch.Tensor | float) -> str:
        array = np.asarray(values.detach().numpy() if isinstance(values, torch.Tensor) else values, np.float32)
        tensors.append(numpy_helper.from_array(array, name))
        return name

    least, most = constant("least", 0.0), constant("most", clip)
    last = "image"
    for number, one in enumerate(net.convolutions, start=1):
        own, name = one.normalisation, f"conv{number}"
        weights = constant(f"{name}.weights", one.weights.values)
        nodes.append(helper.make_node("Conv", [last, weights], [f"{name}.sums"], name=name, pads=[1] * 4))
        parts = {"scale": own.weight, "bias": own.bias, "mean": own.running_mean, "variance": own.running_var}
        names = [constant(f"{name}.{part}", values) for part, values in parts.items()]
        nodes.append(
            helper.make_node("BatchNormalization", [f"{name}.sums", *names], [f"{name}.even"], epsilon=own.eps)
        )
        last = f"{name}.results"
        nodes.append(helper.make_node("Clip", [f"{name}.even", least, most], [last]))
        if number < len(CHANNELS):
            nodes.append(helper.make_node("MaxPool", [last], [f"pool{number}"], kernel_shape=[2, 2], strides=[2, 2]))
            last = f"pool{number}"
    nodes.append(helper.make_node("Flatten", [last], ["row"]))
    end = [constant("scores.weights", net.weights.values), constant("scores.bias", net.bias)]
    nodes.append(helper.make_node("Gemm", ["row", *end], ["scores"], name="scores", transB=1))
    graph = helper.make_graph(
        nodes,
        "fashion",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, SIDE, SIDE))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, CLASSES))],
        tensors,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION).SerializeToString()
