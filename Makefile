# Shoal's everyday commands. `make` prints them.
# Everything a target needs is installed by packaging/bootstrap.sh, into .venv and, where allowed, by apt.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The interpreter that .venv is made with; by default the newest of 3.13, 3.12, 3.11 and python3 that works.
PYTHON ?=
export PYTHON
# Options for the program that a target runs: make run ARGS="--once --json"
ARGS ?=
# Debian and Ubuntu install mosquitto where only root's PATH looks.
export PATH := $(PATH):/usr/sbin

BIN := .venv/bin
# packaging/ and benchmarks/ are type-checked as soon as they hold Python.
TYPED := wire/src agent/src agent/plugins/tvm/src fleet/src converters/src tests hil \
    $(sort $(patsubst %/,%,$(dir $(wildcard benchmarks/*.py packaging/*.py))))

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Set-up reports on stderr: with --json, stdout holds the demo's lines and nothing else.
.PHONY: run
run: ## the demo: a fleet, three boards, seven releases. ARGS="--once --json" ends by itself
	@packaging/bootstrap.sh run >&2
	@exec $(BIN)/shoal demo $(ARGS)

.PHONY: test
test: ready ## every test that is not marked long, two files at a time
	@exec $(BIN)/pytest -m "not long and not converters" --numprocesses 2 --dist loadfile $(ARGS)

.PHONY: test-long
test-long: ready ## the tests that take minutes, each member in a clean environment, the board tests here
	$(BIN)/pytest -m long $(ARGS)
	$(BIN)/pytest hil --board local

# The board that is tested: one of hil/*.yaml.
BOARD ?= qemu-arm64

.PHONY: hil
hil: boards ## every test on a board, hours: BOARD=qemu-arm64, which is virtual, or one of a lab
	@exec $(BIN)/pytest hil --board $(BOARD) --junitxml dist/hil/$(BOARD).xml --measured dist/hil/$(BOARD).jsonl $(ARGS)

.PHONY: hil-short
hil-short: boards ## install, enrol, serve, update and one power cut on a board, in minutes
	@exec $(BIN)/pytest hil --board $(BOARD) -m "not long" $(ARGS)

.PHONY: hil-image
hil-image: boards ## the virtual board's disk, ten minutes, where it isn't there yet
	@exec $(BIN)/python -m hil.image.build $(ARGS)

.PHONY: boards
boards: # what the tests on boards need
	@packaging/bootstrap.sh boards >&2
	@mkdir -p dist/hil

.PHONY: test-converters
test-converters: ## conversions through all frameworks, in an environment of 5 GB that it makes: .venv-converters
	@packaging/bootstrap.sh converters >&2
	@exec .venv-converters/bin/python -m pytest tests/converters_heavy $(ARGS)

.PHONY: check
check: ready ## format, lint, types, import contracts, file names in documents, sizes
	@$(MAKE) --no-print-directory --keep-going \
	    check-format check-lint check-types check-imports check-documents check-sizes

.PHONY: check-format check-lint check-types check-imports check-documents check-sizes
check-format:
	$(BIN)/ruff format --check .
check-lint:
	$(BIN)/ruff check .
check-types:
	$(BIN)/mypy $(TYPED)
check-imports:
	$(BIN)/lint-imports --no-logo
check-documents:
	$(BIN)/python tests/repository/doc_paths.py
check-sizes:
	$(BIN)/python tests/repository/sizes.py

.PHONY: format
format: ready ## rewrite the sources in the house format
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

.PHONY: constraints
constraints: ## renew constraints.txt with the newest releases that Python 3.11 can use
	@packaging/bootstrap.sh constraints

.PHONY: packages
packages: ready ## Debian packages of agent and fleet: dist/*.deb. ARGS="--package shoal-agent --machine aarch64"
	@exec $(BIN)/python packaging/packages.py $(ARGS)

.PHONY: image
image: ready ## container images: dist/images/. ARGS="fleet broker" for some of them, --renew with what Debian has today
	@exec $(BIN)/python packaging/container/image.py $(ARGS) $(if $(filter-out --%,$(ARGS)),,fleet broker agent)

.PHONY: sbom
sbom: ready ## what a board and a server get, as CycloneDX: dist/sbom/
	@packaging/sbom.sh

.PHONY: ready
ready: # what the tests and the checks need
	@packaging/bootstrap.sh test >&2

.PHONY: clean
clean: ## remove .venv, the demo's state, caches
	rm -rf .venv .venv-tflite .venv-converters .demo .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
