from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from importlib import import_module, resources

import numpy as np
import pytest

from sensecrypt.client.update import encrypted_by_layer
from sensecrypt.config import make_config
from sensecrypt.records import ClientRecord, to_fields
from sensecrypt.report.folder import read_folder
from sensecrypt.report.render import embed_json, render, render_main, security_policy
from sensecrypt.report.runpage import run_page, waiting_page
from sensecrypt.report.summary import command
from sensecrypt.report.timeline import STEPS, bars
from sensecrypt.report.vega import CLUSTERS
from sensecrypt.runs.clientmap import flat_map
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import Steps
from sensecrypt.types import Mask

EVIL = '</script><img src=x onerror="alert(1)"><!--<script>'


def charts_of(page):
    return {chart.name for chart in page.charts}


def require_drawable(page):
    """Every chart is valid Vega-Lite, and has rows to draw."""
    content = page.to_json()
    assert json.dumps(content, allow_nan=False)
    for chart in content["charts"].values():
        table = content["tables"][chart["table"]]
        names = [field["name"] for field in table["fields"]]
        assert table["rows"]
        assert all(len(row) == len(names) for row in table["rows"])
        rows = [dict(zip(names, row, strict=True)) for row in table["rows"][:50]]
        spec = {**chart["spec"], "width": 300, "datasets": {chart["table"]: rows}}
        import_module("vl_convert").vegalite_to_vega(spec)


def test_everything_of_a_run_is_on_its_page(played):
    page = run_page(read_folder(played))
    assert charts_of(page) == {"accuracy", "map", "timeline", "encrypted", "covered", "layers", "traffic"}
    assert {card.title for card in page.cards} >= {
        "Accuracy",
        "Encrypted",
        "Device time",
        "Sent up",
        "Clusters",
    }
    assert "NOTHING was really encrypted" in page.warning
    require_drawable(page)


def test_it_says_whether_the_rest_was_blinded_or_in_the_clear(run):
    assert any("Blinded" in sentence for sentence in run_page(read_folder(run)).findings)
    told = json.loads((run / "run.json").read_text())
    told["config"]["rest"] = "plain"
    (run / "run.json").write_text(json.dumps(told))
    assert any("In the clear" in sentence for sentence in run_page(read_folder(run)).findings)


def test_a_fleet_has_no_layers_and_says_why(fleet):
    page = run_page(read_folder(fleet))
    assert charts_of(page) == {"accuracy", "map", "timeline", "encrypted", "covered", "traffic"}
    assert "secret order" in next(section for section in page.sections if section.name == "layers").missing
    require_drawable(page)


def test_a_run_without_records_is_a_page_without_charts(run):
    (run / "records.jsonl").unlink()
    (run / "checkpoint.safetensors").unlink()
    (run / "map.json").unlink()
    page = run_page(read_folder(run))
    assert not page.charts
    assert render(page)


def test_a_client_that_was_left_out_is_told(run):
    folder = RunFolder(run)
    lines = folder.records()
    for place, record in enumerate(lines):
        if isinstance(record, ClientRecord) and (record.round, record.client) == (1, 3):
            lines[place] = ClientRecord(round=1, cluster=record.cluster, client=3, left_out="nothing arrived")
    (run / "records.jsonl").write_text("".join(json.dumps(to_fields(line)) + "\n" for line in lines))
    page = run_page(read_folder(run))
    assert any("1 upload did not count" in sentence for sentence in page.findings)
    assert any("nothing arrived" in row for row in page.tables["clients"].rows)
    sizes = {tuple(row[2::2]) for row in page.tables["layers"].rows}
    assert len(sizes) == len({layer for layer, _ in sizes})
    require_drawable(page)


def test_attacks_have_a_chart(run):
    rows = [
        {"adversary": name, "role": "aggregator", "irec": 0.2, "leacc": 0.5, "share": 0.3} for name in ("prior", "ilrg")
    ]
    (run / "attack-1.json").write_text(json.dumps({"rows": rows}))
    page = run_page(read_folder(run))
    assert "attacks" in charts_of(page)
    require_drawable(page)


def without_scripts(html: str) -> str:
    """Without Vega, whose text has everything in it."""
    return re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)


def test_the_page_is_one_file_that_asks_nobody(played):
    html = render(run_page(read_folder(played)))
    assert len(html.encode()) < 2_000_000
    head = html[: html.index("<style>")]
    assert "connect-src 'none'" in unescape(head)
    assert "unsafe" not in security_policy(live=True)
    outside = without_scripts(html)
    assert not re.findall(r'(?:src|href)="(?!#|data:)', outside)
    assert "@import" not in outside
    assert "url(" not in outside


def hostile(run):
    """Text of strangers wherever a folder has some."""
    settings = json.loads((run / "run.json").read_text())
    settings["config"]["dataset"] = EVIL
    (run / "run.json").write_text(json.dumps(settings))
    lines = RunFolder(run).records()
    for place, record in enumerate(lines):
        if isinstance(record, ClientRecord) and record.layers is not None:
            layers = {f"{name}{EVIL}": pair for name, pair in record.layers.items()}
            left_out = EVIL if (record.round, record.client) == (2, 1) else None
            lines[place] = replace(record, layers=layers, decided_by=EVIL, left_out=left_out)
    (run / "records.jsonl").write_text("".join(json.dumps(to_fields(line)) + "\n" for line in lines))
    rows = [{"adversary": EVIL, "role": EVIL, "irec": 0.2}]
    (run / "attack-1.json").write_text(json.dumps({"rows": rows}))
    return run.rename(run.with_name("<b onclick=alert(2)>&lt;"))


def test_html_in_names_is_text(run):
    page = run_page(read_folder(hostile(run)))
    html = render(page)
    assert html.count("</script>") == 3
    assert "<img" not in without_scripts(html)
    assert "<b onclick" not in render_main(page)
    assert "&lt;/script&gt;&lt;img" in html
    data = html[html.index('id="data">') + 10 :]
    assert json.loads(data[: data.index("</script>")]) == page.to_json()
    assert "<img" not in render_main(waiting_page(run.with_name(EVIL.replace("/", "_"))))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_drawn_stands_out_from_the_surface(theme):
    text = resources.files("sensecrypt.report.files").joinpath("page.css").read_text()
    colours = dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", text.split("}")[theme == "dark"]))

    def luminance(name):
        parts = np.array([int(colours[name][place : place + 2], 16) for place in (1, 3, 5)]) / 255
        return float(
            np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )

    drawn = {*CLUSTERS, *STEPS.values(), "--wait-line"} - {"--wait"}
    for name in drawn:
        dark, light = sorted([luminance(name), luminance("--surface")])
        assert (light + 0.05) / (dark + 0.05) >= 3, name


def test_embedded_json_reads_back():
    value = {"a": "</script>\u2028<!--&", "b": [1.5, None]}
    assert json.loads(embed_json(value)) == value
    assert not set("<>&") & set(embed_json(value))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"preset": "paper", "rounds": 3},
        {"beta": [1, 2.5], "sensitivity_epsilon": 0.5},
        {"cpus": [[8, 4], [2, 1]], "partition": "dirichlet:0.5", "learning_rate": 0.01, "model": "it's"},
    ],
    ids=str,
)
def test_the_command_makes_the_same_configuration(settings):
    import shlex

    from sensecrypt.cli.run import parse_settings

    config = make_config(settings)
    words = shlex.split(command(config))
    changes = tuple(words[place + 1] for place, word in enumerate(words) if word == "--set")
    preset = words[words.index("--preset") + 1] if "--preset" in words else None
    assert make_config(parse_settings(changes, preset)) == config


def test_bars_end_where_the_round_ends(played):
    outcome = read_folder(played).outcome
    for time in outcome.times():
        records = [record for record in outcome.log if record.round == time.number]
        drawn = bars(time, records, outcome.config.devices(time.number))
        assert max(sum(bar.seconds.values()) for bar in drawn) == pytest.approx(time.seconds)


def test_with_two_exchanges_clients_wait_twice():
    from sensecrypt.simulation.clock import round_times
    from sensecrypt.types import Device

    devices = [Device(1, 1), Device(2, 1)]
    records = [
        ClientRecord(
            round=0, cluster=0, client=client, train_seconds=4.0, encrypt_seconds=2.0, bytes_up=3e6, propose_bytes=1e6
        )
        for client in (0, 1)
    ]
    [time] = round_times(records, lambda _: devices, server_cpus=1)
    slow, fast = bars(time, records, devices)
    assert isinstance(time.clients[0], Steps)
    assert fast.seconds["wait to agree"] == pytest.approx(2.0)
    assert fast.seconds["wait"] == pytest.approx(1.0)
    assert slow.seconds["wait"] == slow.seconds["wait to agree"] == 0
    assert sum(slow.seconds.values()) == pytest.approx(time.seconds)


@pytest.mark.parametrize("shape", [(20, 300), (300, 20), (2, 5), (1, 5), (3, 1)])
def test_the_map_keeps_distances_as_well_as_two_dimensions_can(shape):
    rows = np.random.default_rng(1).normal(size=shape)
    places = np.array(flat_map(rows))
    assert places.shape == (shape[0], 2)
    spread = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:2]
    expected = np.pad(spread, (0, 2 - spread.size))
    assert np.allclose(np.linalg.norm(places - places.mean(axis=0), axis=0), expected, atol=1e-3)
    assert flat_map(rows) == flat_map(rows.copy())


def test_layers_are_counted_in_the_natural_order():
    order = np.array([5, 4, 3, 2, 1, 0])
    mask = Mask(np.array([True, False, False]), 6, 2, order)
    assert encrypted_by_layer(mask, {"a": 4, "b": 2}) == {"a": [0, 4], "b": [2, 2]}
