// SPDX-License-Identifier: MIT
// The objects behind the handles of rdma_cma.h. Each object begins with the public struct, whose
// address is the handle.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softdev/cm/manager.hpp"
#include "softdev/shim/cm_process.hpp"

namespace verbena::softdev {

/// An event channel. Programs often destroy a channel at their end while a thread still waits for
/// its events. The memory of a destroyed channel is therefore kept for a while; see cm_event.cpp.
struct cm_channel_object : rdma_event_channel {
  cm_process* home = nullptr;
  cm::channel_ptr events;
  std::atomic<std::uint32_t> takers{0};  ///< calls that take events now
  std::atomic<bool> destroyed{false};
  std::chrono::steady_clock::time_point destroyed_at{};  ///< written before `destroyed`
};

/// A multicast group that an identifier has joined.
struct cm_membership {
  std::uint64_t number = 0;
  cm::address group;
  void* context = nullptr;
  bool send_only = false;
};

/// Threads: the public members belong to the program and to calls with the identifier, as in
/// librdmacm; `events_completed` and the memberships are guarded by `lock`.
struct cm_id_object : rdma_cm_id {
  cm_process* home = nullptr;
  cm::endpoint_ptr end;
  bool synchronous = false;    ///< has its own channel; calls wait for their completion
  bool connect_error = false;  ///< its queue pair could not be connected; drops later events
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t type_of_service = 0;
  std::optional<std::uint8_t> acknowledge_timeout;
  ibv_ece local_ece{};
  ibv_ece remote_ece{};
  std::unique_ptr<ibv_qp_init_attr> wanted_queue_pair;  ///< set by rdma_create_ep for accepted ids
  cm::private_data prefix;                              ///< precedes the program's private data
  std::unique_ptr<ibv_sa_path_rec> path;

  std::mutex lock;
  std::condition_variable completed;
  std::uint32_t events_completed = 0;
  std::vector<cm_membership> memberships;
  std::uint64_t next_membership = 1;
};

struct cm_event_object : rdma_cm_event {
  cm_id_object* counted = nullptr;
  std::array<std::uint8_t, cm::private_data::capacity> data{};
};

[[nodiscard]] inline cm_channel_object& object_of(rdma_event_channel* channel) noexcept {
  return *static_cast<cm_channel_object*>(channel);
}
[[nodiscard]] inline cm_id_object& object_of(rdma_cm_id* id) noexcept {
  return *static_cast<cm_id_object*>(id);
}

}  // namespace verbena::softdev
