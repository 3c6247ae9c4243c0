"""What all pictures have in common: matplotlib, its defaults, and files that are whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensecrypt.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def style(feature: str, settings: Mapping[str, Any]) -> Iterator[None]:
    """Matplotlib's defaults and `settings` on top, whatever the user has set; the user's are back afterwards."""
    try:
        matplotlib = import_module("matplotlib")
    except ImportError as error:
        raise MissingExtra(feature, "bench") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def to_png(figure: Figure) -> bytes:
    """The same bytes for the same figure: no date, no version in it."""
    image = BytesIO()
    figure.savefig(image, format="png", metadata={"Software": None})
    return image.getvalue()


def write_picture(path: Path, image: bytes) -> Path:
    """The file whole or not at all: a reader never sees half a picture."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(image)
        return partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
