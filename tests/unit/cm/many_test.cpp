// SPDX-License-Identifier: MIT
// Many consecutive and simultaneous connections.
#include <malloc.h>
#include <sys/resource.h>

#include <filesystem>
#include <thread>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/cm/served.hpp"

namespace verbena {
namespace {

using test::accept_request;
using test::connect_to;
using test::end;
using test::test_deadline;

class many_connections : public test::served {};

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

std::ptrdiff_t allocated_bytes() { return static_cast<std::ptrdiff_t>(mallinfo2().uordblks); }

void disconnect_both(end& active, end& passive) {
  active.link.disconnect().value();
  EXPECT_TRUE(passive.link.wait_disconnected(test_deadline()).value());
  EXPECT_TRUE(active.link.wait_disconnected(test_deadline()).value());
}

TEST_F(many_connections, repeated_connections_leak_no_object) {
  const int count = test::campaign_size(150, 10'000);
  const int settled = count / 3;
  auto listener = open();
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t bytes = 0;
  for (int number = 0; number < count; ++number) {
    if (number == settled) {
      descriptors = open_descriptors();
      bytes = allocated_bytes();
    }
    auto peer = find(listener.port());
    auto asked = std::async(std::launch::async, [&] { return connect_to(peer); });
    auto passive = accept_request(listener.accept(test_deadline()).value()).value();
    auto active = asked.get().value();
    disconnect_both(active, passive);
  }
  // Another process of the host may have a queue pair that is connected to a number which soft0 now
  // uses here, such as a peer of a killed process. It has two descriptors here until it ends.
  const auto until = test_deadline();
  while (open_descriptors() > descriptors && !until.expired()) std::this_thread::yield();
  EXPECT_LE(open_descriptors(), descriptors);
  // Heaps and tables vary in size. A leak of 64 bytes per connection exceeds this limit.
  EXPECT_LT(allocated_bytes() - bytes, 4096 + 64L * (count - settled));
}

TEST_F(many_connections, many_connections_exist_at_the_same_time) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16'384);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const int count = test::campaign_size(50, 1000);
  auto listener = open({.backlog = 128});
  std::vector<end> active;
  std::vector<end> passive;
  active.reserve(static_cast<std::size_t>(count));
  passive.reserve(static_cast<std::size_t>(count));
  for (int number = 0; number < count; ++number) {
    auto peer = find(listener.port());
    auto asked = std::async(std::launch::async, [&] { return connect_to(peer); });
    passive.push_back(accept_request(listener.accept(test_deadline()).value()).value());
    active.push_back(asked.get().value());
  }
  // Each connection transfers one message.
  for (int number = 0; number < count; ++number) {
    end& from = active[static_cast<std::size_t>(number)];
    end& to = passive[static_cast<std::size_t>(number)];
    to.link.qp().post_receive({}, to.own->memory.slice(0, 64)).value();
    from.own->memory.bytes()[0] = static_cast<std::byte>(number);
    from.own->memory.bytes()[1] = static_cast<std::byte>(number >> 8);
    auto batch = from.link.qp().start_send();
    batch.send({.id = 1, .signaled = true}, from.own->memory.slice(0, 2));
    batch.submit().value();
  }
  for (int number = 0; number < count; ++number) {
    end& to = passive[static_cast<std::size_t>(number)];
    to.own->take(1).at(0).result().value();
    EXPECT_EQ(to.own->memory.bytes()[0], static_cast<std::byte>(number));
    EXPECT_EQ(to.own->memory.bytes()[1], static_cast<std::byte>(number >> 8));
  }
  for (int number = 0; number < count; ++number)
    disconnect_both(active[static_cast<std::size_t>(number)],
                    passive[static_cast<std::size_t>(number)]);
}

}  // namespace
}  // namespace verbena
