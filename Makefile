# Every target is one command; "make help" lists them.
.DEFAULT_GOAL := help
.PHONY: setup cosim test quick unit bench lint docs pictures examples clean help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Each Python process would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

$(READY): pyproject.toml constraints.txt scripts/setup.sh
	@PYTHON=$(PYTHON) sh scripts/setup.sh $@

setup: $(READY) ## Make .venv with every Python tool
cosim: $(READY) ## Run the papers' layer on the RTL, every result checked (more options: ARGS="--variant all")
	@$(BIN)/xpulpnn cosim conv --json build/cosim.json $(ARGS)
test: $(READY) ## Run all tests
	@sh scripts/debian_tools.sh iverilog gcc-riscv64-unknown-elf=riscv64-unknown-elf-gcc opensta=sta berkeley-abc openocd gdb-multiarch chromium && $(BIN)/python -m pytest -n 3 --dist worksteal -q $(ARGS)
quick: $(READY) ## Check style, types and units in a minute, before a commit
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint unit
unit: $(READY) ## Run the tests that need no external tool and little time
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q -m unit $(ARGS)
bench: $(READY) ## Measure simulation and checking speed
	@$(BIN)/python benchmarks/speed.py $(ARGS)
lint: $(READY) ## Check style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright
docs: $(READY) ## Build the guide, build/docs/html/index.html
	@$(BIN)/sphinx-build -W --keep-going -E -q -b html -d build/docs/doctrees docs build/docs/html && echo build/docs/html/index.html
pictures: $(READY) ## Draw the charts of the README
	@$(BIN)/python -m docs.generate.pictures
examples: $(READY) ## Run every command and example of README and guide
	@SLOW_EXAMPLES=1 $(BIN)/python -m pytest -q tests/docs/test_examples.py -k test_examples_of_a_page $(ARGS)
clean: ## Remove everything generated, .venv included
	@rm -rf build .venv .pytest_cache .ruff_cache .hypothesis
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile
