"""The page in a headless Chromium, on a phone and on a desk: quiet, whole, inside its window."""

import select
import socket
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from everstep.contracts.failures import FailureClass
from everstep.contracts.records import RunStatus
from everstep.report import words
from everstep.report.build import report
from everstep.report.figures import Report
from everstep.report.page import page
from everstep.report.waterfall import Part
from tests.report import browser, sample

EVIL = "</script><script>window.ran=1</script><img src=x onerror=window.ran=2>\x00\u202e\ud800"
SCHEMES = ("light", "dark")
SIZES = {"phone": (360, 740), "desk": (1440, 900)}

pytestmark = pytest.mark.skipif(browser.lacking() is not None, reason=browser.lacking() or "")


def arrived() -> Report:
    launches, lines = sample.three_failures()
    return report(
        sample.run(),
        launches,
        [],
        lines,
        now=sample.START + 20_000,
        ended=sample.START + 10_120,
        prices_usd=sample.PRICES,
        runbook_url="https://example.com/runbook",
    )


def evil() -> Report:
    """Whatever a user or a program can put into a row."""
    launches, lines = sample.three_failures()
    why = sample.failure(FailureClass.USER_CODE, EVIL, hint=EVIL, step=240)
    spec = sample.run().spec
    spec = spec.model_copy(
        update={
            "tags": {EVIL: EVIL, "long": "x" * 250},
            "trainer": spec.trainer.model_copy(
                update={"command": ["python", EVIL], "image": "i" * 200, "environment": {"A": EVIL}}
            ),
        }
    )
    return report(
        sample.run(RunStatus.GAVE_UP, run_id="r" * 40, note=EVIL).model_copy(update={"spec": spec}),
        [launches[0], launches[1].model_copy(update={"failure": why})],
        [],
        {1: lines[1], 2: lines[2]},
        now=sample.START + 20_000,
        runbook_url=f"javascript:window.ran=3//{EVIL}",
    )


def empty() -> Report:
    run = sample.run(RunStatus.STOPPED, note="stopped before anything was planned")
    return report(run, [], [], {}, now=sample.START + 60, ended=sample.START + 60)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """What the browser saw, by report and place. One browser for all of them."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"arrived": arrived(), "evil": evil(), "empty": empty()}
    looks: dict[tuple[str, str], dict[str, Any]] = {}
    for name, figures in made.items():
        file = folder / f"{name}.html"
        file.write_text(page(figures), encoding="utf-8")
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES if name == "arrived" else SCHEMES[size == "desk" :][:1]:
                looks[name, f"{size} {scheme}"] = {
                    "file": str(file),
                    "width": width,
                    "height": height,
                    "scheme": scheme,
                    "full": False,
                    "screenshot": str(folder / f"{name}-{size}-{scheme}.png"),
                }
        looks[name, "open"] = {"file": str(file), "width": 360, "height": 740, "open": True}
        looks[name, "print"] = {
            "file": str(file), "width": 794, "height": 1123, "scheme": "dark", "print": True
        }  # fmt: skip
    # The page's policy, tried: a script of the page itself may ask nobody either.
    door = socket.create_server(("127.0.0.1", 0))
    here = f"http://127.0.0.1:{door.getsockname()[1]}/"
    looks["arrived", "asking"] = {
        "file": str(folder / "arrived.html"),
        "width": 360,
        "height": 740,
        "evaluate": f"(() => {{ new Image().src = '{here}x.png'; "
        f"return fetch('{here}').catch(() => null); }})()",
    }
    answers = browser.look(list(looks.values()), folder)
    found = {
        key: {**answer, "screenshot": look.get("screenshot")}
        for (key, look), answer in zip(looks.items(), answers, strict=True)
    }
    found["arrived", "asking"]["asked"] = bool(select.select([door], [], [], 0)[0])
    door.close()
    return found


PLACES = [f"{size} {scheme}" for size in SIZES for scheme in SCHEMES]
FEW = ["phone light", "desk dark", "open", "print"]
EVERY = [
    *(("arrived", place) for place in {*PLACES, *FEW}),
    *((name, place) for name in ("evil", "empty") for place in FEW),
]


@pytest.mark.parametrize(("name", "place"), sorted(EVERY))
def test_it_opens_without_a_word_and_without_a_request(seen: Any, name: str, place: str) -> None:
    found = seen[name, place]
    assert found["said"] == []
    assert found["requests"] == []
    assert found["unnamed"] == []


@pytest.mark.parametrize(("name", "place"), sorted(EVERY))
def test_nothing_leaves_the_window(seen: Any, name: str, place: str) -> None:
    found = seen[name, place]
    scroll, wide = found["scroll"]
    assert scroll == wide
    assert found["outside"] == []


@pytest.mark.parametrize("place", FEW)
def test_what_a_user_wrote_is_text(seen: Any, place: str) -> None:
    found = seen["evil", place]
    assert found["ran"] is None
    assert found["markup"] == 0
    assert "<script>window.ran=1</script>" in found["figures"]["cause"]
    assert found["figures"]["advice"].endswith(f"Here: everstep retry {'r' * 40}")


def test_a_script_in_the_page_could_ask_nobody(seen: Any) -> None:
    found = seen["arrived", "asking"]
    assert not found["asked"]
    assert any("Content Security Policy" in line for line in found["said"]), found["said"]


@pytest.mark.parametrize("place", PLACES)
def test_figures_are_the_datas(seen: Any, place: str) -> None:
    data, shown = arrived(), seen["arrived", place]["figures"]
    expected = {
        "headline": "Arrived at step 400 after 4 launches; 3 failures came between.",
        "advice": "What to do: nothing.",
        "step": "400 of 400",
        "loss": f"{data.loss:.4f}",
        "goodput": f"{100 * data.goodput.useful_seconds / data.goodput.paid_seconds:.1f} %",
        "total": "2 h 48 min",
        "failures": "3",
        "spend": f"{data.spend.usd:,.2f} USD",
        "cause-1": sample.HOST.cause,
        "cause-2": sample.HANG.cause,
        "cause-3": sample.ROOM.cause,
        "decision-1": "retry, after 30.0 s: infrastructure: try again",
        "decision-2": "retry, after 30.0 s: hang: try again",
        "decision-3": "wait, after 56 min 40 s: capacity: try again",
    }
    for part, seconds in data.waterfall.items():
        expected[f"part-{part}"] = (
            f"{words.seconds(seconds)}, {100 * seconds / data.total_seconds:.1f} %"
        )
    assert shown == expected
    assert all(data.waterfall[part] for part in Part)


@pytest.mark.parametrize("place", PLACES)
def test_curves_are_the_datas(seen: Any, place: str) -> None:
    data, charts = arrived().curve, seen["arrived", place]["charts"]
    xs, went, again = charts["loss"]["data"]
    assert xs == [p.x for p in data.points]
    assert went == [p.loss for p in data.points]
    lost = {p.x: p.loss for stretch in data.again for p in stretch}
    assert {x: y for x, y in zip(xs, again, strict=True) if y is not None} == lost
    assert charts["rate"]["data"][1] == [p.tokens_per_s for p in data.points]
    assert "from 9.8539 to 1.1611, 3 resumes" in charts["loss"]["label"]


@pytest.mark.parametrize("place", PLACES)
def test_a_screenshot_is_no_blank_sheet(seen: Any, place: str) -> None:
    """Not pixel by pixel: fonts differ. Ground, ink and colours must be there, and the charts'."""
    found = seen["arrived", place]
    colours = _colours(Path(found["screenshot"]))
    ground, others = colours[0][1], sum(n for _, n in colours[1:])
    assert len(colours) > 50
    assert 0.02 < others / (ground + others) < 0.9
    light = sum(colours[0][0]) > 3 * 128
    assert light == place.endswith("light")
    for chart in found["charts"].values():
        assert chart["colours"] > 20
        assert abs(chart["drawn"] - chart["width"]) <= 1


def test_print_is_light_whatever_the_screen_is(seen: Any) -> None:
    assert seen["arrived", "print"]["ground"] == "rgb(255, 255, 255)"


def _colours(file: Path) -> list[tuple[tuple[int, ...], int]]:
    """(colour, pixels), the commonest first."""
    with Image.open(file) as picture:
        size = picture.width * picture.height
        found = picture.convert("RGB").getcolors(size)
    assert found is not None
    return sorted(((colour, n) for n, colour in found), key=lambda item: -item[1])
