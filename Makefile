# Farline's commands for people. `make test` and `make demo` do all set-up on a fresh Debian machine with Rust.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: help test lab demo demo-calendar bench soak install clean setup-test setup-demo setup-guest dist release

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

test: ## Install what is missing, check the house, build, and run all tests (budget: 25 minutes from a cold clone)
	@# What xtask itself needs; its first phase installs the rest.
	@command -v $(CARGO) cc >/dev/null || lab/setup test
	@$(CARGO) xtask ci

lab: setup-guest ## Test congestion controls next to Linux's modules, and RDMA over RoCE and iWARP, in guests (50 minutes, the first time 65)
	@$(CARGO) xtask guest lib guest interface rdma verbs
	@GUEST_KIND=uml GUEST_RDMA=rxe $(CARGO) xtask guest rdma verbs
	@GUEST_KIND=uml GUEST_RDMA=siw $(CARGO) xtask guest rdma verbs
	@GUEST_KIND=uml GUEST_RDMA=siw $(CARGO) xtask guest lib -- channels::rdma
	@$(CARGO) build --locked --quiet -p farline-lab --bin farline-congestion
	@lab/guest -v -t 3600 target/debug/farline-congestion modules
	@if [ "$$(id -u)" = 0 ]; then for part in loss pattern; do target/debug/farline-congestion measure --quick --only $$part; done; \
	else echo "SKIPPED: only root can load a congestion control, to hold it against theory"; fi

demo: setup-demo release ## Copy a real file tree across an emulated 8,600-mile path; writes demo.html (3 minutes after the build)
	@target/release/farline-demo

demo-calendar: setup-demo release ## Book channels in an emulated network and copy into one; writes demo-calendar.html (1 minute after the build)
	@target/release/farline-demo calendar

bench: setup-test ## Measure the link and the mover on this machine (nothing else should be running)
	@for bench in link mover causes tuner; do $(CARGO) xtask bench $$bench; done

soak: setup-test ## Kill a thousand copies at random instants, and print what that cost (20 minutes)
	@$(CARGO) build --locked --quiet -p farline-cli
	@FARLINE_SOAK_KILLS=1000 $(CARGO) test --locked --quiet -p farline-lab --test it -- soak:: --nocapture

install: dist ## Install the command, its man pages and its completions below PREFIX (default: /usr/local; 10 minutes)
	@lab/install-stripped target/dist/farline "$(DESTDIR)$(PREFIX)/bin"
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1"
	target/dist/farline man --out "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d" \
	  "$(DESTDIR)$(PREFIX)/share/zsh/site-functions"
	target/dist/farline completions bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/farline"
	target/dist/farline completions fish > "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/farline.fish"
	target/dist/farline completions zsh > "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_farline"

clean: ## Remove what was built, and the demo's results
	$(CARGO) clean
	rm -f demo.html demo.json demo-calendar.html demo-calendar.json

setup-test:
	@lab/setup test

setup-guest:
	@lab/setup guest

setup-demo:
	@lab/setup demo

# As small as it gets; next to release, which takes half as long to build.
dist:
	@$(CARGO) build --locked --profile dist -p farline-cli

release:
	@$(CARGO) build --locked --release -p farline-cli -p farline-lab --bins
