// SPDX-License-Identifier: MIT
#include "verbena/verbs/access.hpp"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <array>
#include <utility>

namespace verbena::inline VERBENA_ABI {

namespace {
constexpr bool is(access flag, std::uint32_t native) {
  return static_cast<std::uint32_t>(flag) == native;
}
static_assert(is(access::local_write, IBV_ACCESS_LOCAL_WRITE));
static_assert(is(access::remote_write, IBV_ACCESS_REMOTE_WRITE));
static_assert(is(access::remote_read, IBV_ACCESS_REMOTE_READ));
static_assert(is(access::remote_atomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(is(access::memory_window_bind, IBV_ACCESS_MW_BIND));
static_assert(is(access::zero_based, IBV_ACCESS_ZERO_BASED));
static_assert(is(access::on_demand, IBV_ACCESS_ON_DEMAND));
static_assert(is(access::huge_pages, IBV_ACCESS_HUGETLB));
static_assert(is(access::relaxed_ordering, IBV_ACCESS_RELAXED_ORDERING));
}  // namespace

std::string to_string(access_flags set) {
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
  if (set.empty()) return "none";
  std::string text;
  const auto append = [&text](const std::string& more) {
    if (!text.empty()) text += " | ";
    text += more;
  };
  for (const auto& [flag, name] : names) {
    if (!set.contains(flag)) continue;
    append(name);
    set = set.without(flag);
  }
  if (!set.empty()) append(fmt::format("{:#x}", set.mask()));
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
