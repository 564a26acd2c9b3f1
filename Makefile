# make demo: set up and show a pipeline. make test: set up and run all that CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
WORKERS ?= 2

.PHONY: demo test lint types contracts pytest clean

demo: $(INSTALLED)
	$(BIN)/sinkql demo

test: lint types contracts pytest

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED_DEV)
	$(BIN)/mypy

contracts: $(INSTALLED_DEV)
	$(BIN)/lint-imports

pytest: $(INSTALLED_DEV)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BIN)/python pyproject.toml
	@echo "installing SinkQL and Spark into $(VENV), which takes a minute or two"
	$(BIN)/pip install --quiet --editable .
	touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@echo "installing what the tests need"
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV)
