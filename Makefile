# make demo   install what is missing, build, run the main job
# make test   the same, and every test
# make build  the release build alone (CUDA for sm_90a where nvcc is found)

SHELL := /bin/bash
CMAKE_FLAGS ?= $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)

.PHONY: demo test build dependencies clean
.DEFAULT_GOAL := build

dependencies:
	@scripts/install_dependencies

build: dependencies
	cmake --preset release $(CMAKE_FLAGS) > /dev/null
	cmake --build --preset release

demo: build
	@scripts/python_environment demo
	@.venv/bin/python demo/demo.py

test: build
	@scripts/run_tests

clean:
	rm -rf build
