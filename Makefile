# `make demo` and `make test` do all the set-up on a fresh machine: Python 3.11 or newer and make are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# of pytest: as many as there are cores, but at most 8; each uses one thread
PROCESSES ?= auto --maxprocesses 8
# of packages: those of constraints.txt, or by `make test VERSIONS=newest` those of today, or by
# `VERSIONS=oldest` the least that pyproject.toml allows, which only uv can find. What is installed
# already stays: give each a VENV of its own.
VERSIONS ?= tested
TORCH_tested := $(shell grep '^torch==' constraints.txt)
TORCH_newest := torch
TORCH_oldest := $(shell sed -n 's/^ *"torch>=\(.*\)",/torch==\1/p' pyproject.toml)
PINS := $(if $(filter tested,$(VERSIONS)),constraints.txt,/dev/null)
FLAGS_oldest := --resolution lowest-direct
# The torch that is installed stays, whichever it is, and torchvision follows it. uv needs seconds
# where pip needs minutes; where there is no uv, or it fails, pip does the same.
INSTALL := { grep -v '^torch' $(PINS); $(BIN)/pip list --format=freeze | grep '^torch=='; } \
	> $(VENV)/constraints.txt; \
	sh -c '$(BIN)/uv pip install --python $(BIN)/python "$$@" || $(BIN)/pip install "$$@"' install \
	--quiet -c $(VENV)/constraints.txt $(FLAGS_$(VERSIONS))
# `make demo CPU=1` takes the CPU build of PyTorch, which needs no gigabytes of CUDA libraries
CPU ?=
CPU_BUILDS := https://download.pytorch.org/whl/cpu
# `make test COVERAGE=1` also demands that 90 % of the lines ran, and takes a third longer
COVERAGE ?=

# the commit that `make yardstick` compares times with
BASE := 20229a6

# an older CPU: other kernels of PyTorch, oneDNN, OpenBLAS and MKL, other last bits of random floats
OTHER_CPU := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell \
	MKL_CBWR=COMPATIBLE

.PHONY: demo test test-cpus test-extras test-faults yardstick check docs clean FORCE

demo: $(VENV)/.installed
	$(BIN)/smoothcert try
	PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

# types and formatting are those of the tested versions
test: $(if $(filter tested,$(VERSIONS)),check,$(VENV)/.installed)
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --ignore tests/extras -m "not long" \
		$(if $(COVERAGE),--cov --cov-report=term:skip-covered --cov-fail-under=90)

# what the instruction set of a CPU could decide, as on another CPU
test-cpus: $(VENV)/.installed
	$(OTHER_CPU) $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -q -m "not long" \
		tests/attacks tests/certification tests/kernels tests/methods tests/models tests/noise \
		tests/statistics

# what needs heavy packages (transformers, timm, datasets, diffusers, ray), an S3 server of a package (moto), or takes long
test-extras: $(VENV)/.installed
	$(INSTALL) -e ".[dev,hf,timm,diffusers,remote,ray]" "moto[server]"
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --ignore tests/extras/ray tests/extras
	$(BIN)/python -m pytest tests/extras/ray # alone, since they start many processes
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m long tests

# kills, fills disks, turns folders read-only and damages files, and tells what came of it
test-faults: $(VENV)/.installed
	$(INSTALL) -e ".[dev,ray]"
	FAULTS_LOG=results/faults.log $(BIN)/python -m pytest tests/faults

# what is answered otherwise than benchmarks/yardstick.json says, and how long it takes beside BASE
yardstick: $(VENV)/.installed .yardstick/.venv/.installed
	$(BIN)/python benchmarks/yardstick.py

.yardstick/.venv/.installed:
	-git worktree add --force --detach .yardstick $(BASE) && \
		$(MAKE) -C .yardstick VENV=.venv PYTHON=$(abspath $(BIN)/python) .venv/.installed

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# every option of every command
docs/commands.md: $(VENV)/.installed FORCE
	$(BIN)/python -c "from smoothcert.cli.frame import reference; print(reference(), end='')" >$@

FORCE:

docs: $(VENV)/.installed
	$(INSTALL) -e ".[docs]"
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

# torch goes first and alone, so that no other package can pull another build of it; one that is
# there stays
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip show --quiet torch 2>/dev/null || \
		$(BIN)/pip install --quiet $(TORCH_$(VERSIONS)) $(if $(CPU),--extra-index-url $(CPU_BUILDS))
	$(BIN)/pip install --quiet uv || true
	$(INSTALL) -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) smoothcert-try smoothcert-demo docs/_build .coverage* .pytest_cache .mypy_cache .ruff_cache
