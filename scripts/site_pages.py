# SPDX-License-Identifier: MIT
"""Writes the input of Sphinx: the repository's Markdown files, source files as pages, the reference, the benchmarks' figures
and the tables of contents. Sphinx converts the result to HTML (docs/site/conf.py).

A page has the path of its file: docs/guide/memory.md becomes docs/guide/memory.html, examples/own_address.hpp becomes
examples/own_address.hpp.html, a README becomes the index of its folder. Links are rewritten accordingly.
"""
import json
import os
import re
import shutil

import check_docs
import site_reference

LINK = re.compile(r"(?<!!)(\[[^\]]*\])\(([^)\s]+)\)")
ORDER = re.compile(r"\]\(([\w./-]+\.md)[)#]")
FENCE = "``````"
PICTURES = (".svg", ".png", ".jpg")


def title_of(text):
    """Returns the first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def head_comment(text):
    """Returns the text of the comment at the top of a source and the source after it."""
    lines = text.splitlines()
    lines = lines[1:] if lines and "SPDX" in lines[0] else lines
    said = []
    while lines and lines[0].startswith("//"):
        said.append(lines.pop(0).removeprefix("//").strip())
    return "\n".join(said), "\n".join(lines).strip("\n") + "\n"


def toctree(entries, caption=None):
    return ["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries, "```", ""]


class Pages:
    def __init__(self, root):
        self.root = root
        self.pages = {}  # docname: text
        self.files = {}  # pictures: path in the site: file
        self.docnames = {}  # path in the repository: docname
        self.listed = set()  # docnames that are in a table of contents
        self.sources = set()  # source files with a page; docs/site/verbena_site.py inserts the text
        self.folders = []  # folders whose page lists their files
        self.problems = []
        self.markdown = {}
        self.objects = []
        for path in check_docs.documents(root):
            relative = path.relative_to(root).as_posix()
            self.markdown[relative] = path.read_text()
            self.docnames[relative] = re.sub(r"(^|/)README$", r"\1index", relative.removesuffix(".md"))
        for relative, docname in self.docnames.copy().items():
            if docname.endswith("index"):
                self.docnames[os.path.dirname(relative)] = docname

    # Pages of the paths of the repository.

    def page_of(self, path):
        """Returns the docname of a file or folder, or None. Adds a page for a source or folder that has no page yet."""
        path = path.strip("/")
        if path not in self.docnames and (self.root / path).is_file() and not path.endswith(PICTURES):
            self.docnames[path] = path
            self.sources.add(path)
        if path not in self.docnames and path and (self.root / path).is_dir():
            self.docnames[path] = f"{path}/index"
            self.folders.append(path)
        return self.docnames.get(path)

    def folder_page(self, path):
        """Adds the page of a folder without a README: a list of its files, with links to those that have pages."""
        entries = sorted(one for one in (self.root / path).iterdir() if not one.name.startswith((".", "__")))
        lines = ["---", "orphan: true", "nosearch: true", "---", "", f"# `{path}/`", ""]
        for one in entries:
            relative = one.relative_to(self.root).as_posix()
            name = one.name + ("/" if one.is_dir() else "")
            page = self.docnames.get(relative)
            lines.append(f"- [`{name}`]({self.address(page, f'{path}/index')})" if page else f"- `{name}`")
        self.pages[f"{path}/index"] = "\n".join([*lines, ""])

    def address(self, docname, of):
        """Returns the target of a link on the page `of`; the extension converts `source:` to a path."""
        if docname in self.sources:
            return f"source:{docname}"
        return os.path.relpath(docname, os.path.dirname(of) or ".") + ".md"

    # Markdown.

    def rewritten(self, relative, text):
        """Returns the text with links to pages of the site; code blocks are unchanged."""
        docname = self.docnames[relative]
        lines, fenced = [], False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            if not fenced:
                line = LINK.sub(lambda match, number=number: self.link(relative, docname, number, match), line)
                for path in check_docs.PATH.findall(line):
                    if (self.root / path.removeprefix("./").split("/")[0]).is_dir() and not path.startswith("build/"):
                        self.page_of(path.removeprefix("./"))
            lines.append(line)
        return "\n".join(lines) + "\n"

    def link(self, relative, docname, number, match):
        text, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(relative), path))
        page = self.page_of("" if full == "." else full)
        if page is None:
            self.problems.append(f"{relative}:{number}: the link to {target} leads out of the site")
            return match.group(0)
        return f"{text}({self.address(page, docname)}{'#' + anchor if anchor else ''})"

    def page_title(self, docname):
        return title_of(self.pages.get(docname, "")) or docname

    # Parts of the site.

    def add_reference(self, xml):
        reference = site_reference.Reference(xml, self.page_of)
        for header in reference.headers:  # links to a public header lead to its page of the reference
            self.docnames[header] = reference.page_of(header)
        lines = reference.write()
        self.pages.update(reference.pages)
        for header in reference.headers:
            self.docnames[f"include/{header}"] = reference.page_of(header)
        self.objects = [[one.name, one.kind, one.docname, one.anchor] for one in reference.entries]
        return lines

    def add_examples(self):
        """Adds one page per example: the head comments of its sources, then the sources."""
        folder = self.root / "examples"
        order = []
        for path in sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []:
            relative = path.relative_to(self.root).as_posix()
            files = sorted(one for one in path.iterdir() if one.suffix in (".cpp", ".hpp", ".c", ".h"))
            if not files:
                continue
            order.append(f"{path.name}/index")
            if relative in self.docnames:  # the example has a README, from which add_markdown makes the page
                links = "\n".join(f"- [`{one.name}`]({one.name})" for one in files)
                self.markdown[f"{relative}/README.md"] += f"\n## Sources\n\n{links}\n"
                continue
            self.docnames[relative] = f"{relative}/index"
            number, _, words = path.name.partition("_") if path.name[0].isdigit() else ("", "", path.name)
            title = f"{number + ' ' if number else ''}{words.replace('_', ' ')}"
            lines = [f"# {title}", ""]
            for one in files:
                said, code = head_comment(one.read_text())
                if len(files) > 1:
                    lines += [f"## `{one.name}`", ""]
                lines += [said, "", f"{FENCE}{{code-block}} cpp", "", code.rstrip("\n"), FENCE, "",
                          f"The file is `{relative}/{one.name}`.", ""]
            self.pages[f"{relative}/index"] = "\n".join(lines)
            for one in files:
                self.page_of(one.relative_to(self.root).as_posix())
        if "examples" not in self.docnames:
            self.docnames["examples"] = "examples/index"
            rows = [f"| [{one.removesuffix('/index')}]({one}.md) | {self.example_summary(one)} |" for one in order]
            self.pages["examples/index"] = "\n".join(["# Examples", "", "Each example is built and run by the tests.", "",
                                                      "| example | shows |", "|---|---|", *rows, *toctree(order)])
        self.listed.update(f"examples/{one}" for one in order)

    def example_summary(self, entry):
        folder = self.root / "examples" / entry.removesuffix("/index")
        if (folder / "README.md").is_file():
            text = re.split(r"^# .*$", (folder / "README.md").read_text(), maxsplit=1, flags=re.MULTILINE)[-1]
            return " ".join(text.strip().split("\n\n")[0].split()).split(". ")[0].rstrip(".:") + "."
        main = next((one for one in sorted(folder.glob("*.cpp")) if len(list(folder.glob("*.cpp"))) == 1), None)
        return " ".join(head_comment(main.read_text())[0].split()) if main else "The code that the guide quotes."

    def add_results(self, plots):
        """Adds the benchmarks' results: a figure and a table for each file."""
        lines = ["# Benchmark results", "", "One figure per stored result, drawn by `./dev bench --plot`. Every value is a ratio to a"
                 " peer that was measured in the same run; [](../../docs/benchmarks.md) explains them.", ""]
        for name, picture in sorted(plots.items(), reverse=True):
            result = json.loads((self.root / "bench/results" / f"{name}.json").read_text())
            machine = result["machine"]
            self.files[f"bench/results/{name}.svg"] = picture
            lines += [f"## {result['bench']}, {result['date'][:10]}", "", f"`{result['command']}`", "",
                      f"{machine['processor']}, {machine['processors']} processors, {machine['system']}, Linux {machine['kernel']}; "
                      + ", ".join(f"{key} {value}" for key, value in result["versions"].items()) + ".", "",
                      f"![Figure of the benchmark {result['bench']}: every value is in the table below]({name}.svg)", "",
                      "| figure | value | peer | goal | limit | verdict |", "|---|---|---|---|---|---|"]
            for one in result["figures"]:
                compiler = f" ({one['compiler']})" if one.get("compiler") else ""
                lines.append(f"| `{one['figure']}`{compiler} | {one['value'] or 'no result'} | {one['peer'] or '–'} | {one['goal'] or '–'} | "
                             f"{one['limit'] or '–'} | {one['verdict']} |")
            lines += ["", f"The file is `bench/results/{name}.json`.", ""]
        self.docnames["bench/results"] = "bench/results/index"
        self.pages["bench/results/index"] = "\n".join(lines)
        for name in plots:
            self.page_of(f"bench/results/{name}.json")

    def add_markdown(self, appended):
        for relative, text in self.markdown.items():
            self.pages[self.docnames[relative]] = self.rewritten(relative, text) + "\n".join(appended.get(relative, []))
        for path in sorted((self.root / "docs").rglob("*")):
            if path.suffix in PICTURES:
                self.files[path.relative_to(self.root).as_posix()] = path

    def children(self, folder, order=()):
        """Returns the pages of a folder of docs, then the indexes of its folders; those in `order` come first."""
        found = [docname for docname in self.pages if docname.startswith(f"{folder}/") and docname != f"{folder}/index"
                 and (docname.count("/") == folder.count("/") + 1
                      or docname.endswith("/index") and docname.count("/") == folder.count("/") + 2)
                 and not self.pages[docname].startswith("---\norphan")]
        ranks = {docname: rank for rank, docname in reversed(list(enumerate(order)))}
        return sorted(found, key=lambda one: (ranks.get(one, len(ranks)), one))

    def add_index(self, folder, title="", words=""):
        """Adds the contents of a folder of docs, ordered by the links in its README; without a README, adds a first page."""
        if f"{folder}/README.md" not in self.markdown and any(one.startswith(f"{folder}/") for one in self.pages):
            self.docnames[folder] = f"{folder}/index"
            self.pages.pop(f"{folder}/index", None)
            entries = self.children(folder)
            self.pages[f"{folder}/index"] = "\n".join(
                [f"# {title}", "", words, "", *(f"- [{self.page_title(one)}]({os.path.relpath(one, folder)}.md)" for one in entries)])
        if f"{folder}/index" in self.pages:
            readme = self.markdown.get(f"{folder}/README.md", "")
            order = [os.path.normpath(f"{folder}/{path}").removesuffix(".md") for path in ORDER.findall(readme)]
            entries = self.children(folder, order)
            self.pages[f"{folder}/index"] += "\n".join(toctree([os.path.relpath(one, folder) for one in entries]))
            self.listed.update(entries)
            for inner in entries:
                if inner.endswith("/index"):
                    self.add_index(os.path.dirname(inner))

    def add_contents(self):
        """Writes the table of contents that the sidebar shows. Each page is in one part, and each part has a caption."""
        parts = {
            "Learn": ["docs/guide/index", "examples/index"],
            "Look up": ["docs/reference/index", "docs/glossary", "docs/environment"],
            "Evidence": ["docs/testing", "docs/parity/index", "docs/benchmarks", "bench/results/index"],
            "Project": ["docs/architecture", "docs/decisions/index", "docs/hacking", "CONTRIBUTING", "CHANGELOG"],
        }
        for entries in parts.values():
            self.listed.update(entries)
        rest = [one for one in self.pages if one != "index" and one not in self.listed
                and not one.startswith("docs/reference/") and not self.pages[one].startswith("---\norphan")]
        parts["Project"] += sorted(rest)
        for caption, entries in parts.items():
            self.pages["index"] += "\n".join(toctree([one for one in entries if one in self.pages], caption))

    # The whole site.

    def make(self, xml, plots):
        appended = {"docs/reference/README.md": self.add_reference(xml)}
        self.add_examples()
        self.add_results(plots)
        self.add_markdown(appended)
        for path in self.folders:
            self.folder_page(path)
        self.add_index("docs/guide", "Guide", "One page per task.")
        self.add_index("docs/decisions", "Decisions", "Departures from the architecture, and the reasons for each choice.")
        self.add_index("docs/parity", "Parity", "What other libraries do, line by line, and the tests that show it here.")
        self.add_contents()

    def write(self, folder):
        """Writes changed files and removes obsolete files. Sphinx rebuilds only pages whose files have changed."""
        wanted = {f"{docname}.md": text.encode() for docname, text in self.pages.items()}
        wanted |= {path: file.read_bytes() for path, file in self.files.items()}
        paths = {path: docname for path, docname in self.docnames.items()
                 if path and (docname in self.pages or docname in self.sources)}
        wanted["site.json"] = json.dumps({"objects": self.objects, "paths": paths, "sources": sorted(self.sources)}, sort_keys=True, indent=0).encode()
        for old in sorted(folder.rglob("*")):
            if old.is_file() and old.relative_to(folder).as_posix() not in wanted:
                old.unlink()
        for path, data in wanted.items():
            target = folder / path
            if target.is_dir():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_file() or target.read_bytes() != data:
                target.write_bytes(data)
