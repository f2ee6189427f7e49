"""Contents of reports for tests, and a parser that collects what a page holds."""

from html.parser import HTMLParser

#: Text that would run as code, or end an attribute, if a page did not escape it.
EVIL = "<script>alert('x')</script>\"&"


def metric_rows(epochs=20):
    """Return rows of metrics; every tenth epoch has log-likelihoods."""
    rows = []
    for epoch in range(1, epochs + 1):
        row = {
            "step": epoch,
            "epoch": epoch,
            "tokens": 1000,
            "seconds": 0.5,
            "tokens_per_second": 2000.0 + epoch,
            "training_seconds": 0.5 * epoch,
            "seconds_merge": 0.1,
            "seconds_kernel": 0.6,
            "seconds_read": 0.1,
            "seconds_write": 0.1,
        }
        if epoch % 10 == 0:
            row["log_likelihood"] = -7 + epoch / 100
            row["held_out_log_likelihood"] = -7.5 + epoch / 100
        rows.append(row)
    return rows


def topics(count=3, word="word"):
    """Return topics of four words each; the last topic is the largest."""
    words = [{"word": f"{word}{i}", "probability": 0.1 / (i + 1)} for i in range(4)]
    return [{"topic": k, "size": (k + 1) / count, "words": words} for k in range(count)]


class Page(HTMLParser):
    """Collects the tags, attributes and links of a page, and the text that it shows."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.links = []
        self.shown = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        """Collect a tag."""
        self.tags.append(tag)
        self.attributes += attributes
        self.links += [value for name, value in attributes if name in ("src", "href", "data", "action")]

    def handle_data(self, data):
        """Collect a text."""
        self.shown.append(data)

    @property
    def text(self):
        """All text, pieces separated by spaces."""
        return " ".join(self.shown)
