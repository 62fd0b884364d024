// SPDX-License-Identifier: MIT
#include "tools/verbena/run/program.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "tools/verbena/options.hpp"
#include "tools/verbena/run/elf.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

constexpr int most_interpreters = 5;            // the limit of the kernel
constexpr std::size_t beginning_bytes = 65536;  // ELF headers are at the beginning of a file

std::string reason(int code) { return std::generic_category().message(code); }

refusal not_found(const std::string& name, const std::string& why) {
  return {.status = run_status::not_found, .text = name + ": " + why};
}
refusal cannot_execute(const std::string& name, const std::string& why) {
  return {.status = run_status::cannot_execute, .text = name + ": " + why};
}

// Returns 0, or the errno of executing this file.
int executable_error(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

bool is_there(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_EACCESS) == 0;
}

refusal not_executable(const std::string& path) {
  return cannot_execute(path, "the file is not executable: chmod +x " + path);
}

outcome<std::string> check_executable(const std::string& path) {
  const int code = executable_error(path);
  if (code == 0) return path;
  if (code == ENOENT || code == ENOTDIR) return not_found(path, "no such file");
  if (code == EACCES && is_there(path)) return not_executable(path);
  return cannot_execute(path, reason(code));
}

// Finds the first executable file with this name in the folders of PATH.
outcome<std::string> search_path(const std::string& name) {
  const char* const variable = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string_view path = variable != nullptr ? variable : "/bin:/usr/bin";
  std::optional<std::string> blocked;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    const auto folder = path.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : std::string(folder)) + '/' + name;
    const int code = executable_error(candidate);
    if (code == 0) return candidate;
    if (code == EACCES && !blocked && is_there(candidate)) blocked = candidate;
    begin = end + 1;
  }
  if (blocked) return not_executable(*blocked);
  return not_found(name, "no such program in PATH");
}

outcome<std::string> find_file(const std::string& name) {
  if (name.empty()) return not_found("''", "the name of the program is empty");
  return name.find('/') != std::string::npos ? check_executable(name) : search_path(name);
}

// Reads the beginning of a file.
std::optional<std::string> read_beginning(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::string bytes(beginning_bytes, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const auto count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  constexpr std::string_view blanks = " \t";
  while (true) {
    const auto begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    const auto end = std::min(text.find_first_of(blanks, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

// Returns the program that env(1) in a `#!` line starts: the first word that is neither an option
// nor an assignment.
std::optional<std::string> started_by_env(const std::vector<std::string>& words) {
  if (words.size() < 2 || !("/" + words.front()).ends_with("/env")) return std::nullopt;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word != "-S" && word != "-i" && word.find('=') == std::string::npos)
      return word.starts_with('-') ? std::nullopt : std::optional(word);
  }
  return std::nullopt;
}

// Returns the words of the `#!` line; nullopt if the file is not a script.
std::optional<std::vector<std::string>> interpreter_of(std::string_view beginning) {
  if (!beginning.starts_with("#!")) return std::nullopt;
  return split_words(beginning.substr(2, beginning.find('\n') - 2));
}

// Returns the way in which the kernel changes privileges when it executes the file; nullopt if it
// does not. With changed privileges, the loader ignores LD_PRELOAD and LD_LIBRARY_PATH. Considers
// nosuid mounts and no_new_privs.
std::optional<std::string> changed_rights(const std::string& path) {
  struct stat status{};
  struct statvfs mount{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) return std::nullopt;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return std::nullopt;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid()) return "set-user-id";
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
      status.st_gid != ::getgid())
    return "set-group-id";
  if (::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return "with file capabilities";
  return std::nullopt;
}

outcome<program> check_elf(program found, std::string_view beginning) {
  const auto facts = read_elf(std::as_bytes(std::span(beginning)));
  const auto& path = found.executable;
  switch (facts.kind) {
    case elf_kind::dynamic:
      break;
    case elf_kind::statically_linked:
      return cannot_execute(path,
                            "the program is statically linked, so no library can be preloaded: "
                            "link it dynamically to use soft0");
    case elf_kind::foreign:
      return cannot_execute(
          path, "the program is built for a different processor or word size from this tool");
    case elf_kind::damaged:
      return cannot_execute(path, "its ELF headers are invalid: the file is damaged");
    case elf_kind::not_elf:
      return cannot_execute(
          path,
          "the file is neither an ELF program nor a script with a #! line: run its "
          "interpreter");
  }
  if (facts.loader.find("/ld-musl-") != std::string::npos)
    return cannot_execute(path,
                          "the program is built for musl, but the software device needs glibc");
  if (const auto access = changed_rights(path))
    return cannot_execute(path, "the program is " + *access +
                                    ", so the loader ignores LD_PRELOAD: run a copy without these "
                                    "privileges");
  found.loader = facts.loader;
  return found;
}

}  // namespace

outcome<program> find_program(const std::string& name) {
  const auto file = find_file(name);
  if (!file) return file.why();
  program found{.file = file.value(), .interpreters = {}, .executable = file.value(), .loader = {}};
  for (int depth = 0; depth <= most_interpreters; ++depth) {
    const auto beginning = read_beginning(found.executable);
    if (!beginning)
      return cannot_execute(found.executable,
                            "the file cannot be read to find its loader: " + reason(errno));
    const auto words = interpreter_of(*beginning);
    if (!words) return check_elf(std::move(found), *beginning);
    if (words->empty()) return cannot_execute(found.executable, "its #! line names no interpreter");
    const auto by_env = started_by_env(*words);
    const auto next = by_env ? find_file(*by_env) : check_executable(words->front());
    if (!next)
      return refusal{.status = run_status::cannot_execute,
                     .text = found.executable + ": its interpreter: " + next.why().text};
    found.executable = next.value();
    found.interpreters.push_back(next.value());
  }
  return cannot_execute(found.file, "the chain of #! interpreters is longer than 5");
}

}  // namespace verbena::tool
