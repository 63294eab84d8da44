# Everything runs from a fresh checkout with Python 3.11+ and make: `make demo`, `make test`.
# The first run creates .venv with the versions pinned in constraints.txt and looks for Java.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := pip==26.3
SUITE  ?= engine
ARGS   ?=
SECONDS ?= 600
SEED   ?= 0
CASES  ?= 0
ORACLE ?= duckdb
WORKERS ?= 2
# By file, and all that need Spark in one worker (conftest.py), so that its session starts once;
# in the order of files, so that it starts early and the others go on beside it.
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-long test-fast fuzz lint bench clean java

help: ## Show this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "  %-10s %s\n", $$1, $$2}'

demo: $(STAMP) java ## Join live streams on a local Spark and check the results, in about a minute
	@JAVA_HOME="$$(scripts/find_java.sh)" $(BIN)/streamjoin demo $(ARGS)

test: lint java ## Run the checks of a change: linters, types, import layers, tests
	@echo "==> pytest"
	@JAVA_HOME="$$(scripts/find_java.sh)" $(PYTEST) -m "not slow" $(ARGS)

test-slow: $(STAMP) java ## Run the tests that make test leaves out: streams on Spark, the demo
	@JAVA_HOME="$$(scripts/find_java.sh)" $(PYTEST) -m slow $(ARGS)

test-long: $(STAMP) java ## Kill a streaming join ten times over, and what else takes minutes
	@JAVA_HOME="$$(scripts/find_java.sh)" $(BIN)/python -m pytest tests/long -s $(ARGS)

test-fast: $(STAMP) ## Run the tests without the slow ones, last failures first, and stop at a failure
	@$(PYTEST) --exitfirst --failed-first -m "not slow and not spark" $(ARGS)

fuzz: $(STAMP) ## Draw random joins, judged by others: make fuzz SECONDS=600 SEED=1 ORACLE=spark
	@JAVA_HOME="$$(scripts/find_java.sh 2> /dev/null)" $(BIN)/python -m tests.fuzz \
	    --seconds $(SECONDS) --seed $(SEED) --cases $(CASES) --oracle $(ORACLE) $(ARGS)

lint: $(STAMP) ## Run ruff, mypy and the import layers
	@echo "==> ruff check" && $(BIN)/ruff check .
	@echo "==> ruff format" && $(BIN)/ruff format --check .
	@echo "==> mypy" && $(BIN)/mypy
	@echo "==> import layers" && $(BIN)/lint-imports

bench: $(STAMP) ## Measure: make bench SUITE=engine ARGS=--quick; writes out/bench-SUITE.json
	@mkdir -p out
	@JAVA_HOME="$$(scripts/find_java.sh 2> /dev/null)" $(BIN)/python -m benchmarks $(SUITE) --json out/bench-$(SUITE).json $(ARGS)

clean: ## Remove .venv, caches (compiled kernels too) and out/
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

java: # Fails early, before minutes of work, if Spark could not start.
	@scripts/find_java.sh > /dev/null

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Python 3.11 or newer is needed, and '$(PYTHON)' is older or missing." >&2; \
	    echo "Install one, or name it: make test PYTHON=python3.12" >&2; exit 1; }
	@echo "==> creating $(VENV) (downloads about 700 MB, once)"
	@$(PYTHON) -m venv --clear $(VENV) || { \
	    echo "Python's venv module does not work; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade $(PIP)
	@$(BIN)/python -m pip install --quiet --editable . --group dev \
	    --constraint constraints.txt --build-constraint constraints.txt
	@touch $@
