# One command each; .ci/run runs the same ones.
PYTHON ?= python

.PHONY: install types lint test

install:
	$(PYTHON) -m pip install -c constraints.txt -e '.[test]'

# The folders are one package only once they are installed; a type checker sees it through these links.
types: build/types/raystreams
	$(PYTHON) -m mypy

build/types/raystreams: raystreams/__init__.py
	mkdir -p $@
	for part in raystreams/__init__.py raystreams/py.typed stores operators cluster; do \
		ln -sfn "../../../$$part" "$@/$$(basename $$part)"; done
	touch $@

lint:
	$(PYTHON) -m ruff check

test:
	$(PYTHON) -m pytest
