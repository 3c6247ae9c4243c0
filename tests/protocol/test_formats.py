"""Every clipped update fits the fixed-point format of its round, whatever the bound and the width of slots."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.algo.clipping import clip_update
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.round import Round


@pytest.mark.parametrize("profile", ["paillier-2048", "paillier-2048-slot16", "paillier-2048-slot64"])
@pytest.mark.parametrize("clip", [1e-3, 0.7, 1.0, 63.0])
def test_the_longest_update_in_one_value_fits_and_comes_back(profile, clip):
    round_ = Round("run", 0, 0, "model", 4, get_profile(profile), {0: 0.5, 1: 0.5}, clip=clip)
    form = model_format(round_)
    update, _ = clip_update(np.array([5 * clip, 0, 0, 0]), norm=clip, largest=form.largest)
    both = sum(form.encode(update, weight) for weight in round_.weights.values())
    assert form.decode(both, 1.0)[0] == pytest.approx(clip, rel=0.04 if form.slot_bits == 16 else 1e-3)
