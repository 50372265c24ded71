# Everything works from a fresh clone with only Python 3.11+ and make: the virtual environment is made on demand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# $(call step,what it does,command) prints one line; the command's output is shown only if it fails.
step = @echo "$(1)"; output=$$($(2) 2>&1) || { printf '%s\n' "$$output" >&2; exit 1; }

.PHONY: help run test test-slow clock shuffle fuzz cover bench team crash soak forget lint types unit axe e2e conformance lock release clean

help:
	@echo "make run    install, load the sample history if memory is empty, and show it in a browser"
	@echo "make test   lint, types and every test that takes less than two seconds"
	@echo "make test-slow  the other tests: kills, shells, browsers, the second engine"
	@echo "make clock  all tests at four times that are hard on clocks: New Year, 29 February, a change to summer time"
	@echo "make shuffle  all tests in random order, three times (SEEDS=\"1 2 3\")"
	@echo "make fuzz   property tests with random examples, for MINUTES=30 or as long as you say"
	@echo "make cover  all tests, and which lines and branches they reach"
	@echo "make bench  benchmarks, as ratios against baselines of the same run"
	@echo "make bench team  50 laptops that push while 50 agents ask, and servers that are killed (needs PostgreSQL)"
	@echo "make crash  several hundred kills of hooks, servers and commands, after which nothing may be lost or doubled"
	@echo "make soak   ten minutes of hooks, questions, restarts and forgetting, during which nothing may grow"
	@echo "make forget  every way to forget with every step that could undo it, and the table of checks that pass"
	@echo "make e2e    the real clients against a scripted model (needs npm)"
	@echo "make conformance  the protocol's own suite against the server (needs npm)"
	@echo "make release  sdist, wheel and bill of materials in dist/"
	@echo "make lock   write requirements.lock anew (UPGRADE=1: with the newest versions)"

# Exactly the packages of the lock file, each compared with its hash; the build backend is one of them. What is not
# used need not be compiled.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(call step,Making the virtual environment in $(VENV)/,$(PYTHON) -m venv --clear $(VENV))
	$(call step,Installing the packages of requirements.lock,$(PIP) --no-compile --require-hashes --only-binary :all: --requirement requirements.lock)
	$(call step,Installing mcp-memory,$(PIP) --no-deps --no-build-isolation --editable .)
	@touch $(READY)

# The newest versions that pyproject.toml allows, for every system and Python; without UPGRADE=1 only what has to change.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		$(if $(UPGRADE),--upgrade) --custom-compile-command "make lock" --all-extras --group dev \
		pyproject.toml --output-file requirements.lock

# Into dist/: sdist, wheel, bill of materials (CycloneDX) and their checksums.
release: $(READY)
	$(BIN)/python -m release.package

run: $(READY)
	$(call step,Loading the sample history if memory is empty,$(BIN)/mcp-memory demo --json)
	@echo "Starting the viewer"
	@$(BIN)/mcp-memory web --steps

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One worker more than there are cores: many tests wait for a process or a browser.
PYTEST := $(BIN)/pytest -q -n $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )) --dist worksteal
unit: $(READY)
	$(PYTEST) -m "not slow"

test-slow: $(READY) axe
	$(PYTEST) -m slow

# Monday half a minute after midnight, where that is Sunday noon in UTC, is the last one.
clock: $(READY) axe
	$(PYTEST) --now 2027-01-01T00:03Z
	$(PYTEST) --now 2028-02-29T23:58Z
	TZ=Europe/Berlin $(PYTEST) --now 2027-03-28T01:30
	TZ=Pacific/Auckland $(PYTEST) --now 2027-01-04T00:00:30

# Another order of modules and of tests within each, and another order of sets, for each seed.
SEEDS := 1 2 3
shuffle: $(READY) axe
	@set -e; for seed in $(SEEDS); do echo "seed $$seed"; PYTHONHASHSEED=$$seed $(PYTEST) --random-order-seed=$$seed; done

cover: $(READY) axe
	$(PYTEST) --cov --cov-report=term

# Rounds of the property tests, each with a random seed, until the time is up or one fails. A failure prints what
# `@reproduce_failure` needs.
MINUTES ?= 30
fuzz: $(READY)
	@end=$$(( $$(date +%s) + 60 * $(MINUTES) )); while [ $$(date +%s) -lt $$end ]; do \
		$(BIN)/pytest -q -m hypothesis --hypothesis-profile=fuzz tests || exit 1; done

# What looks for barriers in the pages; its tests skip where there is no npm.
AXE := build/axe/node_modules/axe-core/axe.min.js
axe:
	@[ -f $(AXE) ] || ! command -v npm >/dev/null || { echo "Installing axe-core"; npm install --prefix build/axe --no-save --no-audit --no-fund \
		--fetch-retries=1 --fetch-timeout=20000 axe-core@4.14.0 >/dev/null 2>&1; } || true

# `make bench team` runs that one alone.
bench: $(READY)
	$(BIN)/python -m bench $(filter team,$(MAKECMDGOALS))

team:
	@:

crash soak forget: $(READY)
	$(BIN)/python -m bench $@

# The kit that runs the real clients lies beside the repository, if at all.
CLIENTS ?= ../shared/real-client
e2e: $(READY)
	@if [ ! -d "$(CLIENTS)" ]; then echo "skipped: $(CLIENTS) is not here"; \
	elif ! command -v npm >/dev/null; then echo "skipped: npm is not here"; \
	else sh $(CLIENTS)/install.sh && $(BIN)/python $(CLIENTS)/accept.py --product $(BIN)/mcp-memory --client all; fi

# The suite, and Node 22 where there is none, come from npm into build/conformance.
conformance: $(READY)
	@$(BIN)/python -m tests.conformance.run

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* dist build
