# Everything a newcomer needs: `make demo`, `make test`. Each sets up .venv by itself.
PYTHON ?= python3
EXTRAS ?= agent-auth,agent-push,analyzer,dev
VENV   ?= .venv
TESTS  ?=
BIN    := $(VENV)/bin

# What `make bench` measures. The other scripts beside them record, fit or draw.
MEASURED := cold_start agent.cost agent.scrapers \
	detector.comparison detector.calibrate detector.streaming detector.sensitivity detector.cycles detector.jobs \
	regressor.accuracy regressor.calibration regressor.end_to_end regressor.epoch_interval regressor.energy regressor.speed \
	regressor.paper regressor.regret regressor.first_line regressor.scaling regressor.order regressor.recorded_session \
	distributed.all_reduce \
	convmeter.steps convmeter.blocks convmeter.batches convmeter.one_network convmeter.scaling convmeter.intervals convmeter.well_known \
	occupancy.kineto occupancy.measured_packing occupancy.peak_memory \
	service.watching service.predictions_per_second \
	service.nodes_at_scale service.page_sizes fleet.throughput fleet.true_jobs
# Those that trace models need torch: make bench EXTRAS=analyzer,torch,dev
ifneq (,$(findstring torch,$(EXTRAS)))
MEASURED += distributed.runs distributed.held_out distributed.precision_blindness distributed.operators distributed.cpu_iterations \
	distributed.op_bench_iterations distributed.operators_left_out regressor.paleo
endif
ifneq (,$(findstring convnets,$(EXTRAS)))
MEASURED += convmeter.memory
endif
ifneq (,$(findstring occupancy,$(EXTRAS)))
MEASURED += occupancy.modelled occupancy.measured model_speed
endif

# The tests' asserts are rewritten once, and not in every run by every worker.
unexport PYTHONDONTWRITEBYTECODE

# What reproduces the four papers' tables and figures (docs/accuracy.md, "Paper by paper"); those of DNN-occu's networks and of
# precision need torch: make papers EXTRAS=agent-auth,agent-push,analyzer,torch,convnets,onnx,occupancy,dev
PAPERS := detector.comparison detector.sensitivity regressor.paper convmeter.steps convmeter.blocks convmeter.scaling convmeter.batches \
	convmeter.one_network occupancy.kineto occupancy.measured_packing
ifneq (,$(findstring torch,$(EXTRAS)))
PAPERS += regressor.paleo distributed.runs distributed.precision_blindness occupancy.measured
endif

.PHONY: help demo test frozen lint bench papers soak release clean debian docs tutorial

help:
	@echo "make demo   the whole path on this machine, no GPU needed (report in epochcast-demo/)"
	@echo "make test   the test suite (EXTRAS=agent-auth,agent-push,analyzer,torch,convnets,onnx,occupancy,dev adds the tests that need torch)"
	@echo "make frozen  every frozen figure made again and compared (20 minutes; with EXTRAS as for the tests that need torch)"
	@echo "make lint   ruff and mypy"
	@echo "make docs   the documentation site (site/index.html)"
	@echo "make bench  the measurements behind every figure in docs/"
	@echo "make papers  those of them that reproduce the four papers"
	@echo "make soak   long fault-injection runs"
	@echo "make tutorial  docs/tutorial.md, followed to the letter on a fresh clone"
	@echo "make release  wheel and source distribution of the last commit in dist/, tried as a user would (docs/how-to/release.md)"

# One stamp for each set of extras, so that `make demo` does not install what only the tests need.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed-analyzer
	$(BIN)/epochcast demo --out epochcast-demo

# Tests of one file share what they make: a worker takes whole files, in their order, so that no long file is left for the end.
test: $(VENV)/.installed-$(EXTRAS) debian
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(TESTS)

# WRITE=--write keeps the figures that moved; ONLY="predictions detections" makes these alone.
frozen: $(VENV)/.installed-$(EXTRAS) debian
	$(BIN)/python -m tests.frozen.compare $(WRITE) $(ONLY)

lint: $(VENV)/.installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

papers: MEASURED := $(PAPERS)
papers: bench

bench: $(VENV)/.installed-$(EXTRAS)
	@for script in $(MEASURED); do echo "== $$script"; $(BIN)/python -m lab.speed.$$script || exit 1; done

# The reference is written from the code first; the site is in site/, to be opened as it lies.
docs: $(VENV)/.installed-$(EXTRAS)
	$(BIN)/python docs/generate
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

soak: $(VENV)/.installed-$(EXTRAS) debian
	$(BIN)/python -m pytest -m soak

# Needs the packages' registry, as it makes environments of its own; the suite takes most of its time: SUITE=no leaves it out.
release: debian
	PYTHON=$(PYTHON) .ci/release

tutorial: $(VENV)/.installed-$(EXTRAS)
	$(BIN)/python -m pytest -m soak tests/docs/test_tutorial.py

# Debian's Prometheus and Chromium, where we may install them; without them the tests that need them skip and say so.
debian:
	@for program in prometheus chromium; do \
		if ! command -v $$program >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
			(apt-get install -y -qq --no-install-recommends $$program || (apt-get update -qq && \
			apt-get install -y -qq --no-install-recommends $$program)) >/dev/null 2>&1 \
			|| echo "make: $$program could not be installed; the tests that need it will skip"; fi; done

clean:
	rm -rf $(VENV) build dist site epochcast-demo
