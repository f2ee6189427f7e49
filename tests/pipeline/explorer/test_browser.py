"""The explorer in a real browser: what it shows, how it is used, and that no text of a corpus runs."""

import json

import pytest
from corpusmill import LDA, Corpus, Word2Vec, ingest
from corpusmill.pipeline.explorer.open import open_explorer, standalone_page
from helpers.browser import Browser
from helpers.explorers import served

EVIL = "<script>ran()</script>"
IMAGE = "<img/src=x/onerror=ran()>"
SEA = "ship sea sailor harbour wave storm anchor"
BREAD = "bread oven flour baker dough crust yeast"
#: Finds the element that shows what is selected.
DETAIL = "document.querySelector('#detail')"
READY = "document.body && document.body.dataset.ready == 'yes'"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of documents about two subjects, some with hostile words; the folder of its model, beside its corpus."""
    folder = tmp_path_factory.mktemp("explorer")
    lines = []
    for number in range(60):
        words = (SEA, BREAD)[number % 2].split() * 3
        hostile = f"{EVIL} {IMAGE}" if number % 4 == 0 else ""
        lines.append(json.dumps({"id": f"<b>{number}</b>", "text": f"{hostile} {' '.join(words)}, & <i>more</i>"}))
    (folder / "texts.jsonl").write_text("\n".join(lines))
    options = {"key": "id", "token_pattern": r"[^\s,&]+", "chunk_tokens": 400}
    corpus = ingest(str(folder / "texts.jsonl"), str(folder / "corpus"), **options)
    LDA(6, max_iter=15, random_state=1, doc_topic_prior=0.1).fit(corpus).save(str(folder / "model"))
    return folder / "model"


@pytest.fixture(scope="module")
def browser():
    with Browser(1200, 900) as found:
        found.call("Page.addScriptToEvaluateOnNewDocument", source="ran = alert = () => { window.evil = true; }")
        yield found


def wait(browser, condition):
    """Wait until a condition in JavaScript holds."""
    browser.wait(f"!!({condition})")


def type_into(browser, selector, text):
    """Type a text into a field, as a user would."""
    browser.evaluate(f"document.querySelector({selector!r}).focus()")
    browser.call("Input.insertText", text=text)


def press(browser, key):
    """Press one key."""
    codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowRight": 39, "/": 191}
    event = {"key": key, "windowsVirtualKeyCode": codes[key]}
    text = {"Enter": "\r", "/": "/"}.get(key)
    browser.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
    browser.call("Input.dispatchKeyEvent", type="keyUp", **event)


def test_a_user_goes_from_the_map_to_a_topic_its_words_and_a_document_and_names_the_topic(model, browser):
    with served(open_explorer(str(model))) as server:
        browser.open(server.address)
        wait(browser, READY)
        assert "6 topics · 60 documents" in browser.evaluate("document.querySelector('#lead').innerText")
        # By the keyboard alone: search for a word, open it, and its first topic.
        press(browser, "/")
        type_into(browser, "#query", "sail")
        wait(browser, "document.querySelector('#results a')")
        press(browser, "Enter")
        wait(browser, f"{DETAIL}.innerText.startsWith('sailor')")
        browser.evaluate(f"{DETAIL}.querySelector('.bars a').click()")
        wait(browser, f"{DETAIL}.querySelector('.words a') && {DETAIL}.querySelector('.documents a')")
        assert "harbour" in browser.evaluate(f"{DETAIL}.innerText")
        topic = browser.evaluate("location.hash").rpartition("/")[2]
        type_into(browser, ".naming input", "At sea")
        press(browser, "Enter")
        wait(browser, f"{DETAIL}.querySelector('h1').innerText == 'At sea'")
        wait(browser, "document.querySelector('.list').innerText.includes('At sea')")
        # A document, with the topic of each word.
        browser.evaluate(f"{DETAIL}.querySelector('.documents a').click()")
        wait(browser, f"{DETAIL}.querySelector('.body mark')")
        assert browser.evaluate(f"{DETAIL}.querySelector('h1').innerText").startswith("<b>")
        assert "more</i>" in browser.evaluate(f"{DETAIL}.querySelector('.body').innerText")
        # The map by arrow keys, and back.
        press(browser, "Escape")
        wait(browser, "document.body.dataset.view == 'home'")
        browser.evaluate("document.querySelector('canvas').focus()")
        press(browser, "ArrowRight")
        press(browser, "Enter")
        wait(browser, "document.body.dataset.view == 'topic'")
    named = {entry["topic"]: entry.get("name") for entry in LDA.load(str(model)).topics()}
    assert named[int(topic)] == "At sea"


def test_nothing_in_a_corpus_runs_or_becomes_markup(model, browser, tmp_path):
    page = tmp_path / "page.html"
    explorer = open_explorer(str(model))
    page.write_text(standalone_page(explorer))
    explorer.stop()
    assert EVIL not in page.read_text()
    browser.open(page.as_uri())
    wait(browser, READY)
    views = [f"#/topic/{topic}" for topic in range(6)] + ["#/word/0", "#/document/0"]
    for view in views:
        browser.evaluate(f"location.hash = {view!r}")
        wait(browser, f"location.hash == {view!r} && {DETAIL}.querySelector('h1, .error')")
    browser.evaluate("location.hash = '#/document/0'")
    wait(browser, f"{DETAIL}.innerText.includes('<b>0</b>') || {DETAIL}.querySelector('.error')")
    type_into(browser, "#query", "<script")
    wait(browser, "document.querySelector('#results a')")
    assert EVIL in browser.evaluate("document.querySelector('#results').innerText")
    assert browser.evaluate("window.evil === undefined")
    assert (
        browser.evaluate("document.images.length + document.querySelectorAll('main b b, main i i, body script').length")
        == 2
    )
    # The policy stops scripts even if a text became markup, and the page cannot make markup of text.
    assert browser.evaluate("(() => { try { document.body.innerHTML = 'x'; return 1; } catch { return 2; } })()") == 2


def test_the_page_fits_a_phone_in_light_and_dark(model, browser):
    with served(open_explorer(str(model))) as server:
        for scheme in ("light", "dark"):
            size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for view in ("", "#/topic/0", "#/word/0", "#/document/1"):
                browser.open("about:blank")
                browser.open(server.address + view)
                wait(browser, READY)
                assert browser.evaluate("document.documentElement.scrollWidth") <= 390, view
                assert browser.evaluate("document.querySelector('.error') === null"), view
    browser.call("Emulation.clearDeviceMetricsOverride")
    browser.call("Emulation.setEmulatedMedia", features=[])


def test_word_vectors_show_neighbours_and_analogies(tmp_path, browser):
    ingest([SEA.split() * 4, BREAD.split() * 4] * 20, str(tmp_path / "corpus"))
    Word2Vec(vector_size=8, epochs=2, min_count=1).fit(Corpus(str(tmp_path / "corpus"))).save(str(tmp_path / "model"))
    with served(open_explorer(str(tmp_path / "model"), labels={"ship": "sea"})) as server:
        browser.open(server.address + "#/word/0")
        wait(browser, f"{READY} && {DETAIL}.querySelectorAll('.bars a').length == 13")
        overview = browser.evaluate("document.querySelector('#overview').innerText")
        assert "no label" in overview
        assert "All 14 words." in overview
        for label, word in (("is to", "bread"), ("as this word", "oven")):
            type_into(browser, f'[aria-label="{label}"]', word)
        press(browser, "Enter")
        wait(browser, f"{DETAIL}.querySelectorAll('.bars').length == 2")
