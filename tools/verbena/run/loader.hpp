// SPDX-License-Identifier: MIT
// Which libraries a program gets, asked of its own loader.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::tool {

/// How a program comes to libibverbs.
enum class dependence : std::uint8_t {
  linked,      ///< it or one of its libraries needs libibverbs.so.1, which is installed
  missing,     ///< it needs libibverbs.so.1, which is not installed
  not_linked,  ///< it does not need it; it may still load it later
  not_known,   ///< the loader did not say
};

/// Lists what `loader` would load for `executable`, in today's environment, without running it.
/// Blocks for a few milliseconds: starts the loader.
[[nodiscard]] dependence ask_loader(const std::string& loader, const std::string& executable);

/// Reads what the loader printed.
[[nodiscard]] dependence read_loader_list(const std::string& list);

}  // namespace verbena::tool
