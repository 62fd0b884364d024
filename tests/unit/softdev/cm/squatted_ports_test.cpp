// SPDX-License-Identifier: MIT
// Another user holds the names of ports of a user.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "softdev/ipc/clock.hpp"
#include "softdev/ipc/name_table.hpp"
#include "tests/unit/softdev/cm/peers.hpp"
#include "tests/unit/softdev/peers/other_users.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::cm::testing {
namespace {

using softdev::testing::as_crowded_user;
using softdev::testing::as_root;
using softdev::testing::child;
using softdev::testing::crowded_user;
using softdev::testing::home_directory;
using softdev::testing::send_value;
using softdev::testing::squatting_user;
using softdev::testing::take_name;

constexpr std::uint16_t some_port = 4791;
const address some_address = with_port(loopback_of(address_family::ipv4), some_port);

local_name public_name(std::uint16_t port) {
  return local_name("verbena-cm-port.%u.106.%u", crowded_user(), port);
}

/// A process of another user that holds the name of a port and those of all blocks of numbers.
class squatter_of_ports : public child {
 public:
  explicit squatter_of_ports(bool listening)
      : child([=](int to_parent) {
          if (::setuid(squatting_user) != 0) return 1;
          std::vector<unique_fd> held;
          held.push_back(take_name(public_name(some_port), listening));
          for (unsigned block = 0; block < ephemeral_ports::block_count; ++block)
            held.push_back(take_name(local_name("verbena-cm-block.%u.0.%u", crowded_user(), block),
                                     listening));
          for (const unique_fd& each : held)
            if (!each) return 2;
          send_value(to_parent, 1);
          ::pause();
          return 0;
        }) {
    EXPECT_EQ(read<int>(), 1);
  }
};

void expect_passed(int status) {
  if (status == softdev::testing::skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

void processes_connect(bool listening) {
  const home_directory home(crowded_user());
  const squatter_of_ports other(listening);
  child server([](int to_parent) {
    if (::setuid(crowded_user()) != 0) return 1;
    process passive;
    const endpoint_ptr listener = passive.make();
    const address where = with_port(loopback_of(address_family::ipv4), some_port);
    if (passive.all.bind(listener, where) != 0) return 2;
    if (passive.all.listen(listener, 0) != 0) return 3;
    send_value(to_parent, 1);
    const endpoint_ptr request = passive.expect(event_kind::connect_request).about;
    if (passive.all.accept(request, {.local = {.queue_pair = 6}, .data = {}}) != 0) return 4;
    passive.expect(event_kind::established);
    ::pause();
    return 0;
  });
  EXPECT_EQ(server.read<int>(), 1);
  as_crowded_user([] {
    process active;
    const address where = with_port(loopback_of(address_family::ipv4), some_port);
    EXPECT_EQ(active.all.bind(active.make(), where), EADDRINUSE);
    const endpoint_ptr ep = connect_to(active, where);
    active.expect(event_kind::connect_response);
    EXPECT_EQ(active.all.establish(ep), 0);
    EXPECT_EQ(active.all.look(ep).remote.queue_pair, 6U);
    return 0;
  });
}

TEST(squatted_ports, processes_connect_if_names_are_taken) {
  expect_passed(as_root([] { processes_connect(true); }));
}

TEST(squatted_ports, processes_connect_if_names_are_taken_without_a_listener) {
  expect_passed(as_root([] { processes_connect(false); }));
}

/// A process of another user that listens by a name and accepts no connection. Its backlog is full.
class silent_squatter : public child {
 public:
  explicit silent_squatter(const std::string& name)
      : child([=](int to_parent) {
          if (::setuid(squatting_user) != 0) return 1;
          const local_name taken("%s", name.c_str());
          const unique_fd held = take_name(taken, true);
          if (!held) return 2;
          std::vector<unique_fd> waiting;
          for (int error = 0; error == 0;) {
            waiting.push_back(new_local_socket().socket);
            if (::connect(waiting.back().get(), taken.get(), taken.length()) != 0) error = errno;
            if (error != 0 && error != EAGAIN) return 3;
          }
          send_value(to_parent, 1);
          ::pause();
          return 0;
        }) {
    EXPECT_EQ(read<int>(), 1);
  }
};

TEST(squatted_ports, address_can_be_bound_if_another_user_has_a_name_with_a_full_backlog) {
  expect_passed(as_root([] {
    const home_directory home(crowded_user());
    const std::string end = std::to_string(crowded_user()) + ".106." + std::to_string(some_port);
    const silent_squatter wildcard("verbena-cm-addr." + end + ".A.e0");
    const silent_squatter equal("verbena-cm-addr." + end + ".47f000001.e0");
    as_crowded_user([] {
      process one;
      EXPECT_EQ(one.all.bind(one.make(), some_address), 0);
      process other;
      EXPECT_EQ(other.all.bind(other.make(), some_address), EADDRINUSE);
      return 0;
    });
  }));
}

TEST(squatted_ports, listener_is_reached_if_another_user_has_a_name_with_a_full_backlog) {
  expect_passed(as_root([] {
    const home_directory home(crowded_user());
    const std::string end = std::to_string(crowded_user()) + ".106." + std::to_string(some_port);
    const silent_squatter equal("verbena-cm-at." + end + ".47f000001.e0");
    as_crowded_user([] {
      process passive;
      const endpoint_ptr listener = passive.make();
      EXPECT_EQ(passive.all.bind(listener, some_address), 0);
      EXPECT_EQ(passive.all.listen(listener, 0), 0);
      process active;
      connect_to(active, some_address);
      passive.expect(event_kind::connect_request);
      return 0;
    });
  }));
}

// The kernel lists all sockets of the host.
TEST(squatted_ports, user_of_a_full_backlog_is_asked_for_every_half_second) {
  expect_passed(as_root([] {
    const std::string name = "verbena-test-backlog." + std::to_string(::getpid());
    const local_name taken("%s", name.c_str());
    unique_fd own = take_name(taken, true);
    std::vector<unique_fd> waiting;
    const std::uint64_t begun = monotonic_now();
    while (true) {
      socket_or_error made = connect_to_name(taken);
      if (made.error != 0) {
        EXPECT_EQ(made.error, EAGAIN);
        break;
      }
      waiting.push_back(std::move(made.socket));
    }
    own.reset();
    const silent_squatter other(name);
    const int soon = connect_to_name(taken).error;
    constexpr std::uint64_t valid_ns = 500'000'000;
    const bool is_soon = monotonic_now() < begun + valid_ns;
    EXPECT_TRUE(!is_soon || soon == EAGAIN);
    constexpr std::uint64_t longest_ns = 20'000'000'000;
    int later = EAGAIN;
    while (later == EAGAIN && monotonic_now() < begun + longest_ns) {
      std::this_thread::yield();
      later = connect_to_name(taken).error;
    }
    EXPECT_EQ(later, EACCES);
    EXPECT_GE(monotonic_now(), begun + valid_ns);
  }));
}

TEST(squatted_ports, port_with_a_private_name_stays_claimed_after_its_public_name_is_free) {
  expect_passed(as_root([] {
    const home_directory home(crowded_user());
    auto other = std::make_unique<squatter_of_ports>(true);
    child owner([](int to_parent) {
      if (::setuid(crowded_user()) != 0) return 1;
      const port_claim claimed = claim_port(port_space::tcp, some_port);
      send_value(to_parent, claimed.error);
      ::pause();
      return 0;
    });
    EXPECT_EQ(owner.read<int>(), 0);
    other.reset();
    as_crowded_user([] {
      EXPECT_EQ(claim_port(port_space::tcp, some_port).error, EADDRINUSE);
      EXPECT_EQ(claim_port(port_space::udp, some_port).error, 0);
      return 0;
    });
    owner.send(SIGKILL);
    EXPECT_EQ(owner.wait(), -SIGKILL);
    as_crowded_user([] {
      // The public name again: the old private name is not used any more.
      const port_claim claimed = claim_port(port_space::tcp, some_port);
      EXPECT_EQ(claimed.error, 0);
      EXPECT_EQ(open_port(claimed.socket.get()), 0);
      EXPECT_EQ(connect_to_name(public_name(some_port)).error, 0);
      EXPECT_EQ(connect_to_port(port_space::tcp, some_address).error, 0);
      return 0;
    });
  }));
}

TEST(squatted_ports, port_of_process_without_the_table_is_in_use) {
  expect_passed(as_root([] {
    const home_directory home(crowded_user());
    child owner([](int to_parent) {
      softdev::testing::forget_home();
      if (::setuid(crowded_user()) != 0) return 1;
      const port_claim claimed = claim_port(port_space::tcp, some_port);
      send_value(to_parent, claimed.error != 0 ? claimed.error : open_port(claimed.socket.get()));
      ::pause();
      return 0;
    });
    EXPECT_EQ(owner.read<int>(), 0);
    as_crowded_user([] {
      EXPECT_EQ(claim_port(port_space::tcp, some_port).error, EADDRINUSE);
      EXPECT_EQ(connect_to_port(port_space::tcp, some_address).error, 0);
      return 0;
    });
  }));
}

TEST(squatted_ports, process_without_the_table_finds_a_port_with_its_public_name) {
  expect_passed(as_root([] {
    const home_directory home(crowded_user());
    as_crowded_user([] {
      const port_claim claimed = claim_port(port_space::tcp, some_port);
      EXPECT_TRUE(claimed.entry);
      EXPECT_EQ(open_port(claimed.socket.get()), 0);
      softdev::testing::forget_home();
      EXPECT_EQ(connect_to_port(port_space::tcp, some_address).error, 0);
      return 0;
    });
  }));
}

TEST(squatted_ports, refusal_without_the_table_names_the_other_user) {
  expect_passed(as_root([] {
    softdev::testing::forget_home();
    const squatter_of_ports other(true);
    as_crowded_user([&] {
      std::string said;
      const auto keep = [](log_level, std::string_view line, void* user) {
        *static_cast<std::string*>(user) += std::string(line) + "\n";
      };
      set_log_hook(keep, &said);
      EXPECT_EQ(claim_port(port_space::tcp, some_port).error, EADDRINUSE);
      ephemeral_ports numbers;
      EXPECT_EQ(numbers.take(), 0);
      set_log_hook(nullptr);
      EXPECT_NE(said.find("user 54322 (pid " + std::to_string(other.pid()) +
                          ") holds the name of port 4791"),
                std::string::npos)
          << said;
      EXPECT_NE(said.find("HOME is not set"), std::string::npos) << said;
      return 0;
    });
  }));
}

/// Takes and frees the name of the port, again and again.
int squat_at_random() {
  std::mt19937 random(1);
  for (;;) {
    const unique_fd held = take_name(public_name(some_port), random() % 2 == 0);
    for (unsigned i = random() % 64; i != 0; --i) static_cast<void>(::getppid());
  }
}

TEST(squatted_ports, one_process_at_a_time_has_the_port_while_its_name_comes_and_goes) {
  expect_passed(as_root([] {
    const home_directory home(crowded_user());
    const child other([](int) { return ::setuid(squatting_user) == 0 ? squat_at_random() : 1; });
    // Whoever has the port holds a lock of its own kind for this test.
    std::vector<std::unique_ptr<child>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::make_unique<child>([](int) {
        if (::setuid(crowded_user()) != 0) return 1;
        constexpr std::uint32_t witness = name_entries::slots;
        int claims = 0;
        for (int turn = 0; turn < 2000 || claims == 0; ++turn) {
          const port_claim claimed = claim_port(port_space::tcp, some_port);
          if (claimed.error != 0) continue;
          ++claims;
          const auto table = name_table::open(if_missing::fail);
          if (!table || table->lock(witness) != 0) return 2;
        }
        return 0;
      }));
    }
    for (const auto& each : all) EXPECT_EQ(each->wait(), 0) << "2: two processes had the port";
  }));
}

}  // namespace
}  // namespace verbena::softdev::cm::testing
