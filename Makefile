# Targets for developers and CI machines; `make help` lists them.

PYTHON ?= python3
DEMO_HTTP ?= 127.0.0.1:8080

VENV := .venv
BIN := $(VENV)/bin
# The stamps are inside the environment, so removing it also removes them.
RUNTIME := $(VENV)/.stamp-runtime
TOOLS := $(VENV)/.stamp-tools
KERNELS := libs/render/hatch_build.py $(wildcard libs/render/src/mastaba_render/native/*.[ch])
PAGES := plugins/viewer/hatch_build.py $(wildcard plugins/viewer/web/*.* plugins/viewer/web/src/*.* \
	plugins/viewer/web/src/*/*.* plugins/viewer/src/mastaba_viewer/texts/*.json)
# Folders of tests that pass mypy --strict.
TYPED_TESTS := $(addprefix tests/,demo index_store server storage_ceph support writer)
LIBS := $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml))
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install tools install-live demo test slow-tests thorough live isolation mutate bench bench-coverages bench-storage bench-index bench-memory bench-start bench-build bench-export bench-nodes soak docs gallery dist check schemas surface clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

install: $(RUNTIME) ## create .venv with the whole workspace

tools: $(TOOLS) ## also install the developer tools; the targets that need them do it themselves

demo: $(RUNTIME) ## generate a world and serve it (DEMO_HTTP=127.0.0.1:8080)
	$(BIN)/mastaba demo demo-data --archives --http $(DEMO_HTTP)

# Some machines do not store compiled modules. The tests start many interpreters, and each of them
# would compile all sources. In an installation, pip has compiled them.
test slow-tests thorough live isolation bench-start: export PYTHONDONTWRITEBYTECODE :=

# All tests in these folders are live, and importing them takes a fifth of the collection.
WITHOUT_LIVE := --ignore=tests/live --ignore=tests/live_storage

test: $(TOOLS) ## run the quick tests on all processors; they need no other server
	$(BIN)/python -m pytest -m "not live and not thorough" $(WITHOUT_LIVE) -n auto --dist worksteal $(ARGS)

slow-tests: $(TOOLS) ## write tests/slow.txt anew: tests that take too long for make test
	$(BIN)/python -m pytest -m "not live and not thorough" $(WITHOUT_LIVE) -n auto --dist worksteal \
	  -p tests.processor_time --record-slow $(ARGS)

thorough: $(TOOLS) ## run tests that repeat, race, kill or try many inputs, on all processors
	$(BIN)/python -m pytest -m "thorough and not live" $(WITHOUT_LIVE) -n auto --dist worksteal $(ARGS)

# Tests whose packages are missing are skipped; with CI set they fail.
live: $(TOOLS) ## run the tests against nginx, Apache, GDAL and others (Debian)
	@scripts/install-live $(BIN)/python || test -z "$$CI"
	$(BIN)/python -m pytest -m live $(ARGS)

isolation: $(TOOLS) ## run the live tests of each distribution alone; they need no other package
	$(BIN)/python -m pytest -m live tests/live/test_isolation.py $(ARGS)

install-live: $(TOOLS) ## install what the live tests need (Debian)
	scripts/install-live $(BIN)/python

mutate: $(TOOLS) ## make small changes to the code and count those that no test detects
	@$(BIN)/python -m pip install -q --group mutate
	$(BIN)/python -m scripts.mutate $(ARGS)

bench: $(TOOLS) ## measure requests per second, latency and CPU (more: ARGS="--help")
	$(BIN)/python -m benchmarks $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.coverages --side 5000 --ranges 50 --seconds 3)

bench-coverages: $(TOOLS) ## measure downloads: CPU of a megapixel, memory, latency of tiles meanwhile
	$(BIN)/python -m benchmarks.coverages $(ARGS)

bench-storage: $(TOOLS) ## measure the cost of tiles and maps from an object storage
	$(BIN)/python -m benchmarks.storage $(ARGS)

bench-index: $(TOOLS) ## measure the index store with a million slabs
	$(BIN)/python -m benchmarks.index $(ARGS)

bench-memory: $(TOOLS) ## measure memory over thousands of different maps
	$(BIN)/python -m benchmarks.leak $(ARGS)

bench-start: $(TOOLS) ## measure the start and the first documents with many layers
	$(BIN)/python -m benchmarks.start $(ARGS)

bench-build: $(TOOLS) ## measure mastaba build, whole and by stage, beside tools of GDAL
	@$(BIN)/python -m pip install -q "deflate>=0.7"
	$(BIN)/python -m benchmarks.build $(ARGS)
	$(BIN)/python -m benchmarks.build_stages $(ARGS)
	$(BIN)/python -m benchmarks.provenance

bench-export: $(TOOLS) ## measure mastaba export from files, for each format
	$(BIN)/python -m benchmarks.export $(ARGS)

bench-nodes: $(TOOLS) ## measure several nodes behind HAProxy over an S3 (as root)
	@scripts/install-debian-packages haproxy wrk
	$(BIN)/python -m benchmarks.nodes $(ARGS)

soak: $(TOOLS) ## run a server under load, reloads and kills; measure its memory
	$(BIN)/python -m benchmarks.soak $(ARGS)

docs: $(TOOLS) ## build the documentation site into build/docs/html
	$(BIN)/python -m scripts.docs_site $(ARGS)

gallery: $(TOOLS) ## redraw the images of docs/gallery.md
	$(BIN)/python scripts/contact-sheet

dist: $(TOOLS) ## build all wheels and source distributions, check and install them (no upload)
	@$(BIN)/python -m pip install -q --group dist
	$(BIN)/python -m scripts.dist $(ARGS)

check: $(TOOLS) ## check lint, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases scripts $(TYPED_TESTS)
	$(BIN)/python -m scripts.lint_scripts

schemas: $(RUNTIME) ## regenerate config/*.schema.json
	@mkdir -p config
	@set -e; for name in $$($(BIN)/python -c \
	  "from mastaba.config.schema import SCHEMA_NAMES; print(*SCHEMA_NAMES)"); do \
	  $(BIN)/mastaba schema $$name > config/$$name.schema.json.new; \
	  mv config/$$name.schema.json.new config/$$name.schema.json; \
	  echo config/$$name.schema.json; \
	done

surface: $(TOOLS) ## record the public interface in tests/core/api/surface.txt
	$(BIN)/python -m scripts.public_api > tests/core/api/surface.txt.new
	mv tests/core/api/surface.txt.new tests/core/api/surface.txt

clean: ## remove everything that the other targets created, also .venv and the demo
	rm -rf $(VENV) .run build dist demo-data .mypy_cache .ruff_cache .pytest_cache
	rm -rf scripts/eslint/node_modules plugins/viewer/web/node_modules plugins/viewer/src/mastaba_viewer/bundle
	find core libs plugins tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The core and the viewer are built in isolated environments that contain a compiler and Node. The
# other plugins share one build backend, because separate environments would take most of the time.
$(RUNTIME): core/pyproject.toml $(KERNELS) $(PAGES) $(LIBS:%=%/pyproject.toml) $(PLUGINS:%=%/pyproject.toml)
	@PYTHON="$(PYTHON)" scripts/make-venv $(VENV)
	@echo "Installing the workspace into $(VENV)"
	@$(BIN)/python -m pip install -q "hatchling>=1.25" editables
	@$(BIN)/python -m pip install -q $(LIBS:%=-e ./%) -e ./core
	@$(BIN)/python -m pip install -q -e ./plugins/viewer
	@$(BIN)/python -m pip install -q --no-build-isolation \
		$(patsubst %,-e ./%,$(filter-out plugins/viewer plugins/styles,$(PLUGINS))) \
		-e "./plugins/styles[fonts]"
	@touch $@

$(TOOLS): $(RUNTIME) pyproject.toml
	@echo "Installing the developer tools into $(VENV)"
	@$(BIN)/python -m pip install -q --group dev
	@touch $@
