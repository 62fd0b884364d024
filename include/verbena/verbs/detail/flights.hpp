// SPDX-License-Identifier: MIT
// Checked builds: tells module check which objects there are, what is posted to them and what was
// polled. Other builds have none of this.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"
#include "verbena/check/detail/flights.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED

/// Notes the requests of a list that is about to be posted; stops when they break a rule.
/// Thread-safe.
flights::numbers depart(ibv_qp* queue, const ibv_send_wr* list, call_site where);
flights::numbers depart(ibv_qp* queue, const ibv_recv_wr* list, call_site where);
flights::numbers depart(ibv_srq* queue, const ibv_recv_wr* list, call_site where);

/// How posting of noted requests ended: `accepted` of them were accepted, then came `code`.
struct departure {
  flights::numbers noted;
  std::size_t accepted;
  int code;
};
/// Takes those back that were not accepted. Thread-safe.
void refuse(ibv_qp* queue, const ibv_send_wr* list, departure how, call_site where);
void refuse(ibv_qp* queue, const ibv_recv_wr* list, departure how, call_site where);
void refuse(ibv_srq* queue, const ibv_recv_wr* list, departure how, call_site where);

/// Completions that were polled from `queue`; a negative count is a failure of the device.
/// Thread-safe.
void arrive(ibv_cq* queue, const ibv_wc* polled, int count, call_site where);
/// The completion that `queue` stands on. Thread-safe.
void arrive(ibv_cq_ex* queue, call_site where);

/// What an open batch of the extended interface has. Threads: one thread at a time.
class open_flights {
 public:
  void add(std::uint64_t id, unsigned flags, ibv_wr_opcode operation);
  /// The memory of the request that was added last.
  void put(std::span<const ibv_sge> slices);
  void depart(ibv_qp* queue, call_site where);
  /// How ibv_wr_complete(3) ended.
  void complete(ibv_qp* queue, int code, call_site where);

 private:
  std::vector<flights::request> requests_;
  flights::numbers noted_;
};

/// What handles of watched objects tell when they destroy them, or let go of what they borrowed.
struct watched_queue_pair {
  static void leaves(const void* queue, bool destroys);
  static void stays(const void* queue) noexcept { flights::stays(queue); }
  static void gone(const void* queue) noexcept { flights::gone(queue); }
};
struct watched_shared_queue {
  static void leaves(const void* queue, bool destroys) { flights::leaves(queue, destroys); }
  static void stays(const void* queue) noexcept { flights::stays(queue); }
  static void gone(const void* queue) noexcept { flights::gone(queue); }
};
struct watched_completion_queue {
  static void leaves(const void* queue, bool destroys);
  static void stays(const void* /*queue*/) noexcept {}
  static void gone(const void* /*queue*/) noexcept {}
};
struct watched_region {
  static void leaves(const void* region, bool destroys);
  static void stays(const void* region) noexcept { flights::stays_region(region); }
  static void gone(const void* region) noexcept { flights::gone_region(region); }
};

/// Where this thread closes something, for rules that destructors hold. Threads: thread-bound.
class closing_place {
 public:
  explicit closing_place(call_site where) noexcept;
  closing_place(const closing_place&) = delete;
  closing_place& operator=(const closing_place&) = delete;
  ~closing_place();
  /// The innermost of this thread, or that of a destructor.
  [[nodiscard]] static call_site here() noexcept;

 private:
  call_site where_;
  const closing_place* outer_;
};

#else

/// Nothing, in this build. Threads: immutable value.
class open_flights {
 public:
  [[gnu::always_inline]] inline void add(std::uint64_t, unsigned, ibv_wr_opcode) noexcept {}
  [[gnu::always_inline]] inline void put(std::span<const ibv_sge>) noexcept {}
  [[gnu::always_inline]] inline void depart(ibv_qp*, call_site) noexcept {}
  [[gnu::always_inline]] inline void complete(ibv_qp*, int, call_site) noexcept {}
};
[[gnu::always_inline]] inline void arrive(ibv_cq*, const ibv_wc*, int, call_site) noexcept {}
[[gnu::always_inline]] inline void arrive(ibv_cq_ex*, call_site) noexcept {}

/// Nothing, in this build.
struct unwatched {
  static constexpr void leaves(const void*, bool) noexcept {}
  static constexpr void stays(const void*) noexcept {}
  static constexpr void gone(const void*) noexcept {}
};
using watched_queue_pair = unwatched;
using watched_shared_queue = unwatched;
using watched_completion_queue = unwatched;
using watched_region = unwatched;

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
