// SPDX-License-Identifier: MIT
// The loader's list of libraries, /etc/ld.so.cache, with any content.
#include "softdev/forward/loader_cache.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/target.hpp"

namespace verbena::forward {
namespace {

using fuzz::require;

std::string content;
std::size_t visits = 0;

void run_loader_cache(fuzz::input input) {
  content = fuzz::text_of(input);
  visits = 0;
  void* const found = visit_cache(content, "libibverbs.so.1", [](const char* path) -> void* {
    // The path is inside the file and not empty.
    require(path >= content.data() && *path != '\0' &&
            path + std::strlen(path) <= content.data() + content.size());
    ++visits;
    return nullptr;
  });
  require(found == nullptr && visits <= content.size() / 24);
  static_cast<void>(visit_cache(content, "libibverbs.so.1", [](const char*) -> void* {
    require(visits > 0);
    visits = 0;
    return &visits;
  }));
  require(visits == 0);
}

void loader_cache_seeds(fuzz::seed_folder& into) {
  const std::string_view magic = "glibc-ld.so.cache1.1";
  const std::string_view texts("libibverbs.so.1\0/lib/libibverbs.so.1\0", 37);
  constexpr std::uint32_t name = 48 + 24;
  fuzz::writer file;
  file.put(std::as_bytes(std::span(magic)));
  for (const std::uint32_t each : {1U, 37U, 0U, 0U, 0U, 0U, 0U}) file.put(each);
  file.put(std::int32_t{0x303}).put(name).put(name + 16).put(std::uint32_t{0});
  file.put(std::uint64_t{0}).put(std::as_bytes(std::span(texts)));
  into.add("one_entry", file.bytes());
  fuzz::writer behind;
  behind.put(std::as_bytes(std::span(std::string_view("ld.so-1.7.0\0\0\0", 14))));
  into.add("behind_an_older_header", behind.put(file.bytes()).bytes());
  into.add("empty", magic);
}

const fuzz::target loader_caches("loader_cache", run_loader_cache, loader_cache_seeds);

}  // namespace
}  // namespace verbena::forward
