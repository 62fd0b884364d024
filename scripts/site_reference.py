# SPDX-License-Identifier: MIT
"""Turns Doxygen's XML into the reference pages of the site: one page per public header, one index per module.

Breathe is not used: it drops requires clauses, so overloads that differ only in their constraint collide
(docs/decisions). Signatures and comments become HTML, whose links are relative to the page.
"""
import collections
import html
import os
import re

import reference

FOLDER = "docs/reference"
TYPES = {"class", "struct", "union"}
KEYWORDS = ("template class struct union enum concept requires static explicit constexpr consteval virtual const noexcept using "
            "typename auto void bool char int unsigned long short float double friend inline operator delete default "
            "typedef mutable").split()
KEYWORD = re.compile(r"\b(" + "|".join(KEYWORDS) + r")\b(?![^<]*>)(?!;)")
LONGEST_SIGNATURE = 84
MODULES = {  # the contents of each module, in the order of the pages
    "verbs": "devices, memory regions, queue pairs, completions",
    "memory": "buffers, pools, typed views of remote memory, NUMA placement",
    "channel": "channels: connections that own their queues and buffers",
    "bringup": "exchange of endpoints over TCP",
    "cm": "the connection manager",
    "efa": "Elastic Fabric Adapters",
    "diagnose": "facts about this host, and findings",
    "check": "the checker of checked builds",
    "base": "results, errors, numbers, deadlines",
    "sys": "the C functions that the library calls",
}
# The HTML elements for simple elements of comments. Other elements have their own functions or raise UnknownMarkup.
SIMPLE = {"para": "p", "computeroutput": "code", "emphasis": "em", "bold": "strong", "itemizedlist": "ul",
          "orderedlist": "ol", "listitem": "li", "table": "table", "row": "tr", "verbatim": "pre",
          "superscript": "sup", "subscript": "sub", "blockquote": "blockquote"}
SIGNS = {"ndash": "–", "mdash": "—", "nonbreakablespace": " ", "linebreak": "<br>", "sp": " ", "anchor": ""}
SECTIONS = {"return": "Returns", "see": "See", "note": "Note", "warning": "Warning", "pre": "Precondition",
            "post": "Postcondition", "par": "", "since": "Since", "remark": "Remark", "attention": "Attention",
            "templateparam": "Template parameters", "param": "Parameters", "exception": "Exceptions",
            "retval": "Return values"}
ENTRY_KINDS = {"function": "function", "variable": "member", "typedef": "type", "enum": "enumeration", "define": "macro",
               "friend": "function"}


class UnknownMarkup(Exception):
    """The XML contains an element that this script cannot convert."""


def text_of(element):
    return "".join(element.itertext()).strip() if element is not None else ""


def slug(name):
    """Returns an anchor for a qualified name. The symbols of an operator become character codes."""
    name = re.sub(r"operator\s*(\W+)$", lambda match: "operator-" + "-".join(f"{ord(c):x}" for c in match.group(1)), name)
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")


def line_of(element):
    return int(element.find("location").get("line"))


def file_of(element):
    place = element.find("location")
    return place.get("file") if place is not None else None


def code_suffix(arguments):
    """Returns the text after the parameter list: qualifiers, noexcept, = default."""
    depth = 0
    for index, sign in enumerate(arguments):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign == ")":
            return arguments[index + 1:].strip()
    return ""


class Entry:
    """One public name with its page and anchor; overloads share an entry."""

    def __init__(self, name, kind, docname, anchor, brief):
        self.name, self.kind, self.docname, self.anchor, self.brief = name, kind, docname, anchor, brief


class Reference:
    """All pages. `link_path` returns the page of a file of the repository, or None."""

    def __init__(self, xml, link_path=lambda path: None):
        self.link_path = link_path
        self.compounds = {compound.get("id"): compound for compound in reference.compounds(xml)}
        self.files = {file_of(one): one for one in self.compounds.values() if one.get("kind") == "file"}
        self.parents = {inner.get("refid"): one for one in self.compounds.values() if one.get("kind") in TYPES
                        for inner in one.findall("innerclass")}
        self.entries = []
        self.places = {}  # Doxygen's id: (docname, anchor)
        self.pages = {}  # docname: text
        self.headers = collections.defaultdict(list)  # header: its items, (line, kind, element)
        self.anchors = collections.defaultdict(set)
        self.docname = None
        self.local = {}  # places of the members of the current class: an inherited member has one place per class
        self.collect()

    # The location of each entity.

    def collect(self):
        seen = set()
        for compound in self.compounds.values():
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if kind == "file":
                self.places[compound.get("id")] = (self.page_of(file_of(compound)), "")
            if kind in ("file", "namespace"):
                for member in compound.iter("memberdef"):
                    if member.get("id") not in seen and self.shown(member) and "::detail::" not in member.findtext("qualifiedname", ""):
                        seen.add(member.get("id"))
                        self.headers[file_of(member)].append((line_of(member), "member", member))
            elif (kind in TYPES or kind == "concept") and compound.get("id") not in self.parents and "::detail::" not in name:
                if file_of(compound) and (not name.startswith("std::") or reference.described(compound)):
                    self.headers[file_of(compound)].append((line_of(compound), "compound", compound))
        for compound in self.compounds.values():
            if compound.get("kind") == "file" and file_of(compound).endswith(".hpp") and "/detail/" not in file_of(compound):
                self.headers[file_of(compound)]  # a header that only includes others also has a page
        for header in sorted(self.headers):
            self.headers[header].sort(key=lambda item: item[0])
            self.docname = self.page_of(header)
            for _, kind, element in self.headers[header]:
                if kind == "compound":
                    self.place_compound(element)
            self.place_members([element for _, kind, element in self.headers[header] if kind == "member"], "")

    @staticmethod
    def page_of(header):
        return f"{FOLDER}/{header.removeprefix('verbena/').removesuffix('.hpp')}"

    def shown(self, member):
        if member.get("prot") != "public" or member.find("location") is None:
            return False
        return member.get("kind") != "friend" or reference.described(member)

    def nested(self, compound):
        found = [self.compounds.get(inner.get("refid")) for inner in compound.findall("innerclass")
                 if inner.get("prot") == "public"]
        return sorted((one for one in found if one is not None), key=line_of)

    def members(self, compound):
        """Returns the public members, including those inherited from bases of this library, in the order of the source."""
        own = sorted((member for member in compound.iter("memberdef") if self.shown(member)), key=line_of)
        names = {member.findtext("name") for member in own}
        for base in compound.findall("basecompoundref"):
            inner = self.compounds.get(base.get("refid"))
            if inner is not None and base.get("prot") == "public" and inner.findtext("compoundname").startswith("verbena::"):
                own += [member for member in self.members(inner) if member.findtext("name") not in names
                        and not re.match(r"~|operator=|" + re.escape(inner.findtext("compoundname").rpartition("::")[2]) + "$",
                                         member.findtext("name"))]
        return own

    def place(self, refid, name, kind, brief):
        anchor, count = slug(name), 1
        while anchor.lower() in self.anchors[self.docname]:
            count += 1
            anchor = f"{slug(name)}-{count}"
        self.anchors[self.docname].add(anchor.lower())
        self.places.setdefault(refid, (self.docname, anchor))
        self.entries.append(Entry(name, kind, self.docname, anchor, brief))
        return anchor

    def place_compound(self, compound):
        name = compound.findtext("compoundname")
        compound.set("anchor", self.place(compound.get("id"), name, compound.get("kind"), text_of(compound.find("briefdescription"))))
        if compound.get("kind") == "concept":
            return
        self.place_members(self.members(compound), name)
        for inner in self.nested(compound):
            self.place_compound(inner)

    def place_members(self, members, owner):
        first = {}
        for member in members:
            name, kind = member.findtext("name"), ENTRY_KINDS[member.get("kind")]
            if kind == "macro":
                qualified = name
            elif owner:
                qualified = f"{owner}::{name}"
            else:
                qualified = member.findtext("qualifiedname") or name
            if qualified not in first:
                first[qualified] = self.place(member.get("id"), qualified, kind, text_of(member.find("briefdescription")))
            self.places.setdefault(member.get("id"), (self.docname, first[qualified]))
            if kind == "enumeration":
                for value in member.findall("enumvalue"):
                    self.place(value.get("id"), f"{qualified}::{value.findtext('name')}", "enumerator",
                               text_of(value.find("briefdescription")))

    # HTML of comments and signatures.

    def url(self, docname, anchor=""):
        target = os.path.relpath(docname + ".html", os.path.dirname(self.docname)) if docname != self.docname or not anchor else ""
        return f"{target}#{anchor}" if anchor else target

    def inside(self, element):
        return html.escape(element.text or "", quote=False) + "".join(
            self.markup(part) + html.escape(part.tail or "", quote=False) for part in element)

    def markup(self, element):
        tag, inside = element.tag, self.inside(element)
        if tag in SIGNS:
            return SIGNS[tag]
        if tag == "para" and any(part.tag in ("itemizedlist", "orderedlist", "table", "simplesect", "parameterlist",
                                              "programlisting", "verbatim") for part in element):
            return f"<div>{inside}</div>"
        if tag == "computeroutput":
            page = self.link_path(text_of(element))
            return f'<code><a href="{self.url(page)}">{inside}</a></code>' if page else f"<code>{inside}</code>"
        if tag in SIMPLE:
            return f"<{SIMPLE[tag]}>{inside}</{SIMPLE[tag]}>"
        if tag == "ref":
            place = self.local.get(element.get("refid")) or self.places.get(element.get("refid"))
            return f'<a href="{self.url(*place)}">{inside}</a>' if place else inside
        if tag == "ulink":
            return f'<a href="{html.escape(element.get("url"))}">{inside}</a>'
        if tag == "entry":
            cell = "th" if element.get("thead") == "yes" else "td"
            return f"<{cell}>{inside}</{cell}>"
        if tag == "simplesect":
            title = SECTIONS[element.get("kind")]
            return f"<div><strong>{title}</strong> {inside}</div>" if title else f"<div>{inside}</div>"
        if tag == "parameterlist":
            rows = "".join(f"<dt><code>{', '.join(html.escape(text_of(name)) for name in item.iter('parametername'))}</code></dt>"
                           f"<dd>{self.inside(item.find('parameterdescription'))}</dd>" for item in element.findall("parameteritem"))
            return f"<div><strong>{SECTIONS[element.get('kind')]}</strong><dl>{rows}</dl></div>"
        if tag == "programlisting":
            return "<pre>" + "\n".join(html.escape("".join(
                " " if part.tag == "sp" else (part.text or "") for part in line.iter())) for line in element) + "</pre>"
        if tag in ("title", "highlight", "codeline", "parameteritem", "parameterdescription"):
            return inside
        raise UnknownMarkup(f"a comment uses <{tag}>, which scripts/site_reference.py does not know")

    def description(self, element):
        parts = [part for name in ("briefdescription", "detaileddescription") for part in element.find(name) or ()]
        return "".join(self.markup(part) for part in parts if text_of(part))

    def type(self, element):
        """Returns a type as it is written in the headers, without the spaces that Doxygen adds."""
        if element is None:
            return ""
        found = self.inside(element).strip()
        return re.sub(r" ?&gt;", "&gt;", found.replace("&lt; ", "&lt;")).replace(" &amp;", "&amp;").replace(" *", "*")

    def parameter(self, element):
        kind, name = self.type(element.find("type")), element.findtext("declname") or ""
        array, default = element.findtext("array") or "", element.find("defval")
        found = kind.replace("(*", f"(*{name}", 1).replace("(&amp;", f"(&amp;{name}", 1) if array and re.search(r"\((\*|&amp;)\)", kind) \
            else f"{kind} {name}".strip()
        found += html.escape(array)
        return found + (f" = {self.inside(default).strip()}" if default is not None else "")

    def template(self, element):
        parameters = element.find("templateparamlist")
        if parameters is None:
            return ""
        return f"template &lt;{', '.join(self.parameter(one) for one in parameters)}&gt;\n"

    def requires(self, element):
        clause = element.find("requiresclause")
        return f"\n  requires {self.inside(clause).strip()}" if clause is not None else ""

    def function(self, member):
        words = [word for word in ("static", "explicit", "constexpr", "consteval", "virtual") if member.get(word) == "yes"
                 and word not in text_of(member.find("type")).split()]
        if member.get("virt") == "virtual":
            words.append("virtual")
        name = f"<strong>{html.escape(member.findtext('name'))}</strong>"
        head = " ".join([*words, self.type(member.find("type")), name]).replace("  ", " ").strip()
        if member.get("kind") == "friend" and not head.startswith("friend"):
            head = f"friend {head}"
        parameters = [self.parameter(one) for one in member.findall("param")]
        parameters = [] if parameters == ["void"] else parameters
        suffix = html.escape(code_suffix(member.findtext("argsstring") or "()"))
        suffix = f" {suffix}" if suffix else ""
        one = f"{head}({', '.join(parameters)}){suffix}"
        if len(html.unescape(re.sub(r"<[^>]*>", "", one))) > LONGEST_SIGNATURE and parameters:
            one = f"{head}(\n    " + ",\n    ".join(parameters) + f"){suffix}"
        return self.template(member) + one + self.requires(member)

    def signature(self, member):
        kind, name = member.get("kind"), f"<strong>{html.escape(member.findtext('name'))}</strong>"
        if kind in ("function", "friend"):
            found = self.function(member)
        elif kind == "typedef":
            using = member.findtext("definition", "").startswith("using")
            found = self.template(member) + (f"using {name} = {self.type(member.find('type'))}" if using
                                             else f"typedef {self.type(member.find('type'))} {name}")
        elif kind == "enum":
            base = text_of(member.find("type"))
            found = f"enum {'class ' if member.get('strong') == 'yes' else ''}{name}" + (f" : {html.escape(base)}" if base else "")
        elif kind == "define":
            parameters = [one.findtext("defname") or "..." for one in member.findall("param")]
            found = f"#define {name}" + (f"({', '.join(parameters)})" if parameters else "")
        else:
            static = "static " if member.get("static") == "yes" else ""
            start = member.findtext("initializer") or ""
            start = f" {html.escape(start.strip())}" if start.strip() and len(start) < LONGEST_SIGNATURE and "\n" not in start.strip() else ""
            bits = f" : {member.findtext('bitfield')}" if member.find("bitfield") is not None else ""
            found = (self.template(member) + f"{static}{self.type(member.find('type'))} {name}"
                     + html.escape(member.findtext("argsstring") or "") + bits + start)
        return found

    def compound_signature(self, compound):
        kind, name = compound.get("kind"), compound.findtext("compoundname").replace("< ", "<").replace(" >", ">")
        if kind == "concept":
            found = self.inside(compound.find("initializer")).strip()
            return "\n".join(line for line in found.replace("template&lt;", "template &lt;").splitlines() if line.strip())
        bases = [self.type(base) if base.get("refid") is None else self.base_link(base) for base in compound.findall("basecompoundref")
                 if base.get("prot") == "public" and "detail::" not in text_of(base)]
        return (self.template(compound) + f"{kind} <strong>{html.escape(name)}</strong>" + (f" : public {', '.join(bases)}" if bases else "")
                + self.requires(compound))

    def base_link(self, base):
        place = self.places.get(base.get("refid"))
        return f'<a href="{self.url(*place)}">{html.escape(text_of(base))}</a>' if place else html.escape(text_of(base))

    # Pages.

    def block(self, anchor, signature, description, extra=""):
        """Returns the lines of one entry. MyST copies a raw directive unchanged, including empty lines."""
        signature = KEYWORD.sub(r'<span class="keyword">\1</span>', signature)
        mark = f' id="{anchor}"' if anchor else ""
        return ["``````{raw} html", f'<div class="api"{mark}><pre class="signature">{signature}</pre>',
                f'<div class="api-text">{description}{extra}</div></div>', "``````", ""]

    def values(self, member):
        rows = []
        for value in member.findall("enumvalue"):
            start = html.escape((value.findtext("initializer") or "").strip())
            rows.append(f'<tr id="{self.places[value.get("id")][1]}"><td><code>{html.escape(value.findtext("name"))}</code></td>'
                        f"<td>{self.description(value)}{f'<p><code>{start}</code></p>' if start else ''}</td></tr>")
        return '<div class="table-wrapper"><table class="values">' + "".join(rows) + "</table></div>" if rows else ""

    def member_lines(self, members, level, owner):
        """Returns the lines of the members. Each name has one heading for all overloads; variables of a class have none."""
        lines, groups = [], collections.OrderedDict()
        for member in members:
            groups.setdefault((member.get("kind") == "variable", member.findtext("name")), []).append(member)
        for (plain, name), group in groups.items():
            if not plain or not owner:
                lines += [f"{'#' * level} `{name}`", ""]
            anchors = set()
            for member in group:
                anchor = self.anchor_of(member, owner)
                mark = "" if anchor in anchors else anchor
                anchors.add(anchor)
                lines += self.block(mark, self.signature(member), self.description(member), self.values(member))
        return lines

    def anchor_of(self, member, owner):
        docname, anchor = self.places[member.get("id")]
        if docname == self.docname and (not owner or anchor.startswith(slug(owner) + "-")):
            return anchor
        return slug(f"{owner}::{member.findtext('name')}")  # inherited

    def compound_lines(self, compound, level):
        name = compound.findtext("compoundname")
        short = name.removeprefix("verbena::").replace("< ", "<").replace(" >", ">")
        lines = [f"{'#' * level} `{short}`", ""]
        self.local = {member.get("id"): (self.docname, self.anchor_of(member, name)) for member in self.members(compound)} \
            if compound.get("kind") != "concept" else {}
        lines += self.block(compound.get("anchor"), self.compound_signature(compound), self.description(compound))
        if compound.get("kind") == "concept":
            return lines
        lines += self.member_lines(self.members(compound), min(level + 1, 6), name)
        for inner in self.nested(compound):
            lines += self.compound_lines(inner, min(level + 1, 6))
        self.local = {}
        return lines

    def header_page(self, header):
        self.docname = self.page_of(header)
        compound = self.files[header]
        source = self.link_path(f"include/{header}")
        lines = [f"# {header.removeprefix('verbena/')}", ""]
        lines += ["``````{raw} html", f'<pre class="signature include">#include &lt;{header}&gt;</pre>']
        description = self.description(compound)
        lines += [description] if description else []
        lines += [f'<p><a href="{self.url(source)}">Source of this header</a></p>'] if source else []
        lines += ["``````", ""]
        members = []
        for _, kind, element in self.headers[header]:
            if kind == "member":
                members.append(element)
            else:
                lines += self.member_lines(members, 2, "")
                members = []
                lines += self.compound_lines(element, 2)
        lines += self.member_lines(members, 2, "")
        self.pages[self.docname] = "\n".join(lines)

    def first_words(self, header):
        """Returns the brief description of the header's main type, otherwise that of the header."""
        stem = header.rpartition("/")[2].removesuffix(".hpp")
        elements = [element for _, _, element in self.headers[header]]
        named = [one for one in elements if (one.findtext("compoundname") or one.findtext("name")).rpartition("::")[2] == stem]
        compound = self.files[header]
        for one in [*named, compound, *elements]:
            if text_of(one.find("briefdescription")):
                return re.sub(r"([\\`*_|\[\]<>{}])", r"\\\1", text_of(one.find("briefdescription")))
        return ""

    def module_page(self, module, headers):
        self.docname = f"{FOLDER}/{module}/index"
        lines = [f"# Module {module}", "", f"{MODULES.get(module, module)[0].upper()}{MODULES.get(module, module)[1:]}.", "",
                 "| header | first words |", "|---|---|"]
        for header in headers:
            stem = header.rpartition("/")[2]
            lines.append(f"| [{stem}]({stem.removesuffix('.hpp')}.md) | {self.first_words(header)} |")
        lines += ["", "```{toctree}", ":hidden:", "", *(f"{name} <{name.removesuffix('.hpp')}>" for name in (header.rpartition("/")[2] for header in headers)), "```", ""]
        self.pages[self.docname] = "\n".join(lines)

    def names_page(self):
        """Writes the page with the list of all public names."""
        self.docname = f"{FOLDER}/names"
        rows = "".join(f'<tr><td><a href="{self.url(one.docname, one.anchor)}"><code>{html.escape(one.name)}</code></a></td>'
                       f"<td>{html.escape(one.brief)}</td></tr>"
                       for one in sorted(self.entries, key=lambda one: one.name.lower()) if one.kind != "enumerator")
        self.pages[self.docname] = "\n".join(
            ["---", "nosearch: true", "---", "", "# All names", "", "``````{raw} html",
             f'<div class="table-wrapper"><table class="names">{rows}</table></div>', "``````", ""])

    def write(self):
        """Makes all pages. Returns the lines for the first page of the reference."""
        modules = collections.defaultdict(list)
        for header in sorted(self.headers):
            self.header_page(header)
            module = header.removeprefix("verbena/").rpartition("/")[0]
            modules[module].append(header)
        order = sorted((one for one in modules if one), key=lambda one: (list(MODULES).index(one) if one in MODULES else 99, one))
        for module in order:
            self.module_page(module, modules[module])
        self.names_page()
        lines = ["", "## Modules", "", "| module | holds |", "|---|---|"]
        lines += [f"| [{one}]({one}/index.md) | {MODULES.get(one, '')} |" for one in order]
        lines += ["", "Every public name in one list: [all names](names.md).", "", "```{toctree}", ":hidden:", ""]
        lines += [f"{self.page_of(header).removeprefix(FOLDER + '/')}" for header in modules[""]]
        lines += [*(f"{one}/index" for one in order), "names", "```", ""]
        return lines
