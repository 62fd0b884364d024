// SPDX-License-Identifier: MIT
// A program that calls a function of another library has the name of the function in its file.
#include "tools/verbena/run/reach.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "tools/verbena/run/loader.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

/// The bytes of a file. Threads: immutable.
class mapped_file {
 public:
  explicit mapped_file(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0) return;
    size_ = static_cast<std::size_t>(status.st_size);
    bytes_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  }
  ~mapped_file() {
    if (bytes_ != MAP_FAILED) ::munmap(bytes_, size_);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  [[nodiscard]] bool is_read() const noexcept { return bytes_ != MAP_FAILED; }
  [[nodiscard]] std::string_view text() const noexcept {
    return is_read() ? std::string_view(static_cast<const char*>(bytes_), size_)
                     : std::string_view();
  }

 private:
  void* bytes_ = MAP_FAILED;
  std::size_t size_ = 0;
};

// Returns whether the file contains one of the names between zero bytes.
bool names_one(const mapped_file& file, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    const auto whole = std::string(1, '\0') + std::string(name) + std::string(1, '\0');
    return file.text().find(whole) != std::string_view::npos;
  });
}

// Returns whether the file is part of the C library, which contains all names itself.
bool is_of_c_library(std::string_view path) {
  static constexpr std::string_view names[] = {"libc.so",  "libdl.so", "libpthread.so",
                                               "ld-linux", "ld64.so",  "libm.so"};
  const auto name = path.substr(path.rfind('/') + 1);
  return std::ranges::any_of(names, [&](std::string_view each) { return name.starts_with(each); });
}

constexpr std::string_view loading[] = {"dlopen", "dlmopen"};
constexpr std::string_view starting[] = {
    "execve",  "execv",       "execvp", "execvpe", "execl",    "execlp",      "execle",
    "fexecve", "posix_spawn", "popen",  "system",  "execveat", "posix_spawnp"};

}  // namespace

std::string missed_by_preload(const program& found) {
  const auto libraries = ask_loader(found.loader, found.executable);
  if (libraries.on_libibverbs != dependence::not_linked) return "";
  const mapped_file program(found.executable);
  if (!program.is_read()) return "";
  if (program.text().find("libibverbs.so") != std::string_view::npos)
    return found.executable +
           " loads libibverbs.so.1 at run time, which --preload does not replace: use --dropin";
  std::vector<std::string> files = libraries.paths;
  std::erase_if(files, is_of_c_library);
  files.push_back(found.executable);
  const bool may_reach = std::ranges::any_of(files, [](const std::string& path) {
    const mapped_file file(path);
    return !file.is_read() || names_one(file, loading) || names_one(file, starting);
  });
  if (may_reach) return "";
  return found.executable +
         " is not linked to libibverbs.so.1 and cannot load it, so it finds only the files of "
         "soft0: "
         "link it with -libverbs";
}

}  // namespace verbena::tool
