// SPDX-License-Identifier: MIT
// A process may have several forwarders, each with its own copy of this file. All copies use the
// record of the forwarder that was loaded first.
#include "softdev/forward/message.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <string_view>

// The kinds of messages that were written, one bit each.
extern "C" {
__attribute__((visibility("default"))) extern std::atomic<std::uint32_t> verbena_forward_said;
constinit std::atomic<std::uint32_t> verbena_forward_said{0};
}

namespace verbena::forward {
namespace {

constexpr const char* record = "verbena_forward_said";

// Libraries that may be forwarders, in the order of loading.
struct candidates {
  static constexpr std::size_t most = 16;
  std::array<std::array<char, PATH_MAX>, most>* paths;
  std::size_t count = 0;
};

bool may_be_forwarder(std::string_view path) noexcept {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libverbena-") || name.starts_with("libibverbs.so") ||
         name.starts_with("libefa.so") || name.starts_with("librdmacm.so");
}

int collect(dl_phdr_info* library, std::size_t /*size*/, void* data) noexcept {
  auto& found = *static_cast<candidates*>(data);
  if (found.count == candidates::most || !may_be_forwarder(library->dlpi_name)) return 0;
  std::snprintf((*found.paths)[found.count].data(), PATH_MAX, "%s", library->dlpi_name);
  ++found.count;
  return 0;
}

std::atomic<std::uint32_t>& shared_record() noexcept {
  static constinit std::array<std::array<char, PATH_MAX>, candidates::most> paths{};
  static constinit std::atomic<std::atomic<std::uint32_t>*> known{nullptr};
  static constinit std::atomic_flag searching;
  if (auto* const found = known.load(std::memory_order_acquire)) return *found;
  // While another thread searches, a message may be repeated.
  if (searching.test_and_set()) return verbena_forward_said;
  candidates all{.paths = &paths};
  dl_iterate_phdr(&collect, &all);
  std::atomic<std::uint32_t>* found = &verbena_forward_said;
  for (std::size_t i = 0; i < all.count; ++i) {
    void* const library = dlopen(paths[i].data(), RTLD_LAZY | RTLD_NOLOAD);
    void* const theirs = library != nullptr ? dlsym(library, record) : nullptr;
    if (theirs == nullptr) continue;
    found = static_cast<std::atomic<std::uint32_t>*>(theirs);
    break;
  }
  known.store(found, std::memory_order_release);
  return *found;
}

}  // namespace

void warn_once(warning kind, const char* what, const char* why) noexcept {
  const int saved = errno;
  // Formats the text before the search, which invalidates a text of dlerror(3).
  std::array<char, 1024> text;
  const int length = std::snprintf(text.data(), text.size(), "verbena: %s%s\n", what, why);
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(kind);
  if (length > 0 && (shared_record().fetch_or(bit) & bit) == 0) {
    const auto bytes = static_cast<std::size_t>(length);
    const ssize_t written =
        write(STDERR_FILENO, text.data(), bytes < text.size() ? bytes : text.size() - 1);
    static_cast<void>(written);
  }
  errno = saved;
}

}  // namespace verbena::forward
