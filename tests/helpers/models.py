"""What tests compare of trained models."""


def bits(estimator):
    """Return the bytes of every array of a model's blocks."""
    return [block[name].tobytes() for block in estimator.model_.blocks for name in sorted(block)]
