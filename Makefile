# Two commands do everything: `make demo` and `make test`. Both set up what they need below this folder.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test chaos faults lint unit format lock install clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

install: $(STAMP)  ## make the virtual environment in .venv

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "WMS2 needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "==> Making the virtual environment in $(VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@echo "==> Installing the packages of requirements.lock"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)  ## start the local stack, run two requests on it, check every event, stop it (ARGS=--keep leaves it running)
	@$(BIN)/wms2 demo --home $(CURDIR)/.wms2/demo $(ARGS)

test: lint  ## everything: lint, types, contracts, unit tests, tests on the real pool
	@echo "==> Tests"
	@$(BIN)/python -m pytest -n 4 --dist loadgroup tests

chaos: $(STAMP)  ## kill worker, Temporal and PostgreSQL at random under live requests (ARGS="--seed 7 --kills 20 --requests 4")
	@$(BIN)/python -m tests.e2e.chaos $(ARGS)

faults: $(STAMP)  ## inject twelve failures one after the other, and measure the recovery (ARGS="--only 4 8", ARGS=--json)
	@$(BIN)/python -m tests.e2e.faults $(ARGS)

unit: $(STAMP)  ## only the tests that need no server
	@$(BIN)/python -m pytest -n 2 tests/unit

lint: $(STAMP)
	@echo "==> Format and lint"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@echo "==> Types"
	@$(BIN)/mypy
	@echo "==> Import contracts"
	@PATH=$(BIN):$$PATH lint-imports --no-cache | tail -n 12

format: $(STAMP)  ## format the code
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

lock: $(STAMP)  ## resolve requirements.lock anew
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url \
	  --python-version 3.11 --extra local --extra tracing --group test --group lint --group build \
	  --output-file requirements.lock --upgrade pyproject.toml

.PHONY: bench
bench: $(STAMP)  ## how fast WMS2 is and what memory it needs, as a table (ARGS="planning --json" for one JSON object)
	@$(BIN)/python -m bench $(ARGS)

clean:  ## remove the virtual environment, caches and the demo's state
	rm -rf $(VENV) .wms2 .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
