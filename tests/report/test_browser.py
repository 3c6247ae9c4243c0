"""The page in a real browser: Debian's chromium, headless, driven through selenium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sensecrypt.report import Watch, write_report
from tests.report.conftest import enlarge
from tests.report.test_page import hostile

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --force-device-scale-factor=1"
)
WIDE, NARROW = 1400, 390

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no browser: apt-get install chromium chromium-driver")


class Reader:
    """Somebody who looks at pages."""

    def __init__(self, folder):
        webdriver = pytest.importorskip("selenium.webdriver")
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for flag in (*FLAGS.split(), f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.driver.set_page_load_timeout(60)

    def look(self, address, *, width=WIDE, scheme="light"):
        """Open a page in a window of that width, on a system with that theme."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get(address)
        self.ready()

    def ready(self):
        self.until("return document.documentElement.dataset.ready")

    def until(self, script, seconds=30.0):
        """Wait until a script gives something true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.ask(script)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"after {seconds} s still not: {script}")

    def ask(self, script):
        return self.driver.execute_script(script)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def forget(self):
        self.complaints()
        self.ask("try { localStorage.clear(); } catch {}")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    reader = Reader(tmp_path_factory.mktemp("browser"))
    yield reader
    reader.driver.quit()
    reader.driver.service.stop()


@pytest.fixture
def reader(browser):
    yield browser
    browser.forget()


@pytest.fixture(scope="module")
def page(played, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(played, out).as_uri()


MARKS = """
const marks = ['rect', 'symbol', 'line'].map(kind => `svg .mark-${kind} path`).join();
return Object.fromEntries([...document.querySelectorAll('figure.chart')].map(figure =>
    [figure.dataset.chart, figure.querySelectorAll(marks).length]))
"""


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_without_complaints_or_sideways_scrolling(reader, page, width, scheme):
    reader.look(page, width=width, scheme=scheme)
    assert reader.complaints() == []
    marks = reader.ask(MARKS)
    assert marks.keys() == {"accuracy", "map", "timeline", "encrypted", "covered", "layers", "traffic"}
    assert min(marks.values()) >= 4, marks
    assert reader.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    ends = "return [...document.querySelectorAll('.canvas svg')].map(each => each.getBoundingClientRect().right)"
    assert max(reader.ask(ends)) <= width


def test_charts_have_names_and_words_for_those_who_do_not_see_them(reader, page):
    reader.look(page)
    named = """return [...document.querySelectorAll('.canvas svg')].every(svg =>
        (svg.closest('[aria-label]') || svg).getAttribute('aria-label') ||
        svg.querySelector('[aria-label]')) && document.querySelectorAll('figure h3').length"""
    assert reader.ask(named) == 7
    unreachable = "return [...document.querySelectorAll('.canvas, .scroll')].filter(each => each.tabIndex !== 0).length"
    assert reader.ask(unreachable) == 0


def background(reader):
    return reader.ask("return getComputedStyle(document.body).backgroundColor")


def test_the_theme_is_the_systems_until_the_reader_chooses_and_is_remembered(reader, page):
    reader.look(page, scheme="light")
    light = background(reader)
    first = reader.ask(
        "return document.querySelector('figure[data-chart=traffic] .mark-rect path').getAttribute('fill')"
    )
    reader.look(page, scheme="dark")
    dark = background(reader)
    assert light != dark
    reader.look(page, scheme="light")
    reader.ask("document.getElementById('theme').click()")
    reader.ready()
    assert background(reader) == dark
    fill = "return document.querySelector('figure[data-chart=traffic] .mark-rect path').getAttribute('fill')"
    assert reader.until(fill) != first
    assert reader.ask("return document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    reader.look(page, scheme="light")
    assert background(reader) == dark
    assert reader.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(reader, page, scheme):
    reader.look(page, scheme=scheme)
    assert reader.ask(Path(__file__).with_name("contrast.js").read_text()) == []


def test_the_slider_chooses_the_round_of_chart_and_table(reader, page):
    reader.look(page)
    figure = "const figure = document.querySelector('figure[data-chart=timeline]');"
    reader.ask(figure + "figure.querySelector('details').open = true")
    rounds = (
        figure
        + "return [...new Set([...figure.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent))].join()"
    )
    assert reader.until(rounds) == "2"
    paths = figure + "return [...figure.querySelectorAll('.mark-rect path')].map(path => path.getAttribute('d')).join()"
    before = reader.ask(paths)
    moved = "slider.value = 0; slider.dispatchEvent(new Event('input', {bubbles: true}))"
    reader.ask(f"{figure} const slider = figure.querySelector('input'); {moved}")
    assert reader.ask(rounds) == "-1"
    assert reader.ask(figure + "return figure.querySelector('output').textContent") == "set-up"
    reader.until(f"const before = {before!r}; {paths.replace('return ', 'return before !== ')}")


def test_every_chart_has_a_table_behind_it(reader, page):
    reader.look(page, width=NARROW)
    reader.ask("for (const details of document.querySelectorAll('details')) details.open = true")
    filled = (
        "return [...document.querySelectorAll('figure')].every(each => each.querySelectorAll('tbody tr').length > 1)"
    )
    assert reader.until(filled)
    assert reader.ask("return document.documentElement.scrollWidth <= window.innerWidth")


def test_thirty_rounds_of_twenty_clients_open_in_two_seconds(reader, played, tmp_path):
    path = write_report(enlarge(played, tmp_path / "large", rounds=30, clients=20))
    assert path.stat().st_size < 5_000_000
    took = []
    while len(took) < 8 and min(took, default=9) > 2:  # a machine that does other things may need more tries
        start = time.monotonic()
        reader.look(path.as_uri())
        took.append(time.monotonic() - start)
    assert min(took) < 2
    assert reader.ask(MARKS)["encrypted"] >= 600


def test_html_in_names_stays_text(reader, run):
    reader.look(write_report(hostile(run)).as_uri(), width=NARROW)
    reader.ask("for (const details of document.querySelectorAll('details')) details.open = true")
    assert reader.ask("return document.querySelectorAll('img, [onclick], [onerror]').length") == 0
    assert reader.ask("return document.querySelector('h1').textContent").endswith("<!--<script>")
    assert reader.complaints() == []
    assert reader.ask("return document.documentElement.scrollWidth <= window.innerWidth")


def test_a_watched_page_follows_a_run(reader, tmp_path):
    folder = tmp_path / "live"
    server = Watch(folder, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    command = [sys.executable, "-m", "sensecrypt", "run", "--out", str(folder), "--no-report", "--json"]
    settings = ("rounds=8", "clients=6", "partition=iid", "profile=insecure-test", "workers=1", "local_epochs=20")
    try:
        reader.look(server.address)
        assert "Waiting for a run" in reader.ask("return document.querySelector('h1').textContent")
        state = "return document.querySelector('.state').textContent"
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        arguments = [part for setting in settings for part in ("--set", setting)]
        seen = []
        with subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, env=environment) as process:
            end = time.monotonic() + 60
            while time.monotonic() < end and not (seen and seen[-1].startswith("finished")):
                told = reader.ask(state)
                if told not in seen:
                    seen.append(told)
                time.sleep(0.05)
        assert process.returncode == 0
        assert seen[0] == "waiting"
        assert seen[-1] == "finished, 8 rounds"
        assert sum("running" in each for each in seen) >= 2, seen
        reader.ready()
        assert min(reader.ask(MARKS).values()) >= 1
        assert reader.ask("return document.getElementById('live').textContent") == "live"
        assert reader.complaints() == []
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
