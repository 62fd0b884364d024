// SPDX-License-Identifier: MIT
#include "verbena/net/multi_scope.hpp"

#include <utility>

#include "src/net/rank_list.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {

error with_failures(error why, std::span<const peer_failure> failures) {
  if (failures.empty()) return why;
  std::vector<std::uint32_t> ranks;
  ranks.reserve(failures.size());
  for (const peer_failure& each : failures) ranks.push_back(each.rank);
  return with_failed_ranks(std::move(why), std::move(ranks));
}

error from_failures(std::span<const peer_failure> failures) {
  VERBENA_ASSERT(!failures.empty(), "error() of a scope that succeeded: check has_value() first");
  return with_failures(failures.front().result.error(), failures);
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
