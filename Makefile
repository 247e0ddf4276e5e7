# Every target starts on a bare Debian 12 or Ubuntu 24.04: scripts/bootstrap.sh installs what is missing, and says so.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
export JOBS FUZZ_SECONDS

.PHONY: help demo test build format bench sanitize fuzz tidy clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

build:  ## the tool, in build/release/xstage
	@scripts/build.sh

demo:  ## fit, predict and audit recorded measurements; no GPU needed, and no operator is built
	@scripts/build.sh demo
	@scripts/demo.sh build/demo/xstage

test:  ## everything that CI checks
	@scripts/test.sh

sanitize:  ## host tests under the address and undefined-behaviour sanitizers
	@scripts/sanitize.sh

fuzz:  ## fuzz both parsers for FUZZ_SECONDS each
	@scripts/fuzz.sh

bench:  ## nanoseconds of one evaluation of the model
	@scripts/bench.sh

format:  ## format all sources
	@scripts/format.sh --fix

tidy:  ## clang-tidy on the host code
	@scripts/tidy.sh

clean:  ## remove build/
	rm -rf build
