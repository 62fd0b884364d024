// SPDX-License-Identifier: MIT
// Reads small files of procfs and sysfs; never fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// Returns the text of a file, at most `limit` bytes; empty if it cannot be read.
[[nodiscard]] std::string read_text(const std::filesystem::path& file,
                                    std::size_t limit = std::size_t{4} << 20U);
/// Returns the first line of a file without surrounding spaces.
[[nodiscard]] std::string read_line(const std::filesystem::path& file);
/// Returns the sorted names in a folder; an empty list if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);
/// Returns `path` inside the folder `root`.
[[nodiscard]] std::filesystem::path below(const std::string& root, std::string_view path);
[[nodiscard]] bool is_there(const std::filesystem::path& file);

[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);
/// Splits text at blanks.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view line);
/// Parses a number, hexadecimal after `0x`; returns nullopt for other text.
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text, int base = 10);

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
