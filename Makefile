# Everything a developer or a CI machine runs; `make help` lists it.

PYTHON ?= python3
DEMO_HTTP ?= 127.0.0.1:8080

VENV := .venv
BIN := $(VENV)/bin
# The stamps lie inside the environment, so that removing it removes them as well.
RUNTIME := $(VENV)/.stamp-runtime
TOOLS := $(VENV)/.stamp-tools
KERNELS := core/hatch_build.py $(wildcard core/src/mastaba/render/native/*.[ch])
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install install-live demo test live mutate bench bench-storage bench-memory bench-start soak docs gallery check schemas clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

install: $(TOOLS) ## make .venv with the whole workspace and the tools of its developers

demo: $(RUNTIME) ## generate a world and show it in the browser (DEMO_HTTP=127.0.0.1:8080)
	$(BIN)/mastaba demo demo-data --http $(DEMO_HTTP)

test: $(TOOLS) ## run the quick tests on all processors: no other server is needed
	$(BIN)/python -m pytest -m "not live" -n auto --dist worksteal $(ARGS)

# Without the packages the tests that need them are skipped; with CI set they fail.
live: $(TOOLS) ## run the tests against nginx, Apache, GDAL and others (Debian)
	@scripts/install-live $(BIN)/python || test -z "$$CI"
	$(BIN)/python -m pytest -m live $(ARGS)

install-live: $(TOOLS) ## install what the live tests need (Debian)
	scripts/install-live $(BIN)/python

mutate: $(TOOLS) ## change the code in small ways and count the changes that no test notices
	@$(BIN)/python -m pip install -q --group mutate
	$(BIN)/python -m scripts.mutate $(ARGS)

bench: $(TOOLS) ## measure requests per second, latency and CPU (ARGS="--help" tells more)
	$(BIN)/python -m benchmarks $(ARGS)

bench-storage: $(TOOLS) ## measure what tiles and maps of an object storage cost
	$(BIN)/python -m benchmarks.storage $(ARGS)

bench-memory: $(TOOLS) ## watch memory over thousands of different maps
	$(BIN)/python -m benchmarks.leak $(ARGS)

bench-start: $(TOOLS) ## measure the start and the first documents with many layers
	$(BIN)/python -m benchmarks.start $(ARGS)

soak: $(TOOLS) ## reload, kill and hammer a server for a while; watch its memory
	$(BIN)/python -m benchmarks.soak $(ARGS)

docs: $(TOOLS) ## build the documentation site into build/docs/html
	$(BIN)/python -m scripts.docs_site $(ARGS)

gallery: $(TOOLS) ## draw the pictures of docs/gallery.md anew
	$(BIN)/python scripts/contact-sheet

check: $(TOOLS) ## lint, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

schemas: $(RUNTIME) ## write config/*.schema.json anew
	@mkdir -p config
	@set -e; for name in $$($(BIN)/python -c \
	  "from mastaba.config.schema import SCHEMA_NAMES; print(*SCHEMA_NAMES)"); do \
	  $(BIN)/mastaba schema $$name > config/$$name.schema.json.new; \
	  mv config/$$name.schema.json.new config/$$name.schema.json; \
	  echo config/$$name.schema.json; \
	done

clean: ## remove everything that the other targets made, .venv and the demo included
	rm -rf $(VENV) .run build dist demo-data .mypy_cache .ruff_cache .pytest_cache
	find core plugins tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The core brings its compiler into a build environment of its own. The plugins share one build
# backend, since an environment for each takes most of the time.
$(RUNTIME): core/pyproject.toml $(KERNELS) $(PLUGINS:%=%/pyproject.toml)
	@PYTHON="$(PYTHON)" scripts/make-venv $(VENV)
	@echo "Installing the workspace into $(VENV)"
	@$(BIN)/python -m pip install -q "hatchling>=1.25" editables
	@$(BIN)/python -m pip install -q -e ./core
	@$(BIN)/python -m pip install -q --no-build-isolation $(PLUGINS:%=-e ./%)
	@touch $@

$(TOOLS): $(RUNTIME) pyproject.toml
	@echo "Installing the developers' tools into $(VENV)"
	@$(BIN)/python -m pip install -q --group dev
	@touch $@
