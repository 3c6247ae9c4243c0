"""One word for one thing: terms that were replaced do not come back.

`python tests/test_words.py [PATH …]` prints every place, and what to say instead; with `--look`, also words that are
often, not always, poor English here.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

# A pattern matches whole words; underscores, digits and case do not matter, so that names in code count as well.
INSTEAD = {
    "receipts?": "MAC tag",
    "check sums?": "MAC tag",
    "sign(s|ed)? for": "send a MAC tag",
    "(?<!\\.)pads?|padded": "blinding, blinded",
    "seal(s|ed|ing|er)?|unseal(s|ed)?": "protect (an update), serialize (bytes), encrypt at rest",
    "openings?|opened (sum|round|aggregate)s?|(sum|round|aggregate)s? (is|are|was|were) opened": "decrypt, release",
    "turned sketch(es)?|sketch(es)?[- ]turned": "rotate",
    "sum ?rules": "release rules",
    "suspicions?": "group testing",
    "spoil(s|ed|t|er)?": "the client whose tag does not match",
    "lonely|lone": "under-covered block",
    "obfuscators?|obfuscated?|obfuscation": "randomizer",
    "transparent ?key": "null cipher",
    "(?<!third )(party|parties)": "client, aggregator, key server: name it",
    "diary|diaries": "replay guard",
    "rosters?": "registry",
    "keepers?": "supervisor",
    "contestants?": "method",
    "memos?": "cache, or the name of what is kept",
    "told": "reports, receives, is sent, knows",
    "manieth": "every n-th",
}
LOOK = "whoever|everybody|somebody|tells?|telling|hands|making|lets|apart|is to|turns?|wherever|at all|by itself|nobody"

FOLDERS = ("src", "docs", "examples", "deploy", "reproduce")
FILES = ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "mkdocs.yml", "pyproject.toml")
KINDS = {".py", ".md", ".svg", ".toml", ".js", ".css", ".html", ".yml", ".yaml", ".sh", ".diff"}

# Right English, or a name that is not ours: (part of the path, part of the line, reason).
EXCEPTIONS = (
    ("cli/doctor.py", "pad_edge", "an argument of Rich's Table"),
    ("cli/tables.py", "pad_edge", "an argument of Rich's Table"),
    ("flower/proof.py", "signed for another run", "a digital signature"),
    ("decisions/0019", "seal-python", "the name of a library"),
    ("decisions/0019", "SEAL", "the name of a library"),
    ("crypto/ckks/public.py", "seal", "Microsoft SEAL, the library below TenSEAL"),
)

# Places left per folder: to be emptied. A number may fall, and never rise.
ALLOWED: dict[str, int] = {}


class Place(NamedTuple):
    path: str
    line: int
    word: str
    text: str


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])".replace(" ", r"[\s_]"), re.IGNORECASE)


PATTERNS = {words: _pattern(words) for words in INSTEAD}


def texts() -> Iterator[Path]:
    """The files whose words count."""
    yield from (ROOT / name for name in FILES)
    for folder in FOLDERS:
        yield from sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in KINDS and path.is_file())


def places(text: str, path: str, patterns: dict[str, re.Pattern[str]] = PATTERNS) -> list[Place]:
    """Every replaced word of the text, without the exceptions."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub("`tests/[^`]*`", "", line)
        if any(part in path and words in line for part, words, _ in EXCEPTIONS):
            continue
        for words, pattern in patterns.items():
            found += [Place(path, number, words, line.strip()) for _ in pattern.finditer(line)]
    return found


def folder_of(path: str) -> str:
    """The allowance's key: the package below src/sensecrypt, else the first part of the path."""
    parts = Path(path).parts
    return "/".join(parts[:3]) if parts[0] == "src" else parts[0]


def all_places(patterns: dict[str, re.Pattern[str]] = PATTERNS) -> list[Place]:
    return [place for path in texts() for place in places(path.read_text(), str(path.relative_to(ROOT)), patterns)]


def test_replaced_words_do_not_come_back():
    found = all_places()
    counts = Counter(folder_of(place.path) for place in found)
    over = {folder: count for folder, count in counts.items() if count > ALLOWED.get(folder, 0)}
    shown = [f"{p.path}:{p.line}: {p.text} (say: {INSTEAD[p.word]})" for p in found if folder_of(p.path) in over]
    assert not over, "\n".join(shown)


@pytest.mark.parametrize(
    "text",
    [
        "the Receipt of",
        "told_here = 1",
        "_told(",
        "class SumRules:",
        "two lonely blocks",
        "check sum",
        "a TransparentKey",
    ],
)
def test_a_replaced_word_is_seen(text):
    assert len(places(text, "src/sensecrypt/x.py")) == 1


@pytest.mark.parametrize("text", ["a third party", "departed", "padding", "untold", "an alone client", "reopened"])
def test_other_words_are_not(text):
    assert not places(text, "src/sensecrypt/x.py")


if __name__ == "__main__":
    wanted = [argument for argument in sys.argv[1:] if argument != "--look"]
    patterns = {**PATTERNS, **({LOOK: _pattern(LOOK)} if "--look" in sys.argv else {})}
    shown = [place for place in all_places(patterns) if not wanted or any(path in place.path for path in wanted)]
    for place in shown:
        sys.stdout.write(f"{place.path}:{place.line}: {place.text}  → {INSTEAD.get(place.word, 'right English?')}\n")
    sys.stdout.write(f"{Counter(folder_of(place.path) for place in shown).most_common()}\n")
