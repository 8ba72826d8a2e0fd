# Every target is one command; "make help" lists them.
.DEFAULT_GOAL := help
.PHONY: setup cosim test bench lint docs clean help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

$(READY): pyproject.toml constraints.txt scripts/setup.sh
	@PYTHON=$(PYTHON) sh scripts/setup.sh $@

setup: $(READY) ## Make .venv with every Python tool
cosim: $(READY) ## Run the papers' layer on the RTL, every result checked (more options: ARGS="--variant all")
	@$(BIN)/xpulpnn cosim conv --json build/cosim.json $(ARGS)
test: $(READY) ## Run all tests
	@sh scripts/debian_tools.sh iverilog gcc-riscv64-unknown-elf=riscv64-unknown-elf-gcc opensta=sta chromium && $(BIN)/python -m pytest -n 2 -q $(ARGS)
bench: $(READY) ## Measure simulation and checking speed
	@$(BIN)/python benchmarks/speed.py $(ARGS)
lint: $(READY) ## Check style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright
docs: $(READY) ## Render the instruction table to build/docs
	@$(BIN)/python -m xpulpnn.isa.render build/docs
clean: ## Remove everything generated, .venv included
	@rm -rf build .venv .pytest_cache .ruff_cache .hypothesis
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile
