// SPDX-License-Identifier: MIT
#include "softdev/ipc/private_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <system_error>
#include <utility>

namespace verbena::softdev {
namespace {

constexpr mode_t access_of_others = S_IRWXG | S_IRWXO;
constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

std::string text_of(int code) { return std::generic_category().message(code); }

/// A possible location of the directory: an environment variable, and the parents below its value.
struct place {
  const char* variable;
  std::array<const char*, 2> parents;  ///< created if missing; may be symbolic links of the user
};
constexpr std::array<place, 2> places = {{{"HOME", {".cache", nullptr}}, {"XDG_RUNTIME_DIR", {}}}};

/// The result of the attempt at one place. If it failed, `code` and `reason` are set.
struct attempt {
  private_directory found;
  int code = 0;
  std::string reason;
};

attempt failed(int code, std::string reason) {
  return {.found = {}, .code = code, .reason = std::move(reason)};
}

// Another user who can write a directory can replace its entries.
std::string reason_not_safe_parent(int fd) {
  struct stat about{};
  if (::fstat(fd, &about) != 0) return text_of(errno);
  if (about.st_uid != ::geteuid() && about.st_uid != 0)
    return "belongs to user " + std::to_string(about.st_uid);
  return (about.st_mode & S_IWOTH) != 0 ? "can be written by every user" : "";
}

unique_fd open_in(int parent, const char* name, int flags, if_missing what) {
  unique_fd opened(::openat(parent, name, directory_flags | flags));
  if (opened || errno != ENOENT || what == if_missing::fail) return opened;
  if (::mkdirat(parent, name, S_IRWXU) != 0 && errno != EEXIST) return opened;
  return unique_fd(::openat(parent, name, directory_flags | flags));
}

attempt open_at(const place& where, if_missing what) {
  const char* const base = ::secure_getenv(where.variable);
  if (base == nullptr || base[0] != '/')
    return failed(ENOENT, std::string(where.variable) + " is not set");
  std::string path = base;
  unique_fd at(::open(base, directory_flags));
  if (!at) return failed(errno, path + ": " + text_of(errno));
  for (const char* const each : where.parents) {
    if (each == nullptr) continue;
    if (std::string unsafe = reason_not_safe_parent(at.get()); !unsafe.empty())
      return failed(EACCES, path + " " + unsafe);
    path += std::string("/") + each;
    at = open_in(at.get(), each, 0, what);
    if (!at) return failed(errno, path + ": " + text_of(errno));
  }
  if (std::string unsafe = reason_not_safe_parent(at.get()); !unsafe.empty())
    return failed(EACCES, path + " " + unsafe);
  path += "/verbena";
  at = open_in(at.get(), "verbena", O_NOFOLLOW, what);
  if (!at) return failed(errno, path + ": " + text_of(errno));
  if (std::string unsafe = reason_not_private(at.get(), S_IFDIR); !unsafe.empty())
    return failed(EACCES, path + " " + unsafe);
  return {.found = {.fd = std::move(at), .path = std::move(path)}, .code = 0, .reason = {}};
}

}  // namespace

bool is_lack_of_resources(int code) noexcept {
  return code == EMFILE || code == ENFILE || code == ENOMEM;
}

std::string reason_not_private(int fd, std::uint32_t type) {
  struct stat about{};
  if (::fstat(fd, &about) != 0) return text_of(errno);
  if ((about.st_mode & S_IFMT) != type) return "has another file type";
  if (about.st_uid != ::geteuid()) return "belongs to user " + std::to_string(about.st_uid);
  if (type == S_IFREG && about.st_nlink != 1) return "has several names";
  if ((about.st_mode & access_of_others) == 0) return {};
  std::array<char, 16> mode{};
  static_cast<void>(std::snprintf(mode.data(), mode.size(), "%04o", about.st_mode & 07777U));
  return std::string("has mode ") + mode.data() + ", other users have access";
}

result<private_directory> open_private_directory(if_missing what) {
  int code = ENOENT;
  std::string reasons;
  for (const place& each : places) {
    attempt made = open_at(each, what);
    if (made.code == 0) return std::move(made.found);
    reasons += (reasons.empty() ? "" : "; ") + made.reason;
    if (is_lack_of_resources(made.code)) code = made.code;
    if (made.code == EACCES && code == ENOENT) code = EACCES;
  }
  return error::unavailable(code, "open", "private directory of soft0", reasons);
}

}  // namespace verbena::softdev
