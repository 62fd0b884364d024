// SPDX-License-Identifier: MIT
// The owners of completion channels, completion queues, SRQs, queue pairs and address handles.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "verbena/verbs/detail/in_flight.hpp"
#include "verbena/verbs/detail/native_state.hpp"
#include "verbena/verbs/detail/states.hpp"

namespace verbena::inline VERBENA_ABI::detail {

template <>
struct native_traits<ibv_comp_channel> {
  static constexpr auto destroy = &sys::verbs_table::destroy_comp_channel;
  static constexpr const char* moved_from = "a moved-from completion_channel was used";
  static constexpr const char* in_use = "completion queues that report to it still exist";
};
/// A token for counting the completion queues of a channel: each queue has a copy of the pointer.
struct channel_user {};
struct completion_channel_parents {
  std::shared_ptr<context_state> context;
  std::shared_ptr<const channel_user> users = std::make_shared<const channel_user>();
};
using completion_channel_state = native_state<ibv_comp_channel, completion_channel_parents>;

template <>
struct native_traits<ibv_cq> {
  static constexpr auto destroy = &sys::verbs_table::destroy_cq;
  static constexpr const char* moved_from = "a moved-from completion queue was used";
  static constexpr const char* in_use = "queue pairs that complete into it still exist";
  using watched = watched_completion_queue;
};
struct completion_queue_parents {
  std::shared_ptr<context_state> context;
  std::shared_ptr<completion_channel_state> channel;  ///< nullptr: the queue is only polled
  std::shared_ptr<const channel_user> use = channel ? channel->parents().users : nullptr;
};
using completion_queue_state = native_state<ibv_cq, completion_queue_parents>;

template <>
struct native_traits<ibv_srq> {
  static constexpr auto destroy = &sys::verbs_table::destroy_srq;
  static constexpr const char* moved_from = "a moved-from shared receive queue was used";
  static constexpr const char* in_use = "queue pairs that take receives from it still exist";
  using watched = watched_shared_queue;
};
struct shared_receive_queue_parents {
  std::shared_ptr<protection_domain_state> pd;
};
using shared_receive_queue_state = native_state<ibv_srq, shared_receive_queue_parents>;

template <>
struct native_traits<ibv_ah> {
  static constexpr auto destroy = &sys::verbs_table::destroy_ah;
  static constexpr const char* moved_from = "a moved-from address handle was used";
  static constexpr const char* in_use = "requests that are addressed by it are still under way";
};
struct address_handle_parents {
  std::shared_ptr<protection_domain_state> pd;
};
using address_handle_state = native_state<ibv_ah, address_handle_parents>;

template <>
struct native_traits<ibv_qp> {
  static constexpr auto destroy = &sys::verbs_table::destroy_qp;
  static constexpr const char* moved_from = "a moved-from queue pair was used";
  static constexpr const char* in_use = "multicast groups that it joined, or flows, still exist";
  using watched = watched_queue_pair;
};
struct queue_pair_parents {
  std::shared_ptr<protection_domain_state> pd;
  std::shared_ptr<completion_queue_state> send_completions;
  std::shared_ptr<completion_queue_state> receive_completions;
  std::shared_ptr<shared_receive_queue_state> shared_receives;  ///< nullptr: no SRQ
  /// While a channel is being connected: shows it that the queue pair exists.
  std::shared_ptr<const void> released_by = nullptr;
};
using queue_pair_state_object = native_state<ibv_qp, queue_pair_parents>;

}  // namespace verbena::inline VERBENA_ABI::detail
