// SPDX-License-Identifier: MIT
#include "verbena/verbs/access.hpp"

#include <array>
#include <utility>

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {

std::string to_string(access_flags rights) {
  static constexpr std::array<std::pair<access, const char*>, 11> names = {{
      {access::local_write, "local_write"},
      {access::remote_write, "remote_write"},
      {access::remote_read, "remote_read"},
      {access::remote_atomic, "remote_atomic"},
      {access::memory_window_bind, "memory_window_bind"},
      {access::zero_based, "zero_based"},
      {access::on_demand, "on_demand"},
      {access::huge_pages, "huge_pages"},
      {access::flush_global, "flush_global"},
      {access::flush_persistent, "flush_persistent"},
      {access::relaxed_ordering, "relaxed_ordering"},
  }};
  if (rights.empty()) return "none";
  std::string text;
  const auto append = [&text](const std::string& more) {
    if (!text.empty()) text += " | ";
    text += more;
  };
  for (const auto& [flag, name] : names) {
    if (!rights.contains(flag)) continue;
    append(name);
    rights = rights.without(flag);
  }
  if (!rights.empty()) append(detail::hexadecimal(rights.mask()));
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
