"""The built site opened from the disk, in headless Chromium: it asks for nothing, fits a phone, and
its search finds a page without a server."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.report import browser

SITE = ROOT / "site"
WIDEST = ("index", "quick-start", "comparison", "security", "reference/errors")
"""Pages with a picture, long lines, or tables that are wider than a phone."""
SEARCH = """(async () => {
  const field = document.querySelector("input[name=query]");
  field.focus();
  field.value = "training plan";
  field.dispatchEvent(new Event("keyup", { bubbles: true }));
  const found = () => document.querySelectorAll(".md-search-result__link");
  for (let tries = 0; tries < 200 && !found().length; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  window.ran = [...found()].map((link) => link.href);
})()"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SITE.is_dir(), reason="`make docs` builds site/; CI does before"),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if why := browser.lacking():
        pytest.skip(why)  # no Chromium: make test installs it
    pages = [
        {"file": str(SITE / f"{page}.html"), "width": width, "height": 800}
        for page in WIDEST
        for width in (360, 1440)
    ]
    guide = {"file": str(SITE / "guides" / "spot.html"), "width": 1440, "height": 800}
    return browser.look(
        [{**guide, "evaluate": SEARCH}, *pages], tmp_path_factory.mktemp("chromium")
    )


def test_the_search_of_a_page_from_the_disk_finds_another(seen: list[dict[str, Any]]) -> None:
    assert (SITE / "guides" / "training-plan.html").as_uri() in seen[0]["ran"]


def test_no_page_says_or_asks_for_anything(seen: list[dict[str, Any]]) -> None:
    for page in seen:
        assert page["said"] == []
        assert [url for url in page["requests"] if not url.startswith(SITE.as_uri())] == []


def test_no_page_is_wider_than_its_window(seen: list[dict[str, Any]]) -> None:
    for page in seen:
        wide, window = page["scroll"]
        assert wide <= window, page["title"]


def test_what_is_seen_is_the_site(seen: list[dict[str, Any]]) -> None:
    assert len({page["title"] for page in seen}) == len(WIDEST) + 1
    assert all(Path(SITE / f"{page}.html").is_file() for page in WIDEST)
