// SPDX-License-Identifier: MIT
// The owners of contexts and protection domains.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "verbena/verbs/detail/native_state.hpp"

namespace verbena::inline VERBENA_ABI::detail {

template <>
struct native_traits<ibv_context> {
  static constexpr auto destroy = &sys::verbs_table::close_device;
  static constexpr const char* moved_from = "a moved-from context was used";
  static constexpr const char* in_use = "objects that were made from the context still exist";
};
/// Cached attributes of an open device. Threads: thread-safe.
struct context_memory {
  std::atomic<bool> events_do_not_block{false};
  std::atomic<std::uint64_t> clock_mask{0};  ///< `completion_timestamp_mask`; 0: not queried yet
};
struct context_parents {
  std::shared_ptr<const void> keep_alive;  ///< the owner of a borrowed context
  std::shared_ptr<context_memory> memory = std::make_shared<context_memory>();
};
using context_state = native_state<ibv_context, context_parents>;

template <>
struct native_traits<ibv_pd> {
  static constexpr auto destroy = &sys::verbs_table::dealloc_pd;
  static constexpr const char* moved_from = "a moved-from protection_domain was used";
  static constexpr const char* in_use =
      "memory regions or queue pairs that were made from it still exist";
};
struct protection_domain_parents {
  std::shared_ptr<context_state> context;
};
using protection_domain_state = native_state<ibv_pd, protection_domain_parents>;

}  // namespace verbena::inline VERBENA_ABI::detail
