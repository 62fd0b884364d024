// SPDX-License-Identifier: MIT
// The hosts of a file before they are checked, with their line numbers for error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "verbena/base/error.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/network.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A position in a file, for error messages.
struct network_place {
  std::string_view file;
  std::uint32_t line = 0;  ///< 0: the whole file

  [[nodiscard]] error refuse(const std::string& why) const;
};

/// A value that is neither an integer nor a string; `kind` describes its type.
struct other_value {
  std::string_view kind;
};
using network_value = std::variant<std::int64_t, std::string, other_value>;

/// One element of `hosts`.
struct network_entry {
  std::uint32_t line = 0;
  std::uint32_t port_line = 0;  ///< 0: the port has the line of the element
  bool is_peer = false;         ///< an element of `peers`, which have a common port
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> port = {};
  std::optional<std::string> host = {};
  std::optional<std::string> device = {};
  std::optional<std::string> comment = {};
};

/// Returns the name of the key of element `index` in errors.
[[nodiscard]] std::string name_of_key(bool is_peer, std::size_t index, std::string_view key);

/// Stores the value of a key of element `index`; ignores unknown keys.
[[nodiscard]] result<void> set_member(network_entry& entry, std::size_t index, std::string_view key,
                                      network_value value, const network_place& at);

[[nodiscard]] result<std::vector<network_entry>> parse_network_json(std::string_view text,
                                                                    std::string_view name);
[[nodiscard]] result<std::vector<network_entry>> parse_network_toml(std::string_view text,
                                                                    std::string_view name);

}  // namespace verbena::inline VERBENA_ABI::net::detail
