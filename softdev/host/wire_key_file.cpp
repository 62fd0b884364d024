// SPDX-License-Identifier: MIT
#include "softdev/host/wire_key_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "verbena/base/fd.hpp"

namespace verbena::softdev {
namespace {

/// The bytes of a secret, which are erased at the end.
struct secret {
  std::array<std::byte, most_secret_bytes + 1> bytes;
  std::size_t length = 0;

  secret() = default;
  secret(const secret&) = delete;
  secret& operator=(const secret&) = delete;
  ~secret() { ::explicit_bzero(bytes.data(), bytes.size()); }
};

}  // namespace

result<wire::wire_key> read_wire_key(const std::string& path) {
  const auto failed = [&](int code, const char* call, const std::string& text) {
    return error::from_errno(code, call, "VERBENA_SOFTDEV_WIRE_KEY_FILE '" + path + "'", text);
  };
  if (path.empty())
    return failed(EINVAL, "open",
                  "the path is empty; set it to a file with a secret, or unset the "
                  "variable");
  // A FIFO does not block, and a terminal does not become that of the process.
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file)
    return failed(errno, "open",
                  "the file with the secret cannot be opened; create it with \"(umask "
                  "077; head -c 32 /dev/urandom > FILE)\" and copy it to all hosts");
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return failed(errno, "fstat", "");
  if (!S_ISREG(about.st_mode))
    return failed(EINVAL, "open", "it is not a regular file; copy the secret to one");
  if (about.st_uid != ::geteuid())
    return failed(EACCES, "open",
                  "it belongs to user " + std::to_string(about.st_uid) + ", not to user " +
                      std::to_string(::geteuid()) +
                      ", who runs the program; use a file of that user");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return failed(EACCES, "open", "other users have access to it; run \"chmod 600\"");
  secret content;
  while (content.length < content.bytes.size()) {
    const ssize_t bytes = ::read(file.get(), content.bytes.data() + content.length,
                                 content.bytes.size() - content.length);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return failed(errno, "read", "");
    if (bytes == 0) break;
    content.length += static_cast<std::size_t>(bytes);
  }
  if (content.length < least_secret_bytes || content.length > most_secret_bytes)
    return failed(
        EINVAL, "read",
        "it has " +
            (content.length > most_secret_bytes ? "more than " + std::to_string(most_secret_bytes)
                                                : std::to_string(content.length)) +
            " bytes; a secret has " + std::to_string(least_secret_bytes) + " to " +
            std::to_string(most_secret_bytes));
  return wire::wire_key::derive(std::span(content.bytes).first(content.length));
}

}  // namespace verbena::softdev
