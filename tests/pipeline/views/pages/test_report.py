"""The report of one run: complete, self-contained, and safe with any words in the corpus."""

import re

import pytest
from corpusmill.pipeline.views.pages.page import Contents
from corpusmill.pipeline.views.pages.report import MAX_TOPICS, render
from helpers.browser import Browser
from helpers.report_pages import EVIL, Page, metric_rows, topics


def test_the_page_shows_numbers_curves_topics_and_configuration():
    contents = Contents(
        "A run", "3 documents", metric_rows(), topics(), {"model": {"kind": "lda"}}, {"corpusmill": "9.9"}
    )
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


def test_the_page_loads_nothing_and_allows_only_its_own_script():
    text = render(Contents("A run", "", metric_rows(), topics()))
    assert Page(text).links == []
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    policy = dict(Page(text).attributes)["content"]
    assert re.fullmatch(r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/]{43}='", policy)


def test_words_paths_and_settings_are_escaped():
    metric = [row | {EVIL: float(row["epoch"])} for row in metric_rows()]
    contents = Contents(EVIL, EVIL, metric, topics(word=EVIL), {EVIL: EVIL}, {EVIL: EVIL, "corpusmill": EVIL})
    text = render(contents)
    assert EVIL not in text
    assert (
        Page(text).tags.count("script")
        == Page(render(Contents("A", "", metric_rows(), topics()))).tags.count("script")
        == 1
    )
    assert f"{EVIL}0" in Page(text).text


@pytest.mark.parametrize("width", [360, 1400])
def test_a_browser_runs_nothing_that_the_corpus_contains(tmp_path, width):
    page = tmp_path / "report.html"
    page.write_text(render(Contents(EVIL, EVIL, metric_rows(), [*topics(3), *topics(1, "<img src=x onerror=evil()>")])))
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


def test_a_metric_of_the_model_has_a_chart_if_it_changes():
    found = [row | {"relative_error": 1.0 / row["epoch"], "constant": 4.0} for row in metric_rows()]
    text = render(Contents("A run", "", found))
    assert "Relative error" in text
    assert "Constant" not in text


def test_a_curve_of_one_epoch_is_drawn_as_a_dot():
    page = Page(render(Contents("A run", "", metric_rows(1))))
    assert page.attributes.count(("class", "dot")) == 1
    scores = {"log_likelihood": -7.0, "held_out_log_likelihood": -7.5}
    page = Page(render(Contents("A run", "", [metric_rows(1)[0] | scores])))
    assert page.attributes.count(("class", "dot")) == 3
    assert Page(render(Contents("A run", "", metric_rows(20)))).attributes.count(("class", "dot")) == 0


def test_a_metric_that_was_measured_once_is_in_the_summary():
    page = Page(render(Contents("A run", "", [metric_rows(1)[0] | {"relative_error": 0.25}])))
    assert "0.25 relative error" in page.text
    assert page.tags.count("svg") == 1


def test_the_largest_topics_come_first_and_their_number_is_limited():
    page = Page(render(Contents("A run", "", metric_rows(), topics(MAX_TOPICS + 50))))
    assert page.tags.count("article") == MAX_TOPICS
    assert f"the {MAX_TOPICS} largest of 250" in page.text
    assert page.text.index("Topic 249") < page.text.index("Topic 100")
    assert "Topic 49 " not in page.text


def test_traffic_of_devices_is_a_table_of_the_mean_epoch():
    found = [row | {"device_upload_calls": 10 * row["epoch"], "device_upload_bytes": 4000} for row in metric_rows(3)]
    page = Page(render(Contents("A run", "", [row | {"device_wait_calls": 3} for row in found])))
    assert "CUDA devices, mean epoch" in page.text
    assert "Copied to devices 20 4,000" in page.text
    assert "Waits of the host 3" in page.text
    assert "launched" not in page.text
    assert "CUDA" not in Page(render(Contents("A run", "", metric_rows(3)))).text


def test_a_model_of_word_vectors_shows_neighbours_of_words():
    contents = Contents("A run", "", metric_rows(), neighbours={"sea": ["ocean", EVIL], EVIL: []})
    page = Page(render(contents))
    assert "Nearest words" in page.text
    assert f"ocean, {EVIL}" in page.text
    assert page.tags.count("script") == 1
