from __future__ import annotations

import copy
import math
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from sensecrypt.errors import InvalidInput, MissingExtra, SenseCryptError
from sensecrypt.lab import drawing
from sensecrypt.lab.compare import plots
from sensecrypt.lab.drawing import style

FILES = ["training_time.png", "accuracy.png", "communication.png", "timeline.png", "round_time.png"]


def make_report(rows: int = 2, rounds: int = 2, clients: int = 2) -> dict[str, Any]:
    return {
        "scenario": "system",
        "dataset": "cifar-10",
        "model": "alexnet",
        "rounds": rounds,
        "clients": clients,
        "rows": [make_row(place, rounds, clients) for place in range(rows)],
    }


def make_row(place: int, rounds: int, clients: int) -> dict[str, Any]:
    seconds = 10.0 ** (place % 4)
    return {
        "name": f"method {place}",
        "policy": "sensecrypt",
        "preset": "paper",
        "device_seconds": rounds * seconds,
        "device_seconds_ours": None if place % 2 else rounds * seconds / 50,
        "implementation": "ours" if place % 2 else "python-paillier",
        "crypto": "real" if place % 2 else "calibrated",
        "straggler_share": 0.2,
        "bytes_up": rounds * 3_000_000,
        "bytes_down": rounds * 1_000_000,
        "accuracy_mean": 0.7,
        "accuracy_min": 0.6,
        "accuracy_max": 0.8,
        "encrypted_share": 0.3,
        "coverage": 0.9,
        "rounds": [make_round(number, seconds) for number in range(rounds)],
        "timeline": [make_client(client, seconds) for client in range(clients)],
    }


def make_round(number: int, seconds: float) -> dict[str, Any]:
    return {
        "round": number,
        "seconds": seconds,
        "accuracy_mean": 0.7,
        "accuracy_min": 0.6,
        "accuracy_max": 0.8,
        "bytes_up": 3_000_000,
        "bytes_down": 1_000_000,
        "client_seconds_min": 0.5 * seconds,
        "client_seconds_mean": 0.7 * seconds,
        "client_seconds_max": seconds,
    }


def make_client(client: int, seconds: float) -> dict[str, Any]:
    phases = {"train": 0.2, "select": 0.1, "encrypt": 0.4, "upload": 0.2, "wait": 0.1}
    device = {"client": client, "device": "laptop", "cpus": 24.0 / (client + 1)}
    return device | {name: seconds * share for name, share in phases.items()}


def images(report: dict[str, Any], folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in plots.draw(report, folder)}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return images(make_report(), tmp_path_factory.mktemp("plain"))


def test_five_png_files_and_nothing_else(tmp_path):
    folder = tmp_path / "made" / "on demand"
    paths = plots.draw(make_report(), folder)
    assert paths == [folder / name for name in FILES]
    assert sorted(folder.iterdir()) == sorted(paths)
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") for path in paths)


def test_equal_reports_give_equal_bytes_whatever_the_users_settings(tmp_path, plain):
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 33, "text.parse_math": True}):
        assert images(make_report(), tmp_path) == plain
        assert matplotlib.rcParams["font.size"] == 30


def change(report: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    changed = copy.deepcopy(report)
    *way, last = path
    place: Any = changed
    for step in way:
        place = place[step]
    assert place[last] != value
    place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "files"),
    [
        (("rows", 0, "device_seconds_ours"), None, {"training_time.png"}),
        (("rows", 1, "rounds", 0, "accuracy_min"), 0.5, {"accuracy.png"}),
        (("rows", 1, "rounds", 1, "bytes_down"), 5_000_000, {"communication.png"}),
        (("rows", 0, "timeline", 1, "select"), 0.3, {"timeline.png"}),
        (("rows", 1, "rounds", 0, "client_seconds_max"), 20.0, {"round_time.png"}),
        (("rows", 1, "name"), "another method", set(FILES)),
        (("dataset",), "digits", set(FILES)),
    ],
)
def test_what_changes_in_the_report_changes_in_its_pictures_alone(tmp_path, plain, path, value, files):
    changed = images(change(make_report(), path, value), tmp_path)
    assert {name for name in FILES if changed[name] != plain[name]} == files


@pytest.mark.parametrize(("rows", "rounds", "clients"), [(1, 1, 5), (9, 30, 1), (3, 1, 20)])
def test_any_number_of_rows_rounds_and_clients(tmp_path, rows, rounds, clients):
    assert list(images(make_report(rows, rounds, clients), tmp_path)) == FILES


def test_panels_grow_with_the_number_of_clients():
    with style("plots", drawing.STYLE):
        few, many = (plots._timeline(make_report(1, 1, clients)).get_figheight() for clients in (5, 20))
    assert many - few > 15 * 0.15  # inches: a label of 8 points needs 0.11


def test_zeros_have_their_place_on_logarithmic_axes(tmp_path):
    report = make_report(rows=2)
    for row in report["rows"]:
        row |= {"device_seconds": 0.0, "device_seconds_ours": 0.0}
        for each in row["rounds"]:
            each |= {key: 0 for key in each if key != "round"}
        for client in row["timeline"]:
            client |= dict.fromkeys(plots.PHASES, 0.0)
    assert list(images(report, tmp_path / "all")) == FILES
    some = make_report(rows=2)
    some["rows"][0] = report["rows"][0]
    assert list(images(some, tmp_path / "some")) == FILES


def test_a_round_without_clients_has_an_empty_timeline(tmp_path):
    assert list(images(change(make_report(), ("rows", 0, "timeline"), []), tmp_path)) == FILES


@pytest.mark.parametrize("name", [r"$\nonsense{$ & 50 %", "_a_b^{c}", "x" * 90])
def test_names_are_taken_literally(tmp_path, name):
    def named(text: str, folder: str) -> dict[str, bytes]:
        return images(change(make_report(1, 1, 1), ("rows", 0, "name"), text), tmp_path / folder)

    first, second = named(name, "first"), named(name.replace("$", "§") + "!", "second")
    assert all(first[file] != second[file] for file in FILES)  # no picture leaves the name out


@pytest.mark.parametrize("lost", ["rounds", "timeline", "name", "device_seconds_ours"])
def test_half_a_report_leaves_no_file_and_old_ones_alone(tmp_path, lost):
    report = make_report()
    del report["rows"][1][lost]
    with pytest.raises(InvalidInput, match=lost):
        plots.draw(report, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / FILES[0]).write_bytes(b"old")
    with pytest.raises(InvalidInput, match="pass a whole report"):
        plots.draw(report, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILES[0]]
    assert (tmp_path / FILES[0]).read_bytes() == b"old"


def test_a_report_without_rows_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no rows"):
        plots.draw(make_report(rows=0), tmp_path)


def test_a_disk_that_fails_leaves_no_half_file(tmp_path, monkeypatch):
    def fail(path: Path, target: Path) -> Path:
        assert path.read_bytes().startswith(b"\x89PNG")
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(SenseCryptError, match="cannot be written"):
        plots.draw(make_report(1, 1, 1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_asked_for_only_when_drawing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"sensecrypt\[lab\]"):
        plots.draw(make_report(), tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123456, "0.0123"), (9.0, "9"), (12.34, "12.3"), (123.4, "123"), (54_321.0, "54,321")],
)
def test_numbers_are_short(value, text):
    assert drawing.number(value) == text


def test_the_logarithmic_axis_covers_all_positive_values():
    with style("plots", drawing.STYLE):
        _, [axes] = drawing.sheet("", panels=1, size=(4, 3))
        drawing.log_axis(axes, "x", [0.0, 0.5, 4000.0, math.inf, math.nan])
    low, high = axes.get_xlim()
    assert 0 < low < 0.5
    assert 4000 < high < math.inf
