// SPDX-License-Identifier: MIT
// Channels that are connected by their first operations.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/net/accept_pauses.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/collectives.hpp"
#include "src/net/connection_acceptor.hpp"
#include "src/net/connection_message.hpp"
#include "src/net/peer_connector.hpp"
#include "src/net/retry_pauses.hpp"
#include "src/net/unconnected_channels.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/log.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using net::connect_mode;
using testing_support::expect_error;

constexpr std::uint32_t many = 8;

net::group_options on_first_use(const net::first_use_options& with = {}) {
  return {.connect = connect_mode::on_first_use, .first_use = with};
}

/// A word of each rank, which the others read and write.
struct shared_word {
  explicit shared_word(joined_rank& here)
      : memory(
            here.pd.allocate(64, access::local_write | access::remote_read | access::remote_write)
                .value()) {
    value() = 1000 + here.group.rank();
    peers = here.group.exchange("words", memory.remote(), test_deadline()).value();
  }
  [[nodiscard]] std::uint64_t& value() const {
    return *reinterpret_cast<std::uint64_t*>(memory.bytes().data());
  }
  /// Reads the word of a rank into the second word.
  [[nodiscard]] operation_result read(joined_rank& here, std::uint32_t rank,
                                      abort_at limit = {}) const {
    return here.group[rank].read(sink(memory, 8, 8), peers[rank].region.slice(0, 8), limit);
  }
  [[nodiscard]] std::uint64_t result() const {
    return *reinterpret_cast<std::uint64_t*>(memory.bytes().data() + 8);
  }

  memory_region memory;
  std::vector<net::peer_region> peers;
};

TEST(first_use, join_connects_nothing_and_the_peer_needs_no_call) {
  std::latch read_by_0(1);
  in_group(
      many,
      [&](joined_rank& here) {
        for (std::uint32_t each = 0; each < many; ++each) EXPECT_EQ(here.group[each].qp(), nullptr);
        EXPECT_EQ(here.group.connections().connected, 0U);
        const shared_word word(here);  // rank 0 begins when all are here
        if (here.group.rank() != 0) {
          read_by_0.wait();  // calls nothing of the group
          EXPECT_EQ(here.group.connections().connected, here.group.rank() == 5 ? 1U : 0U);
          EXPECT_EQ(here.group.connections().waiting, here.group.rank() == 5 ? 1U : 0U);
          return;
        }
        ASSERT_TRUE(word.read(here, 5));
        EXPECT_EQ(word.result(), 1005U);
        EXPECT_NE(here.group[5].qp(), nullptr);
        EXPECT_EQ(here.group.connections().connected, 1U);
        read_by_0.count_down();
      },
      on_first_use());
}

// Both ranks of each pair ask at the same time, in all orders.
TEST(first_use, simultaneous_requests_end_with_one_connection) {
  std::barrier together(many);
  std::array<std::array<std::uint32_t, many>, many> own{};
  std::array<std::array<std::uint32_t, many>, many> remote{};
  in_group(
      many,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t rank = here.group.rank();
        for (std::uint32_t distance = 0; distance < many; ++distance) {
          const std::uint32_t peer = distance ^ rank;  // the pairs meet
          together.arrive_and_wait();
          const auto done = word.read(here, peer);
          ASSERT_TRUE(done) << here.group[peer].describe(done).message();
          EXPECT_EQ(word.result(), 1000 + peer);
        }
        EXPECT_EQ(here.group.connections().connected, many);
        EXPECT_EQ(here.group.connections().waiting, 0U);
        for (std::uint32_t peer = 0; peer < many; ++peer) {
          const auto& queue = *here.group[peer].qp();
          own[rank][peer] = queue.native()->qp_num;
          const auto now = queue.query(queue_pair_attribute::destination).value();
          remote[rank][peer] = now.destination().value().value();
        }
        together.arrive_and_wait();  // the others have read the word
      },
      on_first_use());
  for (std::uint32_t a = 0; a < many; ++a)
    for (std::uint32_t b = 0; b < many; ++b) EXPECT_EQ(own[a][b], remote[b][a]);
}

TEST(first_use, messages_and_collective_operations_connect) {
  in_group(
      many,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t rank = here.group.rank();
        for (int round = 0; round < 3; ++round) {
          word.value() = rank + 1;
          ASSERT_TRUE(here.group.all_reduce<std::uint64_t>(sink(word.memory, 0, 8), std::plus<>(),
                                                           test_deadline()));
          EXPECT_EQ(word.value(), 36U);
          ASSERT_TRUE(here.group.barrier(test_deadline()));
        }
        // Recursive doubling and dissemination use few pairs.
        EXPECT_LT(here.group.connections().connected, many);
        const std::uint32_t other = rank ^ 7U;
        const auto outcome = here.group[other].scope([&](operation_scope& scope) -> result<void> {
          auto received = scope.receive(sink(word.memory, 16, 8));
          if (const auto sent = here.group[other].send(source(word.memory, 0, 8)); !sent)
            return sent.error();
          EXPECT_EQ(received.wait().value(), 8U);
          return {};
        });
        EXPECT_TRUE(outcome);
      },
      on_first_use());
}

TEST(first_use, operations_of_several_ranks_connect) {
  std::barrier together(4);
  in_group(
      4,
      [&](joined_rank& here) {
        const shared_word word(here);
        std::vector<net::peer_read> parts;
        for (std::uint32_t each = 0; each < 4; ++each)
          parts.push_back({.from = {.rank = each, .region = word.peers[each].region.slice(0, 8)},
                           .into = sink(word.memory, 8 + 8 * each, 8)});
        ASSERT_TRUE(here.group.channels().gather(parts));
        for (std::uint32_t each = 0; each < 4; ++each)
          EXPECT_EQ((&word.value())[1 + each], 1000 + each);
        together.arrive_and_wait();
      },
      on_first_use());
}

// Seven ranks ask rank 0 at once, which connects one of them at a time.
TEST(first_use, requests_beyond_the_limit_are_repeated) {
  std::barrier together(many);
  in_group(
      many,
      [&](joined_rank& here) {
        const shared_word word(here);
        together.arrive_and_wait();
        if (here.group.rank() != 0) {
          const auto done = word.read(here, 0);
          EXPECT_TRUE(done) << here.group[0].describe(done).message();
        }
        together.arrive_and_wait();
        if (here.group.rank() != 0) return;
        EXPECT_EQ(here.group.connections().connected, many - 1);
        EXPECT_EQ(here.group.connections().accepted, many - 1);
      },
      on_first_use({.max_accepting = 1, .seed = 7}));
}

TEST(first_use, budget_refuses_and_names_its_side) {
  std::barrier together(4);
  const net::queue_pair_budget budget(2);
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    net::first_use_options limits;
    if (rank == 0) limits.budget = budget;
    joined_rank here(store.member(rank, 4), on_first_use(limits));
    const shared_word word(here);
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_TRUE(word.read(here, 1));
      EXPECT_TRUE(word.read(here, 2));
      EXPECT_EQ(budget.in_use(), 2U);
      const auto refused = word.read(here, 3);
      EXPECT_EQ(refused.refusal(), refusal::connect_failed);
      EXPECT_EQ(refused.code(), ENOBUFS);
      EXPECT_EQ(refused.delivery(), delivery::not_done);
      const auto why = here.group[3].describe(refused).message();
      EXPECT_NE(why.find("rank 3 cannot be connected: the budget of this process, 2 queue pairs"),
                std::string::npos)
          << why;
      EXPECT_TRUE(word.read(here, 1));  // connected pairs work
    }
    together.arrive_and_wait();
    if (rank == 3) {
      const auto refused = word.read(here, 0);
      EXPECT_EQ(refused.code(), ENOBUFS);
      const auto why = here.group[0].describe(refused).message();
      EXPECT_NE(why.find("rank 0 cannot connect: its budget, 2 queue pairs, is in use"),
                std::string::npos)
          << why;
      EXPECT_TRUE(word.read(here, 2));
    }
    together.arrive_and_wait();
  });
  EXPECT_EQ(budget.in_use(), 0U);
}

TEST(first_use, operation_for_a_rank_that_has_left_fails_at_once) {
  std::barrier left(3);
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 3), on_first_use());
    const shared_word word(*here);
    if (rank == 2) {
      here.reset();
      return left.arrive_and_drop();
    }
    left.arrive_and_wait();
    const auto refused = word.read(*here, 2, abort_at(test_deadline()));
    EXPECT_EQ(refused.refusal(), refusal::connect_failed);
    EXPECT_EQ(refused.code(), ECONNREFUSED);
    EXPECT_NE(here->group[2].describe(refused).message().find("rank 2 has ended or left"),
              std::string::npos);
    // Other pairs still connect, and a barrier names the rank.
    EXPECT_TRUE(word.read(*here, 1 - rank));
    const auto failed = here->group.barrier(test_deadline());
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().message().find("rank 2"), std::string::npos)
        << failed.error().message();
    left.arrive_and_wait();
  });
}

TEST(first_use, survivors_shrink_and_connect_a_rank_that_rejoins) {
  std::barrier together(4);
  std::barrier step(3);
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 4), on_first_use());
    {
      const shared_word word(*here);
      EXPECT_TRUE(word.read(*here, (rank + 1) % 4));
      together.arrive_and_wait();
    }
    if (rank == 3) {
      here.reset();
      const context device = testing_support::open_soft();
      const auto pd = device.allocate_pd().value();
      auto back = net::group::rejoin(pd, store.member(3, 4), test_deadline(), on_first_use());
      ASSERT_TRUE(back) << back.error().message();
      EXPECT_EQ(back->connections().connected, 0U);
      together.arrive_and_wait();
      EXPECT_TRUE(back->barrier(test_deadline()));
      EXPECT_TRUE(back->barrier(test_deadline()));
      return;
    }
    EXPECT_FALSE(here->group.barrier(test_deadline()));
    ASSERT_TRUE(here->group.shrink(test_deadline()));
    EXPECT_EQ(members_of(here->group), (rank_list{0, 1, 2}));
    EXPECT_TRUE(here->group.barrier(test_deadline()));
    step.arrive_and_wait();
    const rank_list back{3};
    const auto readmitted = here->group.readmit(back, test_deadline());
    ASSERT_TRUE(readmitted) << readmitted.error().message();
    together.arrive_and_wait();
    const auto met = here->group.barrier(test_deadline());
    EXPECT_TRUE(met) << met.error().message();
    EXPECT_TRUE(here->group.barrier(test_deadline()));
  });
}

TEST(first_use, budget_that_was_moved_from_remains) {
  net::queue_pair_budget first(3);
  const net::queue_pair_budget second = std::move(first);
  EXPECT_EQ(first.limit(), 3U);  // NOLINT(bugprone-use-after-move): a move copies
  EXPECT_EQ(second.in_use(), 0U);
}

TEST(first_use, invalid_limits_are_refused) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  expect_error(
      net::group::join(pd, store.member(0, 1), test_deadline(), on_first_use({.max_accepting = 0})),
      "max_accepting is 0");
  for (const char* host : {"0.0.0.0", "::"})
    expect_error(
        net::group::join(pd, store.member(0, 1), test_deadline(), on_first_use({.host = host})),
        "first_use_options::host is " + std::string(host));
}

TEST(first_use, a_pause_doubles_and_is_random) {
  using net::detail::retry_pauses;
  constexpr retry_pauses::range within{.first = 1ms, .longest = 250ms};
  retry_pauses a(within, 1);
  retry_pauses equal(within, 1);
  retry_pauses other(within, 2);
  auto most = within.first;
  int different = 0;
  for (int i = 0; i < 40; ++i) {
    const auto pause = a.next();
    EXPECT_GE(pause, most / 2);
    EXPECT_LE(pause, most);
    EXPECT_EQ(pause, equal.next());
    different += pause != other.next() ? 1 : 0;
    most = std::min(most * 2, within.longest);
  }
  EXPECT_GT(different, 30);
}

/// The acceptor of rank 0 of 3, which makes one connection at a time.
class connection_acceptor : public ::testing::Test {
 protected:
  using token = net::detail::connection_token;

  void SetUp() override {
    connector_ = net::detail::peer_connector::start(
                     {.rank = 0, .size = 3, .host = "127.0.0.1"},
                     {.domain = pd_, .cq = cq_, .options = {}, .budget = {}}, {.max_accepting = 1})
                     .value();
    connector_->open(4, rank_list{0, 1, 2});
  }
  [[nodiscard]] bringup::stream connect() const {
    return bringup::stream::connect(contact().acceptor, test_deadline()).value();
  }
  [[nodiscard]] net::detail::rank_contact contact() const { return connector_->contact({}); }
  [[nodiscard]] prepared_queue_pair<rc> make_queue() const {
    return pd_.create_qp<rc>(cq_, cq_, {}).value();
  }
  /// Sends a request and returns the answer.
  static net::detail::connect_answer ask(bringup::stream& with,
                                         const net::detail::connect_request& request) {
    with.send(net::detail::encode(request), test_deadline()).value();
    return net::detail::decode_connect_answer(with.receive(test_deadline()).value()).value();
  }
  [[nodiscard]] net::detail::connect_request request(std::uint32_t rank,
                                                     const prepared_queue_pair<rc>& queue) const {
    return {.token = contact().token, .rank = rank, .epoch = 4, .local = queue.endpoint()};
  }
  /// Waits until a connection of the acceptor has ended, because the acceptor closes it.
  static bool is_closed(bringup::stream& with) {
    const auto received = with.receive(test_deadline());
    return !received && !received.error().is(std::errc::timed_out);
  }

  context device_ = testing_support::open_soft();
  protection_domain pd_ = device_.allocate_pd().value();
  completion_queue cq_ = device_.create_cq(64).value();
  std::shared_ptr<net::detail::peer_connector> connector_;
};

TEST_F(connection_acceptor, closes_connections_with_garbage_or_without_the_token) {
  const auto queue = make_queue();
  auto forged = request(1, queue);
  forged.token[15] ^= std::byte{1};
  auto no_rank = request(3, queue);
  const auto good = net::detail::encode(request(1, queue));
  const std::vector<std::vector<std::byte>> messages{{},
                                                     {std::byte{1}},
                                                     {good.begin(), good.end() - 1},
                                                     net::detail::encode(forged),
                                                     net::detail::encode(no_rank)};
  for (const auto& each : messages) {
    auto with = connect();
    ASSERT_TRUE(with.send(each, test_deadline()));
    EXPECT_TRUE(is_closed(with));
  }
  EXPECT_EQ(connector_->statistics().garbage, messages.size());
  EXPECT_EQ(connector_->statistics().accepted, 0U);
}

TEST_F(connection_acceptor, refuses_other_epochs_and_ranks_that_are_not_members) {
  const auto queue = make_queue();
  auto late = request(1, queue);
  late.epoch = 3;
  auto first = connect();
  EXPECT_EQ(ask(first, late).what, net::detail::connection_answer::other_epoch);
  connector_->remove(2);
  auto second = connect();
  EXPECT_EQ(ask(second, request(2, queue)).what, net::detail::connection_answer::other_epoch);
  connector_->close();
  auto third = connect();
  EXPECT_EQ(ask(third, request(1, queue)).what, net::detail::connection_answer::other_epoch);
}

// The queue pair of a peer that ends before its confirmation is destroyed, and makes room.
TEST_F(connection_acceptor, abandoned_request_makes_room_for_the_next_one) {
  using enum net::detail::connection_answer;
  const auto queue = make_queue();
  {
    auto abandoned = connect();
    EXPECT_EQ(ask(abandoned, request(1, queue)).what, accepted);
    auto other = connect();
    EXPECT_EQ(ask(other, request(2, queue)).what, busy);
    EXPECT_EQ(connector_->statistics().connected, 0U);
  }
  auto answer = busy;
  std::optional<bringup::stream> with;
  while (answer == busy) answer = ask(with.emplace(connect()), request(2, queue)).what;
  EXPECT_EQ(answer, accepted);
  EXPECT_EQ(connector_->statistics().connected, 0U);
  ASSERT_TRUE(with->send(net::detail::encode_confirmation(), test_deadline()));
  EXPECT_TRUE(net::detail::check_confirmation(with->receive(test_deadline()).value()));
  EXPECT_EQ(connector_->statistics().waiting, 1U);
  EXPECT_EQ(connector_->statistics().accepted, 1U);
}

// Connections of peers that send nothing would otherwise be served until their time has passed.
TEST_F(connection_acceptor, silent_connections_make_room_for_newer_ones) {
  net::detail::pair_table pairs(0, 3, 1);
  pairs.open(4, rank_list{0, 1, 2});
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  net::detail::connection_acceptor acceptor(
      {.listener = std::move(listener),
       .stop = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
       .maker = {.domain = pd_, .cq = cq_, .options = {}, .budget = {}},
       .pairs = pairs,
       .token = contact().token,
       .max_accepting = 1,
       .time_for_request = std::chrono::hours(1)});
  ASSERT_TRUE(acceptor.start());
  const auto to_acceptor = [&] {
    return bringup::stream::connect(acceptor.local_address(), test_deadline()).value();
  };
  const auto queue = make_queue();
  auto first = to_acceptor();
  auto second = to_acceptor();
  const auto third = to_acceptor();
  auto last = to_acceptor();
  EXPECT_EQ(ask(last, request(1, queue)).what, net::detail::connection_answer::accepted);
  EXPECT_TRUE(is_closed(first));
  EXPECT_TRUE(is_closed(second));
  // The request that was accepted keeps its place.
  auto other = to_acceptor();
  EXPECT_EQ(ask(other, request(2, queue)).what, net::detail::connection_answer::busy);
  ASSERT_TRUE(last.send(net::detail::encode_confirmation(), test_deadline()));
  EXPECT_TRUE(net::detail::check_confirmation(last.receive(test_deadline()).value()));
}

/// Counts the warnings that contain a text.
class counted_warnings {
 public:
  explicit counted_warnings(std::string_view text) : text_(text) {
    set_log_hook(
        [](log_level /*level*/, std::string_view line, void* user) {
          auto& self = *static_cast<counted_warnings*>(user);
          if (line.find(self.text_) != std::string_view::npos) ++self.count_;
        },
        this, log_level::warning);
  }
  counted_warnings(const counted_warnings&) = delete;
  counted_warnings& operator=(const counted_warnings&) = delete;
  ~counted_warnings() { set_log_hook(nullptr); }
  [[nodiscard]] int count() const { return count_.load(); }

 private:
  std::string text_;
  std::atomic<int> count_ = 0;
};

TEST_F(connection_acceptor, without_free_descriptors_logs_once_and_serves_later) {
  const counted_warnings warnings("accept4");
  const auto where = contact().acceptor;
  const auto queue = make_queue();
  const unique_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // UBSan needs a free descriptor when it examines the type of an object for the first time.
  EXPECT_FALSE(error::from_errno(EMFILE, "accept4").message().empty());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // All descriptors below the limit are open.
  std::vector<unique_fd> fillers;
  int next = ::fcntl(client.get(), F_DUPFD_CLOEXEC, 0);
  for (int previous = -1; next == previous + 1 || previous == -1;) {
    fillers.emplace_back(next);
    previous = next;
    next = ::fcntl(client.get(), F_DUPFD_CLOEXEC, 0);
  }
  fillers.emplace_back(next);
  auto limited = before;
  limited.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limited), 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(where.port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* const to = &at;
  EXPECT_EQ(::connect(client.get(), static_cast<sockaddr*>(to), sizeof at), 0);
  const auto until = test_deadline();
  while (warnings.count() == 0 && !until.expired()) ::poll(nullptr, 0, 1);
  // The acceptor tries again several times in this time.
  ::poll(nullptr, 0, 400);
  EXPECT_EQ(warnings.count(), 1);
  fillers.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  auto with = connect();
  EXPECT_EQ(ask(with, request(1, queue)).what, net::detail::connection_answer::accepted);
}

TEST(accept_pauses, grow_to_their_maximum_and_log_each_cause_once) {
  using net::detail::accept_pauses;
  accept_pauses pauses;
  EXPECT_TRUE(pauses.end().expired());
  const auto begin = deadline::clock::now();
  auto expected = accept_pauses::first;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pauses.fail(EMFILE, begin), i == 0);
    EXPECT_EQ(pauses.end().when(), begin + expected);
    expected = std::min(expected * 2, accept_pauses::longest);
  }
  EXPECT_EQ(expected, accept_pauses::longest);
  EXPECT_TRUE(pauses.fail(ENFILE, begin));
  pauses.succeed();
  EXPECT_FALSE(pauses.fail(EMFILE, begin)) << "it can fail again and again after a success";
  EXPECT_EQ(pauses.end().when(), begin + accept_pauses::first);
  EXPECT_TRUE(pauses.fail(EMFILE, begin + accept_pauses::silence));
}

TEST_F(connection_acceptor, wrong_confirmation_connects_nothing) {
  const auto queue = make_queue();
  auto with = connect();
  EXPECT_EQ(ask(with, request(1, queue)).what, net::detail::connection_answer::accepted);
  ASSERT_TRUE(with.send(net::detail::encode(request(1, queue)), test_deadline()));
  EXPECT_TRUE(is_closed(with));
  EXPECT_EQ(connector_->statistics().connected, 0U);
}

// The peer gives up a connection whose confirmation comes too late, and asks again.
TEST_F(connection_acceptor, connections_that_the_peer_gave_up_are_not_counted) {
  net::detail::pair_table pairs(0, 3, 1);
  pairs.open(4, rank_list{0, 1, 2});
  const auto make = [&] {
    auto queue = make_queue();
    const auto self = queue.endpoint();
    return net::detail::unmade_pair::connect({.share = {}, .queue = std::move(queue)}, self)
        .value();
  };
  for (int i = 0; i < 2; ++i) {
    auto claim = *std::move(pairs.claim(1, 4).claim);
    EXPECT_TRUE(claim.publish(make()));
    EXPECT_EQ(pairs.statistics().accepted, 1U);
  }
  {
    auto claim = *std::move(pairs.claim(2, 4).claim);
    EXPECT_TRUE(claim.publish(make()));
    claim.withdraw();
    EXPECT_EQ(pairs.statistics().accepted, 1U);
    EXPECT_EQ(pairs.statistics().waiting, 1U);
  }
  // This rank connects the pair instead.
  pairs.end_asking(1, true);
  EXPECT_EQ(pairs.statistics().accepted, 0U);
  EXPECT_EQ(pairs.statistics().waiting, 0U);
}

// A loaded host may be late after the peer has made its side available.
TEST_F(connection_acceptor, confirmation_may_be_later_than_the_attempt_ends) {
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  net::detail::rank_contact late{.token = contact().token, .acceptor = listener.local_address()};
  connector_->set_contacts({contact(), late, late});
  std::thread peer([&] {
    auto with = listener.accept(test_deadline()).value();
    static_cast<void>(with.receive(test_deadline()).value());
    const auto queue = make_queue();
    with.send(net::detail::encode(net::detail::connect_answer{
                  .what = net::detail::connection_answer::accepted, .local = queue.endpoint()}),
              test_deadline())
        .value();
    const auto confirmation = with.receive(test_deadline()).value();
    EXPECT_FALSE(listener.accept(deadline::after(400ms))) << "there was another attempt";
    static_cast<void>(with.send(confirmation, test_deadline()));
    static_cast<void>(with.receive(test_deadline()));
  });
  auto channels = net::detail::create_unconnected(pd_, 3, {}, {}).value();
  auto& core = net::detail::channel_access::core_of(channels[1]);
  core.connect_on_first_use(connector_, 1);
  EXPECT_TRUE(connector_->connect(core, 1, deadline::after(100ms)));
  peer.join();
}

TEST(first_use, reconnect_before_the_first_use_is_refused) {
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t other = 1 - here.group.rank();
        const auto refused = here.group[other].prepare_reconnect();
        expect_error(refused, "post an operation, which connects it");
        EXPECT_EQ(refused.error().call(), "channel::prepare_reconnect");
        EXPECT_TRUE(word.read(here, other));
        EXPECT_TRUE(here.group.barrier(test_deadline()));  // the other rank has read the word
      },
      on_first_use());
}

/// Records the times of attempts to connect, which fail as late as they may.
class failing_connections final : public verbena::detail::first_use {
 public:
  [[nodiscard]] result<void> connect(verbena::detail::channel_core& /*which*/,
                                     std::uint32_t /*peer*/, deadline until) override {
    while (!until.expired()) std::this_thread::yield();
    limits.push_back(until);
    return error::timed_out("connect", {}, {});
  }

  std::vector<deadline> limits;
};

TEST(first_use, operations_without_a_deadline_connect_for_at_most_the_timeout) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto client = net::store_client::connect(store.member(0, 2), test_deadline()).value();
  auto board = net::detail::rank_board::create(pd, 0, 2).value();
  auto channels = net::detail::create_unconnected(pd, 2, {}, {}).value();
  const auto by = std::make_shared<failing_connections>();
  const rank_list all{0, 1};
  for (const std::uint32_t each : all)
    net::detail::channel_access::core_of(channels[each]).connect_on_first_use(by, each);
  ASSERT_TRUE(board.connect(std::vector<remote_region>(2, board.remote()), all));
  board.set_first_use_timeout(350ms);
  auto begun = net::detail::begin_barrier({board, channels, client, all, deadline::never()},
                                          net::barrier_algorithm::dissemination);
  ASSERT_TRUE(begun);
  expect_error(board.run(*begun), "rank 1 is not reachable");
  ASSERT_GE(by->limits.size(), 2U);
  EXPECT_LT(by->limits.back().when() - by->limits.front().when(), 300ms);
}

TEST(first_use, operations_of_several_ranks_connect_until_their_limit) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto channels = net::detail::create_unconnected(pd, 2, {}, {}).value();
  const auto by = std::make_shared<failing_connections>();
  for (const std::uint32_t each : {0U, 1U})
    net::detail::channel_access::core_of(channels[each]).connect_on_first_use(by, each);
  const auto memory = pd.allocate(64, access::local_write).value();
  const auto limit = abort_after(20ms);
  const rank_list to{1};
  EXPECT_FALSE(channels.in_steps().multicast(to, source(memory), limit).wait());
  EXPECT_FALSE(channels.multicast(to, source(memory), abort_at(limit)));
  ASSERT_FALSE(by->limits.empty());
  for (const auto each : by->limits) EXPECT_EQ(each.when(), limit.when().when());
}

TEST(first_use, operation_after_a_late_connection_is_refused_and_its_channel_remains) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto channels = net::detail::create_unconnected(pd, 2, {}, {}).value();
  net::detail::channel_access::core_of(channels[0])
      .connect_on_first_use(std::make_shared<failing_connections>(), 0);
  const auto cq = channels.hub().cq();
  auto queue = pd.create_qp<rc>(cq, cq, {}).value();
  const auto self = queue.endpoint();
  net::detail::channel_access::core_of(channels[1])
      .connect_first(std::move(queue).handshake(self).value());
  const auto memory = pd.allocate(64, access::local_write).value();
  std::array parts{net::peer_receive{.rank = 0, .into = sink(memory, 0, 8)},
                   net::peer_receive{.rank = 1, .into = sink(memory, 0, 8)}};
  EXPECT_FALSE(channels.gather(parts, abort_after(20ms)));
  EXPECT_EQ(parts[0].result.refusal(), refusal::connect_failed);
  EXPECT_EQ(parts[1].result.refusal(), refusal::limit_passed);
  EXPECT_EQ(channels[1].failure(), nullptr);
}

/// Connects no channel in time. A rank reports a failure during the second attempt.
class late_connections final : public verbena::detail::first_use {
 public:
  explicit late_connections(std::uint64_t& failure) : failure_(failure) {}
  [[nodiscard]] result<void> connect(verbena::detail::channel_core& /*which*/,
                                     std::uint32_t /*peer*/, deadline until) override {
    EXPECT_LT(until.when(), deadline::after(20s).when()) << "the operation would look too late";
    if (++attempts_ == 2)
      std::atomic_ref(failure_).store(std::uint64_t{2 + 1} << 32U | 3U);  // rank 2, because of 3
    return error::timed_out("connect", {}, {});
  }
  [[nodiscard]] int attempts() const { return attempts_; }

 private:
  std::uint64_t& failure_;
  int attempts_ = 0;
};

TEST(first_use, collective_operation_that_connects_ends_when_another_rank_reports_a_failure) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto client = net::store_client::connect(store.member(0, 4), test_deadline()).value();
  auto board = net::detail::rank_board::create(pd, 0, 4).value();
  auto channels = net::detail::create_unconnected(pd, 4, {}, {}).value();
  const auto late = std::make_shared<late_connections>(
      *reinterpret_cast<std::uint64_t*>(board.remote().address()));
  const rank_list all{0, 1, 2, 3};
  for (const std::uint32_t each : all)
    net::detail::channel_access::core_of(channels[each]).connect_on_first_use(late, each);
  ASSERT_TRUE(board.connect(std::vector<remote_region>(4, board.remote()), all));
  auto begun = net::detail::begin_barrier({board, channels, client, all, test_deadline()},
                                          net::barrier_algorithm::dissemination);
  ASSERT_TRUE(begun);
  expect_error(board.run(*begun), "rank 2 failed in a barrier because of rank 3");
  EXPECT_GE(late->attempts(), 2);
}

TEST(connection_message, loopback_addresses_are_refused_if_other_ranks_are_elsewhere) {
  const auto contacts = [](std::initializer_list<const char*> hosts) {
    std::vector<net::detail::rank_contact> out;
    for (const char* host : hosts)
      out.push_back({.board = {}, .token = {}, .acceptor = {.host = host, .port = 4711}});
    const rank_list all{0, 1, 2};
    return net::detail::check_contacts("join", out, std::span(all).first(out.size()));
  };
  EXPECT_TRUE(contacts({"127.0.0.1", "127.0.0.2", "::1"}));
  EXPECT_TRUE(contacts({"10.0.0.1", "fd00::1"}));
  const auto failed = contacts({"10.0.0.1", "10.0.0.2", "127.0.0.1"});
  expect_error(failed, "rank 2");
  expect_error(failed, "rank 0 is at 10.0.0.1; set first_use_options::host");
  expect_error(contacts({"::1", "fd00::1"}), "cannot reach it at ::1");
  // Ranks that are not members have no contact.
  const std::array<net::detail::rank_contact, 3> some{
      {{.board = {}, .token = {}, .acceptor = {.host = "127.0.0.1", .port = 1}},
       {},
       {.board = {}, .token = {}, .acceptor = {.host = "127.0.0.1", .port = 2}}}};
  EXPECT_TRUE(net::detail::check_contacts("readmit", some, rank_list{0, 2}));
  EXPECT_EQ(net::detail::check_contacts("readmit", some, rank_list{0, 1}).error().call(),
            "readmit");
}

TEST(first_use, budget_of_a_request_that_may_fail_is_no_final_limit) {
  using net::detail::pair_table;
  pair_table pairs(1, 3, 4);
  const std::vector<std::uint32_t> all{0, 1, 2};
  pairs.open(0, all);
  EXPECT_FALSE(pairs.has_other_requests(0));
  auto turn = pairs.wait_for_turn(0, test_deadline());
  ASSERT_TRUE(turn.request);
  EXPECT_FALSE(pairs.has_other_requests(0));
  EXPECT_TRUE(pairs.has_other_requests(2));
  {
    const auto crossing = pairs.claim(0, 0);
    ASSERT_TRUE(crossing.claim) << "the request of the lower rank counts";
    EXPECT_TRUE(pairs.has_other_requests(0)) << "one of both requests ends without a connection";
  }
  turn.request.reset();
  const auto accepting = pairs.claim(2, 0);
  EXPECT_TRUE(pairs.has_other_requests(0));
  EXPECT_FALSE(pairs.has_other_requests(2));
}

TEST(first_use, request_that_ends_by_an_exception_lets_the_peer_connect) {
  net::detail::pair_table pairs(1, 3, 4);
  pairs.open(0, rank_list{0, 1, 2});
  const auto give_up = [&] {
    const auto turn = pairs.wait_for_turn(2, test_deadline());
    EXPECT_EQ(pairs.claim(2, 0).why_not, net::detail::connection_answer::crossed);
    throw std::runtime_error("no memory");
  };
  EXPECT_THROW(give_up(), std::runtime_error);
  EXPECT_FALSE(pairs.has_other_requests(0));
  EXPECT_TRUE(pairs.claim(2, 0).claim);
}

// The time passes before the request: rank 1 connects instead.
TEST_F(connection_acceptor, late_operation_counts_no_request_and_lets_the_peer_connect) {
  connector_->set_contacts({contact(), contact(), contact()});
  auto channels = net::detail::create_unconnected(pd_, 3, {}, {}).value();
  auto& core = net::detail::channel_access::core_of(channels[1]);
  core.connect_on_first_use(connector_, 1);
  expect_error(connector_->connect(core, 1, deadline::after(0ms)), "was not connected in time");
  EXPECT_EQ(connector_->statistics().asked, 0U);
  const auto queue = make_queue();
  auto with = connect();
  EXPECT_EQ(ask(with, request(1, queue)).what, net::detail::connection_answer::accepted);
}

TEST(connection_message, texts_of_a_busy_peer_name_what_is_in_use) {
  using net::detail::connection_answer;
  using net::detail::rejection_text;
  EXPECT_NE(rejection_text({.what = connection_answer::busy, .limit = 7})
                .find("queue_pair_budget of 7 queue pairs"),
            std::string::npos);
  EXPECT_NE(rejection_text({.what = connection_answer::busy}).find("max_accepting"),
            std::string::npos);
}

// Another request holds the share that this rank needs for the channel to itself.
TEST_F(connection_acceptor, channel_to_this_rank_waits_for_requests_in_progress) {
  const net::queue_pair_budget budget(1);
  const auto limited = net::detail::peer_connector::start(
                           {.rank = 0, .size = 3, .host = "127.0.0.1"},
                           {.domain = pd_, .cq = cq_, .options = {}, .budget = budget}, {})
                           .value();
  limited->open(4, rank_list{0, 1, 2});
  const auto to = limited->contact({});
  const auto queue = make_queue();
  std::optional<bringup::stream> peer =
      bringup::stream::connect(to.acceptor, test_deadline()).value();
  auto wanted = request(1, queue);
  wanted.token = to.token;
  EXPECT_EQ(ask(*peer, wanted).what, net::detail::connection_answer::accepted);
  auto channels = net::detail::create_unconnected(pd_, 3, {}, {}).value();
  auto& core = net::detail::channel_access::core_of(channels[0]);
  core.connect_on_first_use(limited, 0);
  const auto began = deadline::clock::now();
  EXPECT_EQ(limited->connect(core, 0, deadline::after(20ms)).error().code(), ENOBUFS);
  EXPECT_GE(deadline::clock::now() - began, 20ms);
  peer.reset();
  EXPECT_TRUE(limited->connect(core, 0, test_deadline()));
}

TEST(connection_message, is_refused_if_it_is_cut_or_too_long) {
  using namespace net::detail;
  connection_token token{};
  token.fill(std::byte{0x5a});
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  const auto memory = pd.allocate(64, access::local_write | access::remote_write).value();
  const auto cq = device.create_cq(4).value();
  const auto qp = pd.create_qp<rc>(cq, cq, {}).value();
  const rank_contact contact{
      .board = memory.remote(), .token = token, .acceptor = {.host = "::1", .port = 4711}};
  const auto again = decode_contact(encode(contact)).value();
  EXPECT_EQ(again.acceptor, contact.acceptor);
  EXPECT_EQ(again.token, token);
  EXPECT_EQ(again.board.address(), contact.board.address());
  const connect_request request{.token = token, .rank = 3, .epoch = 9, .local = qp.endpoint()};
  const connect_answer answer{.what = connection_answer::accepted, .local = qp.endpoint()};
  const auto asked = decode_connect_request(encode(request)).value();
  EXPECT_EQ(asked.rank, 3U);
  EXPECT_EQ(asked.epoch, 9U);
  EXPECT_EQ(decode_connect_answer(encode(answer)).value().local, qp.endpoint());
  const auto limit =
      decode_connect_answer(encode(connect_answer{.what = connection_answer::no_room, .limit = 7}));
  EXPECT_EQ(limit.value().limit, 7U);
  const auto refuses_other_lengths = [](std::vector<std::byte> bytes, auto&& decode) {
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode(std::span<const std::byte>(bytes).first(length))) << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(std::span<const std::byte>(bytes)));
  };
  refuses_other_lengths(encode(request), decode_connect_request);
  refuses_other_lengths(encode(answer), decode_connect_answer);
  refuses_other_lengths(encode_confirmation(), check_confirmation);
  for (const std::byte what : {std::byte{0}, std::byte{8}, std::byte{255}}) {
    auto bytes = encode(connect_answer{.what = connection_answer::busy});
    bytes[1] = what;
    EXPECT_FALSE(decode_connect_answer(bytes));
  }
  for (std::size_t length = 0; length < remote_region::encoded_size + token.size(); ++length)
    EXPECT_FALSE(decode_contact(std::span<const std::byte>(encode(contact)).first(length)));
}

}  // namespace
}  // namespace verbena::test
