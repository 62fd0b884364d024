# SPDX-License-Identifier: MIT
"""Tests of the site: names and signatures in the reference, links between files, dead anchors."""
import json
import unittest

from lint_case import SPDX, LintCase

import reference
import site_links
import site_pages
import site_reference

HEADER = SPDX + """#pragma once
namespace verbena::inline VERBENA_ABI {
/// A thing. Threads: immutable.
template <class T>
class thing : public handle {
 public:
  /// Sends small values.
  void send(int value, const thing<T>& to = {}) const noexcept
    requires small<T>;
  /// Sends large values.
  void send(int value, const thing<T>& to = {}) const noexcept
    requires large<T>;
  /// Compares `a` with `b`, see docs/page.md.
  friend bool operator==(const thing& a, const thing& b) noexcept = default;
};
/// Small types.
template <class T>
concept small = sizeof(T) < 8;
/// Colours.
enum class colour : unsigned {
  red = 1,  ///< as blood
};
}  // namespace verbena::inline VERBENA_ABI
"""
BASE = SPDX + """#pragma once
namespace verbena::inline VERBENA_ABI {
/// A base.
class handle {
 public:
  /// Returns the number.
  int number() const;
};
}  // namespace verbena::inline VERBENA_ABI
"""


class Site(LintCase):
    def setUp(self):
        super().setUp()
        self.copy("docs/reference", "include/verbena/base/config.hpp")
        self.write("docs/reference/README.md", "# Reference\n")
        self.write("include/verbena/verbs/handle.hpp", BASE)
        self.write("include/verbena/verbs/thing.hpp", HEADER)
        self.write("README.md", "# Front\n\n[page](docs/page.md), [source](examples/own.hpp), [folder](examples)\n")
        self.write("docs/page.md", "# Page\n\n```\n[code](nowhere)\n```\n[front](../README.md)\n")
        self.write("examples/own.hpp", SPDX + "int own;\n")
        self.write("examples/01_first/first.cpp", SPDX + "// Shows how.\nint main() {}\n")

    def make(self):
        reference.run(self.root, self.root / "build")
        pages = site_pages.Pages(self.root)
        pages.make(self.root / "build/xml", {})
        return pages

    def test_reference_has_every_name(self):
        names = {name: (docname, anchor) for name, _, docname, anchor in self.make().objects}
        for name in ("verbena::thing", "verbena::thing::send", "verbena::thing::number", "verbena::thing::operator==",
                     "verbena::small", "verbena::colour", "verbena::colour::red"):
            with self.subTest(name):
                self.assertEqual(names[name][0], "docs/reference/verbs/thing")

    def test_overloads_keep_their_constraints(self):
        text = self.make().pages["docs/reference/verbs/thing"]
        for part in ("small&lt;T&gt;", "large&lt;T&gt;", "Sends small values.", "Sends large values.", "Returns the number.", "as blood"):
            with self.subTest(part):
                self.assertIn(part, text)

    def test_unknown_markup_is_refused(self):
        xml = '<para xmlns="">text <nonsense/></para>'
        pages = site_reference.Reference(self.root / "build/xml")
        with self.assertRaises(site_reference.UnknownMarkup):
            pages.markup(site_reference.reference.ElementTree.fromstring(xml))

    def test_links_lead_to_pages_of_the_site(self):
        pages = self.make()
        self.assertEqual(pages.problems, [])
        front = pages.pages["index"]
        for link in ("[page](docs/page.md)", "[source](source:examples/own.hpp)", "[folder](examples/index.md)"):
            self.assertIn(link, front)
        self.assertIn("[code](nowhere)", pages.pages["docs/page"])
        self.assertIn("[front](../index.md)", pages.pages["docs/page"])
        self.assertIn("Shows how.", pages.pages["examples/01_first/index"])

    def test_link_out_of_the_site_is_found(self):
        self.write("README.md", "# Front\n\n[gone](docs/gone.md)\n")
        self.assertIn("docs/gone.md", self.make().problems[0])

    def test_pages_that_are_gone_are_removed(self):
        pages = self.make()
        pages.write(self.root / "pages")
        self.write("pages/old.md", "old")
        pages.write(self.root / "pages")
        self.assertFalse((self.root / "pages/old.md").exists())
        self.assertIn("docs/page.md", json.loads((self.root / "pages/site.json").read_text())["paths"])

    def test_dead_anchors_and_network_access_are_found(self):
        self.write("html/a.html", '<p id="here"><a href="#here">1</a><a href="b.html#there">2</a></p>')
        self.write("html/b.html", '<p id="there"></p>')
        self.assertEqual(site_links.anchors(self.root / "html"), [])
        self.write("html/b.html", '<p id="else"><img src="https://example.org/x.png"></p>')
        self.assertEqual(site_links.anchors(self.root / "html"),
                         ["a.html: b.html has no anchor #there", "b.html: loads https://example.org/x.png from the network"])


if __name__ == "__main__":
    unittest.main()
