// SPDX-License-Identifier: MIT
// In checked builds, reports posted work requests, polled completions and destroyed objects to
// module check. In other builds the functions have no effect.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"
#include "verbena/check/detail/in_flight.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED

/// Records the requests of a list before they are posted. Stops the program if they violate a rule.
/// Thread-safe.
in_flight::numbers record_post(ibv_qp* queue, const ibv_send_wr* list, call_site where);
in_flight::numbers record_post(ibv_qp* queue, const ibv_recv_wr* list, call_site where);
in_flight::numbers record_post(ibv_srq* queue, const ibv_recv_wr* list, call_site where);

/// The failure of a post: the recorded requests, the number of accepted ones, the return value.
struct failed_post {
  in_flight::numbers recorded;
  std::size_t accepted;
  int code;
};
/// Removes the recorded requests that were not accepted. Thread-safe.
void record_failure(ibv_qp* queue, const ibv_send_wr* list, failed_post how, call_site where);
void record_failure(ibv_qp* queue, const ibv_recv_wr* list, failed_post how, call_site where);
void record_failure(ibv_srq* queue, const ibv_recv_wr* list, failed_post how, call_site where);

/// Reports completions that were polled from `queue`. A negative count is a failure of the device.
/// Thread-safe.
void record_completions(ibv_cq* queue, const ibv_wc* polled, int count, call_site where);
/// Reports the current completion of `queue`. Thread-safe.
void record_completions(ibv_cq_ex* queue, call_site where);

/// The requests of an open batch of the extended interface. Threads: one thread at a time.
class open_requests {
 public:
  /// Adds a request.
  void add(std::uint64_t id, unsigned flags, ibv_wr_opcode operation);
  /// Sets the memory of the request that was added last.
  void put(std::span<const ibv_sge> slices);
  /// Records the requests before they are posted. Stops the program if they violate a rule.
  void begin_post(ibv_qp* queue, call_site where);
  /// If `code`, the return value of ibv_wr_complete(3), is a failure, removes the requests.
  void end_post(ibv_qp* queue, int code, call_site where);

 private:
  std::vector<in_flight::request> requests_;
  in_flight::numbers recorded_;
};

/// Observers of the destruction of objects, or of the release of borrowed objects. native_state
/// calls begin_destroy() before the verb, then destroyed(), or destroy_failed() if the verb failed.
struct watched_queue_pair {
  static void begin_destroy(const void* queue, bool destroys);
  static void destroy_failed(const void* queue) noexcept { in_flight::destroy_failed(queue); }
  static void destroyed(const void* queue) noexcept { in_flight::destroyed(queue); }
};
struct watched_shared_queue {
  static void begin_destroy(const void* queue, bool destroys) {
    in_flight::begin_destroy(queue, destroys);
  }
  static void destroy_failed(const void* queue) noexcept { in_flight::destroy_failed(queue); }
  static void destroyed(const void* queue) noexcept { in_flight::destroyed(queue); }
};
struct watched_completion_queue {
  static void begin_destroy(const void* queue, bool destroys);
  static void destroy_failed(const void* /*queue*/) noexcept {}
  static void destroyed(const void* /*queue*/) noexcept {}
};
struct watched_region {
  static void begin_destroy(const void* region, bool destroys);
  static void destroy_failed(const void* region) noexcept {
    in_flight::destroy_failed_region(region);
  }
  static void destroyed(const void* region) noexcept { in_flight::destroyed_region(region); }
};

/// The source location where this thread closes an object, for checks in destructors. Threads:
/// thread-bound.
class closing_place {
 public:
  explicit closing_place(call_site where) noexcept;
  closing_place(const closing_place&) = delete;
  closing_place& operator=(const closing_place&) = delete;
  ~closing_place();
  /// Returns the location in the innermost closing_place of this thread. If the thread has no
  /// closing_place, returns the caller's location.
  [[nodiscard]] static call_site here() noexcept;

 private:
  call_site where_;
  const closing_place* outer_;
};

#else

/// Has no effect in this build. Threads: immutable value.
class open_requests {
 public:
  [[gnu::always_inline]] inline void add(std::uint64_t, unsigned, ibv_wr_opcode) noexcept {}
  [[gnu::always_inline]] inline void put(std::span<const ibv_sge>) noexcept {}
  [[gnu::always_inline]] inline void begin_post(ibv_qp*, call_site) noexcept {}
  [[gnu::always_inline]] inline void end_post(ibv_qp*, int, call_site) noexcept {}
};
[[gnu::always_inline]] inline void record_completions(ibv_cq*, const ibv_wc*, int,
                                                      call_site) noexcept {}
[[gnu::always_inline]] inline void record_completions(ibv_cq_ex*, call_site) noexcept {}

/// Has no effect in this build.
struct unwatched {
  static constexpr void begin_destroy(const void*, bool) noexcept {}
  static constexpr void destroy_failed(const void*) noexcept {}
  static constexpr void destroyed(const void*) noexcept {}
};
using watched_queue_pair = unwatched;
using watched_shared_queue = unwatched;
using watched_completion_queue = unwatched;
using watched_region = unwatched;

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
