# `make help` lists what there is. Needs Python >= 3.10 and make; everything else goes into .venv.
# Another interpreter: `make test PYTHON=python3.12`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# most modules are never imported: Python compiles each when it is, which saves half a minute here
INSTALL := "$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help quickstart test test-all lint docs clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1 \2/p' Makefile | while read -r target text; do \
	  printf '  make %-12s %s\n' "$$target" "$$text"; done

quickstart: $(VENV)/.installed ## train, evaluate and export a small encoder on the embedded toy corpus
	"$(BIN)/sentrep" quickstart

PYTEST := OMP_NUM_THREADS=1 "$(BIN)/python" -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --durations 15

test: $(VENV)/.installed-test ## run the tests but for those marked slow, on up to four cores
	$(PYTEST)

test-all: $(VENV)/.installed-test ## run every test, as continuous integration does
	$(PYTEST) -m "not hub"

lint: $(VENV)/.installed-dev ## ruff (rules and format), the order of imports, and mypy
	"$(BIN)/ruff" check .
	"$(BIN)/ruff" format --check .
	"$(BIN)/lint-imports" --no-cache
	"$(BIN)/mypy"

docs: $(VENV)/.installed-docs ## build the documentation into site/
	"$(BIN)/python" benchmarks/pages.py --first
	"$(BIN)/zensical" build --clean --strict
	"$(BIN)/python" benchmarks/pages.py --built

clean: ## remove the virtual environment, caches and build products, never runs/
	rm -rf "$(VENV)" build dist site .cache *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamp files: an environment is installed again only when what it is made from has changed.
$(VENV)/.created:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "sentrep needs Python 3.10 or newer, but $(PYTHON) is $$("$(PYTHON)" --version 2>&1); try: make PYTHON=python3.12" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear "$(VENV)"
	touch "$@"

$(VENV)/.installed: pyproject.toml constraints.txt $(VENV)/.created
	@echo "Installing into $(VENV), a minute or more the first time ..."
	$(INSTALL) --editable .
	touch "$@"

$(VENV)/.installed-%: $(VENV)/.installed
	$(INSTALL) --editable ".[$*]"
	touch "$@"
