"""Images for networks on the command line."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn_sim.cli.command import arguments
from xpulpnn_sim.cli.values import Count
from xpulpnn_sim.cosimulation.networks.images import FORMS, Images, read_images

_IMAGES = Parameter(help=f"Images, with labels for answers to be counted: {FORMS}.", metavar="PATH")


@arguments
class ImageOptions:
    """Images for a network."""

    images: Annotated[Path | None, _IMAGES] = None
    labels: Path | None = None
    """IDX file with the classes of the images (default: the one beside them called labels-idx1)."""
    limit: Count | None = None
    """Only the first N images."""

    def read(self) -> Images | None:
        """The images that are asked for, if any; raises :class:`~xpulpnn.errors.InputError` for others."""
        return None if self.images is None else read_images(self.images, self.labels).first(self.limit)
