# Everything works from a fresh clone with only Python 3.11+ and make: the virtual environment is made on demand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help run test bench lint types unit e2e clean

help:
	@echo "make run    install, load the sample history if memory is empty, and serve it on this machine"
	@echo "make test   lint, types and all tests"
	@echo "make bench  benchmarks, as ratios against baselines of the same run"
	@echo "make e2e    the real clients against a scripted model (needs npm)"

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(READY)

run: $(READY)
	@$(BIN)/mcp-memory demo
	@$(BIN)/mcp-memory serve --http

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/coverage run -m pytest -q
	$(BIN)/coverage report --skip-covered --show-missing | tail -40

bench: $(READY)
	$(BIN)/python -m bench

# The kit that runs the real clients lies beside the repository, if at all.
CLIENTS ?= ../shared/real-client
e2e: $(READY)
	@if [ ! -d "$(CLIENTS)" ]; then echo "skipped: $(CLIENTS) is not here"; \
	elif ! command -v npm >/dev/null; then echo "skipped: npm is not here"; \
	else sh $(CLIENTS)/install.sh && $(BIN)/python $(CLIENTS)/accept.py --product $(BIN)/mcp-memory --client all; fi

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage dist build
