# The commands of this repository; each is a script of dev/, where the work is.
.PHONY: help build install demo check check-quick check-full check-kernel kernel-deb format clean distclean
PREFIX ?= /usr/local
.DEFAULT_GOAL := build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: ## build/bin/zerohop and build/lib/libzerohop.so
	@dev/setup build
	@dev/build release product

install: build ## the command, the libraries and the header under PREFIX (/usr/local); DESTDIR is respected
	@cmake --install build/cmake/release --prefix "$(PREFIX)" >build/install.log
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/zerohop"

demo: ## unmodified MPI programs without and with zerohop, side by side
	@dev/setup build
	@dev/build release demo
	@python3 dev/demo.py

check-quick: ## quick tests and lint of a release build, two minutes
	@dev/setup check
	@python3 dev/check.py quick

check: ## everything that must hold before a change goes in, half an hour on two cores
	@dev/setup check
	@python3 dev/check.py check

check-full: ## the whole matrix, both compilers, aarch64 under emulation
	@dev/setup full
	@python3 dev/check.py full

check-kernel: build ## the kernel module, and MPI by it, in virtual machines of two kernels, ten minutes
	@dev/setup kernel
	@python3 dev/kernel.py

kernel-deb: ## a package that builds the kernel module for each kernel of a machine (DKMS): build/zerohop-dkms_*.deb
	@dev/kernel_deb

format: ## rewrite C++ and Python files in the project's format
	@dev/format

clean: ## remove what was built; keep the MPI hosts
	@rm -rf build/cmake build/bin build/lib build/cache

distclean: ## remove the MPI hosts as well
	@rm -rf build
