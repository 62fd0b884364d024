# SPDX-License-Identifier: MIT
"""`verbena doctor`: findings on this host and in trees that represent other hosts, output format and exit status."""
import json
import os
import pathlib
import re
import subprocess
import unittest

import jsonschema

import harness

LIBRARIES = pathlib.Path(harness.VERBENA).resolve().parent.parent / "lib"
SCHEMA = json.loads((harness.ROOT / "docs/guide/doctor.schema.json").read_text())
HIDDEN = {"VERBENA_SOFTDEV": "off", "VERBENA_LIBIBVERBS": "/nonexistent/libibverbs.so.1"}
# The unprivileged user of these tests: `nobody` if root runs them, otherwise the current user.
ORDINARY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
# An endpoint as a peer sends it: queue pair 17, MTU 4096, read depth 16, ::ffff:ADDRESS.
ENDPOINT = "01010510" "00000011" "00000000" "0000" "00000000000000000000ffff{}"


class Case(harness.Case):
    def doctor(self, *words, status=0, env=None):
        """Returns the JSON of a run and checks that its exit status is `status`."""
        done = harness.verbena("doctor", "--json", *words, env=env)
        self.assert_ended(done, status)
        found = json.loads(done.stdout)
        jsonschema.validate(found, SCHEMA)
        self.assertEqual(found["works"], status == 0)
        return found

    def ordinary(self, *words):
        """Returns the output for an unprivileged user, who runs a copy because the build folder may not be readable."""
        tool = self.copy_of(harness.VERBENA)
        library = self.copy_of(LIBRARIES / "libverbena-soft.so.0")
        done = subprocess.run([*ORDINARY, tool, "doctor", *map(str, words)], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=harness.BOUND, check=False,
                              env=harness.environment(VERBENA_SOFTDEV_LIBRARY=str(library)))
        self.assert_ended(done)
        return done

    def finding(self, report, topic):
        matching = [each for each in report["findings"] if each["topic"] == topic]
        self.assertTrue(matching, f"{topic} is not among {[each['topic'] for each in report['findings']]}")
        return matching[0]

    def tree(self, **files):
        """Creates a folder with these files; `__` in a name means `/`."""
        root = self.work / "host"
        for name, text in files.items():
            path = root / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        root.mkdir(exist_ok=True)
        return root


class Here(Case):
    def test_working_soft0_ends_with_status_0(self):
        report = self.doctor()
        self.assertEqual(report["usable"], {"device": "soft0", "port": 1, "kind": "soft"})
        self.assertEqual(self.finding(report, "message")["meaning"], "the message arrived")
        self.assertEqual(self.finding(report, "gid")["subject"], "soft0 port 1")
        self.assertIn("RDMA works on soft0 port 1 (software device)", report["verdict"])

    def test_key_of_packets_is_reported_without_its_content(self):
        key = self.script("key", "s" * 32, 0o600)
        wire = {"VERBENA_SOFTDEV_WIRE": "on", "VERBENA_SOFTDEV_WIRE_KEY_FILE": str(key)}
        found = self.finding(self.doctor(env=wire), "soft0-wire")
        self.assertEqual((found["severity"], "usable" in found["meaning"], "ssss" in str(found)), ("ok", True, False))
        key.chmod(0o644)
        found = self.finding(self.doctor(env=wire), "soft0-wire")
        self.assertEqual(found["severity"], "problem")
        self.assertIn("other users have access to it", found["meaning"])

    def test_soft0_is_not_enough_where_more_is_required(self):
        for kind in ("kernel", "hardware"):
            self.assertIn("is required", self.doctor("--require", kind, status=1)["verdict"])
        self.doctor("--require", "any")

    def test_without_any_device_the_status_is_1(self):
        report = self.doctor(status=1, env=HIDDEN)
        self.assertIsNone(report["usable"])
        self.assertIn("VERBENA_LIBIBVERBS is set to this path", self.finding(report, "libibverbs")["meaning"])
        self.assertEqual(self.finding(report, "soft0")["commands"], ["unset VERBENA_SOFTDEV"])

    def test_a_device_library_that_is_not_there_is_a_problem(self):
        report = self.doctor(status=1, env={"VERBENA_SOFTDEV_LIBRARY": "/nonexistent/soft.so"})
        self.assertEqual(self.finding(report, "soft0")["severity"], "problem")
        self.assertIn("VERBENA_SOFTDEV_LIBRARY is set to this path", self.finding(report, "soft0")["meaning"])

    def test_an_ordinary_user_is_enough_for_soft0(self):
        done = self.ordinary()
        self.assertIn("RDMA works on soft0", harness.text(done.stdout))

    def test_interfaces_of_this_host_can_be_attached_to(self):
        commands = " ".join(self.finding(self.doctor(), "attach")["commands"])
        for netdev in re.findall(r"type rxe netdev (\S+)", commands):
            self.assertTrue(netdev == "v0" or os.path.isdir(f"/sys/class/net/{netdev}"), netdev)
        self.assertIn("rdma link add", commands)


class Trees(Case):
    """Folders that represent other hosts. The devices are still those of this process."""

    def test_limit_of_locked_memory(self):
        root = self.tree(proc__self__limits="Max locked memory         65536                65536                bytes\n",
                         sys__class__infiniband__mlx5_0__node_guid="")
        found = self.finding(self.doctor("--root", root), "memlock")
        self.assertEqual(found["severity"], "warning")
        self.assertTrue(any("memlock unlimited" in each for each in found["commands"]))

    def test_device_file_that_this_user_may_not_open(self):
        root = self.tree(sys__class__infiniband__mlx5_0__node_guid="",
                         sys__class__infiniband_verbs__uverbs0__ibdev="mlx5_0\n", dev__infiniband__uverbs0="")
        (root / "dev/infiniband/uverbs0").chmod(0)
        done = self.ordinary("--json", "--root", root)
        found = self.finding(json.loads(done.stdout), "permission")
        self.assertEqual((found["severity"], found["subject"]), ("problem", "mlx5_0"))
        self.assertEqual(found["commands"], ["sudo chmod 666 /dev/infiniband/uverbs0"])

    def test_device_that_is_not_passed_to_the_container(self):
        root = self.tree(sys__class__infiniband__mlx5_0__node_guid="", run__systemd__container="lxc\n",
                         sys__class__infiniband_verbs__uverbs0__ibdev="mlx5_0\n")
        report = self.doctor("--root", root)
        self.assertIn("it is not passed to this container (lxc)", self.finding(report, "permission")["meaning"])
        self.assertIn("--device=/dev/infiniband", self.finding(report, "container")["commands"][0])

    def test_adapter_without_its_module(self):
        folder = "sys__bus__pci__devices__0000:01:00.0__"
        root = self.tree(**{folder + "vendor": "0x15b3\n", folder + "class": "0x020000\n"})
        self.assertEqual(self.finding(self.doctor("--root", root), "module")["commands"], ["sudo modprobe mlx5_ib"])

    def test_control_group_with_exhausted_limit(self):
        root = self.tree(proc__self__cgroup="0::/x\n")
        group = root / "sys/fs/cgroup/x"
        group.mkdir(parents=True)
        (group / "rdma.max").write_text("mlx5_0 hca_handle=1 hca_object=max\n")
        (group / "rdma.current").write_text("mlx5_0 hca_handle=1 hca_object=7\n")
        self.assertEqual(self.finding(self.doctor("--root", root), "cgroup")["severity"], "problem")

    def test_empty_tree_is_no_failure(self):
        report = self.doctor("--root", self.tree())
        self.assertIn("the limit is unknown", self.finding(report, "memlock")["meaning"])


class Peer(Case):
    def test_of_this_host_fits(self):
        report = self.doctor("--endpoint", ENDPOINT.format("7f000001"))
        self.assertIn("which is this port", self.finding(report, "peer-address")["meaning"])
        self.assertIn("the connection uses 4096", self.finding(report, "peer-mtu")["meaning"])

    def test_of_another_host_is_out_of_reach_of_soft0(self):
        report = self.doctor("--endpoint", ENDPOINT.format("C0000201"))
        self.assertEqual(self.finding(report, "peer-address")["severity"], "problem")

    def test_that_is_no_endpoint_is_wrong_usage(self):
        for text in ("xyz", "0101", "01" * 31, "0", ENDPOINT.format("7f000001").replace("0101", "0901", 1)):
            self.assert_refused(harness.verbena("doctor", "--endpoint", text), 2, "--endpoint: ", "verbena doctor")


class Form(Case):
    def test_text_fits_80_columns(self):
        for words, env in (((), {}), ((), HIDDEN), (("--root", self.tree()), {}),
                           (("--endpoint", ENDPOINT.format("c0000201")), {})):
            self.assert_narrow(harness.text(harness.verbena("doctor", *words, env=env).stdout))

    def test_text_and_json_have_the_same_findings(self):
        text = " ".join(harness.text(harness.verbena("doctor").stdout).split())
        report = self.doctor()
        for each in report["findings"]:
            self.assertIn(f"{each['severity']} {each['topic']}", text)
            if each["topic"] != "files":  # the number differs between runs
                self.assertIn(" ".join(each["looked_at"].split()), text)
        self.assertTrue(text.endswith(report["verdict"]))

    def test_schema_refuses_a_missing_key_and_a_new_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        validator = jsonschema.Draft202012Validator(SCHEMA)
        for damage in (lambda report: report.pop("usable"), lambda report: report.update(more=1),
                       lambda report: report["findings"][0].update(severity="bad")):
            damaged = self.doctor()
            damage(damaged)
            self.assertFalse(validator.is_valid(damaged))

    def test_guide_names_every_topic(self):
        guide = (harness.ROOT / "docs/guide/doctor.md").read_text()
        sources = "".join(path.read_text() for path in (harness.ROOT / "src/diagnose").glob("*.cpp"))
        for topic in set(re.findall(r'\.topic = "([\w-]+)"', sources)):
            self.assertIn(f"`{topic}`", guide)

    def test_wrong_usage_is_one_line_and_status_2(self):
        for words in (("--require", "magic"), ("--root", "/nonexistent"), ("more",)):
            self.assert_refused(harness.verbena("doctor", *words), 2, "--help", "verbena")

    def test_help_fits_80_columns_and_states_the_exit_status(self):
        done = harness.verbena("doctor", "--help")
        self.assert_ended(done)
        self.assert_narrow(harness.text(done.stdout))
        self.assertIn("Exit status:", harness.text(done.stdout))


if __name__ == "__main__":
    unittest.main()
