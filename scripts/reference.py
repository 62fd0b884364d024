#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every public name is documented and that names in the documents exist. Creates the XML of the reference.

Doxygen reports undocumented functions, types, members and macros, and malformed comments. It does not report enumerators
and concepts: this script looks for them in Doxygen's XML, and for the names `owner::member` of the documents.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

CODE = re.compile(r"`([^`]+)`")
QUALIFIED = re.compile(r"(?<![\w:])(?:\w+::)+\w+")


def settings(root, output):
    """Returns the Doxyfile with the settings that depend on the folders."""
    inner = sorted((root / "include").rglob("detail/*.hpp"))
    added = {
        "OUTPUT_DIRECTORY": output,
        "EXCLUDE": " ".join(str(path.relative_to(root)) for path in inner),
        "GENERATE_HTML": "NO",
        "GENERATE_XML": "YES",
    }
    return (root / "docs/reference/Doxyfile").read_text() + "".join(f"{key} = {added[key]}\n" for key in added)


def described(element):
    return any("".join(part.itertext()).strip()
               for part in (element.find("briefdescription"), element.find("detaileddescription")) if part is not None)


def compounds(xml):
    """Yields the classes, namespaces, concepts and files of Doxygen's XML."""
    for path in sorted(xml.glob("*.xml")):
        if not path.name.startswith(("dir_", "index")):
            yield from ElementTree.parse(path).getroot().iter("compounddef")


def undocumented(all_compounds):
    """Returns one line for each enumerator and each concept without a description."""
    found = set()
    for compound in all_compounds:
        if compound.get("kind") == "concept" and not described(compound):
            place = compound.find("location")
            found.add((place.get("file"), int(place.get("line")), f"Concept {compound.findtext('compoundname')}"))
        for member in compound.iter("memberdef"):
            place = member.find("location")
            for value in member.findall("enumvalue"):
                if member.get("prot") == "public" and not described(value):
                    found.add((place.get("file"), int(place.get("line")),
                               f"Enumerator {value.findtext('name')} of {member.findtext('qualifiedname')}"))
    return [f"{file}:{line}: {what} is not documented." for file, line, what in sorted(found)]


def members(all_compounds):
    """Returns the members of each class, namespace and enumeration, by its unqualified name."""
    found = collections.defaultdict(set)
    for compound in all_compounds:
        name = re.sub(r"<.*", "", compound.findtext("compoundname"))
        if compound.get("kind") == "file":
            continue
        outer, _, own = name.rpartition("::")
        found[outer.rpartition("::")[2]].add(own)
        for member in compound.iter("member"):
            if member.get("prot") == "public":
                found[own].add(member.findtext("name"))
        for member in compound.iter("memberdef"):
            if member.get("prot") == "public":
                found[own].add(member.findtext("name"))
                found[member.findtext("name")].update(value.findtext("name") for value in member.findall("enumvalue"))
    return found


def dead_names(root, known):
    """Returns one line for each `owner::member` of a document if the owner has no such member."""
    targets = set()  # CMake targets, which also have names of the form verbena::NAME
    for lists in [*root.glob("CMakeLists.txt"), *(root / "cmake").glob("*.cmake"),
                  *(root / "softdev").rglob("CMakeLists.txt")]:
        targets.update(re.findall(r"verbena::(\w+)", lists.read_text()))
    found = []
    for document in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        if document.parent == root / "docs/decisions":  # decision records may contain names that were removed
            continue
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for name in QUALIFIED.findall(" ".join(CODE.findall(line))):
                owner, member = name.split("::")[-2:]
                if name.startswith("std::") or not known.get(owner) or member in known[owner]:
                    continue
                if owner != "verbena" or member not in targets:
                    found.append(f"{document.relative_to(root)}:{number}: there is no {name}")
    return found


def run(root, output):
    """Runs Doxygen, which writes XML to output/xml. Returns each complaint once."""
    output.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["doxygen", "-"], input=settings(root, output), cwd=root, capture_output=True, text=True,
                          check=False)
    complaints = [line.replace(f"{root}/", "") for line in done.stderr.splitlines() if line.strip()]
    if (output / "xml" / "index.xml").is_file():
        all_compounds = list(compounds(output / "xml"))
        complaints += undocumented(all_compounds) + dead_names(root, members(all_compounds))
    elif not complaints:
        complaints.append("doxygen wrote nothing")
    if done.returncode and not complaints:
        complaints.append(f"doxygen ended with status {done.returncode}")
    return list(dict.fromkeys(complaints))


def check(root):
    """Returns the complaints about the comments of the public headers."""
    try:
        with tempfile.TemporaryDirectory(prefix="verbena_reference_") as folder:
            return run(root, pathlib.Path(folder))
    except FileNotFoundError:
        return ["doxygen is missing; scripts/dev/setup.sh docs installs it"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    complaints = check(parser.parse_args().root.resolve())
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
