#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Opens the built site in a headless Chromium: `browser_test.py FOLDER [--pictures FOLDER]`.

Every page of the contents must load without an error on the console and without the network, and must not scroll sideways
on a screen of 400 pixels; the search must find a public name. `./dev docs --browser` runs it.
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import site_links  # noqa: E402

NARROW, WIDE = (400, 800), (1280, 900)
SMALLEST_TEXT = 13  # pixels
SECONDS_TO_WAIT = 60
SOURCES_TO_OPEN = 8  # they are alike; linkchecker follows them all
SOUGHT = "post_send"
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
             # A request to another host fails, and the console shows the error.
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
# Sizes of the page, of its text, and pictures that did not load.
MEASURE = """
const page = document.scrollingElement;
const text = document.querySelector('article p, article li, article td, .highlight pre');
const wide = [...document.querySelectorAll('article *')].filter(one => one.getBoundingClientRect().right > window.innerWidth + 1
  && !one.closest('.highlight, pre, .table-wrapper, .math')).slice(0, 3).map(one => one.tagName + '.' + one.className);
return {width: page.scrollWidth, inner: window.innerWidth, title: document.title,
        text: text ? parseFloat(getComputedStyle(text).fontSize) : 99,
        lost: [...document.images].filter(one => one.complete && one.naturalWidth === 0).map(one => one.src), wide: wide};
"""


def pages_of(folder):
    """The pages that the search index lists, and some sources."""
    index = re.search(r"Search\.setIndex\((.*)\)", (folder / "searchindex.js").read_text(), re.DOTALL).group(1)
    names = re.search(r'"?docnames"?:\s*(\[.*?\])', index, re.DOTALL).group(1)
    pages = [f"{name}.html" for name in json.loads(names)]
    sources = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*.html"))
    return [*pages, "search.html", "genindex.html", *sources[::max(1, len(sources) // SOURCES_TO_OPEN)]]


def resize(browser, size):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == NARROW})


class Test:
    def __init__(self, browser, address, pictures):
        self.browser, self.address, self.pictures = browser, address, pictures
        self.complaints = []

    def say(self, text):
        self.complaints.append(text)

    def picture(self, name):
        if self.pictures:
            self.pictures.mkdir(parents=True, exist_ok=True)
            self.browser.save_screenshot(str(self.pictures / f"{name}.png"))

    def console(self, page):
        for line in self.browser.get_log("browser"):
            if line["level"] in ("SEVERE", "WARNING"):
                self.say(f"{page}: {line['message']}")

    def open(self, page, size):
        self.browser.get(f"{self.address}/{page}")
        found = self.browser.execute_script(MEASURE)
        self.console(page)
        if found["width"] > size[0] or found["inner"] != size[0]:
            self.say(f"{page}: scrolls sideways at {size[0]} pixels: {found['width']} wide, {', '.join(found['wide']) or 'unknown element'}")
        if found["text"] < SMALLEST_TEXT:
            self.say(f"{page}: text of {found['text']:g} pixels; at least {SMALLEST_TEXT} can be read on a small screen")
        for one in found["lost"]:
            self.say(f"{page}: the picture {one} did not load")
        if not found["title"]:
            self.say(f"{page}: has no title")

    def search(self):
        """Types a name into the search box of the first page and follows a result into the reference."""
        resize(self.browser, WIDE)
        self.open("index.html", WIDE)
        self.picture("front_wide")
        box = next(one for one in self.browser.find_elements(By.CSS_SELECTOR, "input[name=q]") if one.is_displayed())
        box.send_keys(SOUGHT)
        box.send_keys(Keys.ENTER)
        wait = WebDriverWait(self.browser, SECONDS_TO_WAIT)

        def hits(browser):
            links = [(one.get_attribute("href"), one.text) for one in browser.find_elements(By.CSS_SELECTOR, "#search-results li a")]
            return [href for href, text in links if "/docs/reference/" in href and "#" in href and SOUGHT in text]

        try:
            wait.until(hits)
        except Exception:  # the text of Selenium's timeout does not name the searched word
            self.say(f"the search does not find {SOUGHT} in the reference")
            self.picture("search")
            return
        self.picture("search")
        self.console("search")
        target = hits(self.browser)[0]
        self.browser.get(target)
        anchor = target.rpartition("#")[2]
        there = self.browser.execute_script(
            "const one = document.getElementById(arguments[0]); return one ? one.textContent : null;", anchor)
        if not there or SOUGHT not in there:
            self.say(f"the search leads to {target}, which does not show {SOUGHT}")
        self.picture("reference_wide")
        self.console(target)

    def dark(self):
        """A reader who prefers dark colours gets them: light text on a dark page."""
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        resize(self.browser, WIDE)
        self.open("index.html", WIDE)
        page, text = self.browser.execute_script(
            "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('article p')).color];")
        levels = [sum(int(float(part)) for part in re.findall(r"[\d.]+", colour)[:3]) for colour in (page, text)]
        if levels[0] > 150 or levels[1] < 450:
            self.say(f"index.html: with dark colours preferred, text {text} on {page}")
        self.picture("front_dark")
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def run(self, pages):
        resize(self.browser, NARROW)
        for page in pages:
            self.open(page, NARROW)
            if page in ("index.html", "docs/guide/memory.html", "docs/reference/verbs/queue_pair.html", "docs/testing.html"):
                self.picture("narrow_" + page.replace("/", "_").removesuffix(".html"))
        self.search()
        self.dark()
        if self.pictures:
            for page in ("docs/guide/channels.html", "docs/reference/index.html", "bench/results/index.html", "docs/testing.html",
                         "docs/reference/verbs/queue_pair.html"):
                self.open(page, WIDE)
                self.picture("wide_" + page.replace("/", "_").removesuffix(".html"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path, help="save screenshots there")
    options = parser.parse_args()
    pages = pages_of(options.folder)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="verbena_browser_") as profile, site_links.Server(options.folder) as address:
        chrome = Options()
        for one in [*ARGUMENTS, f"--user-data-dir={profile}"]:
            chrome.add_argument(one)
        chrome.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=chrome)
        try:
            browser.set_page_load_timeout(SECONDS_TO_WAIT)
            test = Test(browser, address, options.pictures)
            test.run(pages)
        finally:
            browser.quit()
    print("\n".join(test.complaints), end="\n" if test.complaints else "")
    print(f"{len(pages)} pages opened in {time.monotonic() - started:.0f} s, {len(test.complaints)} faults")
    return 1 if test.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
