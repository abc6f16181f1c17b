# The commands of this repository: `make help` lists them. The builds are CMake presets (CMakePresets.json) and lie in
# build/PRESET; this file only strings them together.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PRESET ?= release
LAMINA := build/release/src/cli/lamina

.DEFAULT_GOAL := build
.PHONY: help build demo test bench format clean deps check-deps sanitize
.PHONY: check check-layout check-build check-slow check-unit check-cuda asan-build asan-test tsan-build tsan-test

help:
	@echo 'make            build Lamina in build/release'
	@echo 'make demo       build it and make a picture with the model in models/tiny-shapes'
	@echo 'make test       build and run the unit tests'
	@echo 'make check      what CI asks of every change: layout, include arrows, warnings as errors, all tests'
	@echo 'make check-cuda build the CUDA backend, and test what of it runs without a GPU (needs a CUDA 13 toolkit)'
	@echo 'make sanitize   the tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer'
	@echo 'make bench      run the benchmarks'
	@echo 'make format     lay out the sources'
	@echo 'make clean      remove build/ and out/'

build: deps
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET)

demo: deps
	cmake --preset release
	cmake --build --preset release --target src/cli/lamina
	mkdir -p out
	$(LAMINA) generate models/tiny-shapes --prompt "a red circle on a white background" \
	  --num-inference-steps 20 --enable-distributed-layerwise-offload --device-memory 13MiB --seed 11 \
	  --output out/demo.png --report out/demo.json

test: build
	ctest --preset $(PRESET)

check: check-layout check-build check-slow check-unit

check-layout: check-deps
	tools/check_format.sh
	tools/check_includes.py --self-test
	tools/check_includes.py

check-build: deps
	cmake --preset dev
	cmake --build --preset dev

check-slow: check-build
	ctest --preset dev-slow

check-unit: check-build
	ctest --preset dev

# With the flags of dev, so that what knows nothing of CUDA comes from the compiler's cache.
check-cuda: deps
	cmake --preset dev-cuda
	cmake --build --preset dev-cuda
	ctest --preset dev-cuda

sanitize: asan-test tsan-test

asan-build tsan-build: %-build: deps
	cmake --preset $*
	cmake --build --preset $*

asan-test tsan-test: %-test: %-build
	ctest --preset $*

bench: deps
	cmake --preset release
	cmake --build --preset release --target run_benchmarks

format: check-deps
	tools/check_format.sh --fix

clean:
	rm -rf build out

# Both print nothing and need no network where all packages are there.
deps:
	@tools/install-deps.sh build

check-deps:
	@tools/install-deps.sh build check
