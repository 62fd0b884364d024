// SPDX-License-Identifier: MIT
// The thread that connects queue pairs at the request of peers, its pair_table, and its messages.
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
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/accept_pauses.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/connection_acceptor.hpp"
#include "src/net/connection_message.hpp"
#include "src/net/pair_maker.hpp"
#include "src/net/pair_table.hpp"
#include "src/net/peer_connector.hpp"
#include "src/net/unconnected_channels.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/log.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

/// The acceptor of rank 0 of 3, which serves one request at a time.
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
  /// Waits until the acceptor closes a connection. Returns false at the deadline.
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
  EXPECT_EQ(connector_->statistics().malformed, messages.size());
  EXPECT_EQ(connector_->statistics().requests_accepted, 0U);
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

// If a peer ends before its confirmation, its queue pair is destroyed and the next request can be
// served.
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
  EXPECT_EQ(connector_->statistics().unused, 1U);
  EXPECT_EQ(connector_->statistics().requests_accepted, 1U);
}

// Otherwise, connections of silent peers would occupy the acceptor until time_for_request has
// passed.
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
  // UBSan needs a free descriptor when it checks the type of an object for the first time.
  EXPECT_FALSE(error::from_errno(EMFILE, "accept4").message().empty());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // Opens all descriptors below the limit.
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
  // In this time, the acceptor retries several times.
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

// The peer abandons a connection whose confirmation is late, and sends a new request.
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
    EXPECT_EQ(pairs.statistics().requests_accepted, 1U);
  }
  {
    auto claim = *std::move(pairs.claim(2, 4).claim);
    EXPECT_TRUE(claim.publish(make()));
    claim.withdraw();
    EXPECT_EQ(pairs.statistics().requests_accepted, 1U);
    EXPECT_EQ(pairs.statistics().unused, 1U);
  }
  // This rank connects the pair instead.
  pairs.end_asking(1, net::detail::pair_endpoints());
  EXPECT_EQ(pairs.statistics().requests_accepted, 0U);
  EXPECT_EQ(pairs.statistics().unused, 0U);
}

// On a loaded host, the confirmation may be late although the peer has already connected its side.
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

TEST(pair_table, budget_of_a_request_that_may_fail_is_no_final_limit) {
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

TEST(pair_table, request_that_ends_by_an_exception_lets_the_peer_connect) {
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

// The deadline passes before the request is sent, and rank 1 connects instead.
TEST_F(connection_acceptor, late_operation_counts_no_request_and_lets_the_peer_connect) {
  connector_->set_contacts({contact(), contact(), contact()});
  auto channels = net::detail::create_unconnected(pd_, 3, {}, {}).value();
  auto& core = net::detail::channel_access::core_of(channels[1]);
  core.connect_on_first_use(connector_, 1);
  expect_error(connector_->connect(core, 1, deadline::after(0ms)), "was not connected in time");
  EXPECT_EQ(connector_->statistics().requests_sent, 0U);
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

// Another request holds the share of the budget that this rank needs for the channel to itself.
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
