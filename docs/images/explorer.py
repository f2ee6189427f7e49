"""Draw explorer.png: the explorer with the model of the quick start.

Run it in the root of a checkout, after ``make demo``: ``.venv/bin/python docs/images/explorer.py``
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, "tests")

from helpers.browser import Browser

PICTURE = Path(__file__).with_suffix(".png")
WIDTH, HEIGHT = 1180, 640
#: Opens the topic of David and Saul.
OPEN = """[...document.querySelectorAll('button, li, a')].find(
    e => e.textContent.includes('david') && e.textContent.includes('%')).click()"""


def main():
    """Write the page, open it in Chromium, choose a topic, and take the picture."""
    with tempfile.TemporaryDirectory() as folder, Browser(WIDTH, HEIGHT) as browser:
        page = Path(folder) / "topics.html"
        program = Path(sys.executable).with_name("corpusmill")
        subprocess.run([program, "explore", "demo/run", "--html", page], check=True)
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        browser.open(page.as_uri())
        browser.wait("document.body && document.body.dataset.ready == 'yes'")
        browser.evaluate(OPEN)
        browser.wait("document.querySelector('#detail').textContent.includes('saul')")
        browser.screenshot(PICTURE)


if __name__ == "__main__":
    main()
