# The one door to the project. It needs Python 3.11 or newer, make, and a package registry that pip can reach; the tests
# run real clients, for which they need npm and a registry that it can reach.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# What takes long is followed on a terminal; elsewhere, as in CI, nobody wants to read it.
FOLLOWED := $$(test -t 1 || echo -qq)
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder
# What `make run` gives to `dragoman serve`, as in: make run ARGUMENTS='--port 9000'; and the word by which `make attack`
# selects a section or single attacks, as in: make attack ARGUMENTS=outages
ARGUMENTS ?=
# Touched after an install; older than the pins or the project file means: install again. Both are of the same
# environment: what runs is a part of what is needed to work on it.
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
# What builds the package is pinned, too, where pip makes an environment for it; by this name for later pips.
PINNED_BUILD := PIP_CONSTRAINT=requirements/build.txt PIP_BUILD_CONSTRAINT=requirements/build.txt
# The same for what makes the site, in an environment of its own: nothing else needs it.
SITE := build/site-tools
# The real clients that the tests run; they are shared by all clones of a user, and looked at each time.
CLIENTS := install-clients
# Without npm there are no clients to run, and the tests go without them; CI insists.
WITH_CLIENTS := $(if $(CI)$(shell command -v npm),$(CLIENTS))

# Without bytecode every process of the tests would compile all modules again, which takes longer than to run them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test $(CLIENTS) quick nightly test-times coverage mutations golden playbooks docs pictures prices clients attack dist site first-hour bench bench-gateway bench-check bench-growth bench-peers trace simulate clean

help: ## list the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What a person reads while something is installed.
SAY := @printf >&2 'dragoman: %s\n'
# How many packages are pinned in files.
pins = $$(cat $(1) | grep -c '^[A-Za-z0-9]')

define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dragoman needs Python 3.11 or newer as '$(PYTHON)'; name another one: make PYTHON=python3.12 ..." >&2; \
		exit 1; }
	@test -x $(BIN)/pip || { printf >&2 'dragoman: %s\n' "making $(VENV) with $$($(PYTHON) --version)"; \
		$(PYTHON) -m venv $(VENV); }
endef

$(RUNTIME): requirements/run.txt requirements/build.txt pyproject.toml
	$(environment)
	$(SAY) "installing the $(call pins,requirements/run.txt) packages that it needs to run into $(VENV)"
	@$(PIP) install -q -r requirements/run.txt
	$(SAY) "installing dragoman itself from this clone"
	@$(PINNED_BUILD) $(PIP) install -q --no-deps -e .
	@touch $@

$(STAMP): requirements/dev.txt requirements/run.txt requirements/build.txt pyproject.toml
	$(environment)
	$(SAY) "installing the $(call pins,$(filter %.txt,$^)) packages that it takes to work on it into $(VENV): a minute or two"
	@$(PIP) install $(FOLLOWED) -r requirements/dev.txt
	@$(PIP) install -q --no-build-isolation --no-deps -e .
	@touch $(RUNTIME) $@

$(CLIENTS): $(STAMP)
	@$(BIN)/python -m tests.clients.installing

setup: $(STAMP) ## make the virtual environment and install everything in it

run: $(RUNTIME) ## the gateway up, with the embedded echo provider, and curl lines to try; installs only what runs
	$(SAY) "in another terminal, from this clone: $(BIN)/dragoman, or plain dragoman after: source $(BIN)/activate"
	@exec $(BIN)/dragoman serve $(ARGUMENTS)

test: $(STAMP) $(WITH_CLIENTS) ## everything, as CI runs it: format, lint, types, import contracts, tests of all rings
	@$(BIN)/python -m tools.run_tests $(if $(WITH_CLIENTS),,-- --ignore=tests/clients)

quick: $(STAMP) ## the pure ring, in about a minute: no socket, no process, no sleep; few examples
	@$(BIN)/python -m tools.quick_tests

nightly: $(STAMP) $(WITH_CLIENTS) ## all tests in random order with 500 examples each, kill tests and soak; then attacks
	HYPOTHESIS_PROFILE=nightly $(PYTEST) --nightly --random-order new
	$(BIN)/python -m tests.attack.run

test-times: $(STAMP) ## where the time of the last `make test` went: by folder with its budget, by file, by test
	@$(BIN)/python -m tools.test_times

coverage: $(STAMP) ## branch coverage of src/ by the tests of the pure and the socket ring; data in build/coverage
	@$(BIN)/python -m tools.branch_coverage

mutations: $(STAMP) ## 200 random changes of the source, and those that no test notices; data in build/mutations
	@$(BIN)/python -m tools.mutations sample
	@$(BIN)/python -m tools.mutations record
	@rm -f build/mutations/results.jsonl
	@$(BIN)/python -m tools.mutations run
	@$(BIN)/python -m tools.mutations report

golden: $(STAMP) ## rewrite the golden expectations; the diff is the review
	REWRITE_GOLDEN=1 $(BIN)/pytest tests/golden

playbooks: $(STAMP) ## rewrite the recorded dialogues; the diff is the review
	REWRITE_PLAYBOOKS=1 $(BIN)/pytest tests/playbooks

docs: $(STAMP) ## regenerate the pages that follow from the code, and the compiled catalogue of providers
	$(BIN)/python tools/catalogue_table.py
	$(BIN)/python tools/mapping_page.py
	$(BIN)/python tools/configuration_page.py
	$(BIN)/python tools/token_page.py
	$(BIN)/python tools/quirks_page.py
	$(BIN)/python tools/variables_page.py
	$(BIN)/python tools/admin_api_page.py

pictures: $(STAMP) ## draw the pictures of the README from real output, as SVG for light and dark screens
	$(BIN)/python tools/pictures.py

$(SITE)/.installed: requirements/site.txt
	@$(PYTHON) -m venv $(SITE)
	@echo "dragoman: installing what makes the site into $(SITE)" >&2
	@$(SITE)/bin/python -m pip --disable-pip-version-check -q install -r requirements/site.txt
	@touch $@

site: $(SITE)/.installed ## the pages for a browser, with a search, in build/site; a dead link is an error
	@$(SITE)/bin/python -m sphinx -W --keep-going -n -q -c tools/site -d build/site-cache . build/site
	@echo "dragoman: open build/site/index.html"

first-hour: $(STAMP) ## play the first hour of somebody new, from a clean clone, and print every screen
	$(BIN)/python tools/first_hour.py

prices: $(STAMP) ## compile the pinned collection of prices into the package; the diff is the review
	$(BIN)/python tools/prices_table.py

clients: $(CLIENTS) ## the real clients against the gateway; writes docs/internals/client-matrix.md
	WRITE_MATRIX=1 $(PYTEST) tests/clients

attack: $(STAMP) ## attack running gateways for some minutes, with a table of the damage; ARGUMENTS=outages selects
	$(BIN)/python -m tests.attack.run $(if $(ARGUMENTS),'$(ARGUMENTS)')

dist: $(STAMP) ## wheel and sdist in dist/, proved: contents, metadata, and run on every Python that is here
	$(BIN)/python -m tools.distribution

bench: $(STAMP) ## measure the core's hot paths
	$(BIN)/python -m bench.run

bench-gateway: $(STAMP) ## measure the gateway and write docs/internals/benchmarks.md
	$(BIN)/python -m bench.gateway.run --write

bench-check: $(STAMP) ## count instructions per exchange with callgrind, fail if they grow; ARGUMENTS='--case S1', --accept
	@$(BIN)/python -m bench.instructions $(ARGUMENTS)

bench-growth: $(STAMP) ## how costs grow with size, messages, tools, events, streams, records: plots, some minutes
	$(BIN)/python -m bench.gateway.growth --write

bench-peers: $(STAMP) ## measure TensorZero, LLM-Rosetta and LiteLLM beside Dragoman and nginx, and write tables and plots
	$(BIN)/python -m bench.peers.run --write

trace: $(STAMP) ## Python calls of one exchange; ARGUMENTS='--exchange S1 --calls' lists them
	@$(BIN)/python -m tools.exchange_trace $(ARGUMENTS)

simulate: $(STAMP) ## play the routing policies over virtual time and write docs/internals/simulation.md
	$(BIN)/python -m bench.simulation.run

clean: ## remove caches and build output; the virtual environment and the clients stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench tools -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
