# Everything starts here; `make help` lists it. `make demo` and `make test` set up what is missing by themselves.

PYTHON ?= python3
VENV := .venv
WORKERS ?= 5
STAMP := $(VENV)/.set-up
CLASSES := build/spark-classes.jsa
IN := ./scripts/in-environment

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 15

demo: $(STAMP) ## load the flights of 2013, run the topology on Spark, show the table
	@$(IN) python topologies/flight_data.py
	@$(IN) spark-submit --driver-memory 2g --driver-java-options "-Dlog4j2.configurationFile=conf/log4j2.properties" --properties-file conf/spark-defaults.conf topologies/flight_delays.py --drain
	@$(IN) streamkit consume daily_delays --max 20
	@printf '%s\n' '' 'Where to look next:' \
	    '  . .venv/bin/activate' \
	    '  streamkit topics list' \
	    '  streamkit apps describe flight-delays' \
	    '  streamkit store get flight-delays daily_delays JFK "JetBlue Airways" --window 2013-07-01' \
	    '  topologies/flight_delays.py, notebooks/01_first_topology.ipynb, ARCHITECTURE.md'

demo-cdc: $(STAMP) ## PostgreSQL to Delta Lake and Kafka by a topology that is killed twice; the sums are compared
	@$(IN) python scripts/demo_cdc.py

test: $(STAMP) $(CLASSES) ## run the whole test suite, or TESTS="paths"; build/durations.txt keeps how long each test took
	@$(IN) python -m pytest -n $(WORKERS) --durations=25 --durations-min=1 $(TESTS)

test-busy: $(STAMP) ## run what depends on time twenty times beside six busy loops (hours), or TESTS="paths"
	@$(IN) python -m tests.harness.busy $(TESTS)

bench: $(STAMP) ## measure, print the table, write build/bench.json
	@$(IN) python -m tests.bench

torture: $(STAMP) ## break log and engine in every way at full count (hours), or HARNESSES="names"; build/torture.txt says what was tried
	@$(IN) python -m tests.harness.torture --workers $(WORKERS) $(HARNESSES)
	@test -n "$(HARNESSES)" || $(IN) python tests/harness/crash/torture.py
	@test -n "$(HARNESSES)" || $(IN) python -m tests.bench.endurance --engine spark

lint: $(STAMP) ## ruff: rules and format
	@$(IN) ruff check .
	@$(IN) ruff format --check .

format: $(STAMP) ## let ruff fix what it can
	@$(IN) ruff check --fix .
	@$(IN) ruff format .

type: $(STAMP) ## mypy, strict
	@$(IN) mypy

docs: $(STAMP) ## build/site: the site for users, a folder for any web server; a link that leads nowhere is an error
	@$(IN) python -m scripts.site.build

reference: $(STAMP) ## docs/reference: its pages of verbs, functions, settings, commands, errors and HTTP, from the code
	@$(IN) python -m scripts.site.reference.write

build: $(STAMP) ## dist/: the wheel, and streamkit.zip for spark-submit --py-files
	@rm -rf build/lib build/bdist.* dist
	@$(IN) python -m build --wheel --no-isolation --outdir dist
	@cp dist/pyspark_streamkit-*.whl dist/streamkit.zip
	@ls -l dist

set-up: $(STAMP) ## the environment alone, in .venv

# The stamp is newer than what it was made from, so a second call does nothing.
$(STAMP): pyproject.toml requirements/pinned.txt
	@./scripts/set-up "$(PYTHON)" $(VENV)
	@touch $@

# Classes that the JVMs of tests need not load and check one by one.
$(CLASSES): $(STAMP)
	@echo 'Making $@, once'
	-@$(IN) python -m tests.kit.spark.class_archive $@ >/dev/null 2>&1

clean: ## remove what can be made again; keeps .streamkit, the log
	rm -rf $(VENV) build dist pyspark_streamkit.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help demo demo-cdc test test-busy bench torture lint format type docs reference build set-up clean
