// SPDX-License-Identifier: MIT
#include "softdev/ipc/name_table.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "verbena/base/random.hpp"

namespace verbena::softdev {
namespace {

constexpr off_t entry_bytes = sizeof(name_token);
constexpr std::size_t boot_id_bytes = 36;

off_t offset_of(std::uint32_t entry) noexcept { return static_cast<off_t>(entry) * entry_bytes; }

error refuse(int code, const std::string& text) {
  return error::unavailable(code, "open", "table of names of soft0", text);
}

// Hosts and network namespaces can share a home directory, but not abstract names.
result<std::string> file_name() {
  std::array<char, boot_id_bytes> boot{};
  const unique_fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  struct stat network{};
  const bool known = file && ::read(file.get(), boot.data(), boot.size()) == boot_id_bytes &&
                     ::stat("/proc/self/ns/net", &network) == 0;
  if (!known) {
    const int code = errno != 0 ? errno : ENOENT;
    return refuse(code, "/proc does not have the boot ID and the network namespace: " +
                            std::generic_category().message(code));
  }
  return "names-" + std::string(boot.data(), boot.size()) + "-" + std::to_string(network.st_ino);
}

}  // namespace

name_token name_token::draw() { return {random_u64() | 1U, random_u64()}; }

result<name_table> name_table::open(if_missing what) {
  VERBENA_TRY(const private_directory in, open_private_directory(what));
  VERBENA_TRY(const std::string name, file_name());
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  unique_fd file(::openat(in.fd.get(), name.c_str(),
                          flags | (what == if_missing::create ? O_CREAT : 0), S_IRUSR | S_IWUSR));
  if (!file) {
    const int code = errno;
    const char* const link = code == ELOOP ? "is a symbolic link" : nullptr;
    return refuse(code == ELOOP ? EACCES : code,
                  in.path + "/" + name + " " +
                      (link != nullptr ? link : std::generic_category().message(code)));
  }
  if (const std::string unsafe = reason_not_private(file.get(), S_IFREG); !unsafe.empty())
    return refuse(EACCES, in.path + "/" + name + " " + unsafe);
  return name_table(std::move(file));
}

int name_table::lock(std::uint32_t entry) const noexcept {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = offset_of(entry);
  range.l_len = entry_bytes;
  if (::fcntl(fd_.get(), F_OFD_SETLK, &range) == 0) return 0;
  return errno == EAGAIN || errno == EACCES ? EADDRINUSE : errno;
}

int name_table::publish(std::uint32_t entry, const name_token& name) const noexcept {
  if (find(entry) == name) return 0;
  const ssize_t written = ::pwrite(fd_.get(), &name, sizeof name, offset_of(entry));
  if (written == sizeof name) return 0;
  return written < 0 ? errno : ENOSPC;
}

name_token name_table::find(std::uint32_t entry) const noexcept {
  name_token found;
  const ssize_t got = ::pread(fd_.get(), &found, sizeof found, offset_of(entry));
  return got == sizeof found ? found : name_token();
}

}  // namespace verbena::softdev
