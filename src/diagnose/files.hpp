// SPDX-License-Identifier: MIT
// Small files of procfs and sysfs, read without ever failing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// The file's text, at most `limit` bytes; empty if it cannot be read.
[[nodiscard]] std::string read_text(const std::filesystem::path& file,
                                    std::size_t limit = std::size_t{4} << 20U);
/// Its first line, without spaces around it.
[[nodiscard]] std::string read_line(const std::filesystem::path& file);
/// Names in a folder, sorted; none if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);
[[nodiscard]] bool is_there(const std::filesystem::path& file);

[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);
/// Parts between blanks.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view line);
/// A whole number, in base 16 after `0x`; nothing for other text.
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text, int base = 10);

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
