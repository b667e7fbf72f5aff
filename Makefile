# Every target sets up what it needs in $(VENV); nothing else has to be installed before.

# With OLDEST=1, what users install is there at the oldest version that pyproject.toml allows.
OLDEST ?=
VENV ?= $(if $(OLDEST),.venv-oldest,.venv)
ARGS ?=
MINUTES ?= 2
# Half of the time is spent waiting for servers and processes under test, so two for each of two cores.
PARALLEL ?= -n 4 --dist worksteal
FIRST_USABLE = for name in python3.13 python3.12 python3.11 python3 python; do \
	if $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$name; break; fi; done
PYTHON ?= $(shell $(FIRST_USABLE))
BENCH_VENV ?= .venv-bench
# What the project is compared with; pinned in benchmarks/constraints.txt.
PEERS = launchdarkly-server-sdk UnleashClient growthbook flagsmith posthog statsig-python-core \
	openfeature-sdk furagu django-waffle aiohttp orjson Cython setuptools

BIN = $(VENV)/bin
CONSTRAINTS = $(if $(OLDEST),$(VENV)/oldest.txt,constraints.txt)
PIP_INSTALL = $(BIN)/python -m pip --disable-pip-version-check install -qq --no-input -c $(CONSTRAINTS)
export PIP_NO_INPUT = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: bench hot-paths
.PHONY: help demo test pytest browser soak bench-propagation bench-frameworks lint format types docs dist wheel clean

help:  ## Show the targets.
	@echo "make TARGET [VENV=.venv] [PYTHON=python3.11] [OLDEST=1] [ARGS=...]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-19s %s\n", $$1, $$2}'

demo: $(VENV)/.installed-demo  ## Run the demo; ARGS=--once ends it after the last step.
	@$(BIN)/shipsilently demo $(ARGS)

test: $(VENV)/.installed-test  ## Run the whole test suite with full branch coverage of the core; ARGS go to pytest.
	@echo "==> tests, with coverage"
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest $(PARALLEL) --ignore=tests/browser $(ARGS)
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report

pytest: $(VENV)/.installed-test  ## Run pytest alone; ARGS go to pytest.
	@$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/browser $(ARGS)

browser: $(VENV)/.installed-browser  ## Drive the example sites in a headless Chromium; CHROMIUM=/path names another.
	@echo "==> browser"
	@$(BIN)/python -m pytest tests/browser $(ARGS)

soak: $(VENV)/.installed-test  ## Let a client live through faults every second; MINUTES=30 for longer than 2.
	@echo "==> soak"
	@$(BIN)/python benchmarks/soak.py --minutes $(MINUTES) $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.installed-test  ## Try every fault between client and service; ARGS="--only gzip-bomb", ARGS=--list.
	@echo "==> chaos"
	@$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.installed-test  ## Run the properties with as many more examples as MINUTES=5 allows.
	@echo "==> fuzz"
	@$(BIN)/python -m tests.properties.fuzz --minutes $(MINUTES)

bench-propagation: $(VENV)/.installed-test  ## Measure how long a change takes to 1 and to 8 processes.
	@echo "==> propagation"
	@$(BIN)/python benchmarks/propagation.py

bench-frameworks: $(VENV)/.installed-test  ## Measure what flags add to a request in each framework.
	@echo "==> frameworks"
	@$(BIN)/python benchmarks/frameworks.py

.PHONY: bench-fleet fleet-model
bench-fleet: $(VENV)/.installed-test  ## Measure what a fleet asks after a change, and new processes, with stores and without.
	@echo "==> fleet"
	@$(BIN)/python benchmarks/fleet.py $(ARGS)

fleet-model: $(VENV)/.installed-test  ## Play 1,000 processes and 100,000 users; ARGS="--workers 50" for others.
	@$(BIN)/python benchmarks/fleet_model.py $(ARGS)

bench: $(BENCH_VENV)/.installed-bench  ## Compare with what others use; ARGS="--only reads", ARGS=--quick.
	@echo "==> benchmarks"
	@$(BENCH_VENV)/bin/python -m benchmarks.bench $(ARGS)

hot-paths: $(VENV)/.installed-test  ## Count the hottest paths of this Python, and keep the numbers.
	@$(BIN)/python benchmarks/hot_paths.py --keep

lint: $(VENV)/.installed-dev  ## Check the code's form.
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev  ## Bring the code into form.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(VENV)/.installed-dev  ## Check the types.
	@echo "==> mypy"
	@$(BIN)/python -m mypy

docs: $(VENV)/.installed-dev  ## Build the manual into site/.
	@echo "==> manual"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -q

dist: $(VENV)/.installed-dev  ## Build the wheel and the source archive into dist/.
	@echo "==> wheel and source archive"
	@rm -rf dist
	@$(BIN)/python -m build -q .
	@$(BIN)/python -m twine check --strict dist/*

wheel: dist  ## Try the built wheel for each framework alone on each Python, and run the tests against it.
	@echo "==> wheel in environments of its own"
	@$(BIN)/python .ci/check_wheel.py

clean:  ## Remove everything that the other targets made.
	rm -rf $(BENCH_VENV)
	rm -rf $(VENV) build dist site .coverage .coverage.* htmlcov .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 or newer with venv and ensurepip was found." >&2; \
		echo "Install one, or name one: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than Python 3.11." >&2; exit 1; }
	@echo "==> new environment $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/oldest.txt: pyproject.toml constraints.txt .ci/oldest.py | $(VENV)/bin/python
	@$(BIN)/python .ci/oldest.py > $@

# A stamp is older than what it was made from when the requirements have changed.
$(VENV)/.installed-demo: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "==> installing what the demo needs"
	@$(PIP_INSTALL) -e '.[django,flask,fastapi,local,cli,examples]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "==> installing what the tests need"
	@$(PIP_INSTALL) -e '.[test]'
	@touch $(VENV)/.installed-demo $@

$(VENV)/.installed-browser: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "==> installing what the tests in a browser need"
	@$(PIP_INSTALL) -e '.[browser]'
	@touch $(VENV)/.installed-demo $(VENV)/.installed-test $@

$(VENV)/.installed-dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "==> installing what development needs"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $(VENV)/.installed-demo $(VENV)/.installed-test $@

# The peers bring versions of their own, so they get an environment of their own.
$(BENCH_VENV)/bin/python: | $(VENV)/bin/python
	@echo "==> new environment $(BENCH_VENV) with $$($(VENV)/bin/python -V)"
	@$(VENV)/bin/python -m venv $(BENCH_VENV)

$(BENCH_VENV)/.installed-bench: pyproject.toml constraints.txt benchmarks/constraints.txt | $(BENCH_VENV)/bin/python
	@echo "==> installing what the benchmarks compare"
	@$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install -qq --no-input \
		-c constraints.txt -e '.[django,flask,fastapi,local,cli,examples]' \
		gunicorn httpx2 httpx-sse urllib3
	@$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install -qq --no-input \
		--no-warn-conflicts -c benchmarks/constraints.txt $(PEERS)
	@# What UnleashClient stands on asks for an older one than the core does, and runs with this one.
	@$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install -qq --no-input \
		--no-warn-conflicts -c constraints.txt platformdirs
	@touch $@
