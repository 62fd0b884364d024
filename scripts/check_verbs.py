#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks every list of C functions against the manifests of softdev/forward, and names the missing place.

The manifests are functions.inc, newer.inc and own.inc (libibverbs), efa.inc (libefa) and rdmacm.inc (librdmacm). The lists are the
tables of the device (softdev/shim), the tables of the library (include/verbena/sys) and the functions of a static
libibverbs (cmake/linked.cpp.in). The version scripts of the drop-ins are made from the manifests.
"""
import argparse
import pathlib
import re
import sys

FORWARD, SHIM, SYS = pathlib.Path("softdev/forward"), pathlib.Path("softdev/shim"), pathlib.Path("include/verbena/sys")
LINKED = pathlib.Path("cmake/linked.cpp.in")
# A convention of the manifests, and the failure that a table of the library has for it. cannot_fail ignores the result.
FAILURES = {"null": "null_and_errno", "code": "positive_errno", "minus_one": "minus_one_and_errno", "negative": "negative_errno"}
# Functions that the device has besides those that the forwarders dispatch by an object.
BY_HAND = {"ibv_get_device_list": "null", "ibv_free_device_list": "silent", "ibv_ack_async_event": "silent", "ibv_import_device": "null"}


class Check:
    def __init__(self, root):
        self.root = root
        self.findings = []

    def text(self, path):
        return (self.root / path).read_text()

    def say(self, path, what):
        self.findings.append(f"{path}: {what}")

    def rows(self, path, macros):
        """Returns {name: convention} of the lines MACRO(NODE, CONVENTION, RESULT, NAME, ...)."""
        found = re.findall(rf"^(?:{macros})\(\w+, (\w+), [^,]+, (\w+),", self.text(path), re.MULTILINE)
        names = [name for _, name in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.say(path, f"{name} has several lines")
        return {name: how for how, name in found}

    def device(self, manifest):
        """The device implements or refuses each dispatched function, and reports failures in the same way."""
        here, there = SHIM / "supported.inc", SHIM / "not_supported.inc"
        supported = dict(re.findall(r"^SUPPORTED\((\w+), (\w+)\)", self.text(here), re.MULTILINE))
        refused = dict(re.findall(r"^NOT_SUPPORTED_FUNCTION\((\w+), (\w+),", self.text(there), re.MULTILINE))
        for name in sorted(supported.keys() & refused.keys()):
            self.say(there, f"{name} is also in {here}")
        wanted = manifest | BY_HAND
        for name, how in sorted(wanted.items()):
            found, path = (supported, here) if name in supported else (refused, there)
            if name not in found:
                self.say(here, f"{name} is missing: add SUPPORTED({name}, {how}), or a line to {there}")
            elif found[name] != how:
                self.say(path, f"{name} reports failure as {found[name]}, but as {how} in {FORWARD}")
        for name in sorted((supported.keys() | refused.keys()) - wanted.keys()):
            if not name.startswith("verbena_soft_"):
                self.say(FORWARD / "functions.inc", f"{name} is missing, but the device has it ({here} or {there})")

    def own(self):
        """Each function that is dispatched by hand has a version node."""
        own = set(re.findall(r"^OWN\(\w+, (\w+)\)", self.text(FORWARD / "own.inc"), re.MULTILINE))
        for name in sorted(BY_HAND.keys() - own):
            self.say(FORWARD / "own.inc", f"{name} is missing")

    def compatible(self, manifest):
        """Each old version belongs to a function of the manifest, and fails in the same way."""
        path = FORWARD / "forwarded.inc"
        for name, how in re.findall(r"^COMPAT\(\w+, (\w+), (\w+)\)", self.text(path), re.MULTILINE):
            known = (manifest | BY_HAND).get(name)
            if known is None and name != "ibv_register_driver":
                self.say(path, f"{name} has an old version, but no line in {FORWARD / 'functions.inc'}")
            elif known not in (None, how):
                self.say(path, f"{name} reports failure as {how}, but as {known} in {FORWARD / 'functions.inc'}")

    def table(self, name, visitors, manifest, source):
        """A table of the library names existing functions with their failure, and visits each member once."""
        path = SYS / name
        text = self.text(path)
        declared, inline, _ = text.partition("// Inline functions of verbs.h")
        members = {}
        for function, failure, rest in re.findall(r'verb<"(\w+)", f::(\w+),(.*?)>\s*\w+;', declared, re.DOTALL):
            member = re.search(rf'verb<"{function}".*?>\s*(\w+);', declared, re.DOTALL).group(1)
            members[member] = function
            how = manifest.get(function)
            if how is None:
                self.say(source, f"{function} is missing, but {path} has it")
            elif failure not in ("cannot_fail", FAILURES.get(how)):
                self.say(path, f"{function} reports failure as {failure}, but as {how} in {source}")
        visited = re.search(rf"void {visitors}\(.*?\ball\((?!auto)(.*?)\);", text, re.DOTALL).group(1)
        visited = [each.strip() for each in visited.split(",")]
        for member in sorted(members.keys() ^ set(visited)):
            self.say(path, f"{visitors}() and the members differ in {member}")
        return set(members.values())

    def linked(self, wanted):
        """A program that links a static libibverbs finds the functions of the tables."""
        found = set(re.findall(r'(?:VERBENA_LINKED\(|named\(")(_?(?:ibv|efadv|rdma)_\w+)', self.text(LINKED)))
        for name in sorted(wanted - found):
            self.say(LINKED, f"{name} is missing: add VERBENA_LINKED({name})")
        for name in sorted(found - wanted):
            self.say(LINKED, f"{name} is in no table of {SYS}")

    def run(self):
        verbs = self.rows(FORWARD / "functions.inc", "FORWARD")
        newer = self.rows(FORWARD / "newer.inc", "FORWARD")
        efa = self.rows(FORWARD / "efa.inc", "EFA|EFA_NEWER")
        cm = self.rows(FORWARD / "rdmacm.inc", "CM|CM_NEWER|SOCKET|SOCKET_NEWER")
        for name in sorted(verbs.keys() & newer.keys()):
            self.say(FORWARD / "newer.inc", f"{name} is also in functions.inc")
        self.own()
        self.device(verbs)
        self.compatible(verbs)
        wanted = self.table("verbs_table.hpp", "for_each_exported", verbs | BY_HAND, FORWARD / "functions.inc")
        wanted |= self.table("efa_table.hpp", "for_each", efa, FORWARD / "efa.inc")
        wanted |= self.table("cm_table.hpp", "for_each", cm, FORWARD / "rdmacm.inc")
        self.linked(wanted)
        return self.findings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    findings = Check(parser.parse_args().root).run()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
