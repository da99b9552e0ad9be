"""One JupyterLab and one browser for all browser tests."""

from __future__ import annotations

import os

import pytest

from tests.browser.jupyter import FLAGS, find_browser, run_server


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; skips where there is none, but never in CI."""
    path = find_browser()
    if path is None:
        reason = "no chromium, chromium-browser or google-chrome on PATH"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI must run the browser tests")
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """(address, root folder) of a running JupyterLab with an empty root."""
    root, scratch = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("jupyter")
    with run_server(root, scratch) as address:
        yield address, root
