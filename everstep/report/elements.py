"""HTML as a tree: whatever a user wrote is text by construction, never markup."""

import json
import re
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element as Element
from xml.etree.ElementTree import tostring

Child = str | Element | None | Iterable["Child"]

# XML, and so the tree, knows no control characters; UTF-8 no lone surrogates.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def h(tag: str, /, *children: Child, **attributes: str | float | None) -> Element:
    """``h("p", "text", class_="x", data_label="y")``; attributes that are None are left out."""
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.rstrip("_").replace("_", "-"), _clean(str(value)))
    _add(made, children)
    return made


def raw(tag: str, text: str, **attributes: str) -> Element:
    """A script or style of ours, which HTML reads without escapes."""
    if "</" + tag in text.lower():
        raise ValueError(f"text of <{tag}> ends it")
    made = h(tag, **attributes)
    made.text = text
    return made


def data(value: Any, ident: str) -> Element:
    """JSON that the page's own script reads: no character in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return raw("script", text, type="application/json", id=ident)


def document(root: Element) -> str:
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _add(parent: Element, children: Iterable[Child]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Element):
            parent.append(child)
        elif isinstance(child, str):
            _text(parent, _clean(child))
        else:
            _add(parent, child)


def _text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _clean(text: str) -> str:
    return _UNFIT.sub("\ufffd", text)
