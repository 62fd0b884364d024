// SPDX-License-Identifier: MIT
// Each allocation of the library fails once: no object of the C API leaks, and no event stays
// without acknowledgement.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/sanitizers.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/async_event.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

// Sanitizers have their own operator new.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER) && \
    !defined(VERBENA_NO_EXCEPTIONS)

namespace {
// So many allocations of this thread from now on, the last of which fails; 0: none fails.
thread_local int until_failure = 0;
}  // namespace

// Not inline: g++ would see malloc() and free() behind a `new` and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (until_failure == 0 || --until_failure != 0)
    if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace verbena {
namespace {

/// Counts the objects of a provider without allocating.
int live = 0;

template <class Verb>
struct counted;
template <sys::fixed_text Name, sys::failure Convention, class Return, class... Arguments>
struct counted<sys::verb<Name, Convention, Return(Arguments...)>> {
  static inline sys::verb<Name, Convention, Return(Arguments...)> wrapped;
  static Return create(Arguments... arguments) {
    const Return made = wrapped(arguments...);
    if (made != nullptr) ++live;
    return made;
  }
  static Return destroy(Arguments... arguments) {
    const Return status = wrapped(arguments...);
    if (status == 0) --live;
    return status;
  }
};

template <class... Verb>
void count_created(Verb&... verbs) {
  ((counted<Verb>::wrapped = verbs, verbs.set(&counted<Verb>::create)), ...);
}
template <class... Verb>
void count_destroyed(Verb&... verbs) {
  ((counted<Verb>::wrapped = verbs, verbs.set(&counted<Verb>::destroy)), ...);
}

/// Returns whether no allocation has failed. No allocation fails from here on.
bool had_memory() { return std::exchange(until_failure, 0) != 0; }

/// Creates and destroys one object of each type. Returns had_memory() of the creation: the checker
/// allocates when objects are destroyed.
bool create_each_object(const provider& from) {
  const auto device = testing_support::open_soft(from).value();
  const auto pd = device.allocate_pd().value();
  const auto allocated = pd.allocate(4096, access::local_write).value();
  static std::array<std::byte, 64> own;
  const auto registered = pd.register_memory(own, access::local_write).value();
  const auto channel = device.create_completion_channel().value();
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  const auto lazy_cq = device.create_extended_cq(16, {.channel = channel}).value();
  const auto shared = pd.create_srq({}).value();
  const auto gid = device.routable_gid(port_number(1)).value();
  const auto way = pd.create_ah({.gid = gid.gid, .source_gid_index = gid.index}).value();
  const auto queue = pd.create_qp<rc>(cq, lazy_cq).value();
  const auto sharing = pd.create_qp<rc>(cq, lazy_cq, shared).value();
  return had_memory();
}

/// Calls `work` until it returns true, that is, each of its allocations has failed once. Returns
/// the number of allocations.
template <class Work, class Check>
int fail_each_allocation(Work work, Check check) {
  static_cast<void>(work());
  for (int i = 1;; ++i) {
    until_failure = i;
    try {
      if (work()) return i - 1;
    } catch (const std::exception&) {
      // bad_alloc, or the error of the device, which reports ENOMEM
    }
    check(i);
    if (::testing::Test::HasFailure()) return i;
  }
}

TEST(exhausted_memory, failed_creation_leaks_no_object) {
  provider from = *soft_provider().value();
  auto& verbs = from.verbs;
  count_created(verbs.open_device, verbs.alloc_pd, verbs.reg_mr, verbs.reg_mr_iova2,
                verbs.create_ah, verbs.create_srq, verbs.create_comp_channel, verbs.create_cq,
                verbs.create_cq_ex, verbs.create_qp, verbs.create_qp_ex);
  count_destroyed(verbs.close_device, verbs.dealloc_pd, verbs.dereg_mr, verbs.destroy_ah,
                  verbs.destroy_srq, verbs.destroy_comp_channel, verbs.destroy_cq,
                  verbs.destroy_qp);
  const int allocations = fail_each_allocation(
      [&] { return create_each_object(from); },
      [](int i) { EXPECT_EQ(live, 0) << "after the failure of allocation " << i; });
  EXPECT_GT(allocations, 20);
}

TEST(exhausted_memory, event_that_cannot_be_copied_is_acknowledged) {
  static int pending = 0;
  provider from = *soft_provider().value();
  from.verbs.get_async_event.set([](ibv_context*, ibv_async_event* out) {
    static ibv_qp queue{};
    out->event_type = IBV_EVENT_QP_FATAL;
    out->element.qp = &queue;
    ++pending;
    return 0;
  });
  from.verbs.ack_async_event.set([](ibv_async_event*) { --pending; });
  const auto device = testing_support::open_soft(from).value();
  const int allocations = fail_each_allocation(
      [&] {
        static_cast<void>(device.poll_event().value());
        return had_memory();
      },
      [](int i) { EXPECT_EQ(pending, 0) << "after the failure of allocation " << i; });
  EXPECT_GE(allocations, 1);
}

}  // namespace
}  // namespace verbena

#endif
