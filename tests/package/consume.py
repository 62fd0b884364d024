#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and runs one consumer project of tests/package against a build of Verbena, in a temporary folder.

The first three kinds use an installation of the build in a prefix that is not the configured one and that is moved
afterwards; the others include the sources.
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import older_headers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = "consumer: soft0 registered 4096 bytes; system verbs: "


class Failed(Exception):
    pass


def run(*words, environment=None, cwd=None):
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd,
                          env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise Failed(f"$ {' '.join(map(str, words))}\n{done.stdout}")
    return done.stdout


def configure(source, build, compiler, *definitions):
    launcher = os.environ.get("VERBENA_COMPILER_LAUNCHER")
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []
    return run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_CXX_COMPILER={compiler}",
               "-DCMAKE_BUILD_TYPE=Debug", *launcher, *definitions)


def cmake_project(source, build, compiler, *definitions):
    configure(source, build, compiler, *definitions)
    run("cmake", "--build", build, "--target", "consumer")


def install(options, folder):
    """Installs the build below `folder`, in a place that it was not configured for, and moves it once."""
    first = folder / "first"
    run("cmake", "--install", options.build, "--prefix", first)
    prefix = folder / "prefix"
    first.rename(prefix)
    return prefix


def library_folder(prefix):
    return next(prefix.rglob("libverbena.a")).parent


def check_run(program, environment=None):
    said = run(program, environment={"VERBENA_SOFTDEV": "on", **(environment or {})})
    if EXPECTED not in said:
        raise Failed(f"{program} said:\n{said}\ninstead of:\n{EXPECTED}")
    return said


def needed(program):
    """The shared libraries that a program or library is linked to."""
    lines = run("readelf", "-d", "-W", program).splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def refuse_rdma_core(program):
    found = [name for name in needed(program) if name.startswith(("libibverbs", "librdmacm", "libefa", "libmlx"))]
    if found:
        raise Failed(f"{program} is linked to {found}")


def check_placement(program, said, with_hwloc):
    """The library puts memory on a NUMA node by hwloc, or reports that it was built without hwloc."""
    linked_to_it = any(name.startswith("libhwloc") for name in needed(program))
    if linked_to_it != with_hwloc:
        raise Failed(f"{program} is {'not ' if with_hwloc else ''}linked to libhwloc")
    wanted = "placement: done" if with_hwloc else "this library was built without hwloc: install it (Debian: libhwloc-dev)"
    if wanted not in said:
        raise Failed(f"{program} said:\n{said}\ninstead of:\n{wanted}")


def find_package(options, folder):
    prefix = install(options, folder)
    cmake_project(HERE / "find_package", folder / "build", options.compiler, f"-DCMAKE_PREFIX_PATH={prefix}")
    program = folder / "build" / "consumer"
    said = check_run(program)
    with_hwloc = "set(verbena_needs_hwloc TRUE)" in (options.build / "verbenaConfig.cmake").read_text()
    check_placement(program, said, with_hwloc)
    refuse_rdma_core(program)
    device = library_folder(prefix) / "libverbena-soft.so.0"
    refuse_rdma_core(device)
    if any(name.startswith("libhwloc") for name in needed(device)):
        raise Failed(f"{device} is linked to libhwloc")
    hidden = {name: "/nonexistent/library.so" for name in ("VERBENA_LIBIBVERBS", "VERBENA_LIBRDMACM", "VERBENA_LIBEFA")}
    if not check_run(program, hidden).rstrip().endswith("system verbs: none"):
        raise Failed("with rdma-core hidden, the program still found it")


def asio(options, folder):
    """verbena::asio of an installation, in which Asio was not needed to build the library."""
    prefix = install(options, folder)
    cmake_project(HERE / "asio", folder / "build", options.compiler, f"-DCMAKE_PREFIX_PATH={prefix}")
    program = folder / "build" / "consumer"
    said = run(program, environment={"VERBENA_SOFTDEV": "on"})
    if "asio: received 4 bytes" not in said:
        raise Failed(f"{program} said:\n{said}")
    # Without Asio, the package has no such target and says so.
    nothing = folder / "nothing"
    nothing.mkdir()
    try:
        configure(HERE / "asio", folder / "without", options.compiler, f"-DCMAKE_PREFIX_PATH={prefix}",
                  "-DVERBENA_ASIO_INCLUDE_DIR=VERBENA_ASIO_INCLUDE_DIR-NOTFOUND", f"-DCMAKE_FIND_ROOT_PATH={nothing}",
                  "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY")
    except Failed as failed:
        if "asio" not in str(failed):
            raise
    else:
        raise Failed("a program found the component asio without Asio")


def raw_verbs(options, folder):
    """verbena::ibverbs stands in for libibverbs, which the program neither links nor needs."""
    prefix = install(options, folder)
    cmake_project(HERE / "raw_verbs", folder / "build", options.compiler, f"-DCMAKE_PREFIX_PATH={prefix}")
    program = folder / "build" / "consumer"
    refuse_rdma_core(program)
    for libibverbs in ("", "/nonexistent/libibverbs.so.1"):
        said = run(program, environment={"VERBENA_SOFTDEV": "on", "VERBENA_LIBIBVERBS": libibverbs})
        if "raw verbs: soft0 registered 4096 bytes; success" not in said:
            raise Failed(f"{program} said:\n{said}")


def names_of_the_table():
    """The exported functions of libibverbs and libefa that the library's tables have."""
    text = (ROOT / "include/verbena/sys/verbs_table.hpp").read_text()
    exported = text[:text.index("// Inline functions of verbs.h")]
    exported += (ROOT / "include/verbena/sys/efa_table.hpp").read_text()
    return set(re.findall(r'verb<"(\w+)"', exported))


def linked(options, folder):
    given = set(re.findall(r'(?:VERBENA_LINKED\(|named\(")(_?(?:ibv|efadv)_\w+)', (ROOT / "cmake/linked.cpp.in").read_text()))
    if given != names_of_the_table():
        raise Failed(f"cmake/linked.cpp.in and the tables of sys differ in: {given ^ names_of_the_table()}")
    prefix = install(options, folder)
    cmake_project(HERE / "linked", folder / "build", options.compiler, f"-DCMAKE_PREFIX_PATH={prefix}",
                  "-DVERBENA_LINKED_DRIVERS=rxe;siw;efa")
    program = folder / "build" / "consumer"
    refuse_rdma_core(program)
    # With the shared one out of reach, only the functions inside the program are left.
    said = check_run(program, {"VERBENA_LIBIBVERBS": "/nonexistent/libibverbs.so.1"})
    if not said.rstrip().endswith("system verbs: linked"):
        raise Failed(f"the program does not use the libibverbs inside it:\n{said}")
    symbols = run("nm", program)
    for driver, wanted in (("rxe", True), ("efa", True), ("mlx5", False)):
        if (f"verbs_provider_{driver}" in symbols) != wanted:
            raise Failed(f"the driver {driver} is {'not ' if wanted else ''}inside the program")


def pkg_config(options, folder):
    prefix = install(options, folder)
    shutil.copytree(HERE / "pkg_config", folder / "pkg_config")
    shutil.copy(HERE / "consumer.cpp", folder)
    library = library_folder(prefix)
    run("make", f"CXX={options.compiler}", cwd=folder / "pkg_config",
        environment={"PKG_CONFIG_PATH": str(library / "pkgconfig")})
    # A prefix that the loader does not know is named to it, as for any library there.
    check_run(folder / "pkg_config" / "consumer", {"LD_LIBRARY_PATH": str(library)})


def add_subdirectory(options, folder):
    build = folder / "build"
    cmake_project(HERE / "add_subdirectory", build, options.compiler, f"-DVERBENA_SOURCE={ROOT}", "-DVERBENA_UNITY=ON",
                  "-DVERBENA_HWLOC=OFF")
    if (build / "verbena" / "tests").exists():
        raise Failed("the tests are configured inside the user's build")
    if options.full:
        run("cmake", "--build", build, "--target", "verbena-soft")
        said = check_run(build / "consumer")
    else:
        said = check_run(build / "consumer", {"VERBENA_SOFTDEV_LIBRARY": str(options.build / "lib/libverbena-soft.so.0")})
    check_placement(build / "consumer", said, with_hwloc=False)


def source_archive(folder):
    """An archive laid out like rdma-core's sources, made from the installed headers."""
    tree = folder / "rdma-core-44.0"
    text = (ROOT / "cmake" / "rdma_core_bundled.cmake").read_text()
    pairs = [line.strip().split("=") for line in text.splitlines() if line.startswith(("  infiniband/", "  rdma/"))]
    for installed, source in pairs:
        (tree / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pathlib.Path("/usr/include") / installed, tree / source)
    archive = folder / "rdma-core-44.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, arcname=tree.name)
    return archive


def bundled(options, folder):
    archive = source_archive(folder)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    words = ["-DVERBENA_RDMA_CORE=bundled", f"-DVERBENA_RDMA_CORE_URL=file://{archive}", f"-DVERBENA_SOURCE={ROOT}"]
    build = folder / "build"
    configure(HERE / "add_subdirectory", build, options.compiler, *words, f"-DVERBENA_RDMA_CORE_SHA256={digest}")
    run("cmake", "--build", build, "--target", "consumer_object")
    if "verbena_rdma_core/include" not in run("ninja", "-C", build, "-t", "commands", "consumer_object"):
        raise Failed("the headers of the archive are not used")
    for why, hash_word in (("without a hash", ""), ("with a wrong hash", "-DVERBENA_RDMA_CORE_SHA256=" + "0" * 64)):
        try:
            configure(HERE / "add_subdirectory", folder / why.replace(" ", "_"), options.compiler, *words,
                      *([hash_word] if hash_word else []))
        except Failed as failed:
            if "SHA256" not in str(failed) and "hash" not in str(failed).lower():
                raise Failed(f"bundled {why} fails without naming the hash:\n{failed}") from failed
        else:
            raise Failed(f"bundled {why} was accepted")


def root_prefix(options, folder):
    """VERBENA_RDMA_CORE_ROOT: the headers of that prefix are used, and a wrong or too old one is refused."""
    good = folder / "good"
    for part in ("infiniband", "rdma"):
        shutil.copytree(pathlib.Path("/usr/include") / part, good / "include" / part)
    build = folder / "build"
    configure(HERE / "add_subdirectory", build, options.compiler, f"-DVERBENA_SOURCE={ROOT}",
              f"-DVERBENA_RDMA_CORE_ROOT={good}")
    run("cmake", "--build", build, "--target", "consumer_object")
    if f"-isystem {good}/include" not in run("ninja", "-C", build, "-t", "commands", "consumer_object"):
        raise Failed("the headers of VERBENA_RDMA_CORE_ROOT are not used")
    old = folder / "old"
    (old / "include" / "infiniband").mkdir(parents=True)
    (old / "include" / "infiniband" / "verbs.h").write_text("/* older than 28 */\n")
    legacy = folder / "legacy"
    shutil.copytree(good, legacy)
    (legacy / "include" / "infiniband" / "verbs_exp.h").write_text("/* MLNX_OFED 4.9 */\n")
    for wrong, words in ((folder / "none", "does not exist"), (old, "rdma-core 28 or newer"), (legacy, "--upstream-libs")):
        try:
            configure(HERE / "add_subdirectory", folder / "refused", options.compiler, f"-DVERBENA_SOURCE={ROOT}",
                      f"-DVERBENA_RDMA_CORE_ROOT={wrong}")
        except Failed as failed:
            if words not in " ".join(str(failed).split()):
                raise Failed(f"{wrong.name}: the message lacks '{words}':\n{failed}") from failed
        else:
            raise Failed(f"the prefix {wrong.name} was accepted")


def older(options, folder):
    """The library builds with the headers of rdma-core 28, without the software device; that of this build works with it."""
    root = folder / "root"
    older_headers.make(pathlib.Path("/usr/include"), root / "include", 28)
    build = folder / "build"
    said = configure(HERE / "add_subdirectory", build, options.compiler, f"-DVERBENA_SOURCE={ROOT}",
                     f"-DVERBENA_RDMA_CORE_ROOT={root}", "-DVERBENA_UNITY=ON", "-DVERBENA_HWLOC=OFF", "-DCMAKE_CXX_FLAGS=-g0")
    if "software device and the tests are not built" not in " ".join(said.split()):
        raise Failed(f"the build does not report that the device is not built:\n{said}")
    run("cmake", "--build", build, "--target", "consumer")
    check_run(build / "consumer", {"VERBENA_SOFTDEV_LIBRARY": str(options.build / "lib/libverbena-soft.so.0")})


def ofed(_options, folder):
    """An OFED is found by the file that it writes, and by its usual prefixes; CMake prints which headers it took."""
    project = folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(search LANGUAGES NONE)\n"
        f"include({ROOT}/cmake/rdma_core.cmake)\n")

    def search(root, *more, environment=None):
        # The search path is below `root`, because this machine's headers would be found first.
        return run("cmake", "-S", project, "-B", folder / f"build_{root.name}{len(more)}", f"-DCMAKE_FIND_ROOT_PATH={root}",
                   "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY", *more, environment=environment)

    no_pkg_config = "-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON"
    places = {"recorded": ("opt/rdma", "etc/infiniband/info"), "usual": ("usr", "etc/infiniband/info"),
              "mlnx": ("usr/mlnx-ofed-4.9", None), "mellanox": ("opt/mellanox/rdma-core", None), "openfabrics": ("opt/ofed", None)}
    for name, (prefix, info) in places.items():
        root = folder / name
        older_headers.make(pathlib.Path("/usr/include"), root / prefix / "include", 28)
        if info:
            (root / info).parent.mkdir(parents=True)
            (root / info).write_text(f"#!/bin/bash\n\necho prefix=/{prefix}\necho Kernel=6.1\n")
        else:  # headers of the distribution that are too old
            old = root / "usr/include/infiniband"
            old.mkdir(parents=True)
            (old / "verbs.h").write_text("/* older than 28 */\n")
        wanted = f"rdma-core headers: {root / prefix}/include (OFED, {root / (info or prefix)}; rdma-core 28 or newer)"
        said = search(root, no_pkg_config)
        if wanted not in said:
            raise Failed(f"CMake does not print '{wanted}' but:\n{said}")
    usual = folder / "usual"
    (usual / "libibverbs.pc").write_text(
        f"includedir={usual}/usr/include\nName: libibverbs\nDescription: verbs\nVersion: 1.14.33.0\nCflags: -I${{includedir}}\n")
    wanted = f"rdma-core headers: {usual}/usr/include (pkg-config; OFED, {usual}/etc/infiniband/info; rdma-core 28 or newer)"
    said = search(usual, environment={"PKG_CONFIG_PATH": str(usual)})
    if wanted not in said:
        raise Failed(f"CMake does not print '{wanted}' but:\n{said}")
    shutil.rmtree(root / "opt")
    try:
        search(root, no_pkg_config)
    except Failed as failed:
        if f"{root}/usr/include are too old" not in " ".join(str(failed).split()):
            raise Failed(f"the message does not name the headers that are too old:\n{failed}") from failed
    else:
        raise Failed("headers that are too old were accepted")


def module(options, folder):
    """The installed source of the C++20 module compiles, and a program imports it. CMake 3.25 cannot build modules."""
    prefix = install(options, folder)
    source = next(prefix.rglob("verbena.cppm"))
    library = library_folder(prefix)
    paths = {"PKG_CONFIG_PATH": str(library / "pkgconfig")}
    words = [options.module_compiler, "-std=c++20", *run("pkg-config", "--cflags", "verbena", environment=paths).split()]
    run(*words, "--precompile", source, "-o", folder / "verbena.pcm")
    run(*words, "-c", folder / "verbena.pcm", "-o", folder / "verbena.o")
    run(*words, f"-fmodule-file=verbena={folder / 'verbena.pcm'}", "-c", HERE / "module_consumer.cpp", "-o",
        folder / "consumer.o")
    flags = run("pkg-config", "--libs", "verbena", environment=paths)
    program = folder / "consumer"
    run(options.module_compiler, folder / "consumer.o", folder / "verbena.o", *flags.split(), "-o", program)
    said = run(program, environment={"VERBENA_SOFTDEV": "on", "LD_LIBRARY_PATH": str(library)})
    if "module: soft0 registered 4096 bytes" not in said:
        raise Failed(f"{program} said:\n{said}")


KINDS = {kind.__name__: kind for kind in (find_package, asio, raw_verbs, linked, pkg_config, add_subdirectory, bundled, root_prefix,
                                          older, ofed, module)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder to install from")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--module-compiler", default="clang++-19", help="the compiler of the C++20 module")
    parser.add_argument("--full", action="store_true", default=bool(os.environ.get("VERBENA_PACKAGE_FULL")),
                        help="build the software device in the user's build as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="verbena_package_") as folder:
        try:
            KINDS[options.kind](options, pathlib.Path(folder).resolve())
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
