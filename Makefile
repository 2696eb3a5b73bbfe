# make demo     install missing packages, build the library and the program, run the demo (CUDA=ON or OFF overrides)
# make test     install missing packages, build everything, run every test
#
# Daily work (PRESET=cpu leaves CUDA out; the default is release, with CUDA for sm_90a if nvcc is found):
# make build                            the build alone
# make one-test TEST=cli.docs           the tests whose names match a regular expression
# make kernel-test KERNEL=cpu.dense     one kernel against float64, on random problems of all kinds of data
# make python-test TEST=patch           the Python tests whose names match
# make bench PROBLEM="n1 ci64 co32 l1000 k16 s8 p4 f32"    (DEVICE=cuda for a GPU)
# make format                           clang-format and ruff on what differs from the main branch
# make types                            mypy on the Python package
# make lint                             ruff on the Python sources
# make docs                             the documentation as a site, in build/docs/site
# make tables                           the tables of README.md and docs from benchmarks/results
# make clean

SHELL := /bin/bash
PRESET ?= release
BUILD ?= build/$(PRESET)
DEVICE ?= cpu
COUNT ?= 2000
launchers := -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache
CMAKE_FLAGS ?= $(if $(shell command -v ccache),$(launchers))
program = $(BUILD)/tconv
check = $(program) check --device $(DEVICE) --kernel $(KERNEL) --where-supported --random $(COUNT)

.PHONY: demo test build program dependencies one-test kernel-test python-test bench docs tables format types lint clean
.DEFAULT_GOAL := build

dependencies:
	@scripts/install_dependencies all

build: dependencies
	cmake --preset $(PRESET) $(CMAKE_FLAGS) > /dev/null
	cmake --build $(BUILD)

program:
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET) $(CMAKE_FLAGS) > /dev/null
	@cmake --build $(BUILD) --target tconv_cli

demo:
	@scripts/install_dependencies program
	@CUDA=$(CUDA) scripts/build_program
	@scripts/python_environment demo
	@.venv/bin/python demo/demo.py

test:
	@$(MAKE) --no-print-directory build PRESET=release BUILD=build/release
	@scripts/run_tests

one-test:
	@[ -n "$(TEST)" ] || { echo 'make one-test needs a name: make one-test TEST=cli.docs' >&2; exit 2; }
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET) $(CMAKE_FLAGS) > /dev/null
	@cmake --build $(BUILD)
	@ctest --test-dir $(BUILD) -R '$(TEST)' --output-on-failure --no-tests=error

kernel-test: program
	@[ -n "$(KERNEL)" ] || { echo 'make kernel-test needs a kernel: make kernel-test KERNEL=cpu.dense' >&2; exit 2; }
	$(check)
	$(check) --data special

python-test:
	@scripts/python_environment test
	@PRESET=$(PRESET) scripts/python_tests $(if $(TEST),-k '$(TEST)')

bench: program
	@[ -n "$(PROBLEM)" ] || { echo 'make bench needs a problem: make bench PROBLEM="n1 ci64 co32 l1000 k16 s8 f32"' >&2; exit 2; }
	@$(program) bench --device $(DEVICE) "$(PROBLEM)"

docs:
	@scripts/docs_site

tables:
	@python3 benchmarks/compare/readme_table.py

format:
	@scripts/format

types:
	@scripts/python_environment tools
	@build/tools/bin/mypy --python-executable .venv/bin/python python/tconv

lint:
	@scripts/python_environment tools
	@build/tools/bin/ruff check python tests/python examples

clean:
	rm -rf build
