"""A map of clients in two dimensions: clients with similar vectors are close together.

It shows the first two principal components of the clients' vectors. A sketch has hundreds of numbers, a position on the
map has two: enough to see which clients are close, too few for an attack. The map is not reproducible: sketches are
keyed, so it differs for each repetition of the same run.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt

from sensecrypt.runs.folder import RunFolder

DIGITS = 6
FILE = "map.json"


def save_map(folder: RunFolder, rows: npt.NDArray[np.float64]) -> None:
    """Save the clients' positions, and nothing else of the rows."""
    folder.write(FILE, json.dumps(flat_map(rows)).encode())


def flat_map(rows: npt.NDArray[np.float64]) -> list[list[float]]:
    """Return each row's first two principal components, with fixed signs, so that equal rows give equal maps.

    Args:
        rows: one vector per client.
    """
    clients, width = rows.shape
    if clients <= width:
        products = rows @ rows.T
        centred = products - products.mean(axis=0) - products.mean(axis=1)[:, None] + products.mean()
        values, vectors = np.linalg.eigh(centred)
        places = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    else:
        centred = rows - rows.mean(axis=0)
        places = centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2]
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    largest = places[np.abs(places).argmax(axis=0), [0, 1]]
    places = places * np.where(largest < 0, -1.0, 1.0)
    return [[float(f"{value:.{DIGITS}g}") for value in place] for place in places]
