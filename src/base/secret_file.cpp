// SPDX-License-Identifier: MIT
#include "src/base/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::inline VERBENA_ABI::detail {
namespace {

error failure(const std::string& path, int code, const char* call, const std::string& text) {
  return error::from_errno(code, call, "VERBENA_SOFTDEV_WIRE_KEY_FILE '" + path + "'", text);
}

}  // namespace

error wrong_secret_size(const std::string& path, std::size_t bytes) {
  const std::string size = bytes > most_secret_bytes
                               ? "more than " + std::to_string(most_secret_bytes)
                               : std::to_string(bytes);
  return failure(path, EINVAL, "read",
                 "it has " + size + " bytes; a secret has " + std::to_string(least_secret_bytes) +
                     " to " + std::to_string(most_secret_bytes));
}

result<unique_fd> open_secret_file(const std::string& path) {
  if (path.empty())
    return failure(path, EINVAL, "open",
                   "the path is empty; set it to a file with a secret, or unset the variable");
  // A FIFO does not block, and a terminal does not become that of the process.
  unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file)
    return failure(
        path, errno, "open",
        "the file with the secret cannot be opened; create it with \"(umask 077; head -c "
        "32 /dev/urandom > FILE)\" and copy it to all hosts");
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return failure(path, errno, "fstat", "");
  if (!S_ISREG(about.st_mode))
    return failure(path, EINVAL, "open", "it is not a regular file; copy the secret to one");
  if (about.st_uid != ::geteuid())
    return failure(path, EACCES, "open",
                   "it belongs to user " + std::to_string(about.st_uid) + ", not to user " +
                       std::to_string(::geteuid()) +
                       ", who runs the program; use a file of that user");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return failure(path, EACCES, "open", "other users have access to it; run \"chmod 600\"");
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes < least_secret_bytes || bytes > most_secret_bytes)
    return wrong_secret_size(path, bytes);
  return file;
}

}  // namespace verbena::inline VERBENA_ABI::detail
