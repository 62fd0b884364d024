# SPDX-License-Identifier: MIT
"""`verbena devinfo`: contents and format of the output on soft0, and messages without a device."""
import copy
import ipaddress
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import unittest

import jsonschema

import compare_devinfo
import harness
import prometheus

SCHEMA = json.loads((harness.ROOT / "docs/guide/devinfo.schema.json").read_text())
COUNTERS_SCHEMA = json.loads((harness.ROOT / "docs/guide/counters.schema.json").read_text())
COUNTERS = COUNTERS_SCHEMA["properties"]["devices"]["items"]["oneOf"][1]["properties"]["processes"]["items"]["properties"][
    "counters"]["properties"]
# Output of ibv_devinfo -v for a device with all features, on the lines that it does not print for soft0.
RICH = """\tboard_id:\t\t\tMT_0000000008
\t\t\t\t\tUnknown flags: 0x8000
\tmax_map_per_fmr:\t\t255
\tmax_srq_wr:\t\t\t32767
\tmax_srq_sge:\t\t\t31
\traw packet caps:
\t\t\t\t\tC-VLAN stripping offload
\t\t\t\t\tDelay drop
"""


def document(*words, **env):
    done = harness.verbena("devinfo", "--json", *words, env=env)
    if done.returncode != 0:
        raise AssertionError(harness.text(done.stderr))
    return json.loads(done.stdout)


def theirs():
    done = harness.verbena("run", "--", "ibv_devinfo", "-v", "-d", "soft0")
    if done.returncode != 0:
        raise AssertionError(harness.text(done.stderr))
    return harness.text(done.stdout)


def keys_of(schema):
    """Yields every key of a schema."""
    for key, inner in schema.get("properties", {}).items():
        yield key
        yield from keys_of(inner)
    if "items" in schema:
        yield from keys_of(schema["items"])


def change(value):
    """Returns a different value of equal type."""
    if isinstance(value, bool) or value is None:
        raise TypeError(value)
    if isinstance(value, str):
        return value + "x"
    return [*value, "x"] if isinstance(value, list) else value + 1


class Json(harness.Case):
    def test_follows_its_schema(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(document())

    def test_schema_refuses_a_missing_key_and_a_new_one(self):
        validator = jsonschema.Draft202012Validator(SCHEMA)
        for damage in (lambda port: port.pop("gids"), lambda port: port.update(more=1),
                       lambda port: port.update(state="active")):
            damaged = document()
            damage(damaged["devices"][0]["ports"][0])
            self.assertFalse(validator.is_valid(damaged))

    def test_schema_leaves_no_key_optional(self):
        def check(schema, where):
            properties = schema.get("properties", {})
            self.assertEqual(sorted(properties), sorted(schema.get("required", [])), where)
            for key, inner in properties.items():
                check(inner, f"{where}.{key}")
            if "items" in schema:
                check(schema["items"], f"{where}[]")
        check(SCHEMA, "")

    def test_guide_explains_the_keys_of_devices_and_ports(self):
        guide = (harness.ROOT / "docs/guide/devinfo.md").read_text()
        device = SCHEMA["properties"]["devices"]["items"]["properties"]
        port = device["ports"]["items"]["properties"]
        for key in [*device, *port, *port["gids"]["items"]["properties"], *port["pkeys"]["items"]["properties"]]:
            stems = {key, *(key.removesuffix(unit) for unit in ("_bytes", "_seconds", "_lanes"))}
            self.assertTrue(any(f"`{stem}`" in guide for stem in stems), key)

    def test_has_the_gids_of_this_host(self):
        gids = document("soft0")["devices"][0]["ports"][0]["gids"]
        self.assertEqual([gid["index"] for gid in gids], sorted({gid["index"] for gid in gids}))
        interfaces = {name: index for index, name in socket.if_nameindex()}
        for gid in gids:
            self.assertEqual(gid["type"]["name"], "RoCE v2")
            self.assertEqual(interfaces[gid["netdev"]], gid["ndev_ifindex"])
            mapped = ipaddress.IPv6Address(gid["gid"]).ipv4_mapped
            self.assertEqual(gid["ipv4"], str(mapped) if mapped else None)
        self.assertIn("127.0.0.1", [gid["ipv4"] for gid in gids])


class Comparison(harness.Case):
    def test_every_line_of_ibv_devinfo_agrees_on_soft0(self):
        self.assertEqual(compare_devinfo.differences(document("soft0")["devices"][0], theirs()), [])

    def test_lines_printed_only_for_other_devices_are_parsed(self):
        ours = document("soft0")["devices"][0]
        lines = theirs().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines) if line.startswith("\tdevice_cap_flags:"))
        lines[at] = f"\tdevice_cap_flags:\t\t0x{ours['device_cap_flags']['mask'] | 0x8000:08x}\n"
        after = next(i for i in range(at + 1, len(lines)) if not lines[i].startswith("\t\t\t\t\t"))
        lines.insert(after, RICH.splitlines(keepends=True)[1])
        lines[1:1] = RICH.splitlines(keepends=True)[:1]
        said = "".join(lines).replace("\t\tport:", "".join(RICH.splitlines(keepends=True)[2:]) + "\t\tport:", 1)
        said = said.replace("\ttag matching not supported\n", "\tmax_rndv_hdr_size:\t\t64\n\tmax_num_tags:\t\t\t127\n"
                            "\tmax_ops:\t\t\t128\n\tmax_sge:\t\t\t1\n\tflags:\n\t\t\t\t\tIBV_TM_CAP_RC\n\n"
                            "\tmaximum available device memory:\t131072Bytes\n\n")
        said = said.replace("\t\tmax_tso:\t\t\t0\n", "\t\tmax_tso:\t\t\t262144\n\t\tsupported_qp:\n"
                            "\t\t\t\t\tSUPPORT_RAW_PACKET\n")
        ours["board_id"] = "MT_0000000008"
        ours["device_cap_flags"]["mask"] |= 0x8000
        ours["limits"] |= {"max_map_per_fmr": 255, "max_srq_wr": 32767, "max_srq_sge": 31}
        ours["raw_packet_caps"]["mask"] = 0b1001
        ours["tm_caps"] |= {"max_rndv_hdr_size_bytes": 64, "max_num_tags": 127, "max_ops": 128, "max_sge": 1}
        ours["tm_caps"]["flags"]["mask"] = 1
        ours["max_dm_size_bytes"] = 131072
        ours["tso_caps"] = {"max_tso_bytes": 262144, "supported_qpts": {"mask": 1 << 8, "names": ["raw_packet"]}}
        self.assertEqual(compare_devinfo.differences(ours, said), [])

    def test_finds_every_value_that_differs(self):
        ours, said = document("soft0")["devices"][0], theirs()
        read = compare_devinfo.Theirs(said)
        for fields, ported in ((compare_devinfo.device_fields(ours), read.device),
                               (compare_devinfo.port_fields(ours["ports"][0]), read.ports[0])):
            for key in ported:
                if ported[key] is None:
                    continue
                changed = copy.deepcopy(ported)
                changed[key] = change(changed[key])
                self.assertEqual(len(compare_devinfo.compare("x", fields, changed)), 1, key)
                del changed[key]
                optional = key == "phys_state" or (key.rstrip("/") in compare_devinfo.CONDITIONAL and not fields[key])
                self.assertEqual(len(compare_devinfo.compare("x", fields, changed)), 0 if optional else 1, key)

    def test_complains_about_lines_that_it_does_not_understand(self):
        ours, said = document("soft0")["devices"][0], theirs()
        for line in ("\tnew_attribute:\t\t\t7\n", "\tsomething not supported\n", "\t\t\t\t\tSTRAY_NAME\n"):
            self.assertEqual(len(compare_devinfo.differences(ours, said.replace("\tfw_ver", line + "\tfw_ver", 1))), 1, line)


class Table(harness.Case):
    def setUp(self):
        super().setUp()
        self.table = harness.text(harness.verbena("devinfo", "soft0").stdout)

    def test_fits_80_columns(self):
        self.assert_narrow(self.table)

    def test_has_every_key_of_the_json(self):
        for key in keys_of(SCHEMA["properties"]["devices"]["items"]):
            if key in ("name", "ipv4", "ndev_ifindex", "ports"):
                continue  # name: the heading; ipv4, ndev_ifindex: only in the JSON; ports: separate headings
            stem = key
            for unit in ("_bytes", "_hz", "_seconds", "_bits_per_second", "_lanes"):
                stem = stem.removesuffix(unit)
            self.assertRegex(self.table, rf"(?m)^ +(\w+ +)*{stem}\b", key)

    def test_shows_values_for_people(self):
        for line in (r"^soft0$", r"  provider +soft$", r"  hca_core_clock +1 GHz$", r"    max_mr_size +no limit$",
                     r"  port 1$", r"    state +active$", r"    active_mtu +4096 bytes$", r"    data_rate +100 Gbit/s$",
                     r"      index  gid +type +netdev$", r"      \d+ +::ffff:127\.0\.0\.1 +RoCE v2  lo$"):
            self.assertRegex(self.table, rf"(?m){line}")

    def test_shows_whether_packets_are_authenticated(self):
        key = self.script("key", "s" * 32, 0o600)
        wire = {"VERBENA_SOFTDEV_WIRE": "on"}
        for env, shown in (({}, None), (wire, "off"), ({**wire, "VERBENA_SOFTDEV_WIRE_KEY_FILE": str(key)}, "on"),
                           ({**wire, "VERBENA_SOFTDEV_WIRE_KEY_FILE": "/nonexistent"}, "unusable key file")):
            with self.subTest(shown):
                done = harness.verbena("devinfo", "soft0", "--json", env=env)
                self.assertEqual(json.loads(done.stdout)["devices"][0]["packet_authentication"], shown, done)
                self.assertNotIn(b"ssss", done.stdout + done.stderr)

    def test_shows_one_port_or_reports_that_it_does_not_exist(self):
        self.assertEqual(len(document("soft0", "--port", "1")["devices"][0]["ports"]), 1)
        self.assert_refused(harness.verbena("devinfo", "soft0", "--port", "2"), 1,
                            "soft0: port 2 does not exist: the device has 1 port", "verbena devinfo")


class Absence(harness.Case):
    def test_is_explained_for_each_side(self):
        done = harness.verbena("devinfo", env={"VERBENA_SOFTDEV": "off", "VERBENA_LIBIBVERBS": "/nonexistent/libibverbs.so.1"})
        said = harness.text(done.stderr).splitlines()
        self.assertEqual((done.returncode, done.stdout, len(said)), (1, b"", 3), said)
        self.assertEqual(said[0], "verbena devinfo: no RDMA device is listed")
        self.assertRegex(said[1], r"^  hardware: .*/nonexistent/libibverbs\.so\.1.*VERBENA_LIBIBVERBS")
        self.assertRegex(said[2], r"^  soft0: VERBENA_SOFTDEV=off disables soft0")

    def test_of_the_device_library_is_explained(self):
        done = harness.verbena("devinfo", env={"VERBENA_SOFTDEV": "only", "VERBENA_SOFTDEV_LIBRARY": "/nonexistent/soft.so"})
        said = harness.text(done.stderr).splitlines()
        self.assertEqual((done.returncode, len(said)), (1, 3), said)
        self.assertRegex(said[1], r"^  hardware: VERBENA_SOFTDEV=only hides hardware")
        self.assertRegex(said[2], r"^  soft0: .*VERBENA_SOFTDEV_LIBRARY is set to this path")

    def test_of_a_name_lists_those_that_are_there(self):
        self.assert_refused(harness.verbena("devinfo", "soft1"), 1, "device 'soft1' does not exist; existing devices: soft0",
                            "verbena devinfo")

    def test_wrong_mode_is_named(self):
        self.assert_refused(harness.verbena("devinfo", env={"VERBENA_SOFTDEV": "maybe"}), 1,
                            "must be on, off or only", "verbena devinfo")

    def test_wrong_usage_is_one_line_and_status_2(self):
        for words in (("devinfo", "--port", "x"), ("devinfo", "a", "b"), ("nonesuch",), ()):
            self.assert_refused(harness.verbena(*words), 2, "--help", "verbena")

    def test_full_disk_is_reported(self):
        with open("/dev/full", "wb") as full:
            done = harness.verbena("devinfo", stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assertIn("writing to standard output failed", harness.text(done.stderr))


class Counters(harness.Case):
    def test_process_without_packets_is_not_listed(self):
        done = harness.verbena("devinfo", "soft0", "--counters", "--json")
        self.assert_ended(done)
        self.assertEqual([each["name"] for each in json.loads(done.stdout)["devices"]], ["soft0"])

    def test_of_a_device_without_processes_are_an_empty_text_for_prometheus(self):
        done = harness.verbena("devinfo", "soft0", "--counters", "--prometheus")
        self.assert_ended(done)
        shown = json.loads(harness.verbena("devinfo", "soft0", "--counters", "--json").stdout)
        if not shown["devices"][0]["processes"]:  # there can be other programs on this machine
            self.assertEqual(done.stdout, b"")

    def test_prometheus_needs_counters_and_is_not_json(self):
        for words in (("--prometheus",), ("--prometheus", "--counters", "--json")):
            self.assert_refused(harness.verbena("devinfo", *words), 2, "--prometheus", "verbena")

    def test_schema_has_the_counters_of_the_guide(self):
        jsonschema.Draft202012Validator.check_schema(COUNTERS_SCHEMA)
        soft = COUNTERS_SCHEMA["properties"]["devices"]["items"]["oneOf"][1]
        counters = soft["properties"]["processes"]["items"]["properties"]["counters"]
        table = (harness.ROOT / "docs/guide/other-hosts.md").read_text().partition("## Counters")[2].partition("## Faults")[0]
        explained = [name for row in re.findall(r"(?m)^\| (`.*?) \|", table) for name in re.findall(r"`(\w+)`", row)]
        self.assertEqual(sorted(explained), sorted(counters["properties"]))

    def test_counters_of_a_running_pair_show_the_injected_faults(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        env = harness.environment(VERBENA_SOFTDEV_WIRE="on", VERBENA_SOFTDEV_PATH="wire", VERBENA_SOFTDEV_WIRE_PORT=str(port),
                                  VERBENA_SOFTDEV_WIRE_FAULTS="loss=2%,mark=5%,seed=7")
        # A name with all characters that the text format escapes, except for a line feed, which is no part of the name here.
        program = self.work / 'a "b\\c'
        shutil.copy(shutil.which("ib_write_bw"), program)
        words = [harness.VERBENA, "run", "--", str(program), "-x", "1", "-F", "-p", str(port), "-n", "50000000"]
        with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                self.wait_until(lambda: self.listens(port))
                with subprocess.Popen([*words, "localhost"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
                    try:
                        self.wait_until(lambda: self.counters(client.pid).get("retransmitted_pkts", 0) > 10
                                        and self.counters(client.pid).get("rp_cnp_handled", 0) > 10)
                        found, at_server = self.counters(client.pid), self.counters(server.pid)
                        table = harness.verbena("devinfo", "soft0", "--counters")
                        metrics = harness.verbena("devinfo", "soft0", "--counters", "--prometheus")
                        later = self.counters(client.pid)
                        everything = harness.verbena("devinfo", "--counters", "--json")
                    finally:
                        client.kill()
            finally:
                server.kill()
        self.assertGreater(found["sent_pkts"], found["retransmitted_pkts"])
        self.assertGreater(at_server["injected_faults"], 0)
        self.assertGreaterEqual(at_server["np_ecn_marked_roce_packets"], at_server["np_cnp_sent"])
        self.assertGreater(at_server["np_cnp_sent"], 0)
        self.assertEqual(at_server["dropped_malformed"], 0)
        self.assert_ended(table)
        self.assertRegex(harness.text(table.stdout),
                         rf"(?m)^  pid {client.pid}\n    program +{re.escape(program.name)}\n    counters:\n      sent_pkts +\d+$")
        self.assertEqual(self.counters(client.pid), {})
        validator = jsonschema.Draft202012Validator(COUNTERS_SCHEMA)
        validator.validate(json.loads(everything.stdout))
        self.assertEqual(list(found), list(COUNTERS))
        self.assert_ended(metrics)
        parsed = prometheus.parse(harness.text(metrics.stdout))
        self.assertLessEqual({f"rdma_{name}_total" for name in found}, {name for name, _ in parsed})
        labels = {"device": "soft0", "port": "1", "process": str(client.pid), "program": program.name}
        for name, value in found.items():
            now = parsed[f"rdma_{name}_total", tuple(labels.items())]
            self.assertLessEqual(value, now)
            self.assertLessEqual(now, later[name])

    def test_schema_refuses_wrong_values(self):
        good = {"devices": [{"name": "soft0", "processes": [{"pid": 1, "program": "a", "counters": dict.fromkeys(COUNTERS, 0)}]}]}
        validator = jsonschema.Draft202012Validator(COUNTERS_SCHEMA)
        validator.validate(good)
        for damage in ({"sent_pkts": -1}, {"sent_pkts": "1"}, {"of_another_version": 1.5}):
            damaged = copy.deepcopy(good)
            damaged["devices"][0]["processes"][0]["counters"].update(damage)
            self.assertFalse(validator.is_valid(damaged), damage)

    def test_file_with_the_name_of_the_counters_is_not_waited_for(self):
        """A FIFO whose path, as the kernel shows it, is that of the memory in which counters are."""
        script = ('mount -t tmpfs none "$0" && mkfifo "$0/memfd:verbena-counters" && exec 7<>"$0/memfd:verbena-counters" && '
                  'umount -l "$0" && echo ready && read _')
        with subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, self.work], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as stranger:
            try:
                self.assertEqual(stranger.stdout.readline(), b"ready\n")
                target = os.readlink(f"/proc/{stranger.pid}/fd/7")
                self.assertTrue(target.startswith("/memfd:verbena-counters"), target)
                self.assertEqual(self.counters(stranger.pid), {})
            finally:
                stranger.stdin.close()

    @staticmethod
    def counters(pid):
        done = harness.verbena("devinfo", "soft0", "--counters", "--json")
        processes = json.loads(done.stdout)["devices"][0]["processes"]
        return next((each["counters"] for each in processes if each["pid"] == pid), {})

    @staticmethod
    def listens(port):
        text = "".join(pathlib.Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
        return f":{port:04X} " in text

    def wait_until(self, condition):
        end = time.monotonic() + harness.BOUND
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class Help(harness.Case):
    def test_fits_80_columns_and_states_the_exit_status(self):
        for words in ((), ("devinfo",), ("run",)):
            done = harness.verbena(*words, "--help")
            self.assert_ended(done)
            self.assert_narrow(harness.text(done.stdout))
            self.assertIn("Exit status:", harness.text(done.stdout))


if __name__ == "__main__":
    unittest.main()
