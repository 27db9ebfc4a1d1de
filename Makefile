# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
DISTS := crds operator processor_image spark local/emulator local/cluster local/demo

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- environment ---------------------------------------------------------------------------------
.PHONY: env
env: $(VENV)/.ready ## The Python environment, hash-pinned

$(VENV)/.ready: requirements/dev.txt requirements/bootstrap.txt $(DISTS:%=%/pyproject.toml)
	@./local/bootstrap $(VENV) $(DISTS)
	@touch $@
