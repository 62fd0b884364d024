#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the reference of the public names with Doxygen, or (--check) only looks whether all of them are documented.

Doxygen reports undocumented functions, types, members and macros, and what it cannot make sense of. It says nothing of
enumerators and concepts: those are looked up in its XML, and so are the names `owner::member` of the documents.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

# Headers in detail whose classes public ones inherit from: the public members of those are public names.
BASES = ("handle.hpp", "queue_pair_base.hpp", "prepared_base.hpp")
CODE = re.compile(r"`([^`]+)`")
QUALIFIED = re.compile(r"(?<![\w:])(?:\w+::)+\w+")


def settings(root, output, check):
    """The Doxyfile with what depends on the place and on what is wanted."""
    inner = sorted((root / "include").rglob("detail/*.hpp"))
    added = {
        "OUTPUT_DIRECTORY": output,
        "EXCLUDE": " ".join(str(path.relative_to(root)) for path in inner if path.name not in BASES),
        "GENERATE_HTML": "NO" if check else "YES",
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
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for name in QUALIFIED.findall(" ".join(CODE.findall(line))):
                owner, member = name.split("::")[-2:]
                if name.startswith("std::") or not known.get(owner) or member in known[owner]:
                    continue
                if owner != "verbena" or member not in targets:
                    found.append(f"{document.relative_to(root)}:{number}: there is no {name}")
    return found


def run(root, output, check):
    """The complaints, without repetitions."""
    output.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["doxygen", "-"], input=settings(root, output, check), cwd=root, capture_output=True, text=True,
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


def main():
    parser = argparse.ArgumentParser(prog="./dev docs", description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    root = options.root.resolve()
    try:
        if options.check:
            with tempfile.TemporaryDirectory(prefix="verbena_reference_") as folder:
                complaints = run(root, pathlib.Path(folder), True)
        else:
            complaints = run(root, root / "build" / "docs", False)
    except FileNotFoundError:
        complaints = ["doxygen is missing; scripts/dev/setup.sh docs installs it"]
    if complaints:
        print("\n".join(complaints))
        return 1
    if not options.check:
        print("build/docs/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
