PYTHON ?= python3
BIN := .venv/bin
OUT ?= out

.PHONY: run test check nightly bench docs-figures clean

# Everything is installed into .venv, once; again only when the project's requirements change.
.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "grinch needs Python 3.11 or newer; say which one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: .venv/.installed
	$(BIN)/grinch demo --out $(OUT)

test: .venv/.installed
	$(BIN)/python -m pytest -n 2 -m "not slow"

# The long checks too, and many more examples of each property.
nightly: .venv/.installed
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

bench: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	$(BIN)/python benchmarks/bench.py $(ARGS)

clean:
	rm -rf .venv $(OUT) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
