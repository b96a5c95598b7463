# labtui's chores.

.PHONY: help lab test test-all lint FORCE
.ONESHELL:
.SHELLFLAGS := -euc
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Set by whoever calls make; without it an existing .venv is kept as it is.
NAMED := $(if $(filter command environment,$(firstword $(origin PYTHON))),$(PYTHON))

help:
	@echo "make lab                make .venv, install labtui into it and open it"
	@echo "make lab PYTHON=PATH    the same with another Python; if that has a torch, it is used as it is"
	@echo "make test               all checks but the slow ones"
	@echo "make test-all           all checks"

lab: $(VENV)/installed
	@if [ -t 0 ] && [ -t 1 ]; then
		exec $(BIN)/labtui
	else
		exec $(BIN)/labtui run ddp_by_hand
	fi

test: lint
	$(BIN)/python -m pytest -m "not slow"

test-all: lint
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Which Python .venv was made with, and for which checkout (its scripts hold that path): remade where either changes.
$(VENV)/made-by: FORCE
	@if [ -e $(VENV) ] && [ ! -e $@ ]; then
		# Somebody made it by other means. It is used, not replaced.
		if [ -n "$(NAMED)" ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then
			echo "$(CURDIR)/$(VENV) is not make's own, and $(if $(NAMED),PYTHON= asks for another,has no pip): move it away first" >&2
			exit 1
		fi
		printf '%s\n' "somebody else" "$(CURDIR)" > $@
		exit 0
	fi
	if [ -z "$(NAMED)" ] && grep -sqxF "$(CURDIR)" $@ && $(BIN)/python -c ''; then
		exit 0
	fi
	name="name a Python 3.11 or newer, as in: make $(firstword $(MAKECMDGOALS)) PYTHON=/usr/bin/python3.11"
	if ! command -v "$(PYTHON)" >/dev/null; then
		echo "There is no $(PYTHON): $$name" >&2
		exit 1
	fi
	if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		echo "labtui needs Python 3.11, and $(PYTHON) is $$("$(PYTHON)" --version 2>&1 | head -n 1): $$name" >&2
		exit 1
	fi
	python=$$("$(PYTHON)" -c 'import sys; print(sys.executable)')
	if [ "$$("$$python" -c 'import os, sys; print(os.path.realpath(sys.prefix))')" = "$(realpath $(VENV))" ]; then
		echo "$(PYTHON) is this checkout's own $(VENV): leave PYTHON= out, or name the Python to make it with" >&2
		exit 1
	fi
	if grep -sqxF "$$python" $@ && grep -sqxF "$(CURDIR)" $@ && $(BIN)/python -c ''; then
		exit 0
	fi
	torch=
	if [ -n "$(NAMED)" ]; then
		torch=$$("$$python" -c 'import importlib.util as u, pathlib as p; s = u.find_spec("torch"); print(p.Path(s.origin).parents[1] if s else "")')
	fi
	echo "Making $(VENV) with $$python$${torch:+ and its torch, in $$torch}"
	if ! "$$python" -m venv --clear $${torch:+--system-site-packages} $(VENV); then
		rm -rf $(VENV)
		exit 1
	fi
	if [ -n "$$torch" ]; then
		# Where that Python is itself a virtual environment, its packages are not the system's.
		$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' ||
			echo "$$torch" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_another_python.pth"
		touch $(VENV)/other-torch
	fi
	printf '%s\n' "$$python" "$(CURDIR)" > $@

# What pyproject.toml asks for: $(call asked_for,the list,names to leave out)
asked_for = $(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
	print(*(line for line in project$(1) if not line.startswith("$(2)")), sep="\n")'

$(VENV)/installed: $(VENV)/made-by pyproject.toml constraints.txt
	@if [ -e $(VENV)/other-torch ]; then
		sed '/^# torch and what it brings/,$$d' constraints.txt > $(VENV)/constraints.txt
		$(call asked_for,["project"]["dependencies"],torch) > $(VENV)/requirements.txt
		$(PIP) install -c $(VENV)/constraints.txt -r $(VENV)/requirements.txt
		$(PIP) install --no-deps -e .
	else
		cp constraints.txt $(VENV)/constraints.txt
		$(PIP) install -c $(VENV)/constraints.txt -e .
	fi
	$(BIN)/python -m compileall -q labtui
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@$(call asked_for,["dependency-groups"]["dev"],-) > $(VENV)/requirements.txt
	$(PIP) install --quiet -c $(VENV)/constraints.txt -r $(VENV)/requirements.txt
	touch $@
