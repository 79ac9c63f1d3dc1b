# Everything that is typed here. `make help` lists it. Needs Python 3.11 to 3.13, git, and either Pulumi or Go; gets the rest itself.
# Nothing but the asked-for output goes to stdout, so `make -s preview ARGS=--json | jq` works.

STACK ?= rehearsal
ARGS ?=

SHELL := /bin/bash

UV_VERSION := 0.13.9
# The same place as in rehearsal/toolchain/cache.py. Without HOME the shell knows it from the user's account.
HOME_DIRECTORY := $(or $(HOME),$(shell unset HOME; echo ~))
CACHE := $(patsubst ~/%,$(HOME_DIRECTORY)/%,$(or $(EFA_RAY_TRAIN_CACHE),$(or $(XDG_CACHE_HOME),$(HOME_DIRECTORY)/.cache)/efa-ray-train))
ifeq ($(filter /%,$(firstword $(CACHE))),)
$(error cache: found '$(CACHE)'; allowed: an absolute path; set EFA_RAY_TRAIN_CACHE, XDG_CACHE_HOME or HOME to one)
endif
UV_DIRECTORY := $(CACHE)/uv-$(UV_VERSION)/bin
READY := .venv/.ready
# Ray and PyTorch besides: for what runs the training job.
READY_TRAIN := .venv/.ready-train
PYTHON := .venv/bin/python
# An official Pulumi runs Python programs through uv.
export PATH := $(UV_DIRECTORY):$(PATH)

.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help: ## List these targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Make .venv from uv.lock.

.PHONY: bootstrap
bootstrap: $(READY) ## Get all programs: installed ones, or builds in the cache (once, 40 minutes on 2 cores).
	@$(PYTHON) -m rehearsal bootstrap $(ARGS)

.PHONY: preview
preview: $(READY) ## Preview STACK (rehearsal) with the policies and no AWS account; ARGS go to `pulumi preview`.
	@$(PYTHON) -m rehearsal preview --stack $(STACK) $(ARGS)

.PHONY: rehearse
rehearse: $(READY_TRAIN) ## Bring STACK up on this machine, train, and leave it for a look; SCALE=64 for 64 GPU nodes.
	@$(PYTHON) -m rehearsal up --stack $(STACK) $(if $(SCALE),--scale $(SCALE)) $(ARGS)

.PHONY: rehearse-down
rehearse-down: $(READY_TRAIN) ## Destroy what `make rehearse` left standing and prove that nothing remains.
	@$(PYTHON) -m rehearsal down --stack $(STACK) $(ARGS)

.PHONY: drills
drills: $(READY_TRAIN) ## Make faults that people met, one after the other; DRILLS="no-capacity job-fails" for some.
	@$(PYTHON) -m rehearsal drills $(DRILLS) $(ARGS)

.PHONY: check-charts
check-charts: $(READY) ## Render the real charts (network needed) and say which nodes they reach; ARGS=--stand-ins for ours.
	@$(PYTHON) -m rehearsal.check_charts $(ARGS)

.PHONY: doctor
doctor: $(READY) ## Say what a rehearsal needs and what of it is there.
	@$(PYTHON) -m rehearsal doctor $(ARGS)

.PHONY: lint
lint: $(READY_TRAIN) ## Check style, format and types.
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m pyright

.PHONY: test
test: lint bootstrap ## Run every check, test and drill, as CI does; ARGS='-m "not drill"' leaves the drills out.
	$(PYTHON) -m pytest -n auto --dist loadgroup $(ARGS)

.PHONY: clean-state
clean-state: $(READY) ## Remove the state of this checkout's rehearsals; the cache of built tools stays.
	@$(PYTHON) -m rehearsal clean $(ARGS)

# uv is one program: it is taken out of a throw-away environment, the only use of pip. Not a target of its own: a target
# cannot have a space in its path, and where .venv is up to date no uv is needed.
define GET_UV
uv="$(UV_DIRECTORY)/uv"; cache="$(CACHE)"; \
if ! test -x "$$uv"; then \
  mkdir -p "$$cache" && work=$$(mktemp -d "$$cache/.uv.XXXXXX") && trap 'rm -rf "$$work"' EXIT \
    && python3 -m venv "$$work" && "$$work/bin/python" -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) 1>&2 \
    && mkdir -p "$(UV_DIRECTORY)" && mv "$$work/bin/uv" "$$uv"; \
fi
endef

SYNC := env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT=.venv "$$uv" sync --frozen

# Written last, so an interrupted setup is done again; warm runs only compare dates.
$(READY): pyproject.toml uv.lock
	@$(GET_UV) && $(SYNC) $$(test ! -e $(READY_TRAIN) || echo --group train) 1>&2
	@touch $@

$(READY_TRAIN): $(READY)
	@# Compiled here, once: three nodes of Ray that start together would each compile the same modules.
	@$(GET_UV) && UV_COMPILE_BYTECODE=1 $(SYNC) --group train 1>&2
	@touch $@
