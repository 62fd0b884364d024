// SPDX-License-Identifier: MIT
// The objects behind the handles of the C interface. Each object begins with the public struct of
// verbs.h, whose address is the handle.
#pragma once

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "softdev/core/block_pool.hpp"
#include "softdev/core/completion_queue.hpp"
#include "softdev/core/datagram.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/shared_receive_queue.hpp"
#include "softdev/host/event_queue.hpp"
#include "softdev/host/host.hpp"
#include "softdev/host/idle_polls.hpp"

namespace verbena::softdev {

/// Counts the dependants of an object, which cannot be destroyed while it has any. Thread-safe.
class dependants {
 public:
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns true if this was the last one.
  bool remove() noexcept { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<std::uint32_t> count_{0};
};

/// The device. The members behind the public struct have the layout of rdma-core's own devices,
/// because its vendor libraries access them: functions, a reference count, list links, a
/// description.
struct device_object : ibv_device {
  void* functions = nullptr;
  std::atomic<int> references{1 << 30};
  void* list_links[2] = {};
  void* description = nullptr;
  std::byte spare[256] = {};
};

struct cq_object;
struct mr_object;
struct qp_object;

/// The objects of a context that access memory or peers. Closing the context disables them.
/// Injected faults find the completion queues here. Threads: guarded by `lock`.
struct working_objects {
  std::mutex lock;
  std::unordered_set<cq_object*> completion_queues;
  std::unordered_set<qp_object*> queue_pairs;
  std::unordered_set<mr_object*> regions;
};

struct context_object : verbs_context {
  softdev::host* host = nullptr;
  std::unique_ptr<event_queue> events;       ///< asynchronous events; its descriptor is async_fd
  std::array<event_node, 64> device_events;  ///< events of the device and its port
  std::atomic<bool> failed{false};           ///< after IBV_EVENT_DEVICE_FATAL
  /// Counts the handle itself, protection domains, completion queues and channels. Closing removes
  /// the handle. The last user destroys the context.
  dependants users;
  working_objects working;
};
/// Removes a user of a context; the last one destroys the context.
void leave(context_object& context) noexcept;

struct pd_object : ibv_pd {
  dependants children;
  std::atomic<std::uint32_t> addresses{0};  ///< its address handles
};

/// An address handle. Posting copies its content into the request.
struct ah_object : ibv_ah {
  datagram_address address;
};

struct mr_object : ibv_mr {
  /// rdma-core reads two words here if a program passes the region to it by mistake.
  std::array<std::uint32_t, 4> spare{};
  std::uint32_t index = 0;   ///< host::next_region_index
  memory_region described;   ///< as it was registered last
  registered_region region;  ///< its key is 0 after the context was closed
  void* mapped = nullptr;    ///< a mapping that the device made for the region
  std::size_t mapped_bytes = 0;
};

/// A completion channel. Its descriptor is that of `wake.receiver`, which also watches the
/// descriptor of `events`. Without a receiver, it is the descriptor of `events`.
struct channel_object : ibv_comp_channel {
  std::unique_ptr<event_queue> events;
  /// Peers signal it when a message arrives for an armed queue.
  wake_channels::created wake;
};

/// The functions that EFA adds to completion queues.
struct efa_cq_functions : efadv_cq {
  cq_object* of = nullptr;
};

/// A completion queue, always of the extended kind.
struct cq_object : ibv_cq_ex {
  context_object* context_of = nullptr;
  std::uint32_t index = 0;  ///< host::next_queue_index
  std::unique_ptr<completion_queue> queue;
  event_node completion_event;
  event_node error_event;
  std::uint32_t completion_events_taken = 0;  ///< guarded by the channel's queue
  std::uint32_t error_events_taken = 0;       ///< guarded by the context's queue
  dependants children;                        ///< queue pairs

  /// The line of the public segment that shows peers whether the queue is armed. Only with a
  /// channel.
  std::optional<std::uint32_t> published_line;

  idle_polls idle;
  efa_cq_functions efa{};

  // The lazy interface: the completion that start_poll or next_poll has taken.
  completion now;
  bool single_threaded = false;
  std::atomic<pthread_t> poller{};  ///< the thread between start_poll and end_poll
  pthread_mutex_t poll_mutex{};
};

/// The members of a queue pair that posting needs. They precede the public struct, so that its
/// first members are in the same cache line.
struct alignas(16) posted_to {
  context_object* context_of = nullptr;
  queue_pair* core = nullptr;
};

/// A queue pair. Its wr_* functions are set if it was created with send_ops_flags.
struct alignas(64) qp_object : posted_to, ibv_qp_ex, pooled<qp_object> {
  /// rdma-core has such a mask at this place; its ibv_qp_to_qp_ex() tests bit 1.
  static constexpr std::uint32_t has_extended_interface = 1U << 1U;  ///< VERBS_QP_EX in rdma-core
  std::uint32_t private_mask = 0;
  std::uint32_t generation = 0;
  ibv_qp_init_attr created{};         ///< as granted
  ibv_ah_attr address{};              ///< as given with IBV_QP_AV
  bool has_published_queues = false;  ///< other processes know its completion queues
  /// ibv_destroy_qp() was called. It may wait until the program has acknowledged an event.
  std::atomic<bool> is_destroyed{false};
  /// The first error of the open batch of the extended interface.
  int batch_error = 0;
  static constexpr std::size_t event_kinds = 6;  ///< of queue_pair_event
  std::array<event_node, event_kinds> event_nodes;
  std::uint32_t events_taken = 0;  ///< guarded by the context's queue
};

struct srq_object : ibv_srq {
  context_object* context_of = nullptr;
  std::unique_ptr<shared_receive_queue> queue;
  event_node limit_event;
  std::uint32_t events_taken = 0;  ///< guarded by the context's queue
  dependants children;             ///< queue pairs
};

/// Every context passed here belongs to this device and is therefore extended; verbs_get_ctx()
/// would test that.
[[nodiscard]] inline context_object& object_of(ibv_context* context) noexcept {
  void* const whole = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context);
  return *static_cast<context_object*>(static_cast<verbs_context*>(whole));
}
[[nodiscard]] inline pd_object& object_of(ibv_pd* pd) noexcept {
  return *static_cast<pd_object*>(pd);
}
[[nodiscard]] inline ah_object& object_of(ibv_ah* ah) noexcept {
  return *static_cast<ah_object*>(ah);
}
[[nodiscard]] inline mr_object& object_of(ibv_mr* mr) noexcept {
  return *static_cast<mr_object*>(mr);
}
[[nodiscard]] inline channel_object& object_of(ibv_comp_channel* channel) noexcept {
  return *static_cast<channel_object*>(channel);
}
[[nodiscard]] inline cq_object& object_of(ibv_cq_ex* cq) noexcept {
  return *static_cast<cq_object*>(cq);
}
[[nodiscard]] inline cq_object& object_of(ibv_cq* cq) noexcept {
  return object_of(reinterpret_cast<ibv_cq_ex*>(cq));
}
[[nodiscard]] inline qp_object& object_of(ibv_qp_ex* qp) noexcept {
  return static_cast<qp_object&>(*qp);
}
[[nodiscard]] inline qp_object& object_of(ibv_qp* qp) noexcept {
  return object_of(reinterpret_cast<ibv_qp_ex*>(qp));
}
[[nodiscard]] inline srq_object& object_of(ibv_srq* srq) noexcept {
  return *static_cast<srq_object*>(srq);
}
[[nodiscard]] inline ibv_cq* handle_of(cq_object& cq) noexcept {
  return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(&cq));
}

/// Returns the only device. The first call creates it; it lives as long as the process.
/// Thread-safe.
[[nodiscard]] device_object& the_device();

/// Returns whether the context is usable and the device has not failed; if not, sets errno to
/// ENODEV or EIO. For functions that need a working device; destruction succeeds after a failure.
[[nodiscard]] bool working(const context_object& context) noexcept;
/// Returns whether the context belongs to this process; if not, sets errno to ENODEV and logs,
/// once, that a forked child must open the device itself.
[[nodiscard]] bool usable(const context_object& context) noexcept;

}  // namespace verbena::softdev
