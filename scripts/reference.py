#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every public name is documented, and that names in the documents exist. Makes the XML of the reference.

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
    """The Doxyfile with what depends on the place and on what is wanted."""
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
    """Classes, namespaces, concepts and files of Doxygen's XML."""
    for path in sorted(xml.glob("*.xml")):
        if not path.name.startswith(("dir_", "index")):
            yield from ElementTree.parse(path).getroot().iter("compounddef")


def undocumented(all_compounds):
    """One line for each enumerator and each concept without a description."""
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
    """The last names of classes, namespaces and enumerations, and what each has."""
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
    """One line for each `owner::member` of a document whose owner has no such member."""
    targets = set()  # of CMake; their names look the same
    for lists in [*root.glob("CMakeLists.txt"), *(root / "cmake").glob("*.cmake"),
                  *(root / "softdev").rglob("CMakeLists.txt")]:
        targets.update(re.findall(r"verbena::(\w+)", lists.read_text()))
    found = []
    for document in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        if document.parent == root / "docs/decisions":  # records tell of names that were given up
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
    """Runs Doxygen, whose XML goes to output/xml. Returns the complaints, without repetitions."""
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
    """The complaints about the comments of the public headers."""
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
