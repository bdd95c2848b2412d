# Two commands do everything on a fresh machine: `make run` and `make test`.
# Needs Python 3.11 or newer with venv (Debian: python3-venv), and Node 20 with npm for the web packages.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run test check bench faults gen-check gen web web-build package docs format locks clean

# Tests start many processes; without bytecode each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
SEED ?=
N ?=

# What the web packages make, and of what.
SHELL_PAGE := src/lineloop/device/host/web/static/index.html
APP_SURFACES := $(patsubst %/src/app.ts,%/surface/main.js,$(wildcard apps/*/src/app.ts))
PACKAGE_FILES := $(shell find web/packages -mindepth 1 \( -name node_modules -o -name '.*' \) -prune -o -type f \
  \( -path '*/src/*' -o -path '*/public/*' -o -path '*/bin/*' -o -name 'package.json' -o -name 'vite.config.ts' \
  -o -name 'index.html' \) -print)
SDK_FILES := $(filter web/packages/app-sdk/%,$(PACKAGE_FILES)) spec/schema/app-manifest.json

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.runtime ## create the environment and start Lineloop; in a terminal, talk to it at once
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web-build; \
	elif [ ! -e $(SHELL_PAGE) ]; then \
	  echo "npm is missing: there will be no page in the browser. Node 20 with npm makes it." >&2; fi
	@exec $(VENV)/bin/lineloop up --chat $$([ -e $(SHELL_PAGE) ] || echo --host headless)

test: ## everything that decides whether a change may land (about 10 min on two cores)
	@$(MAKE) --no-print-directory -s -j2 $(VENV)/.dev web-build
	@$(PY) tools/tally.py test

check: ## format, lint, types, imports, generated files and the tests of single parts (about a minute)
	@$(MAKE) --no-print-directory -s -j2 $(VENV)/.dev node_modules/.installed
	@$(PY) tools/tally.py check

faults: $(VENV)/.dev ## kill -9 and other faults; SEED=… N=… repeat or widen the seeded histories (1,000)
	@LINELOOP_TEST_SEED="$(SEED)" LINELOOP_TEST_N="$(or $(N),1000)" $(PY) tools/tally.py faults blackbox

docs: $(VENV)/.dev ## run the code of README and docs, and write the reference pages
	@$(PY) tools/generate.py
	@$(PY) tools/tally.py docs

web: node_modules/.installed ## types and tests of the web packages
	@$(PYTHON) tools/tally.py web-types web

web-build: $(SHELL_PAGE) $(APP_SURFACES) ## build the pages that people see, when their sources have changed

package: $(VENV)/.dev web-build ## build the wheel and the source archive, then try the wheel in an empty environment
	@$(PY) tools/tally.py packaging
	@$(PY) -m build --no-isolation --outdir dist .

bench: $(VENV)/.dev web-build ## measure and write docs/benchmarks.md
	@$(PY) -m benchmarks

gen-check: $(VENV)/.dev ## do the generated files match spec/?
	@$(PY) tools/tally.py generated

gen: $(VENV)/.dev ## write what is generated from spec/
	@$(PY) tools/generate.py

format: $(VENV)/.dev ## put every Python file into shape
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

locks: $(VENV)/.dev ## resolve requirements/*.in again into hash-pinned files (needs uv)
	@for name in dev runtime build; do \
	  uv pip compile --quiet --upgrade --generate-hashes --no-annotate --universal --python-version 3.11 \
	    --no-emit-index-url $$( [ $$name = dev ] || echo "-c requirements/dev.txt" ) \
	    requirements/$$name.in -o requirements/$$name.txt; done

clean: ## remove the environments, what was built and caches
	rm -rf $(VENV) node_modules web/packages/*/node_modules dist build .pytest_cache .ruff_cache .hypothesis
	rm -rf $(dir $(SHELL_PAGE)) $(dir $(APP_SURFACES)) apps/*/logic.js

$(VENV)/bin/python:
	@echo "making an environment in $(VENV) …" >&2
	@if command -v uv >/dev/null; then uv venv --quiet --seed --python "$(PYTHON)" $(VENV); \
	else "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Python could not create an environment. On Debian: apt-get install python3-venv" >&2; exit 1; }; fi

# The package itself is installed in place, without looking anything up.
$(VENV)/.runtime: requirements/runtime.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	@tools/install.sh $(VENV) requirements/build.txt requirements/runtime.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	@tools/install.sh $(VENV) requirements/dev.txt
	@touch $@ $(VENV)/.runtime

$(SHELL_PAGE): node_modules/.installed $(PACKAGE_FILES)
	@npm run --silent build:shell
	@touch $@

$(APP_SURFACES): apps/%/surface/main.js: node_modules/.installed $(SDK_FILES) $(wildcard apps/*/src/* apps/*/src/*/*)
	@node web/packages/app-sdk/bin/lineloop-app-build.js apps/$*
	@touch $@

node_modules/.installed: package.json package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing. Node 20 with npm is needed for the web packages." >&2; exit 1; }
	@echo "installing the web packages …" >&2
	@npm ci --silent
	@touch $@
