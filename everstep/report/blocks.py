"""Parts that sections share."""

from collections.abc import Sequence

from everstep.report.elements import Child, Element, h

WIDTH = 1000
"""Units of a bar's drawing, stretched to the page's width."""


def section(title: str, *children: Child) -> Element:
    ident = title.lower().replace(" ", "-")
    return h("section", h("h2", title, id=ident), children, aria_labelledby=ident)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Element:
    """On a narrow screen each row is a card, whose cells carry their column's name."""
    return h(
        "table",
        h("thead", h("tr", [h("th", name, scope="col") for name in columns])),
        h(
            "tbody",
            [
                h(
                    "tr",
                    [
                        h("td", cell, data_label=name)
                        for name, cell in zip(columns, row, strict=True)
                    ],
                )
                for row in rows
            ],
        ),
    )


def unit(share: float) -> float:
    return round(WIDTH * share, 3)
