# The two commands that a newcomer needs are `make run` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help run build page api test test-full test-models fuzz bench bench-soak fmt

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

run: build ## Build Kitbag and start it (ARGS="--listen 127.0.0.1:0" passes more flags)
	target/release/kitbag serve $(ARGS)

build: page ## Build target/release/kitbag
	cargo build --release --locked --package kitbag --target-dir target

page: ## Build the page into web/dist, if it changed
	scripts/page

api: ## Write docs/openapi.json anew, after a change of the API
	cargo run --quiet --locked --bin kitbag -- openapi > docs/openapi.json.new && mv docs/openapi.json.new docs/openapi.json

test: ## Install what the tests need, then check and test everything
	scripts/test

test-full: ## Also what is too long for every change: everything with bytes in a bucket, kill storms, long fuzzing
	scripts/test --full
	$(MAKE) fuzz

test-models: ## Agents with the real models, by the keys in the environment (costs money)
	scripts/test-models

fuzz: ## Throw made-up bytes at each reader of foreign bytes, a minute each (needs a nightly compiler)
	cargo fuzz --version || cargo install --locked cargo-fuzz
	mkdir -p fuzz/corpus/archive fuzz/corpus/foreign fuzz/corpus/manifest fuzz/corpus/skill
	cargo +nightly fuzz run archive fuzz/corpus/archive crates/formats/tests/archive/honest -- -max_total_time=60
	cargo +nightly fuzz run foreign fuzz/corpus/foreign fuzz/seeds/foreign -- -max_total_time=60
	cargo +nightly fuzz run manifest fuzz/corpus/manifest fuzz/seeds/manifest -- -max_total_time=60
	cargo +nightly fuzz run skill fuzz/corpus/skill fuzz/seeds/skill -- -max_total_time=60

bench: ## Measure against peers and print ratios; the last ten minutes of it are the soak
	cargo bench --locked --package kitbag-cas --bench workspace
	PATH="$$(scripts/python-tests):$$PATH" cargo bench --locked --package kitbag-bucket --bench bucket
	cargo bench --locked --package kitbag-mcp --bench manager
	cargo bench --locked --package kitbag --bench import
	cargo bench --locked --package kitbag --bench calls
	KITBAG_TEST_PYTHON_BIN="$$(scripts/python-tests)" cargo bench --locked --package kitbag --bench containers
	cargo bench --locked --package kitbag --bench organisations
	PATH="$$(scripts/python-tests):$$PATH" cargo bench --locked --package kitbag --bench nodes
	cargo bench --locked --package kitbag --bench runs
	cargo bench --locked --package kitbag --bench turns
	cargo bench --locked --package kitbag --bench gateway -- --peers "$$(scripts/bench-peers)"
	$(MAKE) bench-soak

SECONDS ?= 600
bench-soak: ## A thousand calls a minute on three nodes, and what they use (SECONDS=600)
	PATH="$$(scripts/python-tests):$$PATH" cargo bench --locked --package kitbag --bench nodes -- --soak $(SECONDS)

fmt: ## Format all code
	cargo fmt
