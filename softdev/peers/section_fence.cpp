// SPDX-License-Identifier: MIT
// The caller's invalidation and the peers' marks are sequentially consistent: a peer that is not
// seen in a section will see the invalidation. Peers write the marks, so every wait for them has a
// limit.
#include "softdev/peers/section_fence.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>

#include "verbena/base/log.hpp"

namespace verbena::softdev {

using namespace std::chrono_literals;

/// A lane whose word was odd.
struct section_fence::lane_mark {
  std::shared_ptr<peer> of;
  std::uint32_t lane = 0;
  std::uint64_t value = 0;

  [[nodiscard]] bool moved_on() const noexcept {
    return of->parts().memory.their_lane(lane).load(std::memory_order_seq_cst) != value;
  }
  /// Returns whether the process is gone, or has broken the protocol so that its word has no
  /// meaning. Costs a system call.
  [[nodiscard]] bool abandoned() const noexcept {
    const peer_parts& parts = of->parts();
    return of->end() == peer_end::broken_protocol || parts.process.is_gone(parts.status);
  }
};

namespace {
constexpr auto complain_after = 1s;
constexpr auto patience = 50ms;  ///< then a stopped peer may be passed over
constexpr int quick_checks = 200;
constexpr auto quick_time = 2ms;  ///< a yield takes long if all processors are busy

/// Pauses that grow from a yield to a millisecond: the peer's copy takes microseconds, unless it
/// was descheduled or stopped.
class pauses {
 public:
  void pause() noexcept {
    if (slow_) {
      ::poll(nullptr, 0, 1);
    } else {
      ::sched_yield();
    }
  }
  /// Counts a look at the lanes. Returns whether the peer takes longer than a copy.
  [[nodiscard]] bool is_slow(std::chrono::steady_clock::duration waited) noexcept {
    slow_ = slow_ || ++checks_ >= quick_checks || waited >= quick_time;
    return slow_;
  }

 private:
  int checks_ = 0;
  bool slow_ = false;
};

// A fence cannot fail, so its messages are made without an allocation.
constexpr std::size_t longest_message = 320;

void warn_of_slow_access(const peer& about) noexcept {
  std::array<char, longest_message> line{};
  std::snprintf(line.data(), line.size(),
                "soft0: a deregistration is waiting for process %d, which has been accessing this "
                "process's memory for more than a second; is it stopped?",
                static_cast<int>(about.pid()));
  log(log_level::warning, line.data());
}

void report_disconnect(const peer& with, std::chrono::milliseconds waited) noexcept {
  std::array<char, longest_message> line{};
  std::snprintf(
      line.data(), line.size(),
      "soft0: process %d was disconnected: it has been accessing this process's memory for more "
      "than %lld ms; if it was stopped, it may still write to ordinary memory when it resumes",
      static_cast<int>(with.pid()), static_cast<long long>(waited.count()));
  log(log_level::error, line.data());
}
}  // namespace

/// Returns the odd lanes. A fence cannot fail: if memory is exhausted, waits until it is available.
std::vector<section_fence::lane_mark> section_fence::marks() const noexcept {
  for (;;) {
    try {
      // A peer that answered our hello may use memory before we have read its answer.
      how_.service.finish_hellos();
      return odd_lanes();
    } catch (const std::bad_alloc&) {
      ::poll(nullptr, 0, 1);
    }
  }
}

std::vector<section_fence::lane_mark> section_fence::odd_lanes() const {
  std::vector<lane_mark> odd;
  how_.peers.for_each([&](const std::shared_ptr<peer>& each) {
    const pair_memory& memory = each->parts().memory;
    if (each->state() == peer_state::connecting || !memory.has_theirs()) return;
    // Most peers have entered none or one of their lanes.
    pair_memory::for_each_lane(memory.their_lanes(), [&](std::uint32_t lane) {
      const std::uint64_t value = memory.their_lane(lane).load(std::memory_order_seq_cst);
      if ((value & 1U) != 0) odd.push_back({each, lane, value});
    });
  });
  return odd;
}

void section_fence::give_up_waiting(const std::vector<lane_mark>& left) noexcept {
  for (const lane_mark& mark : left) {
    if (!mark.of->give_up_waiting()) continue;
    how_.requests.request_removal(*mark.of);
    report_disconnect(*mark.of, how_.section_timeout);
  }
}

section_fence::wait_end section_fence::wait_for_marks(stopped_peers stopped,
                                                      deadline until) noexcept {
  auto left = marks();
  const auto started = std::chrono::steady_clock::now();
  bool complained = false;
  wait_end end = wait_end::left;
  for (pauses between; !left.empty(); between.pause()) {
    const auto waited = std::chrono::steady_clock::now() - started;
    const bool slow = between.is_slow(waited);
    std::erase_if(left, [&](const lane_mark& mark) {
      if (mark.moved_on()) return true;
      const bool late = mark.of->may_write_late();
      if (!late && (!slow || mark.abandoned())) return slow;
      const bool may_pass = stopped == stopped_peers::pass_over && waited >= patience;
      if (!late && !(may_pass && is_stopped(mark.of->pid()))) return false;
      end = wait_end::passed_over;
      return true;
    });
    if (left.empty()) break;
    if (until.expired()) return wait_end::timed_out;
    if (waited >= how_.section_timeout) {
      give_up_waiting(left);
      return wait_end::passed_over;
    }
    if (!complained && waited >= complain_after) {
      warn_of_slow_access(*left.front().of);
      complained = true;
    }
  }
  return end;
}

fence_outcome section_fence::wait(deadline until) noexcept {
  const wait_end end = wait_for_marks(stopped_peers::wait_for, until);
  return end == wait_end::timed_out ? fence_outcome::timed_out : fence_outcome::clear;
}

void section_fence::wait_for_memory(const void* memory) noexcept {
  const bool shareable = how_.arenas.range_of(memory).has_value();
  const auto stopped = shareable ? stopped_peers::pass_over : stopped_peers::wait_for;
  const wait_end end = wait_for_marks(stopped, deadline::never());
  if (!shareable || end == wait_end::left) return;
  // A peer that has these pages mapped is inside, or may write at any time.
  if (!replace_pages_of(memory)) static_cast<void>(wait(deadline::never()));
}

bool section_fence::replace_pages_of(const void* memory) noexcept {
  const auto range = how_.arenas.range_of(memory);
  if (!range) return false;
  // While the pages move, no peer may begin an access to a region in them. Peers that are inside
  // must leave first, except stopped ones.
  how_.segment.freeze_regions(range->address, range->length);
  static_cast<void>(wait_for_marks(stopped_peers::pass_over, deadline::never()));
  // Until here, an access to a frozen region had its effect. A peer that was passed over must not
  // rely on that.
  how_.segment.outdate_regions(range->address, range->length);
  const auto moved = move_pages(memory);
  if (moved) {
    how_.segment.rebind_regions(moved->address, moved->length, moved->arena, moved->arena_base);
  } else {
    how_.segment.thaw_regions(range->address, range->length);
  }
  how_.requests.request();
  return moved.has_value();
}

/// Returns nullopt, and logs the reason, if the pages were not moved.
std::optional<arena_registry::replaced> section_fence::move_pages(const void* memory) noexcept {
  try {
    const auto moved = how_.arenas.replace_pages(memory);
    if (moved) return *moved;
    log(log_level::warning, "soft0: " + moved.error().message());
  } catch (const std::bad_alloc&) {
    log(log_level::warning, "soft0: shareable memory was not replaced: out of memory");
  }
  return std::nullopt;
}

}  // namespace verbena::softdev
