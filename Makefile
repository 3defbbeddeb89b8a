# The front doors. `make help` lists them.
#
# Paths are relative throughout: the checkout may lie under a path with spaces. Programs of the virtual environment are
# run as modules, since the first lines of their scripts can't hold such a path everywhere.

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check
ARGS ?=

# The pins are given as constraints: which of the requirements apply on this platform, pyproject.toml's markers say.
EXTRAS := project,flower,sentry,services,test

# Stamps: where the environment was made, and what was installed from.
PLACE := $(VENV)/.place
TEST := $(VENV)/.installed-test
DEV := $(VENV)/.installed-dev

# An environment can't be moved: one that was made elsewhere (a copied checkout) or whose Python is gone is made anew.
ifneq ($(shell $(PYTHON) -c '' 2>/dev/null && cat $(PLACE) 2>/dev/null),$(CURDIR))
.PHONY: $(PLACE)
endif

$(PLACE):
	@sh .ci/venv
	@pwd -P > $(PLACE)

$(TEST): $(PLACE) pyproject.toml requirements/test.txt
	@echo "Installing Celeriac and its test requirements into $(VENV) ..."
	@$(PIP) -c requirements/test.txt -e ".[$(EXTRAS)]"
	@touch $(TEST)

$(DEV): $(TEST) requirements/dev.txt
	@echo "Installing the developers' tools into $(VENV) ..."
	@$(PIP) -c requirements/dev.txt -e ".[$(EXTRAS),dev]"
	@touch $(DEV)

.PHONY: help
help: ## list these front doors
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(TEST) ## make .venv and install what the project and its tests need (done once, then instant)
	@:

.PHONY: demo
demo: setup ## run the whole product with a small shop's jobs; headless: ARGS="--orders 300 --exit"
	@$(PYTHON) manage.py demo $(ARGS)

.PHONY: test
test: setup ## run all the tests; some of them: ARGS="tests/unit -k backoff"
	@$(PYTHON) -m pytest $(ARGS)

.PHONY: lint
lint: $(DEV) ## check style and format
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

.PHONY: format
format: $(DEV) ## put style and format right, as far as that goes by itself
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

.PHONY: types
types: $(DEV) ## check types, strictly
	@$(PYTHON) -m mypy

.PHONY: layers
layers: setup ## check who may import whom
	@$(PYTHON) -c 'from importlinter.cli import lint_imports_command as main; main()' --no-logo

.PHONY: bench
bench: setup ## measure against plain Celery into bench/results/; about twenty minutes, less with ARGS=--short
	@mkdir -p bench/results
	@for bench in enqueue drain latency recovery; do \
		$(PYTHON) -m bench.$$bench --json $(ARGS) > bench/results/.unfinished \
			&& mv bench/results/.unfinished bench/results/$$bench.json || exit 1; \
	done

.PHONY: requirements
requirements: $(DEV) ## pin requirements/*.txt anew from pyproject.toml
	@PYTHON="$(PYTHON)" sh .ci/pin $(ARGS)

.PHONY: matrix
matrix: ## run the tests under every Python found here, with every Django supported
	@sh .ci/matrix $(ARGS)

.PHONY: ci
ci: ## what has to pass before anything lands
	@bash .ci/run

.PHONY: clean
clean: ## remove .venv and everything else that was made here
	@rm -rf $(VENV) .venv-matrix var build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
