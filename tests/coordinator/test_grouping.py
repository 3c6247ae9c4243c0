"""Clusters as a run asks for them: what could never be decrypted is refused before the first round."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.coordinator.enrolment import group_clients
from sensecrypt.errors import InvalidInput
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

ROWS = np.repeat(np.eye(3), [4, 4, 2], axis=0) + 0.01 * np.random.default_rng(0).standard_normal((10, 3))
SMALL = {"clients": 7, "partition": "iid", "rounds": 1, "profile": "insecure-test", "workers": 1}
SMALL |= {"sensitivities": "clear", "min_contributors": 5}  # no random sketch, and any split has a cluster below five


def grouped(**settings):
    return group_clients(ROWS, make_config({"clients": 10, **settings}))


def test_each_method_is_the_one_that_was_asked_for():
    assert np.bincount(grouped().labels).min() >= 3
    assert np.bincount(grouped(clustering="ap", min_contributors=1).labels).tolist() == [4, 4, 2]
    k_means = grouped(clustering="k-means", clusters=3, min_contributors=1)
    assert k_means.why.startswith("k-means with k = 3: ")
    assert grouped(clustering="k-means").why.startswith("k-means with k = 2 … 8: ")
    assert grouped(clusters=3).why.startswith("affinity propagation found")
    with pytest.raises(InvalidInput, match="is none"):
        grouped(clustering="none")


def test_a_cluster_below_min_contributors_is_refused_where_a_key_server_decrypts():
    with pytest.raises(InvalidInput, match="1 of 3 clusters have fewer than 3 clients") as error:
        grouped(clustering="ap")
    assert error.value.argument == "clustering"
    assert grouped(clustering="ap", key_mode="shared-key", profile="insecure-test").count == 3


def test_fewer_clients_than_configured_may_be_there():
    config = make_config({"clients": 20, "clustering": "k-means", "clusters": 12, "min_contributors": 1})
    assert group_clients(ROWS, config).labels.size == 10


def test_a_run_with_plain_affinity_propagation_is_refused_or_works(tmp_path):
    config = make_config({**SMALL, "clustering": "ap"})
    with pytest.raises(InvalidInput, match="the key server never decrypts"):
        run_local(config, RunFolder(tmp_path / "dkms"))
    config = make_config({**SMALL, "clustering": "ap", "key_mode": "shared-key"})
    result = run_local(config, RunFolder(tmp_path / "shared"))
    assert np.bincount(result.labels).min() < config.release.min_contributors
    assert not any(record.left_out is not None for record in result.records)
    assert result.summary()["why_clusters"].startswith("affinity propagation at the median preference")
