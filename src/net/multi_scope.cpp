// SPDX-License-Identifier: MIT
#include "verbena/net/multi_scope.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "src/net/rank_list.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {

error with_failures(error why, const unseen_peer_failures& failures) {
  if (!failures.recorded.empty()) {
    std::vector<std::uint32_t> ranks;
    ranks.reserve(failures.recorded.size());
    for (const peer_failure& each : failures.recorded) ranks.push_back(each.rank);
    why = with_failed_ranks(std::move(why), std::move(ranks));
  }
  if (failures.unrecorded == 0) return why;
  return std::move(why).with_diagnosis(
      fmt::format("{} more operations failed, which were not recorded because memory was short",
                  failures.unrecorded));
}

error from_failures(const unseen_peer_failures& failures) {
  VERBENA_ASSERT(!failures.empty(), "error() of a scope that succeeded: check has_value() first");
  if (failures.recorded.empty())
    return with_failures(error::from_errno(EIO, "multi_channel::scope", {}, "operations failed"),
                         failures);
  return with_failures(failures.recorded.front().result.error(), failures);
}

}  // namespace detail

std::vector<scoped_operation> multi_scope::scatter(std::span<const peer_send> parts,
                                                   std::source_location posted) {
  std::vector<scoped_operation> made;
  made.reserve(parts.size());
  for (const peer_send& each : parts)
    made.push_back((*this)[each.rank].send(each.data, each.options, posted));
  return made;
}

std::vector<scoped_operation> multi_scope::scatter(std::span<const peer_write> parts,
                                                   std::source_location posted) {
  std::vector<scoped_operation> made;
  made.reserve(parts.size());
  for (const peer_write& each : parts)
    made.push_back((*this)[each.to.rank].write(each.data, each.to.region, each.options, posted));
  return made;
}

std::vector<scoped_operation> multi_scope::gather(std::span<peer_receive> parts,
                                                  std::source_location posted) {
  std::vector<scoped_operation> made;
  made.reserve(parts.size());
  for (peer_receive& each : parts)
    made.push_back((*this)[each.rank].receive(std::move(each.into), posted));
  return made;
}

std::vector<scoped_operation> multi_scope::gather(std::span<peer_read> parts,
                                                  std::source_location posted) {
  std::vector<scoped_operation> made;
  made.reserve(parts.size());
  for (peer_read& each : parts)
    made.push_back((*this)[each.from.rank].read(std::move(each.into), each.from.region, posted));
  return made;
}

std::vector<scoped_operation> multi_scope::multicast(std::span<const std::uint32_t> ranks,
                                                     const source& data,
                                                     const operation_options& options,
                                                     std::source_location posted) {
  std::vector<scoped_operation> made;
  made.reserve(ranks.size());
  for (const std::uint32_t each : ranks) made.push_back((*this)[each].send(data, options, posted));
  return made;
}

}  // namespace verbena::inline VERBENA_ABI::net
