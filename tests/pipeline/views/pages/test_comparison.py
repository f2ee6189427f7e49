"""The report that compares two runs or models."""

import pytest
from corpusmill.pipeline.views.pages.comparison import figures, render_comparison
from corpusmill.pipeline.views.pages.page import Contents
from corpusmill.pipeline.views.pages.report import render
from helpers.browser import Browser
from helpers.report_pages import EVIL, Page, metric_rows


def two():
    config = {"model": {"kind": "lda", "n_components": 10}, "run": {"url": "a"}}
    other = {"model": {"kind": "lda", "n_components": 20}, "run": {"url": "b"}}
    return {
        "runs/a": Contents("A", "3 documents", metric_rows(20), (), config, {"numpy": "2.1"}),
        "runs/b": Contents("B", "4 documents", metric_rows(30), (), other, {"numpy": "2.2"}),
    }


def test_a_comparison_shows_both_figures_both_curves_and_the_settings_that_differ():
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


def test_metrics_that_were_not_measured_are_not_shown():
    timeless = [{name: row[name] for name in row if "second" not in name} for row in metric_rows()]
    page = Page(render_comparison({url: Contents(c.title, "", timeless) for url, c in two().items()}))
    assert [*figures(timeless)] == ["held_out_log_likelihood", "held_out_perplexity", "log_likelihood", "epochs"]
    assert "econds" not in page.text
    assert "Held-out perplexity" in page.text
    assert " in " not in Page(render(Contents("A run", "", timeless))).text


def test_a_metric_that_only_one_run_measured_has_no_change():
    both = two()
    both["runs/b"] = Contents("B", "", [])
    assert "–" in Page(render_comparison(both)).text
    assert figures([]) == {}


def test_a_comparison_escapes_its_texts():
    both = {
        EVIL: Contents(EVIL, EVIL, metric_rows(), (), {"model": {EVIL: EVIL}}),
        "other": Contents("B", "", metric_rows()),
    }
    text = render_comparison(both)
    assert EVIL not in text
    assert Page(text).tags.count("script") == 1


@pytest.mark.parametrize("width", [360, 1400])
def test_a_comparison_fits_the_width_of_the_browser(tmp_path, width):
    page = tmp_path / "comparison.html"
    page.write_text(render_comparison(two()))
    with Browser(width) as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        browser.open(page.as_uri())
        browser.wait("document.readyState == 'complete' && document.querySelectorAll('.cursor').length == 3")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
