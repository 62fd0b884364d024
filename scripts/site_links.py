# SPDX-License-Identifier: MIT
"""Checks the built site: every link (with linkchecker), every anchor, and that no page needs the network.

linkchecker 10 does not check anchors, so this script checks them itself.
"""
import functools
import html.parser
import http.server
import os
import pathlib
import re
import subprocess
import threading
import urllib.parse

SETTINGS = pathlib.Path(__file__).resolve().parent.parent / "docs/site/linkchecker.ini"
# Elements and attributes whose targets a browser loads automatically.
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "srcset"), ("video", "src")}


class Server:
    """Serves the folder over HTTP on a free port of 127.0.0.1."""

    def __init__(self, folder):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *arguments):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # a client may close the connection before it has read the whole response

        self.server = Quiet(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self.address

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Page(html.parser.HTMLParser):
    """Collects the anchors and links of a page and the addresses that the page loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            if tag == "a" and name == "href" and value:
                self.links.add(value)
            if (tag, name) in LOADED and value:
                self.loads.add(value)


def anchors(folder):
    """Returns one line for each link to a missing anchor and for each resource loaded from another site."""
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    found = []
    for name, page in pages.items():
        for load in sorted(page.loads):
            if re.match(r"(https?:)?//", load):
                found.append(f"{name}: loads {load} from the network")
        for link in sorted(page.links):
            path, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or not anchor:
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(path))) if path else name
            if target in pages and urllib.parse.unquote(anchor) not in pages[target].anchors:
                found.append(f"{name}: {target} has no anchor #{anchor}")
    for sheet in sorted(folder.rglob("*.css")):
        if re.search(r"@import\s+(url\()?[\"']?(https?:)?//|url\([\"']?(https?:)?//", sheet.read_text()):
            found.append(f"{sheet.relative_to(folder)}: loads something from the network")
    return found


def dead_links(folder):
    """Returns the links within the site that linkchecker cannot follow."""
    with Server(folder) as address:
        done = subprocess.run(["linkchecker", "-f", str(SETTINGS), "--no-status", "--no-robots", "--output=csv", f"{address}/index.html"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode == 0:
        return []
    rows = [line.split(";") for line in done.stdout.splitlines() if line and not line.startswith("#")]
    return [f"{row[1].removeprefix(address)}: {row[0]}: {row[3]}" for row in rows[1:] if len(row) > 3] or [done.stdout + done.stderr]


def check(folder):
    folder = pathlib.Path(folder)
    return anchors(folder) or dead_links(folder)
