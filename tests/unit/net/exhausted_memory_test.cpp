// SPDX-License-Identifier: MIT
// Operations on several channels, and the thread that accepts connections, if an allocation fails.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/net/channel_access.hpp"
#include "src/net/connection_message.hpp"
#include "src/net/peer_connector.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/sanitizers.hpp"
#include "verbena/bringup/stream.hpp"

// Sanitizers have their own operator new.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)

namespace {
// The next allocation of this number of bytes fails; 0: none.
thread_local std::size_t failing_bytes = 0;
// The allocation with this number fails, counted from now; 0: none.
thread_local int until_failure = 0;

[[nodiscard]] bool must_fail(std::size_t size) noexcept {
  if (until_failure != 0 && --until_failure == 0) return true;
  return size == failing_bytes && std::exchange(failing_bytes, 0) != 0;
}
}  // namespace

// Not inline: g++ would warn about the pairs of `new` and free(), and of malloc() and `delete`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (!must_fail(size))
    if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace verbena::test {
namespace {

// The send to rank 1 is refused, and the allocation that records this fails. The send to rank 2
// waits for a receive.
TEST(exhausted_memory, scatter_leaves_no_operation_in_flight) {
  in_group(3, [](joined_rank& here) {
    if (here.group.rank() != 0) return;
    auto memory = here.pd.allocate(64, access::local_write).value();
    here.group[1].flush();
    std::array<net::peer_send, 2> parts{net::peer_send{.rank = 1, .data = source(memory, 0, 8)},
                                        net::peer_send{.rank = 2, .data = source(memory, 0, 8)}};
    auto& waiting = net::detail::channel_access::core_of(here.group[2]);
    failing_bytes = sizeof(std::uint32_t);  // a list of one rank
    EXPECT_THROW(
        static_cast<void>(here.group.channels().scatter(parts, abort_at(deadline::after(200ms)))),
        std::bad_alloc);
    EXPECT_EQ(failing_bytes, 0U);
    EXPECT_EQ(waiting.in_flight(), 0U);
  });
}

// The list of the ranks to which the failure is reported cannot be allocated.
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

// The list of the ranks to which the failure is reported cannot be allocated.
TEST(exhausted_memory, failure_without_memory_is_reported_to_all_ranks) {
  std::latch failed(1);
  in_group(3, [&failed](joined_rank& here) {
    ASSERT_TRUE(here.group.barrier(test_deadline()));
    const auto central = net::barrier_algorithm::central;  // the others wait for rank 0
    if (here.group.rank() == 0) {
      failing_bytes = 3 * sizeof(std::uint32_t);
      EXPECT_THROW(static_cast<void>(here.group.barrier(deadline::after(20ms), central)),
                   std::bad_alloc);
      EXPECT_EQ(failing_bytes, 0U);
      return failed.count_down();
    }
    failed.wait();
    const auto met = here.group.barrier(deadline::after(20s), central);
    testing_support::expect_error(met, "rank 0");  // from rank 0 or from the other rank
    EXPECT_EQ(met.error().code(), ECONNABORTED);
  });
}

// The number for until_failure, counted from the log message that the thread writes about a
// malformed request.
std::atomic<int> allocations_of_thread = 0;

TEST(exhausted_memory, thread_that_accepts_connections_continues) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(64).value();
  const auto acceptor =
      net::detail::peer_connector::start({.rank = 0, .size = 2, .host = "127.0.0.1"},
                                         {.domain = pd, .cq = cq, .options = {}, .budget = {}}, {})
          .value();
  const std::array<std::uint32_t, 2> ranks{0, 1};
  acceptor->open(1, ranks);
  set_log_hook(
      [](log_level /*level*/, std::string_view line, void* /*user*/) {
        if (line.find("a request to connect on first use failed") != std::string_view::npos)
          until_failure = allocations_of_thread.load();
      },
      nullptr, log_level::info);
  const auto to = acceptor->contact({});
  const auto queue = pd.create_qp<rc>(cq, cq, {}).value();
  // The request has another epoch, so it is rejected. An accepted request would have a queue pair,
  // whose destructor allocates in checked builds.
  const auto request = net::detail::encode(net::detail::connect_request{
      .token = to.token, .rank = 1, .epoch = 0, .local = queue.endpoint()});
  const auto answer_to = [&](std::span<const std::byte> message) -> result<std::vector<std::byte>> {
    VERBENA_TRY(auto with, bringup::stream::connect(to.acceptor, test_deadline()));
    VERBENA_TRY_VOID(with.send(message, test_deadline()));
    return with.receive(test_deadline());
  };
  for (int count = 1; count <= 60; ++count) {
    allocations_of_thread = count;
    EXPECT_FALSE(answer_to({}));
    bool is_answered = false;
    const auto until = test_deadline();
    while (!is_answered && !until.expired()) is_answered = answer_to(request).has_value();
    ASSERT_TRUE(is_answered) << "allocation " << count;
  }
  set_log_hook(nullptr);
}

}  // namespace
}  // namespace verbena::test

#endif
