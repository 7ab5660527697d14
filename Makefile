# Every command of the repository. `make` lists them.
.PHONY: help setup demo test test-rdma test-nccl test-gpu test-kubernetes packages test-packages fresh fuzz loom miri skew soak bench measure lint doc fmt
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

setup: ## install what is missing (root), or say what to install
	@scripts/setup.sh test

demo: ## let real jobs take turns in a lab (root), or in virtual time, and show the gain
	@scripts/setup.sh
	@scripts/demo.sh $(ARGS)

test: setup ## run every test
	@scripts/test.sh

test-rdma: ## run RDMA writers by turns in a virtual machine with Soft-RoCE
	@scripts/setup.sh rdma
	@scripts/test-rdma.sh

test-nccl: ## try the libraries for NCCL with real releases, which are fetched (1.4 GB)
	@scripts/setup.sh nccl
	@scripts/test-nccl.sh $(ARGS)

test-gpu: ## try gate and plugin with PyTorch and NCCL on a GPU: streams waits costs graphs calls turns calls-held
	@scripts/test-gpu.sh $(ARGS)

test-kubernetes: ## try controller and exporter for Kubernetes with a real kube-apiserver (built of Debian 12's sources)
	@scripts/setup.sh kubernetes
	@scripts/test-kubernetes.sh

packages: ## build the wheel, Debian packages, images and the chart into out/packages
	@scripts/packages.sh $(ARGS)

test-packages: ## install and use what `make packages` built, on a fresh Debian (root)
	@scripts/setup.sh test-packages
	@scripts/test-packages.sh

fresh: ## draw new cases for the property tests and the solver's fuzzer; reports, and blocks nothing
	@scripts/fresh.sh $(ARGS)

fuzz: setup ## fuzz the decoders by what inputs cover, each for a minute
	@scripts/fuzz.sh $(ARGS)

loom: ## try every interleaving of a writer and a reader of the schedule page
	@scripts/loom.sh

miri: ## interpret unsafe code of the gate with Miri (a nightly Rust)
	@scripts/miri.sh

skew: setup ## run the programs of REV beside these, and upgrade in place (without REV: the newest release)
	@scripts/skew.sh $(REV)

soak: setup ## run service and agents under churn for MINUTES (60): memory, descriptors, waits, what is lost
	@scripts/soak.sh $(MINUTES)

bench: setup ## measure the solver and the planner
	@scripts/bench.sh

measure: setup ## count lines, functions, tests and cycles of files
	@cargo run --quiet --package antiphase-tests --example measure

lint: setup ## check format, lints, documentation and licences
	@scripts/lint.sh

doc: setup ## build the reference of the libraries in target/doc
	cargo doc --workspace --no-deps

fmt: ## format the code
	cargo fmt --all
