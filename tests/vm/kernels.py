# SPDX-License-Identifier: MIT
"""Downloads Debian's kernels for the virtual machine by the names of their meta packages and unpacks them into a cache
folder. Does not install them. siw is not part of Debian's kernel and is built from Debian's source of the same version.

A kernel in the cache is used until prepare() is called with refresh=True, which downloads the newest one. Errors are VmError.
"""
import contextlib
import dataclasses
import fcntl
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The meta packages of each series: image, headers, source.
METAS = {
    "6.1": ("linux-image-amd64", "linux-headers-amd64", "linux-source-6.1"),
    "6.12": ("linux-image-6.12-amd64", "linux-headers-6.12-amd64", "linux-source-6.12"),
}
RETRIES = 3


class VmError(Exception):
    """The machine could not be prepared; the text contains the cause and the remedy."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    folder: pathlib.Path   # of this kernel in the cache
    release: str           # of uname -r

    @property
    def vmlinux(self):
        return self.folder / "vmlinux"

    @property
    def modules(self):
        return self.folder / "modules"

    @property
    def tree(self):
        return self.modules / self.release

    def has_siw(self):
        return (self.tree / "extra/siw.ko").is_file()


def cache_folder():
    """VERBENA_VM_CACHE, else verbena/vm in the user's cache folder, else build/vm-cache."""
    if os.environ.get("VERBENA_VM_CACHE"):
        return pathlib.Path(os.environ["VERBENA_VM_CACHE"]).absolute()
    home = os.environ.get("HOME", "")
    caches = os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    return pathlib.Path(caches) / "verbena" / "vm" if caches.startswith("/") else ROOT / "build" / "vm-cache"


def make_private(cache):
    """Creates the folder `verbena` in the user's cache folder so that only the user has access.

    soft0 keeps names in it, and refuses a folder to which other users have access."""
    if cache.parent.name == "verbena" and not os.environ.get("VERBENA_VM_CACHE"):
        with contextlib.suppress(OSError):  # another user may own it
            cache.parent.mkdir(parents=True, exist_ok=True)
            cache.parent.chmod(0o700)


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def run(*words, cwd=None):
    """Returns the standard output of a command. If it fails, raises VmError with the end of its output."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    try:
        done = subprocess.run([str(word) for word in words], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise VmError(f"{words[0]} is missing; scripts/dev/setup.sh vm installs it") from missing
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise VmError(f"{' '.join(map(str, words[:4]))} … failed ({done.returncode}):\n{tail}")
    return done.stdout


class Apt:
    """The package lists of apt: those of the system, or private ones if those are missing or outdated.

    Does not need root, because it writes only to the cache folder."""

    def __init__(self, cache):
        self.private = cache / "apt"
        self.options = ["-o", "Debug::NoLocking=1"]

    def refresh(self):
        say("reading the package lists")
        for name in ("lists/partial", "archives/partial"):
            (self.private / name).mkdir(parents=True, exist_ok=True)
        self.options = ["-o", f"Dir::State::Lists={self.private}/lists", "-o", f"Dir::Cache={self.private}",
                        "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"]
        run("apt-get", *self.options, "-q", "update")

    def show(self, package):
        """Returns the fields of the newest version of a package."""
        text = run("apt-cache", *self.options, "--no-all-versions", "show", package)
        return dict(re.findall(r"^([\w-]+): (.*)$", text, re.MULTILINE))

    def dependency(self, package, pattern):
        """Returns the first dependency of a package whose name matches the pattern."""
        fields = self.show(package)
        for name in re.split(r"[,|]\s*", fields.get("Depends", "")):
            name = name.strip().split(" ")[0]
            if re.fullmatch(pattern, name):
                return name
        raise VmError(f"package {package} has no dependency that matches {pattern}")

    def download(self, folder, *packages):
        """Downloads the packages and returns their files in the order of the arguments."""
        folder.mkdir(parents=True, exist_ok=True)
        for package in packages:
            say(f"downloading {package}")
            run("apt-get", *self.options, "-o", "APT::Sandbox::User=", "-o", f"Acquire::Retries={RETRIES}",
                "-q", "download", package, cwd=folder)
        found = [next(folder.glob(f"{package}_*.deb"), None) for package in packages]
        if None in found:
            raise VmError(f"apt-get download left no file for {packages[found.index(None)]}")
        return found


def with_lists(cache, action):
    """Runs action(apt) with the system's package lists, and again with private lists if that fails."""
    apt = Apt(cache)
    try:
        return action(apt)
    except VmError:
        apt.refresh()
        return action(apt)


@contextlib.contextmanager
def locked(folder, series):
    """Allows one process at a time to prepare a series."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{series}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def filtered(data, *words):
    """Returns the output of a program for the data on its standard input."""
    try:
        done = subprocess.run(words, input=data, capture_output=True, check=False)
    except FileNotFoundError as missing:
        raise VmError(f"{words[0]} is missing; scripts/dev/setup.sh vm installs it") from missing
    if done.returncode:
        raise VmError(f"{words[0]} failed ({done.returncode}): {done.stderr.decode(errors='replace')}")
    return done.stdout


def extract_vmlinux(image):
    """Returns the ELF file in a bzImage (Documentation/arch/x86/boot.rst: payload_offset, payload_length)."""
    data = image.read_bytes()
    if data[0x202:0x206] != b"HdrS":
        raise VmError(f"{image} is no bzImage")
    start = ((data[0x1F1] or 4) + 1) * 512
    offset, length = struct.unpack_from("<II", data, 0x248)
    payload = data[start + offset:start + offset + length]
    if payload.startswith(b"\xfd7zXZ"):
        elf = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        elf = filtered(payload[:-4], "zstd", "-dcq")  # the last four bytes are the size
    else:
        raise VmError(f"{image}: the kernel is compressed in an unknown way ({payload[:6].hex()})")
    if not elf.startswith(b"\x7fELF"):
        raise VmError(f"{image}: no ELF file inside")
    return elf


def unpack_image(series, cache):
    """Downloads and unpacks the newest kernel of a series; returns its folder in the cache."""
    def fetch(apt):
        package = apt.dependency(METAS[series][0], r"linux-image-[0-9.]+[^ ]*-amd64")
        return package, apt.show(package)["Version"], apt.download(work / "debs", package)[0]

    with tempfile.TemporaryDirectory(dir=cache, prefix=".new-") as temporary:
        work = pathlib.Path(temporary)
        package, version, deb = with_lists(cache, fetch)
        final = cache / f"{series}_{version.replace('~', '_')}"
        if final.exists():
            return final
        say(f"unpacking {package} {version}")
        run("dpkg-deb", "-x", deb, work / "root")
        release = package.removeprefix("linux-image-")
        made = work / "kernel"
        made.mkdir()
        (made / "release").write_text(release)
        (made / "version").write_text(version)
        (made / "vmlinux").write_bytes(extract_vmlinux(work / "root/boot" / f"vmlinuz-{release}"))
        modules = next(path for path in (work / "root/lib/modules", work / "root/usr/lib/modules") if path.is_dir())
        shutil.move(modules, made / "modules")
        run("depmod", "-b", fake_root(work, made), release)
        made.chmod(0o755)
        made.rename(final)
    return final


def fake_root(work, kernel_folder):
    """Returns a folder for the option -b of depmod: its lib/modules is that of the kernel."""
    (work / "depmod/lib").mkdir(parents=True, exist_ok=True)
    link = work / "depmod/lib/modules"
    link.unlink(missing_ok=True)
    link.symlink_to(kernel_folder / "modules")
    return work / "depmod"


def load(folder):
    return Kernel(folder, (folder / "release").read_text())


def cached(series, cache):
    """Returns the kernel of a series in the cache, or None."""
    pointer = cache / f"{series}.current"
    return load(cache / os.readlink(pointer)) if (pointer / "release").is_file() else None


def prepare(series, siw, refresh=False):
    """Returns the kernel of a series from the cache, or downloads it. If `siw` is true, builds siw for it.

    A complete cache is only read. Another user may own it."""
    cache = cache_folder()
    make_private(cache)
    kernel = cached(series, cache)
    if kernel and not refresh and (not siw or kernel.has_siw()):
        return kernel
    try:
        with locked(cache, series):
            kernel = cached(series, cache)
            if refresh or kernel is None:
                kernel = renew(series, kernel, cache)
            if siw and not kernel.has_siw():
                build_siw(series, kernel, cache)
    except OSError as error:
        raise VmError(f"the kernel cannot be kept in {cache}: {error} (VERBENA_VM_CACHE names another folder)") from error
    return kernel


def renew(series, old, cache):
    """Fetches the newest kernel, makes it the current one and removes the old one."""
    new = unpack_image(series, cache)
    fresh = cache / f".{series}.{os.getpid()}"
    fresh.symlink_to(new.name)
    fresh.replace(cache / f"{series}.current")
    if old is not None and old.folder != new:
        shutil.rmtree(old.folder)
    return load(new)


def build_siw(series, kernel, cache):
    """Builds drivers/infiniband/sw/siw of Debian's source against Debian's headers of the same version."""
    version = (kernel.folder / "version").read_text()
    headers = f"linux-headers-{kernel.release}"

    def fetch(apt):
        common = apt.dependency(headers, r"linux-headers-.*-common")
        kbuild = apt.dependency(headers, r"linux-kbuild-.*")
        source = METAS[series][2]
        if apt.show(source)["Version"] != version:
            raise VmError(f"the archive has the source of {apt.show(source)['Version']}, the cached kernel is {version}: "
                          f"./dev vm --kernel {series} --refresh -- true uses the newer kernel")
        return apt.download(work / "debs", headers, common, kbuild, source)

    with tempfile.TemporaryDirectory(dir=cache, prefix=".siw-") as temporary:
        work = pathlib.Path(temporary)
        *parts, source = with_lists(cache, fetch)
        say(f"building siw for {kernel.release}")
        for deb in parts:
            run("dpkg-deb", "-x", deb, work / "root")
        extract_folder(source, "drivers/infiniband/sw/siw", work / "siw")
        tree = work / "root/usr/src" / headers
        for makefile in (tree / "Makefile", tree / ".kernelvariables"):
            if makefile.exists():
                makefile.write_text(makefile.read_text().replace("/usr/src/", str(work / "root/usr/src") + "/"))
        relocate(work / "root", tree)
        (tree / "vmlinux").unlink(missing_ok=True)  # only for BTF, which would need pahole
        run("make", "-C", tree, f"M={work}/siw", "CONFIG_RDMA_SIW=m", "CC=gcc-12", "modules")
        run("strip", "-g", work / "siw/siw.ko")
        (kernel.tree / "extra").mkdir(exist_ok=True)
        fresh = kernel.tree / "extra/siw.ko.new"
        shutil.move(work / "siw/siw.ko", fresh)
        fresh.rename(kernel.tree / "extra/siw.ko")
        run("depmod", "-b", fake_root(work, kernel.folder), kernel.release)


def relocate(root, tree):
    """Changes the absolute links of the unpacked headers to targets in the unpacked tree."""
    for path in [tree, *tree.iterdir(), *(root / "usr/lib").glob("linux-kbuild-*")]:
        if path.is_symlink() and os.readlink(path).startswith("/usr/"):
            target = root / os.readlink(path).lstrip("/")
            path.unlink()
            path.symlink_to(target)


def extract_folder(deb, folder, target):
    """Extracts one folder of the source archive in a linux-source package. Stops reading after that folder."""
    target.mkdir()
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as dpkg:
        with tarfile.open(fileobj=dpkg.stdout, mode="r|") as outer:
            archive = next((member for member in outer if member.name.endswith(".tar.xz")), None)
            if archive is None:
                raise VmError(f"{deb.name} contains no .tar.xz")
            with tarfile.open(fileobj=outer.extractfile(archive), mode="r|xz") as inner:
                copied = copy_folder(inner, folder, target)
        dpkg.stdout.close()
        dpkg.kill()
    if not copied:
        raise VmError(f"{deb.name} holds no {folder}")


def copy_folder(archive, folder, target):
    copied = 0
    for member in archive:
        inside = member.name.split("/", 1)[-1]
        if member.isfile() and inside.startswith(folder + "/"):
            (target / pathlib.PurePath(inside).name).write_bytes(archive.extractfile(member).read())
            copied += 1
        elif copied:
            break
    return copied
