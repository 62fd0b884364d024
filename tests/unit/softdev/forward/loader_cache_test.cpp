// SPDX-License-Identifier: MIT
#include "softdev/forward/loader_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace verbena::forward {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using libraries = std::vector<std::pair<std::string, std::string>>;  // name and path

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Returns the content of a cache file in the format of ldconfig.
std::string file_with(const libraries& entries) {
  std::string file = "glibc-ld.so.cache1.1";
  append(file, static_cast<std::uint32_t>(entries.size()));
  file.append(24, '\0');
  std::string texts;
  const std::size_t texts_at = file.size() + entries.size() * 24;
  for (const auto& [name, path] : entries) {
    append(file, std::int32_t{0x303});
    append(file, static_cast<std::uint32_t>(texts_at + texts.size()));
    texts += name + '\0';
    append(file, static_cast<std::uint32_t>(texts_at + texts.size()));
    texts += path + '\0';
    append(file, std::uint32_t{0});
    append(file, std::uint64_t{0});
  }
  return file + texts;
}

std::vector<std::string> visited;

std::vector<std::string> paths_in(const std::string& file) {
  visited.clear();
  // An exact copy, so that ASan detects reads beyond the end.
  const std::vector<char> bytes(file.begin(), file.end());
  const void* const found =
      visit_cache({bytes.data(), bytes.size()}, "libwanted.so.1", [](const char* path) -> void* {
        visited.emplace_back(path);
        return nullptr;
      });
  EXPECT_EQ(found, nullptr);
  return visited;
}

const libraries some{{"libother.so.1", "/lib/libother.so.1"},
                     {"libwanted.so.1", "/lib/first/libwanted.so.1"},
                     {"libwanted.so.1", "/lib/second/libwanted.so.1"}};

TEST(loader_cache, lookup_returns_all_libraries_of_the_name_in_order) {
  EXPECT_THAT(paths_in(file_with(some)),
              ElementsAre("/lib/first/libwanted.so.1", "/lib/second/libwanted.so.1"));
}

TEST(loader_cache, cache_with_older_header_is_read) {
  std::string older("ld.so-1.7.0\0", 12);
  older.append(36, '\0');
  EXPECT_THAT(paths_in(older + file_with(some)),
              ElementsAre("/lib/first/libwanted.so.1", "/lib/second/libwanted.so.1"));
}

TEST(loader_cache, visit_stops_when_the_visitor_returns_true) {
  visited.clear();
  void* const found = visit_cache(file_with(some), "libwanted.so.1", [](const char* path) -> void* {
    visited.emplace_back(path);
    return &visited;
  });
  EXPECT_EQ(found, &visited);
  EXPECT_THAT(visited, ElementsAre("/lib/first/libwanted.so.1"));
}

TEST(loader_cache, cache_without_magic_number_has_no_entries) {
  std::string file = file_with(some);
  file[3] = 'x';
  EXPECT_THAT(paths_in(file), IsEmpty());
  EXPECT_THAT(paths_in(""), IsEmpty());
}

TEST(loader_cache, truncated_cache_yields_only_whole_paths) {
  const std::string file = file_with(some);
  for (std::size_t length = 0; length < file.size(); ++length) {
    for (const auto& path : paths_in(file.substr(0, length)))
      EXPECT_TRUE(path == some[1].second || path == some[2].second) << path << " at " << length;
  }
}

TEST(loader_cache, cache_with_corrupt_offsets_is_not_read_out_of_bounds) {
  const std::string file = file_with(some);
  for (std::size_t position = 20; position + 4 <= 48 + 3 * 24; position += 4) {
    for (const std::uint32_t value :
         {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU,
          static_cast<std::uint32_t>(file.size() - 1), static_cast<std::uint32_t>(file.size())}) {
      std::string wild = file;
      std::memcpy(wild.data() + position, &value, sizeof value);
      EXPECT_LE(paths_in(wild).size(), 3U);
    }
  }
}

}  // namespace
}  // namespace verbena::forward
