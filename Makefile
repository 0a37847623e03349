# Every target sets up what it needs in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help setup demo test lint bench clean

help:
	@echo "make demo   clean five noisy copies of handwritten digits under five preferences (about a minute)"
	@echo "make test   lint, type check and run the tests"
	@echo "make lint   ruff and pyright only"
	@echo "make bench  time the library on this machine, write benchmarks/results"
	@echo "make setup  install the development environment into .venv"

setup: .venv/.dev

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bipareto needs Python >= 3.11; found $$($(PYTHON) --version); run: make PYTHON=python3.11 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.demo: .venv/.python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[plot]'
	@touch $@

.venv/.dev: .venv/.python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@ .venv/.demo

.venv/.bench: .venv/.dev
	$(PIP_INSTALL) -e '.[bench]'
	@touch $@

demo: .venv/.demo
	$(BIN)/python -m bipareto.experiments.demo

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

bench: .venv/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv demo-results
