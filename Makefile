# What each of these does is in the small programs they call: deploy/, .ci/, portal/supervisor/.
SHELL := /bin/bash
PYTHON := .venv/bin/python

.PHONY: run test test-fast test-deep lint lock vendor screenshots clean environment dev-environment

run: environment
	@$(PYTHON) -m portal.supervisor

test: dev-environment
	@.ci/packages
	@.ci/lint
	@.ci/tests

# What needs no root, no browser and no whole portal.
test-fast: dev-environment
	@$(PYTHON) -m pytest -q -n auto -m "not portal and not lab and not browser"

# Thousands of generated cases for the scheduler, where `test` takes a few, and workers killed at
# every step of a round, where `test` takes some.
test-deep: dev-environment
	@CARREL_TEST_PROFILE=deep $(PYTHON) -m pytest -q -n auto --dist worksteal \
		--timeout 3600 -o faulthandler_timeout=7300 tests/jobs/scheduler tests/portal/crashes
	@CARREL_TEST_PROFILE=deep .ci/postgres $(PYTHON) -m pytest -q -n auto --dist worksteal \
		-o faulthandler_timeout=7300 tests/portal/crashes

lint: dev-environment
	@.ci/lint

lock:
	@deploy/lock

vendor: environment
	@$(PYTHON) deploy/frontend/vendor.py

screenshots: dev-environment
	@$(PYTHON) docs/screenshots.py

# The state of Carrel itself, CARREL_DATA, stays.
clean:
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -not -path './var/*' -exec rm -rf {} +

environment:
	@deploy/environment requirements.lock

dev-environment:
	@deploy/environment requirements-dev.lock
