# SPDX-License-Identifier: MIT
"""Builds the initial RAM disk of one run: busybox, modules that mount the host's file system, guest scripts, command."""
import io
import lzma
import pathlib
import shlex
import shutil
import stat

from kernels import VmError

GUEST = pathlib.Path(__file__).resolve().parent / "guest"
# Modules for the boot before the host's file system is mounted; their dependencies are added automatically.
WANTED = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")


class Archive:
    """A cpio archive in the format that the kernel unpacks ("newc"; driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self):
        self.data = io.BytesIO()
        self.inode = 0

    def add(self, name, mode, content=b""):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        self.data.write(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        self.pad()
        self.data.write(content)
        self.pad()

    def pad(self):
        self.data.write(bytes(-self.data.tell() % 4))

    def folder(self, name):
        self.add(name, stat.S_IFDIR | 0o755)

    def file(self, name, content, mode=0o644):
        self.add(name, stat.S_IFREG | mode, content if isinstance(content, bytes) else content.encode())

    def finish(self):
        self.add("TRAILER!!!", 0)
        return self.data.getvalue()


def stem(path):
    """Returns the module name in a line of modules.dep or modules.builtin."""
    return pathlib.PurePath(path).name.split(".ko")[0].replace("-", "_")


def boot_modules(kernel):
    """Returns the files of the boot modules and their dependencies in loading order, without built-in modules."""
    needs = {}
    for line in (kernel.tree / "modules.dep").read_text().splitlines():
        path, _, dependencies = line.partition(":")
        needs[stem(path)] = [*reversed(dependencies.split()), path]
    builtin = {stem(line) for line in (kernel.tree / "modules.builtin").read_text().splitlines()}
    order = []
    for wanted in WANTED:
        if wanted in needs:
            order += [path for path in needs[wanted] if path not in order]
        elif wanted not in builtin:
            raise VmError(f"kernel {kernel.release} has no module {wanted}")
    return [kernel.tree / path for path in order]


def add_modules(archive, kernel):
    archive.folder("modules")
    names = []
    for path in boot_modules(kernel):
        content = path.read_bytes()
        if path.suffix == ".xz":
            content = lzma.decompress(content)
        names.append(stem(path.name) + ".ko")
        archive.file(f"modules/{names[-1]}", content)
    archive.file("modules/order", "".join(f"{name}\n" for name in names))


def command_script(command, cwd, environment):
    """Returns a script that runs the command with this folder and environment. If it cannot start, env returns 126 or 127."""
    words = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in environment.items()), *command]
    return f"cd {shlex.quote(str(cwd))} || exit 126\nexec {' '.join(map(shlex.quote, words))}\n"


def build(kernel, request, token):
    """Returns the bytes of the archive for a request (machine.Request)."""
    busybox = shutil.which("busybox", path="/bin:/usr/bin:/usr/local/bin")
    if busybox is None:
        raise VmError("busybox is missing; scripts/dev/setup.sh vm installs it")
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "guest"):
        archive.folder(name)
    archive.file("bin/busybox", pathlib.Path(busybox).read_bytes(), 0o755)
    archive.file("init", (GUEST / "init.sh").read_bytes(), 0o755)
    add_modules(archive, kernel)
    for name in ("start.sh", "devices.sh"):
        archive.file(f"guest/{name}", (GUEST / name).read_bytes())
    archive.file("guest/settings", f"modules={shlex.quote(str(kernel.modules))}\n"
                                   f"devices={','.join(request.devices) or 'none'}\ntoken={token}\n")
    archive.file("guest/writable", "".join(f"{folder}\n" for folder in request.writable))
    archive.file("guest/command.sh", command_script(request.command, request.cwd, request.environment)
                 .encode("utf-8", "surrogateescape"))
    return archive.finish()
