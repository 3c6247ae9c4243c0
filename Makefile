# The front door. Every target makes its own virtual environment first: Python 3.11 and make are all it needs.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := dev
WORKERS ?= 2

.PHONY: demo test check bench reproduce docs format clean

demo: .venv/installed
	$(BIN)/sensecrypt demo --out "$$(mktemp -d)/demo"

# One thread of arithmetic for each worker: two of each on two cores would only wait for each other.
test: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed
	$(BIN)/sensecrypt bench selection
	$(BIN)/sensecrypt bench clustering
	$(BIN)/sensecrypt bench crypto
	$(BIN)/sensecrypt bench protocol
	$(BIN)/sensecrypt bench dkms

# Every figure and table of the paper: SCALE=full is what docs/results.md shows.
SCALE ?= quick
OUT ?= results
reproduce: .venv/installed
	$(BIN)/sensecrypt reproduce all --$(SCALE) --out $(OUT)

# docs/results.md and docs/fidelity.md from the saved rows, then the site, in site/.
docs: .venv/installed
	$(BIN)/sensecrypt reproduce --document docs/results.md --fidelity docs/fidelity.md --out docs/results
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	touch $@
