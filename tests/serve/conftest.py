import shutil

import pytest

from serve.browser import FLAGS, Shown, find_browser, make_store, serving


@pytest.fixture(scope="session")
def chromium():
    """A browser for all tests of a process."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium is installed; GRINCH_BROWSER can name one")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens pages; at the end, none of them has complained."""
    shown, contexts = [], []

    def opened(url, *, width=1280, height=800, script=None, is_idle=True, **options):
        context = chromium.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", locale="en-US", **options
        )
        contexts.append(context)
        if script is not None:
            context.add_init_script(script)
        shown.append(Shown(context.new_page()))
        return shown[-1].open(url, is_idle=is_idle)

    yield opened
    for context in contexts:
        context.close()
    assert [page.problems for page in shown] == [[] for _ in shown]


@pytest.fixture(scope="session")
def made_store(tmp_path_factory):
    """A small store that tests only read."""
    folder = tmp_path_factory.mktemp("page") / "notes"
    make_store(folder)
    return folder


@pytest.fixture(scope="session")
def url(made_store):
    with serving(made_store) as address:
        yield address


@pytest.fixture(scope="session")
def shared_page(chromium):
    """A page whose files are in the browser's cache after the first test."""
    context = chromium.new_context(reduced_motion="reduce", locale="en-US")
    yield Shown(context.new_page())
    context.close()


@pytest.fixture
def shown(shared_page, url, monkeypatch):
    """The small store, as somebody sees it who has never been there."""
    # Otherwise the browser asks about each of its fifty files again.
    monkeypatch.setattr("grinch.serve.api.app.CACHE_CONTROL", "max-age=3600")
    shared_page.problems.clear()
    shared_page.page.emulate_media(color_scheme="light")
    shared_page.page.set_viewport_size({"width": 1280, "height": 800})
    shared_page.page.goto("about:blank")
    yield shared_page.open(url)
    shared_page.page.evaluate("localStorage.clear()")
    assert shared_page.problems == []


@pytest.fixture
def own_store(made_store, tmp_path):
    """A copy of the store that a test may change."""
    return shutil.copytree(made_store, tmp_path / "notes")
