"""The network in torch as it is trained: weights and activations are rounded to the integers it will compute with."""

import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS = (16, 32, 32)
"""Results of the convolutions."""

SIDE, CLASSES = 28, 10
PIXEL_BITS = 8
"""Of the inputs, and of the weights of the first layer: kernels for images have both in bytes."""

_FLAT = (SIDE // 4) ** 2 * CHANNELS[-1]
FLOAT_CLIP = 4.0
"""What activations are clipped to while they are not rounded yet: a first guess of the range of the integers."""


def rounded(values: Tensor, scale: Tensor, least: int, most: int) -> Tensor:
    """Multiples of the scale by ``least`` to ``most``; gradients pass as if they had been clipped only."""
    scaled = torch.clamp(values / scale, least, most)
    return (scaled + (torch.floor(scaled + 0.5) - scaled).detach()) * scale


def slowed(scale: Tensor, elements: int, most: int) -> Tensor:
    """The scale, whose gradients are divided by about how many elements share it (learned step sizes, Esser 2020)."""
    rate = (elements * most) ** -0.5
    return (scale - scale * rate).detach() + scale * rate


class Weights(nn.Module):
    """Signed integers times a scale, one of each output channel or one of all."""

    def __init__(self, weights: Tensor, *, by_channel: bool) -> None:
        super().__init__()
        self.values = nn.Parameter(weights)
        self.bits: int | None = None
        self.scale = nn.Parameter(torch.ones((len(weights),) if by_channel else (1,)))

    @property
    def _range(self) -> tuple[int, int]:
        assert self.bits is not None
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    def start(self, bits: int) -> None:
        """Round from now on, by a scale that fits the weights there are."""
        self.bits = bits
        rows = self.values.detach().flatten(1) if len(self.scale) > 1 else self.values.detach().flatten()[None]
        most = (1 << (bits - 1)) - 1
        # the scale with the least error out of some below what holds the largest
        tried = rows.abs().amax(1)[None] / most * torch.linspace(0.2, 1.0, 33)[:, None]
        errors = [(rounded(rows, scale[:, None], -most - 1, most) - rows).square().sum(1) for scale in tried]
        self.scale.data = tried.gather(0, torch.stack(errors).argmin(0)[None])[0]

    def integers(self) -> Tensor:
        """Return the weights times the scale."""
        shape = (-1, *(1 for _ in self.values.shape[1:]))
        return torch.floor(torch.clamp(self.values / self.scale.view(shape), *self._range) + 0.5)

    def forward(self) -> Tensor:
        """The weights that are multiplied with."""
        if self.bits is None:
            return self.values
        least, most = self._range
        scale = slowed(self.scale, self.values.numel() // len(self.scale), max(most, 1))
        return rounded(self.values, scale.view(-1, *(1 for _ in self.values.shape[1:])), least, most)


class Convolution(nn.Module):
    """Convolution of 3x3 with a margin of a pixel, batch normalisation, activations from 0."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.is_first = inputs == 1
        self.weights = Weights(nn.Conv2d(inputs, outputs, 3).weight.detach(), by_channel=True)
        self.normalisation = nn.BatchNorm2d(outputs)
        self.bits: int | None = None
        self.scale = nn.Parameter(torch.tensor(1.0))

    def start(self, bits: int) -> None:
        """Round from now on; what was clipped at the top so far still is."""
        top = FLOAT_CLIP if self.bits is None else self.scale.item() * ((1 << self.bits) - 1)
        self.bits = bits
        self.scale.data = torch.tensor(top / ((1 << bits) - 1))
        self.weights.start(PIXEL_BITS if self.is_first else bits)

    def forward(self, maps: Tensor) -> Tensor:
        """The activations."""
        sums = self.normalisation(functional.conv2d(maps, self.weights(), padding=1))
        if self.bits is None:
            return torch.clamp(sums, 0, FLOAT_CLIP)
        most = (1 << self.bits) - 1
        return rounded(sums, slowed(self.scale, sums[0].numel(), most), 0, most)


class Net(nn.Module):
    """Three convolutions, the first two with pooling behind them, and a layer that is fully connected."""

    def __init__(self) -> None:
        super().__init__()
        inputs = (1, *CHANNELS)
        self.convolutions = nn.ModuleList(map(Convolution, inputs, CHANNELS))
        last = nn.Linear(_FLAT, CLASSES)
        self.weights = Weights(last.weight.detach(), by_channel=False)
        self.bias = nn.Parameter(last.bias.detach())

    def start(self, bits: int) -> None:
        """Compute with integers of so many bits from now on."""
        for one in (*self.convolutions, self.weights):
            one.start(bits)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of images, whose samples are 0 to 1."""
        maps = images
        for number, convolution in enumerate(self.convolutions):
            maps = convolution(maps)
            if number + 1 < len(CHANNELS):
                maps = functional.max_pool2d(maps, 2)
        return functional.linear(maps.flatten(1), self.weights(), self.bias)
