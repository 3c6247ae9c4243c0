"""Every example runs as its user would run it, on tiny data where it can."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
SCRIPTS = FOLDER / "your-script"
MOST_CHANGED = 15


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_runs_without_a_word_on_standard_error(path):
    tiny = ["--tiny"] if "--tiny" in path.read_text() else []
    result = subprocess.run([sys.executable, path, *tiny], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    assert not result.stderr


def test_a_script_becomes_federated_by_few_lines(tmp_path):
    before, after = ((SCRIPTS / name).read_text().splitlines() for name in ("before.py", "after.py"))
    assert len(before) >= 60
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert len([line for line in changed if line[0] == "+"]) <= MOST_CHANGED
    assert len([line for line in changed if line[0] == "-"]) <= MOST_CHANGED
    told = (FOLDER.parent / "docs" / "own-model.md").read_text()
    for line in changed:
        if not line[2:].startswith('"""'):
            assert f"\n{line[0]}{line[2:]}\n" in told, line
    command = [sys.executable, SCRIPTS / "after.py", "--epochs", "1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout
    assert (tmp_path / "digits.safetensors").is_file()
