# PYTHON is the interpreter that the environment is made with; 3.11 or newer.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: setup demo test check fix bench clean

setup: $(READY)

# Without ensurepip (Debian's python3-venv) the pip beside PYTHON installs the one of the environment.
$(READY): pyproject.toml constraints.txt
	@echo "Making the environment $(VENV): about 350 MB, a minute or two."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cpu,tts,ffmpeg]' --group test --group check
	touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet tests/test_docs.py

fix: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python docs/tables.py

bench: $(READY)
	$(BIN)/python -m bench

# Pulled models in .models are kept.
clean:
	rm -rf $(VENV) .venv-* build dist .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
