"""``python -m docsite``: write docs/reference, as each build of the site does."""

from pathlib import Path

from docsite import cli_page, config_page, errors_page, failures_page, spec_page

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

PAGES = {
    "run-spec.md": spec_page.text,
    "cli.md": cli_page.text,
    "config.md": config_page.text,
    "failures.md": failures_page.text,
    "errors.md": errors_page.text,
}


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        page, text = folder / name, make()
        # the same page again would make `mkdocs serve` build again, for ever
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(REFERENCE)
