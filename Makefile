# make demo   run a cascade of two small models here, no GPU, and measure it against its plan
# make test   all checks and unit tests
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.installed-cpu
STAMP  := $(VENV)/.installed
LONG   := $(VENV)/.installed-long
PIP     = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

# Images of Python for containers set it. Tests start hundreds of processes, each of which would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-plan test test-quick check compiled kernels rewritten coverage test-e2e test-k8s bench docs site clean

# What plans and runs; kernels are compiled with it while the rest is being installed. Not compiled itself: three quarters of
# it are never imported, and the rest is compiled where it first is.
$(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Cascadia needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@-$(PIP) 'pip>=26,<27'  # takes half as long for a hundred packages as the one of Python 3.11
	$(PIP) -e '.[cpu]'
	@touch $@

$(STAMP): $(RUNS)
	$(PIP) -e '.[dev]'
	@touch $@

# A quarter of the packages: notebooks and mutants, which no unit test needs.
$(LONG): $(STAMP)
	$(PIP) -e '.[dev,long]'
	@touch $@

demo: $(RUNS)
	$(BIN)/cascadia demo

demo-plan: $(RUNS)
	$(BIN)/cascadia demo --plan-only

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check

# Kernels, and tests with pytest's own assertions, for all processes that test: each would compile them for itself.
compiled: kernels rewritten

kernels: $(RUNS)
	@$(BIN)/python -m tests.kernels

rewritten: $(STAMP)
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || true  # the tests themselves say what is wrong

# Where as many processes test as there are cores, threads for linear algebra wait for each other at full speed.
test: export OMP_NUM_THREADS := 1
# A test that fails is run once more, and is named where it passes then: that is a fault of the test, to be mended.
test: $(RUNS)
	@$(MAKE) --no-print-directory -j3 compiled check
	$(BIN)/python -m pytest -n auto --dist worksteal --reruns 1 -rR

# Less what is marked slow; says the CPU seconds of each package, which are to be ten at most.
test-quick: $(STAMP)
	$(BIN)/python -m pytest -p no:xdist -p tests.cpu_seconds -m 'not slow'

# Lines and branches of the packages that import no other, by their own unit tests; the floor is pyproject.toml's.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n auto --cov --cov-report=term tests/unit/dispatch tests/unit/domain tests/unit/traces

# With what is marked long, which CI leaves out.
test-e2e: $(LONG) coverage
	$(BIN)/python -m pytest -n auto --dist worksteal -m long
	$(BIN)/python -m pytest tests/e2e

# A real API server with simulated nodes; CASCADIA_K8S_BIN names the folder of its programs, which are built where they are
# not there (Debian; five minutes, once).
test-k8s: export CASCADIA_K8S_BIN ?= $(HOME)/.cache/cascadia/control-plane
test-k8s: $(STAMP)
	@test -x $(CASCADIA_K8S_BIN)/kube-scheduler || tests/e2e/build_control_plane.sh $(CASCADIA_K8S_BIN)
	$(BIN)/python -m pytest tests/e2e/test_helm_install.py tests/e2e/test_kubernetes_moves.py \
	  tests/e2e/test_kubernetes_controller.py tests/e2e/test_kubernetes_traffic.py tests/e2e/test_kubernetes_adapt.py \
	  tests/e2e/test_kubernetes_nodes.py tests/e2e/test_kubernetes_upgrade.py tests/e2e/test_kubernetes_drain.py

bench: $(LONG)
	$(BIN)/python -m tests.benchmarks

docs: $(STAMP)
	$(BIN)/python docs/generate.py

# The documentation as pages with search, in site/; nothing is fetched.
site: export NO_MKDOCS_2_WARNING = 1
site: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) demo-plan demo-run site .mypy_cache .pytest_cache .ruff_cache .hypothesis
