"""A map of clients in two dimensions: those whose descriptions are alike lie close together.

The two principal components of the rows. A sketch has hundreds of numbers, a place on the map has two: enough to look
at who is near whom, too little to attack anybody with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

DIGITS = 6


def flat_map(rows: npt.NDArray[np.float64]) -> list[list[float]]:
    """Each row's place: its first two principal components, signs fixed so that equal rows give equal maps.

    Args:
        rows: one a client. Whichever of both sides is shorter makes the matrix that is taken apart.
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
