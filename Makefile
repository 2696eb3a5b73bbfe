# make demo     install what is missing, build library and program, run the main job (CUDA=ON, OFF: with, without CUDA)
# make test     install what is missing, build everything, run every test
# make build    the release build alone (CUDA for sm_90a where nvcc is found)
# make docs     the documentation as a site, in build/docs/site
# make format   clang-format and ruff over what differs from the main branch
# make types    mypy over the Python package

SHELL := /bin/bash
CMAKE_FLAGS ?= $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)

.PHONY: demo test build dependencies docs format types clean
.DEFAULT_GOAL := build

dependencies:
	@scripts/install_dependencies all

build: dependencies
	cmake --preset release $(CMAKE_FLAGS) > /dev/null
	cmake --build --preset release

demo:
	@scripts/install_dependencies program
	@CUDA=$(CUDA) scripts/build_program
	@scripts/python_environment demo
	@.venv/bin/python demo/demo.py

test: build
	@scripts/run_tests

docs:
	@scripts/docs_site

format:
	@scripts/format

types:
	@scripts/python_environment tools
	@build/tools/bin/mypy --python-executable .venv/bin/python --ignore-missing-imports python/tconv

clean:
	rm -rf build
