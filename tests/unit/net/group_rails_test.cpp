// SPDX-License-Identifier: MIT
// The ranks of a group, connected over two ports of soft0. The ranks are threads of this process.
#include "verbena/net/group_rails.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "src/net/rail_contact.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/net/rails.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/group.hpp"
#include "verbena/net/rail_memory.hpp"

namespace verbena::test {
namespace {

constexpr std::size_t group_block = 512UL * 1024;  // striped

std::span<std::uint64_t> words_in(const net::rail_memory& memory, std::size_t block) {
  auto* const first = reinterpret_cast<std::uint64_t*>(memory.bytes().data());
  constexpr std::size_t words = group_block / sizeof *first;
  return {first + block * words, words};
}

/// Writes words that depend on `seed`.
void fill_block(const net::rail_memory& memory, std::size_t block, std::uint64_t seed) {
  const auto words = words_in(memory, block);
  for (std::size_t each = 0; each < words.size(); ++each) words[each] = seed + each;
}
[[nodiscard]] bool has_block(const net::rail_memory& memory, std::size_t block,
                             std::uint64_t seed) {
  const auto words = words_in(memory, block);
  for (std::size_t each = 0; each < words.size(); ++each)
    if (words[each] != seed + each) return false;
  return true;
}
std::uint64_t seed_of(std::uint32_t from, std::uint32_t to, std::uint64_t round = 0) {
  return (round << 52U) + (std::uint64_t{from} << 44U) + (std::uint64_t{to} << 36U);
}

net::group_rails_options quick_group() { return {.rails = quick()}; }

/// A rank whose rails are connected, with a block for each rank in its memory, and one to send.
struct rank_with_rails {
  explicit rank_with_rails(joined_rank& here)
      : size(here.group.size()),
        rails(net::group_rails::connect(here.group, two.ports, test_deadline(), quick_group())
                  .value()),
        all(here.group.exchange("memory", memory.remote(), test_deadline()).value()) {
    EXPECT_EQ(size, here.group.size());
  }

  /// Writes a block into the memory of each rank, with a seed of this rank.
  [[nodiscard]] int write_to_all(std::uint32_t rank, std::uint64_t round) {
    int failed = 0;
    for (std::uint32_t peer = 0; peer < size; ++peer) {
      fill_block(own, 0, seed_of(rank, peer, round));
      const auto to = all[peer].slice(rank * group_block, group_block);
      const auto written = rails[peer].write(net::rail_source(own), to, test_deadline());
      if (!written) {
        ++failed;
        ADD_FAILURE() << written.error().message();
      }
    }
    return failed;
  }

  std::uint32_t size;
  two_rails two{contexts::one_for_each_port};
  net::rail_memory memory =
      net::rail_memory::allocate(two.ports, 8 * group_block, rail_access).value();
  net::rail_memory own = net::rail_memory::allocate(two.ports, group_block, rail_access).value();
  net::group_rails rails;
  std::vector<net::rail_region> all;
};

TEST(group_rails, all_ranks_write_and_read_the_memory_of_all_ranks) {
  for (const std::uint32_t size : {1U, 2U, 4U}) {
    in_group(size, [size](joined_rank& here) {
      const std::uint32_t rank = here.group.rank();
      rank_with_rails with(here);
      EXPECT_EQ(with.write_to_all(rank, 1), 0);
      here.group.barrier(test_deadline()).value();
      for (std::uint32_t peer = 0; peer < size; ++peer) {
        EXPECT_TRUE(has_block(with.memory, peer, seed_of(peer, rank, 1))) << peer;
        const auto from = with.all[peer].slice(rank * group_block, group_block);
        const auto read = with.rails[peer].read(net::rail_sink(with.own), from, test_deadline());
        ASSERT_TRUE(read) << read.error().message();
        EXPECT_TRUE(has_block(with.own, 0, seed_of(rank, peer, 1))) << peer;
        for (std::uint32_t rail = 0; rail < 2; ++rail)
          EXPECT_NE(with.rails[peer].status(rail).counters.bytes_written, 0U);
      }
      EXPECT_FALSE(with.rails.contains(size));
      here.group.barrier(test_deadline()).value();
    });
  }
}

TEST(group_rails, port_that_flaps_fails_no_operation) {
  constexpr std::uint32_t size = 4;
  in_group(size, [](joined_rank& here) {
    const std::uint32_t rank = here.group.rank();
    rank_with_rails with(here);
    std::optional<port_faults> faults;
    if (rank == 0) faults.emplace(with.two.ports[0].domain.context());
    const auto round = [&](std::uint64_t number) {
      here.group.barrier(test_deadline()).value();
      EXPECT_EQ(with.write_to_all(rank, number), 0);
      here.group.barrier(test_deadline()).value();
      for (std::uint32_t peer = 0; peer < size; ++peer)
        EXPECT_TRUE(has_block(with.memory, peer, seed_of(peer, rank, number))) << peer;
    };
    // The 5th request of each queue pair takes the port down, in the middle of a write.
    if (rank == 0) faults->inject("when opcode=rdma_write at=5 do port 2 down");
    for (std::uint64_t number = 1; number <= 3; ++number) round(number);
    for (std::uint32_t peer = 0; peer < size; ++peer)
      EXPECT_NE(with.rails[peer].status(1).counters.failures, 0U) << peer;
    if (rank == 0) {
      faults->inject("clear-faults");
      faults->up(2);
    }
    const auto until = test_deadline();
    for (std::uint32_t peer = 0; peer < size; ++peer)
      while (with.rails[peer].status(1).state != net::rail_state::active && !until.expired())
        with.rails.progress();
    round(4);
    for (std::uint32_t peer = 0; peer < size; ++peer)
      EXPECT_EQ(with.rails[peer].status(1).state, net::rail_state::active) << peer;
    here.group.barrier(test_deadline()).value();
  });
}

// The program reads the events of the ports, and passes them on.
TEST(group_rails, without_a_reader_takes_events_of_the_program) {
  in_group(1, [](joined_rank& here) {
    const two_rails two;
    auto options = quick_group();
    options.rails.reads_async_events = false;
    auto rails = net::group_rails::connect(here.group, two.ports, test_deadline(), options).value();
    const auto device = two.ports[1].domain.context();
    port_faults faults(device);
    faults.down(2);
    const auto event = device.wait_event(test_deadline()).value();
    ASSERT_TRUE(event);
    EXPECT_EQ(rails[0].status(1).state, net::rail_state::active);
    rails.take(1, *event);
    rails.progress();
    EXPECT_EQ(rails[0].status(1).state, net::rail_state::down);
    EXPECT_EQ(rails[0].status(1).cause, net::rail_cause::port_error);
  });
}

TEST(group_rails, rank_that_ends_fails_only_operations_to_this_rank) {
  constexpr std::uint32_t size = 4;
  in_group(size, [](joined_rank& here) {
    const std::uint32_t rank = here.group.rank();
    std::optional<rank_with_rails> with(std::in_place, here);
    EXPECT_EQ(with->write_to_all(rank, 1), 0);
    here.group.barrier(test_deadline()).value();
    if (rank == 3) with.reset();
    here.group.barrier(test_deadline()).value();
    for (std::uint32_t peer = 0; peer < size && with; ++peer) {
      fill_block(with->own, 0, seed_of(rank, peer, 2));
      const auto written = with->rails[peer].write(
          net::rail_source(with->own), with->all[peer].slice(rank * group_block, group_block),
          test_deadline());
      EXPECT_EQ(written.has_value(), peer != 3) << peer;
    }
    here.group.barrier(test_deadline()).value();
    for (std::uint32_t peer = 0; peer < 3 && with; ++peer)
      EXPECT_TRUE(has_block(with->memory, peer, seed_of(peer, rank, 2))) << peer;
    here.group.barrier(test_deadline()).value();
  });
}

TEST(group_rails, other_number_of_ports_is_an_error_on_all_ranks) {
  in_group(4, [](joined_rank& here) {
    const bool is_wrong = here.group.rank() == 2;
    const two_rails two;
    const std::span<const net::rail_port> ports(two.ports);
    const auto fewer = net::group_rails::connect(here.group, ports.first(is_wrong ? 1 : 2),
                                                 test_deadline(), quick_group());
    ASSERT_FALSE(fewer);
    EXPECT_EQ(fewer.error().kind(), error_kind::invalid_argument);
    EXPECT_NE(fewer.error().message().find("1 on rank 2; 2 on rank 0, 1, 3"), std::string::npos)
        << fewer.error().message();
    const auto none = net::group_rails::connect(here.group, ports.first(is_wrong ? 0 : 2),
                                                test_deadline(), quick_group());
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("0 rails"), std::string::npos) << none.error().message();
    if (!is_wrong) {
      EXPECT_EQ(none.error().code(), ECONNABORTED);
      EXPECT_NE(none.error().message().find("rank 2 failed"), std::string::npos);
    }
    EXPECT_TRUE(net::group_rails::connect(here.group, ports, test_deadline(), quick_group()));
    here.group.barrier(test_deadline()).value();
  });
}

// Contributes a contact by hand, and returns those of all ranks.
std::vector<net::detail::rail_contact> exchange_contacts(net::group& in,
                                                         const net::detail::rail_contact& ours) {
  const auto all =
      in.exchange("verbena: contacts of rails",
                  std::span<const std::byte>(net::detail::encode(ours)), test_deadline())
          .value();
  std::vector<net::detail::rail_contact> out;
  for (const auto& each : all)
    out.push_back(
        std::get<net::detail::rail_contact>(net::detail::decode_rail_contact(each).value()));
  return out;
}

enum class end_of_rank : std::uint8_t { leaves, hangs };

// All ranks return an error with rank 2, which does not connect after the exchange of contacts.
void expect_error_without(end_of_rank how) {
  const test_store store;
  std::atomic<int> ended = 0;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    const two_rails two;
    here.group.barrier(test_deadline()).value();  // the limits below begin when all are ready
    if (rank == 2) {
      auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
      exchange_contacts(here.group,
                        {.rails = 2, .token = {}, .acceptor = listener.local_address()});
      const auto until = test_deadline();
      while (how == end_of_rank::hangs && ended.load() < 2 && !until.expired())
        std::this_thread::yield();
      return;
    }
    const auto made = net::group_rails::connect(
        here.group, two.ports, how == end_of_rank::hangs ? deadline::after(8s) : test_deadline(),
        quick_group());
    ++ended;
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message().find("rank 2"), std::string::npos) << made.error().message();
  });
}

TEST(group_rails, rank_that_ends_while_connecting_is_named_on_all_ranks) {
  expect_error_without(end_of_rank::leaves);
}

TEST(group_rails, rank_that_does_not_answer_is_named_on_all_ranks) {
  expect_error_without(end_of_rank::hangs);
}

// Rank 1 follows the protocol by hand, and is preceded by strangers.
TEST(group_rails, strangers_at_the_acceptor_do_no_harm) {
  in_group(2, [](joined_rank& here) {
    const two_rails two;
    if (here.group.rank() == 0) {
      auto rails = net::group_rails::connect(here.group, two.ports, test_deadline(), quick_group());
      ASSERT_TRUE(rails) << rails.error().message();
      here.group.barrier(test_deadline()).value();
      return;
    }
    auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
    const auto contacts = exchange_contacts(
        here.group, {.rails = 2, .token = {}, .acceptor = listener.local_address()});
    const auto& first = contacts[0];
    const auto say = [&](const std::vector<std::byte>& message) {
      auto with = bringup::stream::connect(first.acceptor, test_deadline()).value();
      EXPECT_TRUE(with.send(message, test_deadline()));
      return with;
    };
    const auto is_closed = [](bringup::stream& with) {
      const auto received = with.receive(test_deadline());
      return !received && !received.error().is(std::errc::timed_out);
    };
    net::detail::rail_opening ours{.token = first.token, .rank = 1};
    auto forged = ours;
    forged.token[15] ^= std::byte{1};
    const auto good = net::detail::encode(ours);
    const std::vector<std::vector<std::byte>> messages{
        {},
        {std::byte{3}},
        {good.begin(), good.end() - 1},
        std::vector<std::byte>(900),
        net::detail::encode(forged),
        net::detail::encode(net::detail::rail_opening{.token = first.token, .rank = 2})};
    for (const auto& each : messages) {
      auto with = say(each);
      EXPECT_TRUE(is_closed(with)) << each.size();
    }
    // Those that are silent, or send no greeting, are not waited for.
    std::vector<bringup::stream> silent;
    std::vector<unique_fd> raw;
    for (int each = 0; each < 30; ++each) {
      if (each < 24)  // more than the acceptor has places for
        silent.push_back(bringup::stream::connect(first.acceptor, test_deadline()).value());
      raw.push_back(peers::raw_connection(first.acceptor.port));
    }
    auto channel = net::multi_rail_channel::connect(say(good), two.ports, test_deadline(), quick());
    ASSERT_TRUE(channel) << channel.error().message();
    // A second connection of the rank is refused.
    auto again = say(good);
    EXPECT_TRUE(is_closed(again));
    auto stream = listener.accept(test_deadline()).value();
    EXPECT_EQ(stream.receive(test_deadline()).value(),
              net::detail::encode(net::detail::rail_opening{.token = {}, .rank = 0}));
    auto responder =
        net::rail_responder::accept(std::move(stream), two.ports, test_deadline()).value();
    EXPECT_TRUE(
        here.group.exchange("verbena: rails", std::span<const std::byte>(), test_deadline()));
    here.group.barrier(test_deadline()).value();
  });
}

}  // namespace
}  // namespace verbena::test
