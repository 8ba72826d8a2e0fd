"""Builder of layers from TFLite models, whose factors are rounded as TFLite rounds them."""

from dataclasses import dataclass, replace

import numpy as np

from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.quantiser import Quantiser
from xpulpnn_sw.networks.importers.rule_fit import RuleFit, away_average
from xpulpnn_sw.networks.importers.values import Map, Sums
from xpulpnn_sw.networks.network import NetworkModel
from xpulpnn_sw.networks.normalisation import Range, check_sums, exact, fixed_point, shifted_sum


@dataclass(eq=False)
class TfliteLayerBuilder(LayerBuilder):
    """Builds layers with TFLite's rounding of factors instead of quantisers' exact steps."""

    is_fast: bool = False

    @property
    def last(self) -> str:
        """Name of the last layer, or of the network's input if there is none."""
        return self._builder.stages[-1].name if self._builder.stages else INPUT

    def finish(self) -> NetworkModel:
        """Return the network without the sources and the signs of precisions that its file may leave out."""
        stages, before = self._builder.stages, INPUT
        for number, stage in enumerate(stages):
            if stage.sources == (before,):
                stages[number] = stage = replace(stage, sources=())
            if stage.kind.name in ("maxpool", "avgpool"):
                stages[number] = replace(stage, precision=replace(stage.precision, w_signed=True))
            before = stage.name
        return super().finish()

    def _fit(self, sums: Sums, quantiser: Quantiser) -> tuple[Sums, RuleFit]:
        zero, source, rule = zero_point_of(quantiser), sums.sources[0], Rule.BN32
        if sums.factors is not None:
            maps = [(Range(source.low, source.high), zero_point_of(source)) for source in sums.sources]
            arrays = shifted_sum([float(factor / quantiser.scale) for factor in sums.factors], maps, zero)
        elif sums.kernel == "avgpool":
            added = Range(sums.channels[0].least, sums.channels[0].most), zero_point_of(source)
            arrays = shifted_sum([float(source.scale / quantiser.scale)], [added], zero, sums.area)
            (arrays["factor"],) = arrays.pop("factors")
            if sums.centre is not None:
                away = away_average(sums, quantiser)
                if away is None and sums.area % 2 == 0:
                    self.note(f"{sums.name}: halves of averages go up, not away from the code 0 as TFLite's")
                arrays = away or arrays
        else:
            # the bias includes the zero point of the inputs, which is also the padding
            least, most, bias = zip(
                *((channel.least, channel.most, int(channel.b / channel.a)) for channel in sums.channels), strict=True
            )
            check_sums(least, most, bias)
            factors = [float(channel.a / quantiser.scale) for channel in sums.channels]
            arrays = {"weights": sums.weights}
            if self.is_fast:
                arrays |= fixed_point(factors, zero, [Range(*ends) for ends in zip(least, most, strict=True)], bias)
            else:
                arrays |= {"bias": np.array(bias, np.int64), **exact(factors, zero)}
                rule = Rule.EXACT
        return sums, RuleFit(arrays={name: np.asarray(values) for name, values in arrays.items()}, rule=rule)


def zero_point_of(value: Map | Quantiser) -> int:
    """Return the integer that represents 0."""
    return int(-value.offset / value.scale)
