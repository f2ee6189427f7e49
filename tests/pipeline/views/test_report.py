"""The report: complete, self-contained, and safe whatever the corpus holds."""

import math
import re
from html.parser import HTMLParser

import pytest
from corpusmill.pipeline.formatting import format_duration, format_number, label, with_minus_sign
from corpusmill.pipeline.views.history import metric_points
from corpusmill.pipeline.views.report.charts import build_chart, nice_ticks
from corpusmill.pipeline.views.report.comparison import figures, render_comparison
from corpusmill.pipeline.views.report.contents import Contents
from corpusmill.pipeline.views.report.render import MAX_TOPICS, render
from helpers.browser import Browser
from hypothesis import given
from hypothesis import strategies as st

EVIL = "<script>alert('x')</script>\"&"


def rows(epochs=20):
    return [
        {
            "step": e,
            "epoch": e,
            "tokens": 1000,
            "seconds": 0.5,
            "tokens_per_second": 2000.0 + e,
            "training_seconds": 0.5 * e,
            "seconds_merge": 0.1,
            "seconds_kernel": 0.6,
            "seconds_read": 0.1,
            "seconds_write": 0.1,
            **({"log_likelihood": -7 + e / 100, "held_out_log_likelihood": -7.5 + e / 100} if e % 10 == 0 else {}),
        }
        for e in range(1, epochs + 1)
    ]


def topics(count=3, word="word"):
    words = [{"word": f"{word}{i}", "probability": 0.1 / (i + 1)} for i in range(4)]
    return [{"topic": k, "size": (k + 1) / count, "words": words} for k in range(count)]


class Page(HTMLParser):
    """Collects what a browser would load, run and show."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.links, self.shown = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.links += [value for name, value in attributes if name in ("src", "href", "data", "action")]

    def handle_data(self, data):
        self.shown.append(data)

    @property
    def text(self):
        return " ".join(self.shown)


def test_the_page_shows_numbers_curves_topics_and_configuration():
    contents = Contents("A run", "3 documents", rows(), topics(), {"model": {"kind": "lda"}}, {"corpusmill": "9.9"})
    page = Page(render(contents))
    for expected in (
        "A run",
        "3 documents",
        "−7.3000",
        "−6.8000",
        "2,011",
        "10 s",
        "Topic 2",
        "word3",
        "kind: lda",
        "9.9",
    ):
        assert expected in page.text, expected
    assert page.tags.count("svg") == 2
    assert page.tags.count("polyline") == 3
    assert page.tags.count("article") == 3


def test_the_page_loads_nothing():
    text = render(Contents("A run", "", rows(), topics()))
    assert Page(text).links == []
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    policy = dict(Page(text).attributes)["content"]
    assert re.fullmatch(r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/]{43}='", policy)


def test_words_paths_and_settings_are_escaped():
    metric = [row | {EVIL: float(row["epoch"])} for row in rows()]
    contents = Contents(EVIL, EVIL, metric, topics(word=EVIL), {EVIL: EVIL}, {EVIL: EVIL, "corpusmill": EVIL})
    text = render(contents)
    assert EVIL not in text
    assert (
        Page(text).tags.count("script") == Page(render(Contents("A", "", rows(), topics()))).tags.count("script") == 1
    )
    assert f"{EVIL}0" in Page(text).text


@pytest.mark.parametrize("width", [360, 1400])
def test_a_browser_shows_it_without_running_what_the_corpus_holds(tmp_path, width):
    page = tmp_path / "report.html"
    page.write_text(render(Contents(EVIL, EVIL, rows(), [*topics(3), *topics(1, "<img src=x onerror=evil()>")])))
    with Browser(width) as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source="evil = alert = () => { window.ran = true; }")
        browser.open(page.as_uri())
        browser.wait("document.readyState == 'complete' && document.querySelectorAll('.cursor').length == 2")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        box = "document.querySelector('.plot').getBoundingClientRect()"
        middle = f"({{clientX: {box}.left + {box}.width * 0.95, clientY: {box}.top + 9}})"
        browser.evaluate(f"document.querySelector('.plot').dispatchEvent(new PointerEvent('pointermove', {middle}))")
        assert browser.evaluate("document.querySelector('.tip').innerText").startswith("epoch 20\ntraining \u22126.8")
        search = "const f = document.querySelector('input'); f.value = 'IMG'; f.dispatchEvent(new Event('input'))"
        browser.evaluate(search)
        assert browser.evaluate("document.querySelectorAll('.topic:not([hidden])').length") == 1
        assert browser.evaluate("document.images.length") == 0
        assert browser.evaluate("window.ran === undefined")


def test_a_run_without_epochs_or_topics_has_a_page():
    page = Page(render(Contents("A run", "", [])))
    assert "nothing is committed yet" in page.text
    assert "svg" not in page.tags


def test_other_metrics_have_their_own_curve_if_they_change():
    found = [row | {"relative_error": 1.0 / row["epoch"], "constant": 4.0} for row in rows()]
    text = render(Contents("A run", "", found))
    assert "Relative error" in text
    assert "Constant" not in text


def test_epochs_on_the_axis_are_whole_and_said_once():
    chart = build_chart("X", {"x": [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]})
    assert [tick.label for tick in chart.x_ticks] == ["1", "2", "3"]


def test_values_that_are_not_finite_are_left_out():
    found = [{"epoch": 1, "x": math.nan}, {"epoch": 2, "x": 3.0}, {"epoch": 3}, {"epoch": 4, "x": math.inf}]
    assert metric_points(found, "x") == [(2.0, 3.0)]
    assert build_chart("X", {"x": metric_points(found[:1], "x")}) is None


def test_a_curve_of_one_epoch_is_a_dot():
    page = Page(render(Contents("A run", "", rows(1))))
    assert page.attributes.count(("class", "dot")) == 1
    scores = {"log_likelihood": -7.0, "held_out_log_likelihood": -7.5}
    page = Page(render(Contents("A run", "", [rows(1)[0] | scores])))
    assert page.attributes.count(("class", "dot")) == 3
    assert Page(render(Contents("A run", "", rows(20)))).attributes.count(("class", "dot")) == 0


def test_what_a_model_measured_once_is_in_the_summary():
    page = Page(render(Contents("A run", "", [rows(1)[0] | {"relative_error": 0.25}])))
    assert "0.25 relative error" in page.text
    assert page.tags.count("svg") == 1


def test_the_largest_topics_come_first_and_very_many_are_cut():
    page = Page(render(Contents("A run", "", rows(), topics(MAX_TOPICS + 50))))
    assert page.tags.count("article") == MAX_TOPICS
    assert f"the {MAX_TOPICS} largest of 250" in page.text
    assert page.text.index("Topic 249") < page.text.index("Topic 100")
    assert "Topic 49 " not in page.text


numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(numbers, numbers)
def test_ticks_enclose_the_values_and_are_few(one, other):
    low, high = sorted((one, other))
    ticks = nice_ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1e-9)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 8
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (12, "12"),
        (1234, "1,234"),
        (123456, "123 k"),
        (1.5e6, "1.5 M"),
        (2.34e9, "2.34 G"),
        (0.12345, "0.1235"),
    ],
)
def test_numbers_are_short(number, text):
    assert format_number(number) == text


def test_durations_minus_signs_and_names():
    assert [format_duration(s) for s in (0.42, 12.3, 185, 300, 7800)] == [
        "0.4 s",
        "12 s",
        "3 min 5 s",
        "5 min",
        "2 h 10 min",
    ]
    assert with_minus_sign("-7.1") == "\N{MINUS SIGN}7.1"
    names = "training_seconds", "held_out_loss", "coherence_c_v", "u_mass"
    assert [label(name) for name in names] == ["training seconds", "held-out loss", "coherence c_v", "u_mass"]


# --- two of them ---


def two():
    config = {"model": {"kind": "lda", "n_components": 10}, "run": {"url": "a"}}
    other = {"model": {"kind": "lda", "n_components": 20}, "run": {"url": "b"}}
    return {
        "runs/a": Contents("A", "3 documents", rows(20), (), config, {"numpy": "2.1"}),
        "runs/b": Contents("B", "4 documents", rows(30), (), other, {"numpy": "2.2"}),
    }


def test_a_comparison_shows_figures_side_by_side_curves_overlaid_and_what_differs():
    page = Page(render_comparison(two()))
    for expected in (
        "runs/a and runs/b",
        "−7.3000",
        "−7.2000",
        "+0.1000",
        "model.n_components",
        "2.2",
        "20",
        "30",
        "+10",
    ):
        assert expected in page.text, expected
    assert "model.kind" not in page.text
    assert page.tags.count("svg") == 3
    assert page.tags.count("polyline") == 6
    assert page.links == []


def test_what_was_not_measured_is_not_shown():
    timeless = [{name: row[name] for name in row if "second" not in name} for row in rows()]
    page = Page(render_comparison({url: Contents(c.title, "", timeless) for url, c in two().items()}))
    assert [*figures(timeless)] == ["held_out_log_likelihood", "held_out_perplexity", "log_likelihood", "epochs"]
    assert "econds" not in page.text
    assert "Held-out perplexity" in page.text
    assert " in " not in Page(render(Contents("A run", "", timeless))).text


def test_what_only_one_of_two_measured_has_no_change():
    both = two()
    both["runs/b"] = Contents("B", "", [])
    assert "–" in Page(render_comparison(both)).text
    assert figures([]) == {}


def test_a_comparison_escapes_what_it_shows():
    both = {EVIL: Contents(EVIL, EVIL, rows(), (), {"model": {EVIL: EVIL}}), "other": Contents("B", "", rows())}
    text = render_comparison(both)
    assert EVIL not in text
    assert Page(text).tags.count("script") == 1


@pytest.mark.parametrize("width", [360, 1400])
def test_a_browser_shows_a_comparison(tmp_path, width):
    page = tmp_path / "comparison.html"
    page.write_text(render_comparison(two()))
    with Browser(width) as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        browser.open(page.as_uri())
        browser.wait("document.readyState == 'complete' && document.querySelectorAll('.cursor').length == 3")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
