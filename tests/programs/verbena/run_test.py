# SPDX-License-Identifier: MIT
"""`verbena run`: replaces itself by the program, changes no other state, and refuses programs that cannot use soft0."""
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import unittest

import harness

LIBRARIES = pathlib.Path(harness.VERBENA).resolve().parent.parent / "lib"
PRELOAD = str(LIBRARIES / "libverbena-preload.so")
DROPIN_FOLDER = str(LIBRARIES / "dropin")
DROPIN = f"{DROPIN_FOLDER}/libibverbs.so.1:{DROPIN_FOLDER}/librdmacm.so.1"
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

LISTING = """
#include <infiniband/verbs.h>
#include <stdio.h>
%s
  int count = 0;
  struct ibv_device** all = list(&count);
  for (int i = 0; all != NULL && i < count; ++i) puts(name(all[i]));
  return all != NULL ? 0 : 1;
}
"""
LINKED = LISTING % """
#define list ibv_get_device_list
#define name ibv_get_device_name
int main(void) {
"""
LOADING = LISTING % """
#include <dlfcn.h>
int main(void) {
  void* const library = dlopen("libibverbs.so.1", RTLD_NOW);
  if (library == NULL) return 2;
  struct ibv_device** (*list)(int*) = dlsym(library, "ibv_get_device_list");
  const char* (*name)(struct ibv_device*) = dlsym(library, "ibv_get_device_name");
"""
PYTHON_LOADING = """#!/usr/bin/env python3
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
verbs.ibv_get_device_name.argtypes = [ctypes.c_void_p]
count = ctypes.c_int()
devices = verbs.ibv_get_device_list(ctypes.byref(count))
for index in range(count.value):
    print(verbs.ibv_get_device_name(devices[index]).decode())
"""
QUIET = "int main(void) { return 0; }"


def run(*words, **options):
    return harness.verbena("run", *words, **options)


def way(finished):
    """Returns the method that `verbena run -v` prints, and the reason."""
    found = re.search(r"^verbena run: method: (\S+), because (.*)$", harness.text(finished.stderr), re.MULTILINE)
    return found.groups() if found else None


def variables(finished):
    """Parses the output of `env -0`."""
    return dict(entry.split("=", 1) for entry in harness.text(finished.stdout).split("\0") if entry)


class Program(harness.Case):
    def test_has_its_own_exit_status(self):
        for status in (0, 3, 125, 255):
            self.assert_ended(run("--", "sh", "-c", f"exit {status}"), status)

    def test_dies_by_its_own_signal(self):
        self.assert_killed_by(run("--", "sh", "-c", "kill -KILL $$"), signal.SIGKILL)
        self.assert_killed_by(run("--", "sh", "-c", "kill -TERM $$"), signal.SIGTERM)

    def test_is_the_process_that_the_user_started(self):
        process = subprocess.Popen([harness.VERBENA, "run", "--", "sh", "-c", "echo $$; exec cat"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        try:
            self.assertEqual(int(process.stdout.readline()), process.pid)
            self.assertEqual(os.getpgid(process.pid), os.getpgid(0))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(harness.BOUND), -signal.SIGINT)
        finally:
            process.kill()
            process.communicate()

    def test_has_the_signal_dispositions_that_the_user_gave(self):
        script = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
        ignoring = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
        done = run("--", sys.executable, "-c", script, preexec_fn=ignoring)
        self.assertEqual(done.stdout, b"True\n")
        self.assertEqual(run("--", sys.executable, "-c", script).stdout, b"False\n")

    def test_reads_and_writes_the_streams_of_the_user(self):
        data = random.Random(7).randbytes(1 << 20)
        done = run("--", "sh", "-c", "cat; echo warning >&2", stdin=None, input=data)
        self.assert_ended(done)
        self.assertEqual(done.stdout, data)
        self.assertEqual(done.stderr, b"warning\n")

    def test_keeps_open_files_and_the_working_folder(self):
        reading, writing = os.pipe()
        done = run("--", "sh", "-c", f"pwd >&{writing}", pass_fds=[writing], cwd=self.work)
        os.close(writing)
        with os.fdopen(reading) as end:
            self.assertEqual(end.read(), f"{self.work.resolve()}\n")
        self.assert_ended(done)

    def test_has_the_files_that_the_user_gave(self):
        """The program inherits the open file itself, so terminals work too."""
        files = [self.enterContext(open(self.work / name, "w+b")) for name in ("in", "out", "error")]
        script = "import os; os.write(1, repr([os.fstat(i).st_ino for i in range(3)]).encode())"
        done = run("--", sys.executable, "-c", script, stdin=files[0], stdout=files[1], stderr=files[2])
        self.assertEqual(done.returncode, 0)
        files[1].seek(0)
        self.assertEqual(files[1].read().decode(), repr([os.fstat(file.fileno()).st_ino for file in files]))

    def test_gets_its_arguments_unchanged(self):
        words = ["--help", "-v", "--", "[a,b]", "", "a b", "--dropin", "%%", "\n", "run"]
        show = "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))"
        for before in (["--"], []):
            done = run(*before, sys.executable, "-c", show, *words)
            self.assertEqual(harness.text(done.stdout).split("\0"), words)

    def test_has_the_name_that_the_user_typed(self):
        link = self.work / "box"
        os.symlink("/bin/sh", link)
        done = run("--", "sh", "-c", "echo $0")
        self.assertEqual(done.stdout, b"sh\n")
        self.assertEqual(run("--", link, "-c", "echo $0").stdout, f"{link}\n".encode())


class Environment(harness.Case):
    def test_is_kept_but_for_the_variables_of_the_loader(self):
        odd = {"EMPTY": "", "LINES": "a\nb=c", "VERBENA_SOFTDEV": "only", "PATH": os.environ["PATH"]}
        done = run("--", "env", "-0", env=odd)
        found = variables(done)
        self.assertEqual(found.pop("LD_PRELOAD"), DROPIN)
        self.assertEqual(found.pop("LD_LIBRARY_PATH"), DROPIN_FOLDER)
        found.pop("_", None)
        wanted = harness.environment(**odd)
        wanted.pop("_", None)
        self.assertEqual(found, wanted)

    def test_of_the_preload_sets_one_variable(self):
        found = variables(run("--preload", "--", "env", "-0"))
        self.assertEqual(found["LD_PRELOAD"], PRELOAD)
        self.assertNotIn("LD_LIBRARY_PATH", found)

    def test_keeps_lists_of_the_user_behind_ours(self):
        mine = {"LD_PRELOAD": "libm.so.6", "LD_LIBRARY_PATH": "/opt/mine:/opt/more"}
        found = variables(run("--", "env", "-0", env=mine))
        self.assertEqual(found["LD_PRELOAD"], f"{DROPIN}:libm.so.6")
        self.assertEqual(found["LD_LIBRARY_PATH"], f"{DROPIN_FOLDER}:/opt/mine:/opt/more")
        self.assertEqual(variables(run("--preload", "--", "env", "-0", env=mine))["LD_PRELOAD"], f"{PRELOAD}:libm.so.6")

    def test_has_no_entry_twice(self):
        found = variables(run("--", harness.VERBENA, "run", "--", "env", "-0"))
        self.assertEqual(found["LD_PRELOAD"], DROPIN)

    def test_of_an_empty_list_names_no_working_folder(self):
        found = variables(run("--", "env", "-0", env={"LD_LIBRARY_PATH": "", "LD_PRELOAD": ""}))
        self.assertEqual(found["LD_LIBRARY_PATH"], DROPIN_FOLDER)


class Choice(harness.Case):
    def assert_way(self, done, wanted, reason):
        self.assertIsNotNone(way(done), harness.text(done.stderr))
        self.assertEqual(way(done)[0], wanted)
        self.assertIn(reason, way(done)[1])

    def assert_sees_soft0(self, done):
        self.assert_ended(done)
        self.assertEqual(harness.text(done.stdout).split().count("soft0"), 1, harness.text(done.stdout))

    def test_is_preload_for_a_program_that_links_libibverbs(self):
        done = run("-v", self.compile("linked", LINKED, "-libverbs"))
        self.assert_sees_soft0(done)
        self.assert_way(done, "preload", "it is linked to libibverbs.so.1")

    def test_is_preload_for_a_program_whose_library_links_it(self):
        library = self.compile("libshow.so", LINKED.replace("main", "show"), "-shared", "-fPIC", "-libverbs")
        program = self.compile("through", "int show(void); int main(void) { return show(); }", str(library),
                               f"-Wl,-rpath,{self.work}", "-Wl,--as-needed")
        done = run("-v", program)
        self.assert_sees_soft0(done)
        self.assert_way(done, "preload", "it is linked to libibverbs.so.1")

    def test_is_dropin_for_a_program_that_loads_libibverbs(self):
        done = run("-v", self.compile("loading", LOADING))
        self.assert_sees_soft0(done)
        self.assert_way(done, "drop-in", "it is not linked to libibverbs.so.1")

    def test_is_dropin_for_a_python_script(self):
        script = self.script("list.py", PYTHON_LOADING)
        for words in ((script,), (sys.executable, script)):
            done = run("-v", *words)
            self.assert_sees_soft0(done)
            self.assertEqual(way(done)[0], "drop-in")
        self.assert_way(run("-v", script), "drop-in", "it is a script for ")

    def test_is_dropin_for_a_shell_script_and_serves_its_children(self):
        linked = self.compile("linked", LINKED, "-libverbs")
        done = run("-v", self.script("start.sh", f"#!/bin/sh -e\n{linked}\n"))
        self.assert_sees_soft0(done)
        self.assert_way(done, "drop-in", "it is a script for /bin/sh")

    def test_option_selects_the_method(self):
        linked = self.compile("linked", LINKED, "-libverbs")
        done = run("-v", "--dropin", "--", linked)
        self.assert_sees_soft0(done)
        self.assert_way(done, "drop-in", "--dropin was given")
        done = run("-v", "--preload", "--", linked)
        self.assert_sees_soft0(done)
        self.assert_way(done, "preload", "--preload was given")

    def assert_warned(self, done, *words):
        """Checks the exit status and that there is one line of warning with `words`, or no line without them."""
        self.assert_ended(done)
        said = harness.text(done.stderr)
        self.assertEqual(said.count("\n"), 1 if words else 0, said)
        for each in words:
            self.assertIn(each, said)

    def test_preload_warns_for_a_program_that_cannot_reach_libibverbs(self):
        quiet = self.compile("quiet", QUIET)
        self.assert_warned(run("--preload", "--", quiet), "verbena run: warning:", str(quiet),
                           "is not linked to libibverbs.so.1 and cannot load it", "link it with -libverbs")
        self.assert_warned(run("--dropin", "--", quiet))
        self.assert_warned(run("--", quiet))

    def test_preload_warns_for_a_program_that_loads_libibverbs_by_name(self):
        done = run("--preload", "--", self.compile("loading", LOADING), env={"VERBENA_SOFTDEV": None})
        self.assertIn("which --preload does not replace: use --dropin", harness.text(done.stderr))

    def test_program_with_the_library_does_not_take_soft0_for_a_device_without_driver(self):
        """soft0 then has a folder in /sys/class/infiniband, as devices of the kernel have."""
        for way in ("--preload", "--dropin"):
            with self.subTest(way):
                done = run(way, "--", LIBRARIES.parent / "examples" / "loopback", env={"VERBENA_SOFTDEV": None})
                self.assert_ended(done)
                self.assertIn("using soft0: there is no RDMA hardware", harness.text(done.stderr))

    def test_preload_is_silent_for_a_program_that_may_reach_libibverbs(self):
        plugin = "#include <dlfcn.h>\nint main(int count, char** words) { return count > 1 && dlopen(words[1], RTLD_NOW) == 0; }"
        starter = "#include <stdlib.h>\nint main(int count, char** words) { return count > 1 && system(words[1]); }"
        library = self.compile("libload.so", plugin.replace("main", "load"), "-shared", "-fPIC")
        for program in (self.compile("plugin", plugin), self.compile("starter", starter),
                        self.compile("user", "int load(int, char**); int main(void) { return load(0, 0); }", str(library),
                                     f"-Wl,-rpath,{self.work}")):
            self.assert_warned(run("--preload", "--", program))
        done = run("--preload", "--", self.compile("linked", LINKED, "-libverbs"))
        self.assert_sees_soft0(done)
        self.assert_warned(done)
        self.assert_warned(run("--preload", "--", "sh", "-c", "true"))

    def test_is_dropin_where_libibverbs_is_missing_or_the_loader_does_not_say(self):
        said = "\tlibibverbs.so.1 => not found\n"
        cases = {f"printf '{said}'": "which is not installed", "exit 1": "does not list its libraries",
                 "printf '\\tlibibverbs.so.1 => /lib/libibverbs.so.1 (0x1)\\n'; exit 1": "it is linked",
                 f"exec {sys.executable} -c 'print(\"x\" * 3_000_000)'": "does not list its libraries",
                 "printf '\\tlibibverbs.so.10 => not found\\n\\tmylibibverbs.so.1 => not found\\n'": "it is not linked"}
        loader = self.work / "loader"
        program = self.compile("odd", QUIET, f"-Wl,--dynamic-linker={loader}")
        for body, reason in cases.items():
            self.script("loader", f"#!/bin/sh\n{body}\n")
            done = run("-v", program)
            self.assertIn(reason, way(done)[1], harness.text(done.stderr))
            self.assertEqual(way(done)[0], "preload" if reason == "it is linked" else "drop-in")
            self.assertEqual(done.returncode, 126)  # the kernel rejects this loader
        loader.unlink()
        self.assertIn("does not list its libraries", way(run("-v", program))[1])

    def test_prints_its_steps_only_with_verbose(self):
        self.assertEqual(run("--", "true").stderr, b"")
        said = harness.text(run("-v", "--", "true", env={"VERBENA_SOFTDEV": "on"}).stderr)
        for line in ("program: ", f"LD_PRELOAD={DROPIN}", "VERBENA_SOFTDEV=on"):
            self.assertIn(f"verbena run: {line}", said)

    def test_of_a_verbena_program_sees_soft0_once(self):
        for words in ((), ("--preload",), ("--dropin",)):
            for mode in ("on", "only"):
                done = run(*words, "--", harness.VERBENA, "devinfo", env={"VERBENA_SOFTDEV": mode})
                self.assert_ended(done)
                self.assertEqual(len(re.findall("^soft0$", harness.text(done.stdout), re.MULTILINE)), 1)


class WithoutProc(harness.Case):
    """A folder without files hides /proc, in a mount namespace of its own."""

    def run_without_proc(self, tool):
        command = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" run -- /bin/true', str(tool)]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "-rm", "sh", "-c", "mount -t tmpfs none /proc"], capture_output=True, check=False).returncode:
            self.skipTest("this process may not create a mount namespace")

    def test_libraries_are_found_next_to_the_program(self):
        self.assertEqual(self.run_without_proc(pathlib.Path(harness.VERBENA).resolve()).returncode, 0)

    def test_libraries_are_found_through_a_link(self):
        link = self.work / "link"
        link.symlink_to(pathlib.Path(harness.VERBENA).resolve())
        self.assertEqual(self.run_without_proc(link).returncode, 0)

    def test_message_names_proc(self):
        copy = self.work / "copy"
        shutil.copy(pathlib.Path(harness.VERBENA).resolve(), copy)
        copy.chmod(0o755)
        done = self.run_without_proc(copy)
        self.assertEqual(done.returncode, 125)
        self.assertIn("/proc is not mounted", done.stderr)


class RefusalOfFiles(harness.Case):
    """These tests start no program, so they also run under sanitizers."""

    def doctored(self, name, offset, content):
        """Returns a program of this machine with changed bytes in its headers."""
        path = self.compile(name, QUIET)
        image = bytearray(path.read_bytes())
        image[offset:offset + len(content)] = content
        path.write_bytes(image)
        return path

    def test_of_missing_programs(self):
        self.assert_refused(run("--", "no-such-program"), 127, "no such program in PATH")
        self.assert_refused(run("--", "./no-such-program"), 127, "no such file")
        self.assert_refused(run("--", "/bin/sh/x"), 127, "no such file")
        self.assert_refused(run("--", ""), 127, "empty")
        self.assert_refused(run("--", "sh", env={"PATH": str(self.work)}), 127, "no such program in PATH")

    def test_of_programs_that_cannot_be_executed(self):
        self.assert_refused(run("--", self.script("plain", "#!/bin/sh\n", 0o644)), 126, "not executable")
        self.assert_refused(run("--", self.work), 126, "directory")
        self.assert_refused(run("--", "plain", env={"PATH": str(self.work)}), 126, "not executable")
        self.assert_refused(run("--", "/dev/null"), 126, "not executable")

    def test_of_names_that_only_closed_folders_could_have(self):
        """Runs as an unprivileged user, who cannot search this folder in PATH: the name counts as not found."""
        closed = self.work / "closed"
        closed.mkdir()
        self.script("closed/tool", "#!/bin/sh\n")
        closed.chmod(0)
        as_user = {"tool": self.copy_of(harness.VERBENA)} | (AS_NOBODY if os.getuid() == 0 else {})
        self.assert_refused(run("--", "tool", env={"PATH": str(closed)}, **as_user), 127, "no such program in PATH")
        self.assert_refused(run("--", closed / "tool", **as_user), 126, "Permission denied")
        closed.chmod(0o700)

    def test_of_statically_linked_programs(self):
        for name, flag in (("static", "-static"), ("static-pie", "-static-pie")):
            program = self.compile(name, QUIET, flag)
            for words in ((), ("--preload",), ("--dropin",)):
                self.assert_refused(run(*words, "--", program), 126, "is statically linked")

    def test_of_scripts_for_static_programs(self):
        program = self.compile("static", QUIET, "-static")
        self.assert_refused(run("--", self.script("one", f"#!{program}\n")), 126, "is statically linked")
        self.assert_refused(run("--", self.script("two", f"#!/usr/bin/env -S {program} -x\n")), 126,
                            "is statically linked")

    def test_of_programs_for_another_machine(self):
        for name, offset, content in (("processor", 18, struct.pack("<H", 0xf7)), ("width", 4, b"\x01")):
            self.assert_refused(run("--", self.doctored(name, offset, content)), 126, "for a different processor or word size")

    def test_of_damaged_programs(self):
        intact = self.compile("intact", QUIET).read_bytes()
        cut = self.work / "cut"
        for size in [*range(16, 200, 9), 400, 700]:
            cut.write_bytes(intact[:size])
            cut.chmod(0o755)
            done = run("--", cut)
            self.assertEqual(done.returncode, 126, size)
            self.assertRegex(harness.text(done.stderr), r"\A.*(the file is damaged|word size|processor).*\n\Z")
        for name, offset, content in (("offset", 32, b"\xff" * 8), ("entry", 54, b"\x01\x00"), ("count", 56, b"\xff\xff"),
                                      ("type", 16, b"\x01\x00")):
            self.assert_refused(run("--", self.doctored(name, offset, content)), 126, "the file is damaged")

    def test_of_programs_for_another_c_library(self):
        program = self.compile("musl", QUIET, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
        self.assert_refused(run("--", program), 126, "is built for musl")

    def test_of_files_that_are_no_programs(self):
        self.assert_refused(run("--", self.script("text", "echo hello\n")), 126, "neither an ELF program nor a script")
        self.assert_refused(run("--", self.script("empty", "")), 126, "neither an ELF program nor a script")
        self.assert_refused(run("--", self.script("nothing", "#!  \n")), 126, "names no interpreter")
        self.assert_refused(run("--", self.script("gone", "#!/no/such/shell\n")), 126, "its interpreter: /no/such/shell")

    def test_of_scripts_that_are_their_own_interpreter(self):
        path = self.work / "loop"
        self.script("loop", f"#!{path}\n")
        self.assert_refused(run("--", path), 126, "interpreters is longer than 5")

    def test_of_set_user_id_programs(self):
        if os.getuid() == 0:
            program = self.copy_of("/bin/true")
            os.chown(program, NOBODY, -1)
            program.chmod(0o4755)
        else:
            program = "/usr/bin/passwd"
        self.assert_refused(run("--", program), 126, "the program is set-user-id")

    def test_of_misuse_is_one_line(self):
        for words in ((), ("-v",), ("--no-such-option", "true"), ("--preload", "--dropin", "true")):
            self.assert_refused(run(*words), 125, "--help")


class Refusal(harness.Case):
    def test_continues_the_search_in_path_as_shells_do(self):
        self.script("sh", "", 0o644)
        done = run("--", "sh", "-c", "exit 5", env={"PATH": f"{self.work}:{os.environ['PATH']}"})
        self.assert_ended(done, 5)

    def test_of_programs_with_other_rights_only(self):
        """Programs are not refused if their set-id bits change no rights of this user."""
        program = self.copy_of("/bin/true")
        program.chmod(0o4755)
        self.assert_ended(run("--", program))
        program.chmod(0o2644 | 0o101)
        self.assert_ended(run("--", program))

    def test_of_set_group_id_programs_and_file_capabilities(self):
        if os.getuid() != 0:
            self.skipTest("needs root, to give files away")
        program = self.copy_of("/bin/true")
        os.chown(program, -1, NOBODY)
        program.chmod(0o2755)
        self.assert_refused(run("--", program), 126, "the program is set-group-id")
        program.chmod(0o755)
        raw_net = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)  # version 2, effective: CAP_NET_RAW
        os.setxattr(program, "security.capability", raw_net)
        installed = self.installation()
        done = run("--", program, tool=installed / "bin/verbena", **AS_NOBODY)
        self.assert_refused(done, 126, "with file capabilities")
        self.assert_ended(run("--", program))  # root already has these capabilities

    def installation(self):
        """Copies the tool and its libraries to another folder."""
        place = self.work / "installed"
        (place / "bin").mkdir(parents=True)
        shutil.copy(harness.VERBENA, place / "bin")
        (place / "lib" / "dropin").mkdir(parents=True)
        for name in ("libverbena-preload.so", "libverbena-soft.so.0", "dropin/libibverbs.so.1",
                     "dropin/librdmacm.so.1"):
            shutil.copy(LIBRARIES / name, place / "lib" / name)
        return place

    def test_of_an_installation_without_libraries(self):
        place = self.installation()
        tool = place / "bin/verbena"

        def run_there(*words, **env):
            return run(*words, tool=tool, env=env)
        done = run_there("-v", "--", "ibv_devices")
        self.assert_ended(done)
        self.assertIn(str(place / "lib" / "libverbena-preload.so"), harness.text(done.stderr))
        self.assertIn("soft0", harness.text(done.stdout))
        self.assert_refused(run_there("--", "true", VERBENA_RUN_LIBRARIES=str(self.work)), 125, "VERBENA_RUN_LIBRARIES")
        (place / "lib/libverbena-soft.so.0").unlink()
        self.assert_refused(run_there("--", "true"), 125, "libverbena-soft.so.0 was not found")
        self.assert_ended(run_there("--", "true", VERBENA_RUN_LIBRARIES=str(LIBRARIES)))

    def test_of_a_path_that_the_loader_cannot_take(self):
        spaced = self.work / "a b"
        shutil.copytree(self.installation(), spaced)
        done = run("--", "true", env={"VERBENA_RUN_LIBRARIES": str(spaced / "lib")})
        self.assert_refused(done, 125, "without blanks, colons, semicolons and dollars")


if __name__ == "__main__":
    unittest.main()
