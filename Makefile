# Everything from a bare machine with Python 3.11 or later and its venv module.
#   make quickstart   train a small model on a toy corpus and compare its ROUGE with LEAD-3 (about 2 minutes after installation, on 2 cores)
#   make test         check format, lint and types, and run all tests except the thorough ones
#   make test-all     also run those: all architectures, two processes, compilers, browsers, hostile inputs, docs pages
#   make test-benches run transformers' and PEFT's own tests on all architectures, which downloads their source distributions
#   make test-rooms   run the thorough tests of ROOMS, such as ROOMS="tests/models tests/votes"
#   make docs         build the documentation in build/docs
#   make torture      try thousands of hostile inputs, others each time (minutes on two cores)
#   make test-lowest  run the suite with the lowest versions of packages that pyproject.toml allows
#   make test-newest  run the suite with the newest version of transformers that pip finds
#   make clean        remove all outputs of these commands, including environments

PYTHON ?= python3
# one thread per worker, as two workers already occupy two cores
WORKERS ?= 2
# bytecode is kept, even if the environment disables it: two workers and fifty processes read the same files
SUITE = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(1)/bin/python -m pytest -n $(WORKERS) --dist worksteal

VENV = .venv
LOWEST = .venv-lowest
NEWEST = .venv-newest

QUICKSTART = build/quickstart

.PHONY: install quickstart test test-all test-benches test-rooms lint docs torture test-lowest test-newest clean

install: $(VENV)/.installed

# torch is installed first, at the version in constraints.txt: as a dependency, pip might choose a newer build with
# gigabytes of CUDA packages
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet torch --constraint constraints.txt
	$(VENV)/bin/python -m pip install --quiet --editable ".[dev]" --constraint constraints.txt
	touch $@

quickstart: install
	$(VENV)/bin/hf-summ summarize examples/abstract.txt
	$(VENV)/bin/python -m hf_summ.data.toy_news --output $(QUICKSTART)/data
	rm -rf $(QUICKSTART)/processor
	$(VENV)/bin/hf-summ vocabulary $(QUICKSTART)/data/train.jsonl --output $(QUICKSTART)/processor --vocab_size 2000 --tags none
	$(VENV)/bin/python run_summarization.py configs/quickstart.yaml

# the benches' 8,000 tests are all thorough, and each worker would collect them
test: lint
	$(call SUITE,$(VENV)) -m "not thorough" --ignore tests/benches

test-all: lint
	$(call SUITE,$(VENV)) --hypothesis-profile thorough

# which also runs with `make test-all`; the distributions are unpacked in build/benches
test-benches: install
	$(call SUITE,$(VENV)) tests/benches

# pytest's exit status 5 means that the rooms have no thorough tests
test-rooms: install
	$(call SUITE,$(VENV)) --hypothesis-profile thorough -m thorough $(ROOMS) || test $$? = 5

lint: install
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ty check src

# warnings, for example about a broken link, are errors
docs: install
	$(VENV)/bin/python -m sphinx --fail-on-warning --quiet docs build/docs
	$(VENV)/bin/python docs/extensions/sentence_lengths.py README.md docs/*.md docs/tutorials/*.md

# hypothesis stores failing inputs in .hypothesis and tries them first
torture: install
	$(call SUITE,$(VENV)) --hypothesis-profile torture --hypothesis-show-statistics tests/doors

# the lowest versions that pyproject.toml allows, as uv finds them; torch stays at the version in constraints.txt
$(LOWEST)/constraints.txt: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet uv
	grep '^torch==' constraints.txt > $(@D)/torch.txt
	$(@D)/bin/uv pip compile --quiet --extra all --resolution lowest-direct --overrides $(@D)/torch.txt \
	    pyproject.toml --output-file $@ > /dev/null

# huggingface_hub and tokenizers are not pinned, as each version of transformers requires another range
$(NEWEST)/constraints.txt: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	grep -viE '^(transformers|huggingface[_-]hub|tokenizers)==' constraints.txt > $@

$(LOWEST)/.installed $(NEWEST)/.installed: %/.installed: %/constraints.txt
	$(@D)/bin/python -m pip install --quiet torch --constraint $<
	$(@D)/bin/python -m pip install --quiet --editable ".[dev]" --constraint $<
	touch $@

# the runtime without torch is tested with the versions that docker/requirements-onnx.txt pins
test-lowest: $(LOWEST)/.installed
	$(call SUITE,$(LOWEST)) --ignore tests/runtimes/test_without_torch.py

# a newer version may have appeared since the environment was created
test-newest: $(NEWEST)/.installed
	$(NEWEST)/bin/python -m pip install --quiet --upgrade transformers --constraint $(NEWEST)/constraints.txt
	$(NEWEST)/bin/python -c "import transformers; print('transformers', transformers.__version__)"
	$(call SUITE,$(NEWEST))

clean:
	rm -rf $(VENV) $(LOWEST) $(NEWEST) build dist .pytest_cache .ruff_cache .hypothesis
