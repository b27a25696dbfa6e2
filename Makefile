# The two commands of the README are `make demo` and `make test`; each makes .venv with the pinned versions first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint perf docs clean

demo: .venv/ready
	$(BIN)/cosight demo

test: .venv/ready-dev lint
	# two processes share the cores: threads of their libraries would only wait for each other
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

test-slow: .venv/ready-dev
	$(BIN)/pytest -n 2 -m slow

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

perf: .venv/ready-dev
	$(BIN)/python perf/run.py

docs: .venv/ready-dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf .venv demo-run

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demo]'
	touch $@

.venv/ready-dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	# the peer that corruptions are compared with, whose own opencv-python would overwrite the headless build; and
	# lightly, of which the losses are used and not the trainer that it would bring along
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps imagecorruptions-imaug lightly
	touch $@ .venv/ready
