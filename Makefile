# Every target sets up what it needs in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help setup demo browser test lint bench clean

help:
	@echo "make demo   clean five noisy copies of handwritten digits under five preferences (about a minute)"
	@echo "make test   lint, type check and run the tests"
	@echo "make lint   ruff and pyright only"
	@echo "make browser  install chromium, for the tests of the report and of the page"
	@echo "make bench  time the library and its peers on this machine, write results, table and figure (PyTorch: 5 GB)"
	@echo "make setup  install the development environment into .venv"

setup: .venv/.dev

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bipareto needs Python >= 3.11; found $$($(PYTHON) --version); run: make PYTHON=python3.11 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.demo: .venv/.python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[plot,report]'
	@touch $@

.venv/.dev: .venv/.python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@ .venv/.demo

.venv/.bench: .venv/.dev
	$(PIP_INSTALL) -e '.[bench]'
	-$(PIP_INSTALL) --no-deps betty-ml boat-torch
	@touch $@

demo: .venv/.demo
	$(BIN)/python -m bipareto.experiments.demo

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The tests of the report and of the page need a browser; where it cannot be installed they are skipped and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		{ $$root apt-get install --yes --no-install-recommends chromium || \
		{ $$root apt-get update && $$root apt-get install --yes --no-install-recommends chromium; }; } >/dev/null 2>&1 </dev/null || \
		echo "No chromium, and apt-get could not install it: tests in a browser are skipped."; }

test: lint browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

bench: .venv/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv demo-results
