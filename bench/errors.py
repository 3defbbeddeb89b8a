"""What a bench says when it can't measure."""


class BenchError(Exception):
    """The measurement is not to be had; the message says why and shows the ends of the logs concerned."""
