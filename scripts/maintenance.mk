# Targets for releases, measurements and long tests. The Makefile includes this file; `make help-all` lists them.
UV := $(BIN)/python -m uv
FACTS := textarena==0.7.4
OLDEST_OPENAI := 3.0.0
SLICE := 3600
ARM := letters puzzles

.PHONY: test-clients test-web test-notebook test-adapters test-newest test-lowest test-deployment test-local simulations break-promises
.PHONY: workflows bench growth faults soak soak-kills soak-fleet soak-attacks soak-cancel evidence study injection
.PHONY: adapter-table event-schema code-table lock dist first-lines

$(VENV)/.dist: $(VENV)/.dev
	@echo "Installing the tools that build and check packages into $(VENV): 70 MB, once"
	$(BIN)/python -m pip install --quiet --group dist
	@touch $@

$(VENV)/.bench: $(VENV)/.dev $(VENV)/.run
	@echo "Installing the libraries used for comparison in benchmarks into $(VENV): 40 MB, once"
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(VENV)/.facts: $(VENV)/.dev $(VENV)/.run
	$(BIN)/python -m pip install --quiet --no-deps "$(FACTS)"
	@touch $@

test-web: $(VENV)/.dev ## test the pages in Chromium, and a client generated from the OpenAPI document
	@echo "Installing playwright into $(VENV): 190 MB, once"
	$(BIN)/python -m pip install --quiet --group browser
	@python3 scripts/chromium install >/dev/null || echo "Tests that need Chromium will be skipped"
	$(BIN)/python -m pytest tests/browser tests/server/test_generated_client.py

test-notebook: $(VENV)/.dev ## test in a kernel, and in JupyterLab in Chromium
	@echo "Installing JupyterLab into $(VENV): 350 MB, once"
	$(BIN)/python -m pip install --quiet --group notebook
	@python3 scripts/chromium install >/dev/null || echo "Tests that need Chromium will be skipped"
	$(BIN)/python -m pytest tests/notebook docs/notebooks.md

# This leaves out instructor, which requires an older openai than the newest frameworks do.
.venv-newest/.made: pyproject.toml | $(VENV)/.dist
	@echo "Installing the development tools and the other frameworks into .venv-newest: 1.4 GB, once"
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-newest
	$(UV) pip install --quiet --upgrade --python .venv-newest --group test --group adapters --editable ".[local]"
	@touch $@

test-adapters: .venv-newest/.made ## test the adapters with the newest versions of the other frameworks
	LITELLM_LOCAL_MODEL_COST_MAP=True .venv-newest/bin/python -m pytest tests/adapters docs/adapters.md docs/coming-from.md

test-newest: $(VENV)/.dist ## run the tests with the newest version of everything, and check that it resolves for Python 3.11 to 3.15
	rm -f .venv-newest/.made
	$(MAKE) .venv-newest/.made
	$(BIN)/python scripts/resolutions.py
	LITELLM_LOCAL_MODEL_COST_MAP=True .venv-newest/bin/python -m pytest $(SUITE)

build/clients/.made:
	@echo "Installing Node and four agent CLIs into build/clients: 1.4 GB, once"
	@mkdir -p build/clients
	npm install --silent --no-audit --no-fund --prefix build/clients node@24
	PATH="$(CURDIR)/build/clients/node_modules/.bin:$$PATH" npm install --silent --no-audit --no-fund --prefix build/clients \
		node@24 @anthropic-ai/claude-code@latest @openai/codex@latest @google/gemini-cli@latest opencode-ai@latest
	@touch $@

# These clients constrain the version of openai, so they have a separate environment.
.venv-clients/.made: | $(VENV)/.dist
	@echo "Installing Python clients of the OpenAI-compatible endpoint into .venv-clients: 300 MB, once"
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-clients
	$(UV) pip install --quiet --python .venv-clients openai litellm llm instructor
	@touch $@

test-clients: $(VENV)/.dev build/clients/.made .venv-clients/.made ## test with real agent CLIs, as models and as MCP hosts, and with real Python clients
	FLOWDEBATE_CLIENTS="$(CURDIR)/build/clients/node_modules/.bin" FLOWDEBATE_PYTHON_CLIENTS="$(CURDIR)/.venv-clients/bin/python" \
		$(BIN)/python -m pytest tests/clients

test-lowest: $(VENV)/.dist ## run the tests with Python 3.11 and the oldest versions that pyproject.toml allows
	@echo "Installing the development tools into .venv-lowest: 1.2 GB, once"
	$(UV) venv --quiet --allow-existing --python 3.11 .venv-lowest
	$(BIN)/python scripts/lowest.py > .venv-lowest/oldest.txt
	$(UV) pip install --quiet --python .venv-lowest -r .venv-lowest/oldest.txt --group dev --editable .
	.venv-lowest/bin/python -m pytest $(SUITE)

test-3.%: $(VENV)/.dist ## run the tests with Python 3.12, 3.13 or 3.14, which uv finds or downloads
	@echo "Installing the development tools into .venv-3.$*: 1.2 GB, once"
	$(UV) venv --quiet --allow-existing --python 3.$* .venv-3.$*
	$(UV) pip install --quiet --python .venv-3.$* --group test --editable ".[local]"
	.venv-3.$*/bin/python -m pytest $(SUITE)

test-deployment: $(VENV)/.dist ## install, start and use what deploy/ describes, without containers
	$(BIN)/python scripts/deployment_check.py

test-local: $(VENV)/.dev $(VENV)/.run ## test the patterns with the two local models, small and large (1.1 GB)
	$(BIN)/python -m pytest -m slow_model

simulations: $(VENV)/.dev ## simulate thousands of studies and audits, to test their error rates and intervals
	$(BIN)/python -m pytest -m simulation

break-promises: $(VENV)/.dev ## break each promise that all patterns share, in each pattern, and check that its test fails
	$(BIN)/python scripts/break_promises.py

workflows: $(BIN)/python ## check the GitHub workflows, the skills, the plugin and server.json
	$(BIN)/python -m pip install --quiet --group workflows
	$(BIN)/actionlint .github/workflows/*.yml examples/review/flowdebate-review.yml
	$(BIN)/zizmor --offline --quiet .github examples/review
	$(BIN)/skillsaw lint --strict --config .github/skillsaw.yaml .

bench: $(VENV)/.bench ## run the benchmarks and print each result beside its comparison
	$(BIN)/python -m compileall -q src $(VENV)/lib >/dev/null || true
	$(BIN)/python scripts/benchmarks/run.py

growth: $(VENV)/.dev ## measure how cost grows with turns, runs and debates; fail if it grows faster than it should
	$(BIN)/python scripts/benchmarks/growth.py

faults: faults-$(OLDEST_OPENAI) faults-newest ## run the table of faults with the oldest and the newest openai

faults-%:
	$(PYTHON) -m venv .venv-faults-$*
	.venv-faults-$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-faults-$*/bin/python -m pip install --quiet --editable . --group test $(if $(filter newest,$*),,"openai==$*")
	.venv-faults-$*/bin/python -c "import openai; print('openai', openai.__version__)"
	.venv-faults-$*/bin/python -m pytest -q -m fault tests/faults
	rm -rf .venv-faults-$*

soak: $(VENV)/.dev soak-kills ## run 500 kills, a million mutated answers and a million texts in all views (half an hour)
	$(BIN)/python -m tests.soak answers --count 1000000
	$(BIN)/python -m tests.soak views --count 100000

soak-kills: $(VENV)/.dev ## kill 500 durable runs, and the server 20 times (STORE=postgresql://…, SERVER_KILLS=N)
	$(BIN)/python -m tests.runs.durable.kills --kills 500 $(if $(STORE),--store $(STORE))
	$(BIN)/python -m tests.soak.server_kills --kills $(or $(SERVER_KILLS),20)

soak-fleet: $(VENV)/.dev ## run 500 debates on workers while workers, servers, PostgreSQL and the provider die (RUNS=N)
	@python3 scripts/postgres install
	$(BIN)/python -m tests.soak.fleet --runs $(or $(RUNS),500) --seed $(or $(SEED),1)

soak-attacks: $(VENV)/.dev ## attack every route, page, export and document, as a stranger and as another user
	@python3 scripts/chromium install >/dev/null || echo "Tests of pages need Chromium, and will be skipped"
	$(BIN)/python -m pytest tests/server/test_guard.py tests/server/test_owners.py tests/browser/test_hostile_texts.py
	$(BIN)/python -m tests.soak.attacks
	$(BIN)/python -m tests.soak.documents

soak-cancel: $(VENV)/.dev ## cancel 10,000 calls with each transport, and look for leaks
	$(BIN)/python -m tests.soak.cancel_storm

evidence: $(VENV)/.dev $(if $(MODEL),$(VENV)/.facts) ## write evidence/records/evidence.md (MODEL=local also asks the local models: an hour or two)
	$(BIN)/python -m evidence $(if $(MODEL),--model $(MODEL))

study: $(VENV)/.facts ## continue each arm of the study for an hour and write evidence/records/study.md (ARM=…, SLICE=seconds)
	for arm in $(ARM); do nice $(BIN)/python -m evidence.study ask $$arm $(SLICE) || test $$? = 3 || exit; done
	$(BIN)/python -m evidence.study page

injection: $(VENV)/.run ## measure how often attacks fool the local judge, and write the results to evidence/records/injection.md (an hour)
	@mkdir -p build
	$(BIN)/python scripts/benchmarks/injection.py --out build/injection.jsonl
	$(BIN)/python scripts/benchmarks/injection.py --out build/injection.jsonl --report evidence/records/injection.md

adapter-table: .venv-newest/.made ## write evidence/records/adapters.md from the tests
	LITELLM_LOCAL_MODEL_COST_MAP=True .venv-newest/bin/python -m tests.adapters.table

event-schema: $(VENV)/.dev ## write the published schema and table of events from their classes
	$(BIN)/python scripts/event_schema.py

code-table: ## print the size, shape and language of the code, and of other trees (TREES=…)
	@python3 scripts/code_table.py src/flowdebate $(TREES)

lock: $(VENV)/.dist ## write deploy/requirements/ with the newest versions and their hashes
	$(BIN)/python scripts/lock.py

dist: $(VENV)/.dist ## build wheel, sdist and SBOM, and try the wheel with each extra (EXTRAS="core server" tries some)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python scripts/wheel_check.py $(EXTRAS)
	$(BIN)/python scripts/sbom.py

first-lines: $(VENV)/.dist ## run the first lines of the README in an empty environment (1.1 GB)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python scripts/wheel_check.py --readme
