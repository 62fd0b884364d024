// SPDX-License-Identifier: MIT
#include "softdev/host/wire_key_file.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "src/base/secret_file.hpp"
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
  VERBENA_TRY(const unique_fd file, verbena::detail::open_secret_file(path));
  secret content;
  while (content.length < content.bytes.size()) {
    const ssize_t bytes = ::read(file.get(), content.bytes.data() + content.length,
                                 content.bytes.size() - content.length);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0)
      return error::from_errno(errno, "read", "VERBENA_SOFTDEV_WIRE_KEY_FILE '" + path + "'");
    if (bytes == 0) break;
    content.length += static_cast<std::size_t>(bytes);
  }
  if (content.length < least_secret_bytes || content.length > most_secret_bytes)
    return verbena::detail::wrong_secret_size(path, content.length);
  return wire::wire_key::derive(std::span(content.bytes).first(content.length));
}

}  // namespace verbena::softdev
