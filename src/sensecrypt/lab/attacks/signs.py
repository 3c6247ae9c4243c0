"""Labels from Γ = |w ⊙ g| in the clear, however much of the upload is encrypted.

In the paper, clients upload Γ once for clustering, as it is taken to be safer than gradients. But w is the model that
the server sent, so |g| = Γ/|w| is known at every coordinate, and the signs follow. Each column of [g_W | g_b] sums to 0
over the classes, which in general only one of the 2^C sign patterns and its opposite fulfil. Embeddings are outputs of
a ReLU in all networks here, so the entries of a row have mostly one sign, which orients the columns. Of the two
opposite matrices that remain, only one gives counts that are whole and not negative.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.completion import complete_head, implausibility
from sensecrypt.lab.attacks.fills import biased_head, ilrg_on, prior
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import FloatVector, Observation

_ENUMERABLE = 14  # classes; 2^13 patterns times the columns fit into memory
_EXACT = 1e-5  # of a column's sum of magnitudes: the rounding error of single precision
_STARTS = 20

Signs = npt.NDArray[np.float64]


def sensitivity(observation: Observation) -> FloatVector:
    """Run iLRG on the head's gradient by Γ, at `before`, where clients compute Γ for clustering.

    Where w = 0, Γ has no information, and the upload's value is used: a top-Γ mask encrypts such parameters last.
    """
    everywhere, head = magnitudes(observation), biased_head(observation)
    places = np.column_stack([head.weight, head.bias])
    weights = observation.before.astype(np.float64)[places]
    known, sizes = ~np.isnan(everywhere[places]), np.nan_to_num(everywhere[places], nan=0.0)
    if not sizes.any():
        return prior(observation)
    signed = sizes * column_signs(sizes)
    guesses = []
    for matrix in (signed, -signed):
        filled = observation.zero_filled
        filled[places] = complete_head(
            np.where(known, matrix, observation.gradient[places]), weights[:, :-1], weights[:, -1], observation.samples
        )
        guesses.append(ilrg_on(observation, filled))
    return min(guesses, key=implausibility)


def magnitudes(observation: Observation) -> FloatVector:
    """|g| = Γ/|w| of every parameter, encrypted ones included; NaN where w = 0."""
    if observation.sensitivity is None:
        raise NotApplicable("observation", "has no sensitivity in the clear", "observe a protocol that uploads it")
    weights = np.abs(observation.before.astype(np.float64))
    return np.divide(observation.sensitivity, weights, out=np.full_like(weights, np.nan), where=weights != 0)


def column_signs(magnitudes: FloatMatrix) -> Signs:
    """Signs with which every column sums to 0, up to one common sign; within a row they agree where possible.

    With more than 14 classes there are too many patterns to try, and each row has one sign.
    """
    rows = _row_signs(magnitudes)
    if len(magnitudes) > _ENUMERABLE:
        return np.repeat(rows[:, None], magnitudes.shape[1], axis=1)
    patterns = _patterns(len(magnitudes))
    gap = np.abs(patterns @ magnitudes)
    agreement = patterns @ (rows[:, None] * magnitudes)
    exact = gap <= np.maximum(_EXACT * magnitudes.sum(axis=0), gap.min(axis=0))
    best = np.where(exact, np.abs(agreement), -1.0).argmax(axis=0)
    orientation = np.where(agreement[best, np.arange(best.size)] < 0, -1.0, 1.0)
    return np.asarray(patterns[best].T * orientation, dtype=np.float64)


def _patterns(classes: int) -> Signs:
    """All sign patterns, one of each opposite pair."""
    bits = (np.arange(2 ** (classes - 1))[:, None] >> np.arange(classes)) & 1
    return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)


def _row_signs(magnitudes: FloatMatrix) -> Signs:
    """One sign per row, with the least column sums."""
    gram = magnitudes @ magnitudes.T
    classes = len(magnitudes)
    if classes <= _ENUMERABLE:
        patterns = _patterns(classes)
        return np.asarray(patterns[np.einsum("pi,ij,pj->p", patterns, gram, patterns).argmin()], dtype=np.float64)
    rng = np.random.default_rng(0)  # starting points of a search
    descents = [_descend(gram, rng.choice([-1.0, 1.0], classes)) for _ in range(_STARTS)]
    return min(descents, key=lambda signs: float(signs @ gram @ signs))


def _descend(gram: FloatMatrix, signs: Signs) -> Signs:
    """Flip the row that reduces the sums most, until none does."""
    signs = signs.copy()
    while True:
        gain = signs * (gram @ signs) - np.diag(gram)
        best = int(gain.argmax())
        if gain[best] <= 1e-12 * np.trace(gram):
            return signs
        signs[best] *= -1.0
