# The verbs. CMake does the work; see CMakePresets.json for the presets.
.PHONY: all cuda cuda-release quickstart test test-long coverage-kernels bench lint format docs asan tsan fuzz clean

JOBS ?= $(shell nproc)
MAKEFLAGS += --no-print-directory

all:
	@cmake --preset release >build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }; rm -f build.log
	@cmake --build build -j $(JOBS)

# The plugins for NVIDIA GPUs beside the program; `make` builds them too where nvcc is. CUDA_ARCHITECTURES="80 90": for which
# GPUs. cuda-release: for all of them, in build-cuda.
cuda:
	@cmake --preset release $(if $(CUDA_ARCHITECTURES),"-DFW_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)") >build.log 2>&1 || \
	  { cat build.log; rm -f build.log; exit 1; }; rm -f build.log
	@cmake --build build -j $(JOBS) --target finewire cuda

cuda-release:
	@cmake --preset cuda-release >/dev/null && cmake --build build-cuda -j $(JOBS) --target finewire cuda

# Everything on a fresh machine: packages, build, a real model, a fine-tune on two CPU ranks. AGAIN=1 trains anew.
quickstart:
	@tools/bootstrap --quiet
	@$(MAKE) all
	@tools/quickstart $(if $(AGAIN),--again)

test:
	@tools/bootstrap --quiet
	@$(MAKE) all
	@tools/run_tests build

test-long: test asan

asan:
	@tools/bootstrap --quiet
	@cmake --preset asan >/dev/null && cmake --build build-asan -j $(JOBS) && tools/run_tests build-asan

tsan:
	@tools/bootstrap --quiet
	@cmake --preset tsan >/dev/null && cmake --build build-tsan -j $(JOBS) && tools/run_tests build-tsan

coverage-kernels:
	@tools/bootstrap --quiet
	@tools/coverage_kernels --jobs $(JOBS)

fuzz:
	@tools/bootstrap --quiet --fuzz
	@cmake --preset fuzz >/dev/null && cmake --build build-fuzz -j $(JOBS) && tools/run_fuzzers build-fuzz

bench: all
	@cmake --build build --target bench -j $(JOBS)

lint:
	@tools/lint

format:
	@git ls-files 'src/*.c' 'src/*.h' 'tests/*.c' 'tests/*.h' 'bench/*.c' | xargs clang-format -i

docs: all
	@tools/make_docs

clean:
	rm -rf build build-*
