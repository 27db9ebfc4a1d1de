# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
DISTS := crds storage operator processor_image spark cli local/emulator local/cluster local/demo local/release
DECODER := processor_image/decoder
# Where it is set, each process of the tests compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- environment ---------------------------------------------------------------------------------
.PHONY: env
env: $(VENV)/.ready ## Create the hash-pinned Python environment, and compile the decoder

$(VENV)/.ready: requirements/dev.txt requirements/build.txt requirements/bootstrap.txt $(DISTS:%=%/pyproject.toml) \
    $(addprefix $(DECODER)/,pyproject.toml hatch_build.py Cargo.toml Cargo.lock) $(wildcard $(DECODER)/src/*.rs $(DECODER)/src/*/*.rs)
	@./local/need cargo cargo
	@./local/bootstrap $(VENV) $(DISTS) $(DECODER)
	@touch $@

AZURITE := local/azurite/node_modules/.bin/azurite-blob
.PHONY: azurite
azurite: $(AZURITE) ## Install Azurite for the tests

$(AZURITE): local/azurite/package-lock.json
	@./local/need npm nodejs npm
	@echo "Installing Azurite from its lock file"
	@cd local/azurite && npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: peer
peer: $(VENV)/.peer ## Compile Qpid Proton for the tests

$(VENV)/.peer: $(VENV)/.ready requirements/peer.txt
	@./local/need cc gcc libc6-dev
	@$(PY) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
	  || ./local/need Python.h python3-dev
	@echo "Compiling Qpid Proton"
	@VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install -q --require-hashes --build-constraints requirements/build.txt -r requirements/peer.txt
	@touch $@

.PHONY: outsiders
outsiders: $(VENV)/.outsiders ## Install the programs of others that tests/outsiders runs

$(VENV)/.outsiders: $(VENV)/.ready requirements/outsiders.txt
	@echo "Installing pandas, polars, DuckDB and other readers"
	@VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install -q --require-hashes --build-constraints requirements/build.txt -r requirements/outsiders.txt
	@touch $@

$(VENV)/.fuzz: $(VENV)/.ready requirements/fuzz.txt
	@./local/need c++ g++
	@VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install -q --require-hashes --build-constraints requirements/build.txt -r requirements/fuzz.txt
	@touch $@

.PHONY: jars
jars: ## Download Spark's jars for the tests
	@./local/need java openjdk-17-jre-headless
	@echo "Downloading Spark's jars"
	@./spark/jars/fetch.sh >/dev/null

.PHONY: classes
classes: jars $(VENV)/classes/classpath ## Make the archive of Spark's Java classes for the tests

$(VENV)/classes/classpath: $(VENV)/.ready spark/jars/SHA256SUMS spark/jars/kept.txt spark/conf/spark-defaults.conf $(wildcard spark/classes/*.py)
	@echo "Making the archive of Spark's Java classes, about a minute"
	@spark/jars/home.sh $(VENV)/spark "$$($(PY) -c 'import pyspark; print(pyspark.__path__[0])')"
	@SPARK_HOME=$(CURDIR)/$(VENV)/spark SPARK_CONF_DIR=$(CURDIR)/spark/conf \
	  $(PY) spark/classes/archive.py $(VENV)/classes $(VENV)/spark/jars >$(VENV)/classes.log 2>&1 \
	  || { cat $(VENV)/classes.log; exit 1; }

.PHONY: crds
crds: env ## Generate the CRD, its reference page and its copies from the models
	@$(PY) -m eventconsumer_api.resource.crdgen | tee crds/eventconsumers.yaml > helm/eventconsumer/files/eventconsumers.yaml
	@$(PY) -m eventconsumer_api.resource.reference > docs/reference/eventconsumer.md
	@$(MAKE) -s chart

.PHONY: golden
golden: env ## Write the documents of the version that is not released yet (tests/golden)
	@$(PY) -m tests.golden

.PHONY: reference
reference: env ## Generate all reference pages from the code, and the README's figures
	@mkdir -p build
	@for each in conditions events settings properties columns json-columns cli metrics; do \
	  $(PY) -m docs.generate.$${each//-/_} > build/$$each.md && mv build/$$each.md docs/reference/$$each.md || exit 1; done
	@$(PY) -m docs.generate.figures
	@$(MAKE) -s crds

.PHONY: pictures
pictures: env ## Run the demo, and draw its terminal and its dashboard for the docs
	@./local/need prometheus prometheus
	@$(PY) -m docs.generate.pictures

.PHONY: chart
chart: env ## Generate the chart's README and the Kustomize base from the chart
	@$(PY) -m local_cluster tools >/dev/null
	@$(PY) helm/generate.py

.PHONY: lock
lock: ## Resolve requirements/*.in again, with hashes
	@for name in bootstrap processor operator spark emulator dev peer outsiders build fuzz; do \
	  $(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --custom-compile-command 'make lock' requirements/$$name.in -o requirements/$$name.txt || exit 1; done
	@cd local/azurite && npm install --package-lock-only --omit-lockfile-registry-resolved --silent

# --- the demo ------------------------------------------------------------------------------------
.PHONY: demo demo-down
demo: env ## Run the demo, from an Event Hub to files to Spark, on a local Kubernetes (CLUSTER=current: on your cluster)
	@$(PY) -m eventconsumer_demo up

demo-down: env ## Remove the demo; keep caches
	@$(PY) -m eventconsumer_demo down

.PHONY: onehost
onehost: env azurite ## Start an emulator, Azurite and a stream of events, for one host in a debugger
	@$(PY) -m tests.onehost

# --- a release -----------------------------------------------------------------------------------
.PHONY: release
release: env ## Build wheels, chart, images and their SBOMs into dist/, and sign: VERSION=1.2.0 REGISTRY=… SIGNING_KEY=…
	@$(PY) -m eventconsumer_release "$(VERSION)"

# --- documentation -------------------------------------------------------------------------------
.PHONY: docs diagrams
docs: env ## Build the documentation site in build/docs
	@$(VENV)/bin/sphinx-build -W -n --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

diagrams: ## Draw the diagrams of docs/diagrams from their text
	@./local/need dot graphviz
	@python3 docs/diagrams/draw.py

# --- checks --------------------------------------------------------------------------------------
.PHONY: lint types borders check test long test-long durations size
lint: env ## Check style
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@! git grep -n "fmt: [s]kip" -- '*.py' || { echo "Remove these comments: calls are as ruff formats them." >&2; exit 1; }

types: env ## Check types
	@$(VENV)/bin/mypy $(DISTS:%=%/src) $(DECODER)/python $(DECODER)/hatch_build.py

borders: env ## Check the import layers
	@$(VENV)/bin/lint-imports

check: peer lint types borders ## Run the fast checks, about a minute
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-check} $(VENV)/bin/pytest -n 2 -m "not slow" tests/unit

test: peer outsiders lint types borders docs azurite classes tools programs ## Run all checks except the long ones: style, types, borders, docs, all tests
	@$(VENV)/bin/pytest -n 2 tests/unit tests/docs
	@$(VENV)/bin/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -m "not long" \
	  tests/e2e tests/faults tests/integration tests/contract tests/simulation tests/attackers tests/outsiders

.PHONY: tools programs
tools: env ## Build etcd, Kubernetes and Helm for the tests
	@$(PY) -m local_cluster tools

programs: ## Install the Debian packages that tests run
	@./local/need promtool prometheus
	@./local/need tinyproxy tinyproxy-bin
	@./local/need buildah buildah
	@./local/need chromedriver chromium chromium-driver
	@./local/need iptables iptables
	@./local/need rustfmt rustfmt

# Folders of tests, by the target that makes what they need.
NEED_peer := tests/unit/host tests/contract/host tests/integration/processor
NEED_azurite := tests/contract/audit tests/contract/cli tests/contract/faults tests/contract/host tests/contract/storage tests/contract/tools \
  tests/integration/processor tests/integration/spark tests/integration/chaos tests/integration/interop tests/integration/monitoring \
  tests/faults tests/attackers tests/outsiders tests/e2e
NEED_classes := tests/contract/spark tests/integration/spark tests/integration/interop tests/attackers tests/outsiders
NEED_outsiders := tests/outsiders
NEED_tools := tests/contract/operator tests/contract/cli tests/contract/cluster tests/contract/release tests/integration/chaos \
  tests/integration/interop tests/integration/monitoring tests/attackers tests/outsiders tests/e2e
NEED_programs := tests/contract/operator/page tests/contract/release tests/contract/decoder tests/integration/processor \
  tests/integration/spark tests/integration/chaos tests/integration/monitoring tests/attackers tests/e2e
PATH_OF_T = $(firstword $(subst ::, ,$(T)))
# $(call needed,peer): "peer" if $(T) is below one of its folders, or above.
needed = $(if $(filter $(addsuffix %,$(NEED_$(1))),$(PATH_OF_T))$(filter $(PATH_OF_T)%,$(NEED_$(1))),$(1))

.PHONY: t
t: env $(if $(T),$(foreach each,peer azurite classes outsiders tools programs,$(call needed,$(each)))) ## Run one test, and first make what it needs: T=tests/unit/api/shared/test_logs.py::test_…
	@[ -n "$(T)" ] || { echo 'Name a folder, a file or a test: make t T=tests/unit/api/shared/test_logs.py' >&2; exit 2; }
	@$(VENV)/bin/pytest $(T)

long: peer outsiders azurite classes ## Run a group of long checks, and record it in tests/long.txt: G=mutants; without G, list the groups
	@$(PY) -m tests.support.rotation $(G)

test-long: peer outsiders azurite classes ## Run all long checks
	@$(PY) -m tests.support.rotation --all

durations: ## List suites and the slowest tests, of the last runs
	@$(PY) -m tests.support.durations

size: ## Count the lines of tests for one of the product
	@$(PY) -m tests.support.size

WORKERS ?= 5  # most of what they do is to wait
STEPS ?= 200000
SEED ?= 1
SECONDS ?= 300
MINUTES ?= 30
.PHONY: simulate fuzz chaos bench
simulate: env ## Simulate hosts in virtual time under every fault: STEPS=200000 SEED=1
	@$(PY) -m tests.simulation --steps $(STEPS) --seed $(SEED)

fuzz: $(VENV)/.fuzz ## Fuzz the parsers and the compiled decoder, guided by coverage: SECONDS=300
	@$(PY) -m tests.fuzz --seconds $(SECONDS)

chaos: env ## Faults of every part on the demo's cluster, and a check of every event: SEED=1 MINUTES=30 CHAOS="--only …"
	@$(PY) -m tests.chaos --seed $(SEED) --minutes $(MINUTES) $(CHAOS)

bench: env azurite classes ## Run the benchmarks on this machine
	@$(PY) -m local_cluster tools >/dev/null
	@$(PY) -m tests.bench
	@$(PY) -m tests.bench.failover
	@$(PY) -m tests.bench.operator
	@$(PY) -m tests.bench.notices
	@$(PY) -m tests.bench.spark_read
	@$(PY) -m tests.bench.spark_resident
	@$(PY) -m tests.bench.spark_kills
