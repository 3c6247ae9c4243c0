"""`sensecrypt settings`: every setting of a run with its meaning and its values in both presets."""

from __future__ import annotations

import json
from typing import get_type_hints

import click

from sensecrypt.cli.tables import WIDTH
from sensecrypt.config import SETTINGS, RunConfig, Setting, setting_text
from sensecrypt.tomlfile import refuse_unknown


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def settings(names: tuple[str, ...], as_json: bool) -> None:
    """List the settings of a run, all or the named ones: meaning, default, and value in preset `paper`.

    Set them by `--set NAME=VALUE`, or as `NAME = VALUE` in a TOML file.
    """
    refuse_unknown(dict.fromkeys(names), SETTINGS, "a run's configuration")
    chosen = {name: each for name, each in SETTINGS.items() if not names or name in names}
    if as_json:
        click.echo(json.dumps({name: _facts(each) for name, each in chosen.items()}))
        return
    group = None
    for name, each in chosen.items():
        if each.group != group:
            group = each.group
            click.echo(f"\n{click.style(_title(group), bold=True)}\n")
        _show(name, each)


def _title(group: str) -> str:
    """The first line of the group's docstring."""
    text = "Values for all settings that are not given" if not group else get_type_hints(RunConfig)[group].__doc__
    return f"# {str(text).splitlines()[0].rstrip('.')}"


def _show(name: str, each: Setting) -> None:
    facts = _facts(each)
    line = f"{click.style(name, bold=True)} = {facts['default'] or 'nothing'}"
    if facts["paper"] != facts["default"]:
        line += f"   (preset paper: {facts['paper'] or 'nothing'})"
    meaning = each.meaning
    click.echo(click.wrap_text(line, WIDTH, "", "    "))
    click.echo(click.wrap_text(meaning, WIDTH, "    ", "    "))


def _facts(each: Setting) -> dict[str, str]:
    paper = each.default if each.paper is None else each.paper
    return {
        "group": each.group,
        "default": setting_text(each.default),
        "paper": setting_text(paper),
        "meaning": each.meaning,
    }
