"""Data sets and their distribution over clients: NumPy arrays only, no training framework.

`datasets` loads by name, `formats` reads the official files, `download` fetches them, `partition` assigns samples to
clients.
"""

from sensecrypt.data.datasets import Dataset, load_dataset
from sensecrypt.data.partition import (
    by_categories,
    class_histogram,
    classes_per_client,
    dirichlet,
    earth_movers_distance,
    iid,
    make_partition,
    mean_emd,
)

__all__ = [
    "Dataset",
    "by_categories",
    "class_histogram",
    "classes_per_client",
    "dirichlet",
    "earth_movers_distance",
    "iid",
    "load_dataset",
    "make_partition",
    "mean_emd",
]
