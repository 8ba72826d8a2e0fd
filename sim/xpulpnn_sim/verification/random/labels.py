"""Names of labels."""


class Labels:
    """Hands out names that are different from each other."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, stem: str) -> str:
        """A label that starts with ``stem``."""
        self._count += 1
        return f"{stem}{self._count}"
