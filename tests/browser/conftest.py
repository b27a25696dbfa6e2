"""A browser, servers for small studies, and people who come to them; skipped where there is no browser or no page."""

from __future__ import annotations

import pytest

from tests.browser.visits import People, browsing, missing


@pytest.fixture(scope="module")
def browser():
    why = missing()
    if why:
        pytest.skip(why)
    with browsing() as found:
        yield found


@pytest.fixture
def people(browser):
    """Whoever comes sees pages that never complain and never ask another host."""
    here = People(browser)
    yield here
    assert here.leave() == []
