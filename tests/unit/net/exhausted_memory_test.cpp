// SPDX-License-Identifier: MIT
// Operations of several channels when an allocation fails.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <new>
#include <utility>

#include "src/net/channel_access.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/sanitizers.hpp"

// Sanitizers have their own operator new.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)

namespace {
// The next allocation of so many bytes fails.
thread_local std::size_t failing_bytes = 0;
}  // namespace

// Not inline: g++ would see malloc() and free() behind a `new` and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (size != failing_bytes || std::exchange(failing_bytes, 0) == 0)
    if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace verbena::test {
namespace {

// The send to rank 1 is refused, which cannot be recorded. That to rank 2 waits for a receive.
TEST(exhausted_memory, scatter_leaves_no_operation_in_flight) {
  in_group(3, [](joined_rank& here) {
    if (here.group.rank() != 0) return;
    auto memory = here.pd.allocate(64, access::local_write).value();
    here.group[1].flush();
    std::array<net::peer_send, 2> parts{net::peer_send{.rank = 1, .data = source(memory, 0, 8)},
                                        net::peer_send{.rank = 2, .data = source(memory, 0, 8)}};
    auto& waiting = net::detail::channel_access::core_of(here.group[2]);
    failing_bytes = sizeof(std::uint32_t);  // of a list of one rank
    EXPECT_THROW(
        static_cast<void>(here.group.channels().scatter(parts, abort_at(deadline::after(200ms)))),
        std::bad_alloc);
    EXPECT_EQ(failing_bytes, 0U);
    EXPECT_EQ(waiting.in_flight(), 0U);
  });
}

// The list of the ranks that are informed cannot be allocated.
TEST(exhausted_memory, destroyed_steps_still_fail_the_operation_on_all_ranks) {
  std::latch begun(1);
  in_group(3, [&begun](joined_rank& here) {
    if (here.group.rank() != 0) {
      begun.wait();
      const auto met = here.group.barrier(test_deadline(), net::barrier_algorithm::central);
      testing_support::expect_error(met, "rank 0");  // from rank 0 or from the other rank
      EXPECT_EQ(met.error().code(), ECONNABORTED);
      return;
    }
    {
      const auto central = net::barrier_algorithm::central;  // the others wait for rank 0
      const auto abandoned = here.group.in_steps().barrier(test_deadline(), central);
      begun.count_down();
      failing_bytes = 3 * sizeof(std::uint32_t);
    }
    EXPECT_EQ(failing_bytes, 0U);
    const auto met = here.group.barrier(test_deadline());
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code(), ECANCELED);
  });
}

}  // namespace
}  // namespace verbena::test

#endif
