# Needs make and Python 3.11 or newer. Everything else is installed into .venv.
#
#   make demo         install, train a model on a real corpus and write demo/report.html
#   make test         install, then run the linters and the tests that take a few minutes
#   make test-all     install, then run the linters and all tests, as .ci/run does
#   make lint         formatting, types, import rules and the code style of tests/rules/style.py
#   make format       let ruff rewrite what it can
#   make docs         install, then build the documentation site in docs/_build/html; its code and commands are executed
#   make audit        look for known vulnerabilities of all packages in .venv (needs the network)
#   make coverage     run all tests and print which lines they do not run (slow)
#   make ptx          execute all CUDA kernels on the CPU for all generations of GPUs, in two orders of threads (slow)
#   make image        run the steps of the Dockerfile in a root folder, as root: minutes, and a gigabyte in the temporary folder
#   make simulate     simulate faults in thousands of interleavings; SEED=... COUNT=1 replays one of them
#   make stateful     run the tests of stores, owners, nights and models with EXAMPLES=100 times as many examples
#   make same-bits    train small models of all kinds by the commit BASE=... and by the sources, and compare their bytes (CASES=lda,nmf)
#   make fuzz         read changed files for SECONDS=60 and keep those that are neither read nor refused
#   make bench-quick  run every benchmark once on tiny input
#   make papers       measure every figure and table of the papers (DATA=folder of the corpora), on a quiet machine: about 25 minutes
#   make release      build and check the files of a release from the last commit, and print what to upload
#   make gpu          on a machine with a CUDA device: run the CUDA tests on it, then the benchmarks (GPU=cuda13 for CUDA 13)

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
GPU ?= cuda12
EXAMPLES ?= 100
# The tests that `make test` runs: fast, or all.
RING ?= fast
TESTS_OF_RING = $(if $(filter all,$(RING)),,-m 'not slow')
VENV := .venv
BIN := $(VENV)/bin
# Without compiling all modules of all packages, which takes half of the time: Python compiles those that it imports.
PIP = @echo "installing into $(VENV): half a minute, and more on a slow network"; \
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile
BENCHMARKS := $(sort $(patsubst benchmarks/%/__main__.py,benchmarks.%,$(wildcard benchmarks/*/__main__.py))) \
	benchmarks.word2vec.quality benchmarks.node2vec.links
FOLDERS := configs io kernels pipeline
# The tests start hundreds of processes. Without this, each of them would compile what it imports, where an image sets it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs audit test test-all kernels lint mypy imports style format coverage simulate image same-bits fuzz stateful bench-quick \
	papers ptx release gpu

demo: $(VENV)/.installed-demo
	$(BIN)/corpusmill run configs/quickstart.yaml

# Three processes, because some tests wait. The tests of a file run in one process and share its fixtures. The files run in
# the order of tests/conftest.py: longest first.
# Before that, types are checked on one core while kernels are compiled.
test: $(VENV)/.installed-test
	$(MAKE) --jobs 2 lint kernels
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(TESTS_OF_RING)

test-all:
	$(MAKE) test RING=all

# Otherwise, each process of the tests would compile the kernels of all models that it finds missing.
kernels: kernels/__pycache__/.compiled

kernels/__pycache__/.compiled: $(VENV)/.installed-test $(shell find kernels -name '*.py')
	$(BIN)/python -c 'from corpusmill.pipeline.commands.actions.tiny_models import compile_kernels; print(compile_kernels())'
	@mkdir -p $(@D) && touch $@

lint: $(VENV)/.installed-test mypy imports style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

style: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m rules.style

imports: $(VENV)/.installed-test $(VENV)/typing/corpusmill/__init__.py
	PYTHONPATH=$(VENV)/typing $(BIN)/lint-imports --no-cache

mypy: $(VENV)/.installed-test $(VENV)/typing/corpusmill/__init__.py
	cd $(VENV)/typing && ../bin/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p corpusmill

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Warnings are errors, such as a cell that fails or a link to a page that does not exist.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx --fail-on-warning --quiet --jobs 2 --builder html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# In an environment of its own, so that pip-audit's dependencies are not audited as ours.
audit: $(VENV)/.installed-test
	@test -x $(VENV)/audit/bin/pip-audit || { $(BIN)/python -m venv $(VENV)/audit && \
		$(VENV)/audit/bin/python -m pip install --disable-pip-version-check --quiet pip-audit; }
	$(VENV)/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# Compiled code is invisible to coverage, so the first run trains every model without numba's compiler. The second run has
# an empty cache, so that it runs the code that generates vector instructions.
coverage: $(VENV)/.installed-test
	$(BIN)/python -m coverage erase
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -W ignore tests/pipeline/models/test_recorded_models.py
	cache=$$(mktemp -d) && NUMBA_CACHE_DIR=$$cache $(BIN)/python -m coverage run -m pytest --timeout 1200 \
		--numprocesses 3 --dist loadfile --no-loadscope-reorder; status=$$?; rm -rf $$cache; exit $$status
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered

simulate: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m simulation $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(SCENARIO),--scenario $(SCENARIO))

ptx: $(VENV)/.installed-test
	CORPUSMILL_PTX_EVERYTHING=1 $(BIN)/python -m pytest tests/kernels/cuda tests/ptx

image: $(VENV)/.installed-test
	CORPUSMILL_IMAGE=1 $(BIN)/python -m pytest tests/rules/test_pages_of_clusters.py -k image

stateful: $(VENV)/.installed-test
	CORPUSMILL_STATEFUL_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/stateful --timeout 7200

same-bits: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m recorded --base $(BASE) $(if $(CASES),--cases $(CASES))

fuzz: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m fuzz $(if $(SECONDS),--seconds $(SECONDS))

bench-quick: $(VENV)/.installed-benchmark
	@set -e; for module in $(BENCHMARKS); do echo "== $$module"; $(BIN)/python -m $$module --quick; done

papers: $(VENV)/.installed-benchmark
	$(BIN)/python -m benchmarks.papers --all $(if $(DATA),--data $(DATA))

# In an environment of its own: what is checked is installed into another one, which has nothing else.
release: | $(BIN)/python
	@test -x $(VENV)/release/bin/twine || { $(BIN)/python -m venv $(VENV)/release && \
		$(VENV)/release/bin/python -m pip install --disable-pip-version-check --quiet \
			build 'setuptools>=77' twine check-wheel-contents cyclonedx-bom py-rattler-build; }
	$(VENV)/release/bin/python .ci/release

gpu: $(VENV)/.installed-$(GPU)
	@$(BIN)/python -c 'import sys; from numba import cuda; cuda.is_available() or sys.exit("make: numba finds no CUDA device, see numba -s")'
	CORPUSMILL_NO_SKIPS=1 $(BIN)/python -m pytest tests/kernels/cuda
	$(BIN)/python -m benchmarks.gpu --json benchmarks/results/gpu.json all
	$(BIN)/python -m benchmarks.papers --gpu

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed, and none was found"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -f $(BIN)/python; exit 1; }

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dashboard]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test,lint,dashboard,metrics]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	$(PIP) --no-deps bertopic==0.17.4
	@touch $@

$(VENV)/.installed-benchmark: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test,benchmark]'
	@touch $@

$(VENV)/.installed-$(GPU): pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test,$(GPU)]'
	@touch $@

# mypy and lint-imports read a folder in which the packages lie below corpusmill. At the root, mypy would take io/ for
# the standard library's io.
$(VENV)/typing/corpusmill/__init__.py: | $(BIN)/python
	@mkdir -p $(@D)
	@for folder in $(FOLDERS); do ln -sfn ../../../$$folder $(@D)/$$folder; done
	@ln -sfn ../../../pipeline/package/__main__.py $(@D)/__main__.py
	@ln -sfn ../../../pipeline/package/__init__.py $@
