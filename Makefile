PYTHON ?= python3
BIN := .venv/bin
OUT ?= out
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

# Without byte code on disk, every process of every test would compile all modules once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check lint nightly bounds newest seeds bench docs-figures clean

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "grinch needs Python 3.11 or newer; say which one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

# What running needs, and what developing needs besides: each is installed once, and again when the requirements change.
# Without --no-compile, pip would spend more than half of the time on byte code that Python writes itself where it is needed.
.venv/.run: pyproject.toml | .venv/bin/python
	$(INSTALL) . --no-compile
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	$(INSTALL) '.[dev]' --no-compile
	@touch $@ .venv/.run

.venv/.bench: pyproject.toml | .venv/bin/python
	$(INSTALL) '.[bench]'
	@touch $@ .venv/.run

run: .venv/.run
	$(BIN)/grinch demo --out $(OUT)

# Two processes share the cores; with threads of their own in BLAS and OpenMP they would wait for each other.
test nightly bounds newest seeds: export OMP_NUM_THREADS := 1
# A test that hangs is named, with the stacks of its threads, instead of holding up everything.
test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --timeout 300 --timeout-method thread

# Beside each other: the tests begin by compiling, in one process.
check: .venv/.dev
	$(MAKE) -j 2 lint test

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What takes too long for every day: the slow tests, and all random ones with many more examples, which are new ones.
nightly: export HYPOTHESIS_PROFILE := night
nightly: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow" --timeout 3600 --timeout-method thread
	$(BIN)/python benchmarks/digests.py
	$(MAKE) bounds
	$(MAKE) newest

# All tests with a check of every index in compiled code, by a cache of its own; one that is negative is out of bounds, too.
bounds: export GRINCH_BOUNDS_CHECK := 1
bounds: export HYPOTHESIS_PROFILE := seeded
bounds: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --timeout 1200 --timeout-method thread

# The newest numba, beyond the bound of pyproject.toml too, and BERTopic, in an environment and with a cache of its own.
newest: export HYPOTHESIS_PROFILE := day
newest: | .venv/bin/python
	$(PYTHON) -m venv --clear .venv/newest
	.venv/newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade numba
	.venv/newest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps bertopic hdbscan narwhals plotly tqdm
	NUMBA_CACHE_DIR=$(CURDIR)/.venv/newest/cache .venv/newest/bin/python -m pytest -m "slow or not slow" tests/integrations
	NUMBA_CACHE_DIR=$(CURDIR)/.venv/newest/cache .venv/newest/bin/python -m pytest tests/test_compile.py tests/core tests/saving

# As many examples as every day, drawn by other seeds, in the files that draw some.
SEEDS ?= $(shell seq 20)
seeds: export HYPOTHESIS_PROFILE := seeded
seeds: .venv/.dev
	@for seed in $(SEEDS); do \
	  echo "seed $$seed"; \
	  $(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-seed=$$seed \
	    $$(grep -rl "^from hypothesis" tests --include='test_*.py') || failed="$$failed $$seed"; \
	done; test -z "$$failed" || { echo "failed with seeds:$$failed"; exit 1; }

bench: .venv/.bench
	$(BIN)/python benchmarks/bench.py $(ARGS)
	$(if $(ARGS),,$(BIN)/python benchmarks/scale.py)
	$(if $(ARGS),,$(BIN)/python benchmarks/paper_modes.py)
	$(if $(ARGS),,$(BIN)/python benchmarks/perch.py)
	$(if $(ARGS),,$(BIN)/python benchmarks/scc.py)

docs-figures: .venv/.dev
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/rooms.py

clean:
	rm -rf .venv $(OUT) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks experiments -name __pycache__ -type d -exec rm -rf {} +
