"""A page as one HTML file that loads nothing from elsewhere.

Text goes through Jinja's autoescape, figures into a JSON block in which `<`, `>` and `&` are escaped, and a content
security policy allows only the two scripts of this package.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import import_module, resources
from typing import Any

from sensecrypt._version import __version__
from sensecrypt.extras import require
from sensecrypt.report.figures import Page

_FILES = "sensecrypt.report.files"


def require_extra() -> None:
    """Raise `MissingExtra` unless the packages that make pages are installed."""
    require("the report page", "report")


def render(page: Page, *, live: bool = False) -> str:
    """The whole document.

    Args:
        page: what to show.
        live: whether it asks its server for updates.
    """
    parts = _parts()
    return str(
        _template("page.html").render(
            page=page,
            main=render_main(page),
            data=embed_json(page.to_json()),
            policy=security_policy(live=live),
            live=live,
            version=__version__,
            **parts,
        )
    )


def render_main(page: Page) -> str:
    """The part of the document that changes during a run."""
    return str(_template("main.html").render(page=page))


def security_policy(*, live: bool) -> str:
    """The page's content security policy: its own scripts and styles, by hash, and nothing else."""
    parts = _parts()
    scripts = " ".join(_hash(parts[name]) for name in ("library", "script"))
    server = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {_hash(parts['style'])}; img-src data:; "
        f"connect-src {server}; base-uri 'none'; form-action 'none'"
    )


def embed_json(value: Any) -> str:
    """JSON that can neither end its script element nor start another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _parts() -> dict[str, str]:
    """The style sheet and both scripts: Vega with its dependencies, and ours."""
    require_extra()
    library = import_module("vl_convert").javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return {
        "library": library.replace("</script", "<\\/script"),
        "script": _read("page.js"),
        "style": _read("page.css"),
    }


@cache
def _template(name: str) -> Any:
    require_extra()
    jinja = import_module("jinja2")
    environment = jinja.Environment(
        loader=jinja.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _read(name: str) -> str:
    return resources.files(_FILES).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
