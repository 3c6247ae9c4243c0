"""The paper's networks, and the conversion of a model to the flat vector that the protocol transports."""

from sensecrypt.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401  the only package that this layer needs beyond the base installation
except ImportError as error:
    raise MissingExtra("training", "torch") from error

from sensecrypt.models.gradients import mean_gradient, sample_gradients
from sensecrypt.models.head import Head, always_encrypt, find_head
from sensecrypt.models.parameters import (
    constants,
    get_vector,
    gradient_vector,
    layout,
    named_arrays,
    parameter_count,
    require_averageable,
    require_constants,
    set_vector,
    statistics_count,
    vector_layout,
)
from sensecrypt.models.zoo import DEFAULT_MODEL, MODELS, build_model

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "Head",
    "always_encrypt",
    "build_model",
    "constants",
    "find_head",
    "get_vector",
    "gradient_vector",
    "layout",
    "mean_gradient",
    "named_arrays",
    "parameter_count",
    "require_averageable",
    "require_constants",
    "sample_gradients",
    "set_vector",
    "statistics_count",
    "vector_layout",
]
