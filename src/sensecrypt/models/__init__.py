"""The paper's networks and the flat vector of their trainable parameters, the form in which the protocol sees them."""

from sensecrypt.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401  the only need of this layer beyond the base installation
except ImportError as error:
    raise MissingExtra("training", "torch") from error

from sensecrypt.models.gradients import mean_gradient, sample_gradients
from sensecrypt.models.head import Head, always_encrypt, find_head
from sensecrypt.models.parameters import get_vector, gradient_vector, layout, parameter_count, set_vector
from sensecrypt.models.zoo import DEFAULT_MODEL, MODELS, build_model

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "Head",
    "always_encrypt",
    "build_model",
    "find_head",
    "get_vector",
    "gradient_vector",
    "layout",
    "mean_gradient",
    "parameter_count",
    "sample_gradients",
    "set_vector",
]
