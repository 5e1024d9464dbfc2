"""``python -m docsite.offline SITE``: no page of the built site asks the network for anything."""

import sys
from html.parser import HTMLParser
from pathlib import Path

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that a browser fetches without being asked. ``<a>`` waits for a person."""


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.mermaid = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        target = given.get(LOADS.get(tag, "")) or ""
        # the canonical address is only a statement
        if target.startswith(("http:", "https:", "//")) and given.get("rel") != "canonical":
            self.found.append(target)
        self.mermaid |= "mermaid" in (given.get("class") or "").split()


def asked(site: Path) -> list[str]:
    """``page: address`` of everything that would be fetched from elsewhere."""
    found = []
    for page in sorted(site.rglob("*.html")):
        loads = _Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        where = page.relative_to(site)
        found += [f"{where}: {address}" for address in loads.found]
        if loads.mermaid:
            found.append(f"{where}: a mermaid diagram, whose program comes from a CDN")
    for sheet in sorted(site.rglob("*.css")):
        if "url(http" in sheet.read_text(encoding="utf-8").replace('url("', "url("):
            found.append(f"{sheet.relative_to(site)}: a style sheet that loads from elsewhere")
    return found


if __name__ == "__main__":
    if problems := asked(Path(sys.argv[1])):
        print("\n".join(["the site would ask the network:", *problems]), file=sys.stderr)
        raise SystemExit(1)
