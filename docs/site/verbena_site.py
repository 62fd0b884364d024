# SPDX-License-Identifier: MIT
"""Sphinx extension of the site: the search finds the public names, paths and names in code marks become links, sources
become pages.

A source is not a page of Sphinx: there are hundreds, and no search should find them before the pages.
"""
import html
import json
import pathlib
import re

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound
from sphinx.domains import Domain, ObjType
from sphinx.transforms.post_transforms import SphinxPostTransform

KINDS = ("class", "struct", "union", "concept", "function", "member", "type", "enumeration", "enumerator", "macro")
PRIORITY = 1  # of a name among the results of a search: below pages whose title has the word
RARE_PRIORITY = 2
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARED_SHEET = "/javascript/normalize.css/normalize.css"
SCRIPT_IMPORT = 'import Gumshoe from "./gumshoe-patched.js";'
SOURCE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{path} - Verbena</title>
<link rel="stylesheet" href="{up}_static/pygments.css">
<link rel="stylesheet" href="{up}_static/source.css">
<link rel="icon" href="{up}_static/favicon.svg">
</head>
<body data-theme="auto">
<header><a href="{up}index.html">Verbena</a> <h1>{path}</h1></header>
{code}
</body>
</html>
"""


def load(app):
    site = json.loads((pathlib.Path(app.srcdir) / "site.json").read_text())
    app.config.site_paths = site["paths"]
    app.config.site_objects = [tuple(one) for one in site["objects"]]
    names = {}
    for name, _, docname, anchor in app.config.site_objects:
        names.setdefault(name, (docname, anchor))
        names.setdefault(name.removeprefix("verbena::"), (docname, anchor))
    app.config.site_names = names
    app.config.site_sources = site["sources"]


def short_contents(app, pagename, templatename, context, doctree):
    """The sidebar opens the part that the page is in: all names of the reference on each page would be a megabyte each."""
    toctree = context.get("toctree")
    if toctree:
        context["toctree"] = lambda **options: toctree(**{**options, "collapse": True})


def complete_theme(app, exception):
    """Completes Debian's Furo: it refers to a style sheet of a web server, its script is not bundled with its import, and its
    style sheet lacks the dark colours of readers who prefer them without a choice on the page."""
    if exception is not None:
        return
    static = pathlib.Path(app.outdir) / "_static"
    sheet, script = static / "styles/furo.css", static / "scripts/furo.js"
    if SHARED_SHEET in sheet.read_text():
        (sheet.parent / "normalize.css").write_bytes(pathlib.Path("/usr/share", SHARED_SHEET.lstrip("/")).read_bytes())
        sheet.write_text(sheet.read_text().replace(SHARED_SHEET, "normalize.css"))
    dark = re.search(r'body\[data-theme="dark"\] \{([^}]*)\}', sheet.read_text())
    if dark and "prefers-color-scheme" not in sheet.read_text():
        with sheet.open("a") as out:
            out.write("@media not print { @media (prefers-color-scheme: dark) { "
                      f'body:not([data-theme="light"]) {{{dark.group(1)}}} }} }}\n')
    if SCRIPT_IMPORT in script.read_text():
        imported = (script.parent / "gumshoe-patched.js").read_text()
        script.write_text(imported + script.read_text().replace(SCRIPT_IMPORT, ""))


def write_sources(app, exception):
    if exception is not None:
        return
    for path in app.config.site_sources:
        try:
            lexer = get_lexer_for_filename(path, stripnl=False)
        except ClassNotFound:
            lexer = TextLexer(stripnl=False)
        code = highlight((ROOT / path).read_text(errors="replace"), lexer, HtmlFormatter(linenos="table", lineanchors="L"))
        target = pathlib.Path(app.outdir) / f"{path}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(SOURCE.format(path=html.escape(path), up="../" * path.count("/"), code=code))


class NamesDomain(Domain):
    """The public names, for the index of the search."""
    name = "verbena"
    label = "C++"
    object_types = {kind: ObjType(kind) for kind in KINDS}

    def get_objects(self):
        for name, kind, docname, anchor in self.env.app.config.site_objects:
            yield name, name, kind, docname, anchor, RARE_PRIORITY if kind in ("enumerator", "member") else PRIORITY

    def merge_domaindata(self, docnames, otherdata):
        pass

    def resolve_any_xref(self, env, fromdocname, builder, target, node, contnode):
        return []


class LinkCode(SphinxPostTransform):
    """`docs/testing.md` and `verbena::result` in a text lead to their pages."""
    default_priority = 900
    formats = ("html",)

    def target(self, text):
        config = self.app.config
        path = re.sub(r"^\./", "", text).rstrip("/")
        if "/" in path and path in config.site_paths:
            return config.site_paths[path], ""
        if "::" in text:
            return config.site_names.get(re.sub(r"(\(\)|<.*>)$", "", text))
        return None

    def run(self, **kwargs):
        docname = self.env.docname
        for link in self.document.findall(nodes.reference):
            if link.get("refuri", "").startswith("source:"):
                path, _, anchor = link["refuri"].removeprefix("source:").partition("#")
                link["refuri"] = self.app.builder.get_relative_uri(docname, path) + (f"#{anchor}" if anchor else "")
                link["internal"] = True
        for literal in list(self.document.findall(nodes.literal)):
            above = literal.parent
            while above is not None and not isinstance(above, (nodes.reference, nodes.title)):
                above = above.parent
            found = self.target(literal.astext()) if above is None else None
            if found and found[0] != docname:
                uri = self.app.builder.get_relative_uri(docname, found[0]) + (f"#{found[1]}" if found[1] else "")
                link = nodes.reference("", "", internal=True, refuri=uri)
                literal.replace_self(link)
                link += literal


def setup(app):
    for name in ("site_paths", "site_objects", "site_names", "site_sources"):
        app.add_config_value(name, None, "")
    app.connect("builder-inited", load)
    app.connect("html-page-context", short_contents, priority=100)  # before the theme's
    app.connect("build-finished", complete_theme)
    app.connect("build-finished", write_sources)
    app.add_domain(NamesDomain)
    app.add_post_transform(LinkCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
