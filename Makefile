# Works on a fresh machine with python3 (3.10 to 3.13) and make; everything is kept in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
# Three for two cores: some tests wait for Ray, or for a process that ends, most of the time.
PYTEST_ARGS ?= -n 3 --dist loadgroup --no-loadscope-reorder

# One thread a process: the tests run several at once, each on a tiny model. They start many processes,
# which share compiled modules even where the user's environment has turned that off.
test: export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test thorough test-gpu attack determined matrix bench docs lint types format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	cd examples/digits && DET_COMPAT_PROGRESS=1 '$(CURDIR)/$(BIN)/det-compat' run train.py

test: setup
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest $(PYTEST_ARGS)

# All tests, those that say of more cases what others say of some among them; about twice as long.
thorough: export OMP_NUM_THREADS ?= 1
thorough: setup
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -m '' $(PYTEST_ARGS)

# On a machine with CUDA; tests/gpu/carry.sh takes all that it needs to one without network.
test-gpu: setup
	env OMP_NUM_THREADS=1 CUBLAS_WORKSPACE_CONFIG=:4096:8 $(BIN)/python -m pytest tests/gpu $(GPU_ARGS)

# Half an hour of kills, full disks, damaged checkpoints and configs; ATTACK_ARGS='--seed N' repeats one.
attack: setup
	env OMP_NUM_THREADS=1 $(BIN)/python -m tests.attacks $(ATTACK_ARGS)

# Determined's own tests, under the real one and under det_compat, from a checkout of its repository:
# make determined DETERMINED_SOURCE=~/determined DETERMINED_ARGS='--only core'
determined: setup
	env OMP_NUM_THREADS=1 DETERMINED_SOURCE='$(DETERMINED_SOURCE)' $(BIN)/python -m tests.determined $(DETERMINED_ARGS)

# All tests with the lowest and the newest versions that pyproject.toml allows, in environments that are
# built in MATRIX_DIR (.matrix): make matrix MATRIX_ARGS='--only lowest -- tests/core'
matrix: setup
	$(BIN)/python -m tests.matrix --page docs/compatibility.md $(or $(MATRIX_ARGS),-- $(PYTEST_ARGS))

# A quarter to half an hour on an otherwise idle machine; tables and plots also go into docs/performance.md.
bench: setup
	$(BIN)/python -m benchmarks --page docs/performance.md $(BENCH_ARGS)

# The documentation as a site, in site/; a link that leads nowhere fails it.
docs: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	env NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 $(BIN)/mkdocs build --quiet

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .matrix build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find adapters det_compat examples tests -name __pycache__ -prune -exec rm -rf {} +
