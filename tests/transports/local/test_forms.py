"""Every form of model, data and loss: it learns, and the models are those of the same run without encryption."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from sensecrypt import federate
from sensecrypt.records import clients_of

SETTINGS = {"profile": "insecure-test", "clustering": "none", "workers": 1, "batch_size": 8, "learning_rate": 0.1}
DRAW = torch.Generator().manual_seed(5)
X, Y = torch.randn(72, 6, generator=DRAW), torch.arange(72) // 3 % 3
X += Y[:, None]
THREE = [slice(i, 72, 3) for i in range(3)]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, a, b):
        return self.left(a) + self.right(b)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, input_ids, scale):
        return self.head(self.words(input_ids).mean(1) * scale[:, None])


class Low(nn.Module):
    """A frozen layer and an adapter of rank two; the state has a truth value and an infinite mask."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 3).requires_grad_(requires_grad=False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("far", torch.full((2,), float("-inf")))

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Rolled(Dataset):
    """Random augmentation, from all generators that people draw from."""

    def __init__(self, rows):
        self.x, self.y = X[rows], Y[rows]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        import random

        import numpy as np

        noise = torch.randn(()) + random.random() + np.random.rand()  # noqa: S311, NPY002
        return self.x[index] + 0.01 * noise, self.y[index]


def dense(kind=torch.float32):
    return nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
    ).to(kind)


def tokens(rows):
    return {"input_ids": Y[rows][:, None].repeat(1, 4) + 2, "scale": torch.ones(24), "labels": Y[rows]}


def fit(model, data, number):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 / (1 + number))
    for x, y in DataLoader(TensorDataset(*data), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


PAIRS = [(X[rows], Y[rows]) for rows in THREE]
FORMS = {
    "tensors": (dense, PAIRS, {}),
    "arrays": (dense, [(x.double().numpy(), y.numpy()) for x, y in PAIRS], {}),
    "regression": (lambda: nn.Linear(6, 1), [(x, y.float()[:, None]) for x, y in PAIRS], {"loss": nn.MSELoss()}),
    "a loss function": (
        lambda: nn.Linear(6, 3),
        PAIRS,
        {"loss": lambda out, batch: -out.log_softmax(1)[range(len(batch[1])), batch[1]].mean()},
    ),
    "dicts": (Named, [tokens(rows) for rows in THREE], {}),
    "dict batches": (Named, [[tokens(rows)] * 2 for rows in THREE], {}),
    "two inputs": (Two, [(x[:, :3], x[:, 3:], y) for x, y in PAIRS], {}),
    "adapters": (Low, PAIRS, {}),
    "bfloat16": (lambda: dense(torch.bfloat16), PAIRS, {}),
    "half": (lambda: nn.Linear(6, 3).half(), PAIRS, {}),
    "double": (lambda: dense(torch.float64), PAIRS, {}),
    "data sets with augmentation": (dense, [Rolled(rows) for rows in THREE], {}),
    "shuffling loaders": (
        dense,
        [DataLoader(Rolled(r), 8, shuffle=True, generator=torch.Generator()) for r in THREE],
        {},
    ),
    "factories": (dense, [lambda rows=rows: DataLoader(Rolled(rows), 8) for rows in THREE], {}),
    "own fit": (dense, PAIRS, {"fit": fit}),
    "own optimiser and schedule": (
        dense,
        PAIRS,
        {"optimizer": torch.optim.AdamW, "scheduler": lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5)},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_trains_and_equals_its_unencrypted_twin(form):
    build, clients, more = FORMS[form]
    torch.manual_seed(0)
    model = build()
    before = copy.deepcopy(model.state_dict())
    drawn = torch.random.get_rng_state()
    own = ("learning_rate", "batch_size") if "optimizer" in more or "fit" in more else ()
    settings = {name: value for name, value in SETTINGS.items() if name not in own}
    encrypted, plain = (
        federate(model, clients, rounds=2, settings={**settings, "policy": policy}, **more)
        for policy in ("full", "plaintext")
    )
    assert encrypted.model_sha256 == plain.model_sha256
    assert encrypted.summary()["encrypted_share"] == 1.0
    assert plain.summary()["encrypted_share"] == 0.0
    assert encrypted.excluded == []
    trained = encrypted.state_dict()
    assert {name: each.dtype for name, each in trained.items()} == {name: each.dtype for name, each in before.items()}
    learns = [name for name, each in model.named_parameters() if each.requires_grad]
    assert all(not torch.equal(trained[name], before[name]) for name in learns)
    assert all(
        torch.equal(trained[name], before[name]) for name, each in model.named_parameters() if not each.requires_grad
    )
    for name, each in model.state_dict().items():  # the caller's model and generators are as they were
        assert torch.equal(each, before[name])
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_running_statistics_arrive_and_models_load_back_by_name(tmp_path):
    torch.manual_seed(0)
    result = federate(dense(), PAIRS, test=(X, Y), rounds=4, settings=SETTINGS)
    state = result.state_dict()
    assert state["1.num_batches_tracked"] == 4 * 3
    assert (state["1.running_mean"] != 0).all()
    path = result.save(tmp_path / "ü ber" / "model.safetensors")
    other = dense()
    load_model(other, path)
    assert all(torch.equal(each, state[name]) for name, each in other.state_dict().items())
    assert load_file(path).keys() == state.keys()
    assert result.history[-1]["accuracy"] > 0.5
    assert len(repr(result)) < 120
    assert "accuracy" in repr(result)


def test_a_float64_model_moves_by_float32():
    torch.manual_seed(0)
    model = nn.Linear(6, 3).double()
    result = federate(model, PAIRS, rounds=1, settings=SETTINGS)
    assert result.state_dict()["weight"].dtype == torch.float64


class Counted:
    """Loads clients' data, and notes for whom."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, client):
        self.seen.append(client)
        return PAIRS[client % 3]


def test_data_of_clients_that_are_not_sampled_are_never_made():
    load = Counted()
    many = 300
    result = federate(
        nn.Linear(6, 3), range(many), load=load, weights=[1] * many, sample=4, rounds=3, settings=SETTINGS
    )
    played = {record.client for record in result.records}
    assert len(result.records) == 12
    assert set(load.seen) - {0} <= played | {
        each.client for each in clients_of(result.log) if each.order_blocks is not None
    }
    assert len(set(load.seen)) <= 20


def test_weights_count():
    heavy = federate(nn.Linear(6, 3), PAIRS, weights=[1, 1, 2], rounds=1, settings={**SETTINGS, "seed": 3})
    records = {record.client: record for record in heavy.records}
    assert len(records) == 3
    model = nn.Linear(6, 3)
    by_weights = federate(model, PAIRS, weights=[0.25, 0.25, 0.5], rounds=1, settings=SETTINGS)
    whole = federate(model, PAIRS, weights=[250_000, 250_000, 500_000], rounds=1, settings=SETTINGS)
    same = federate(model, PAIRS, rounds=1, settings=SETTINGS)
    assert by_weights.model_sha256 == whole.model_sha256 != same.model_sha256


def test_stopping_resuming_and_what_callbacks_are_told(tmp_path):
    torch.manual_seed(0)
    model, told = dense(), []
    arguments = {"test": (X, Y), "client_tests": PAIRS, "settings": SETTINGS}

    def stop(done):
        told.append((done.number, done.metrics["accuracy"], done.encrypted_share, done.model(0).state_dict()))
        return done.number == 1

    first = federate(model, PAIRS, rounds=4, out=tmp_path / "run", on_round=stop, **arguments)
    assert [number for number, *_ in told] == [0, 1]
    assert len(first.history) == 2
    assert told[-1][1] == first.history[-1]["accuracy"]
    assert torch.equal(told[-1][3]["0.weight"], first.state_dict()["0.weight"])
    assert {row["client"] for row in first.client_history} == {0, 1, 2}
    # A number, as a writer's callback returns, is no wish to stop.
    resumed = federate(model, PAIRS, rounds=4, out=tmp_path / "run", resume=True, on_round=lambda _: 7, **arguments)
    whole = federate(model, PAIRS, rounds=4, **arguments)
    assert resumed.model_sha256 == whole.model_sha256
    assert len(resumed.history) == 4


def test_a_run_is_resumed_with_its_own_model_and_settings_only(tmp_path):
    from sensecrypt import InvalidInput

    torch.manual_seed(0)
    model = dense()
    federate(model, PAIRS, rounds=1, out=tmp_path / "run", settings=SETTINGS)
    again = {"rounds": 2, "out": tmp_path / "run", "resume": True}
    with pytest.raises(InvalidInput, match="model: is not the initial model"):
        federate(dense(), PAIRS, settings=SETTINGS, **again)
    with pytest.raises(InvalidInput, match="seed: is 5, but the run"):
        federate(model, PAIRS, settings={**SETTINGS, "seed": 5}, **again)
    with pytest.raises(InvalidInput, match="holds a run already"):
        federate(model, PAIRS, rounds=1, out=tmp_path / "run", settings=SETTINGS)
