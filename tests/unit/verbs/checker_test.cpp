// SPDX-License-Identifier: MIT
// The checker stops programs with invalid posts and polls, and accepts valid programs.
#include "verbena/check/checker.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "verbena/verbs/classic_poster.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena {
namespace {

using test::loopback;
using test::take;

#ifdef VERBENA_CHECKED

/// Returns a pattern for the message of a violated rule: rule, line, line of the earlier call.
std::string rule_message(const std::string& rule, int line, int earlier) {
  return rule + ".*checker_test.cpp:" + std::to_string(line) + "; the earlier call is at .*" +
         "checker_test.cpp:" + std::to_string(earlier) + "\\)";
}
std::string rule_message(const std::string& rule, int line) {
  return rule + ".*checker_test.cpp:" + std::to_string(line) + "\\)";
}

/// Two queue pairs, and memory that outlives their requests.
struct checked_pair {
  loopback pair;
  memory_region memory = pair.memory(4096);
  explicit checked_pair(queue_pair_options<rc> options = loopback::default_options())
      : pair(options) {}
  ~checked_pair() { drop(); }
  void drop() {
    for (test::side* each : {&pair.a(), &pair.b()}) static_cast<void>(each->queue.reset());
  }
  [[nodiscard]] local_slice at(std::size_t offset, std::size_t length) const {
    return memory.slice(offset, length);
  }
};

post_status send(queue_pair<rc>& queue, send_request request, const local_slice& slice,
                 call_site where = call_site::here()) {
  auto batch = queue.start_send();
  batch.send(request, slice);
  return batch.submit(where);
}

TEST(checker_death, receive_into_memory_of_another_receive) {
  checked_pair with;
  auto& queue = with.pair.b().queue;
  const int earlier = __LINE__ + 1;
  queue.post_receive({.id = 1}, with.at(0, 100)).value();
  const int later = __LINE__ + 1;
  const auto overlap = [&] { queue.post_receive({.id = 2}, with.at(99, 8)).value(); };
  EXPECT_DEATH(overlap(),
               rule_message("two requests in flight write the same memory: RECV 2 of queue pair .*"
                            "RECV 1 of queue pair",
                            later, earlier));
  queue.post_receive({.id = 2}, with.at(100, 8)).value();  // the next bytes may be used
}

TEST(checker_death, receive_into_memory_that_is_being_sent) {
  checked_pair with;
  const int earlier = __LINE__ + 1;
  send(with.pair.a().queue, {.id = 3, .signaled = true}, with.at(0, 64)).value();
  const int later = __LINE__ + 1;
  const auto write = [&] { with.pair.b().queue.post_receive({.id = 4}, with.at(32, 64)).value(); };
  EXPECT_DEATH(write(), rule_message("a request writes memory that a request in flight reads",
                                     later, earlier));
  // Two requests in flight may send the same memory.
  send(with.pair.b().queue, {.id = 5, .signaled = true}, with.at(0, 64)).value();
}

TEST(checker_death, send_of_memory_that_is_being_received) {
  checked_pair with;
  const int earlier = __LINE__ + 1;
  with.pair.b().queue.post_receive({}, with.at(0, 64)).value();
  const int later = __LINE__ + 1;
  const auto read = [&] { send(with.pair.a().queue, {}, with.at(63, 1)).value(); };
  EXPECT_DEATH(read(), rule_message("a request reads memory that a request in flight writes", later,
                                    earlier));
}

TEST(checker_death, extended_interface_is_checked) {
  checked_pair with;
  auto poster = with.pair.a().queue.extended().value();
  const auto from = with.memory.remote();
  const auto post = [&](std::uint64_t id, int& line) {
    auto batch = poster.start_send();
    batch.fetch_and_add({.id = id, .signaled = true}, with.at(8, 8), from, 1);
    line = __LINE__ + 1;
    return batch.submit();
  };
  int line = 0;
  post(1, line).value();
  int again = 0;
  EXPECT_DEATH(post(2, again).value(),
               rule_message("two requests in flight write the same memory: ATOMIC_FETCH_AND_ADD 2",
                            line, line));
  take(with.pair.a().sends, 1);
  post(2, line).value();
  take(with.pair.a().sends, 1);
}

TEST(checker_death, slice_of_another_protection_domain) {
  checked_pair with;
  const auto other = with.pair.context().allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write).value();
  const int here = __LINE__ + 1;
  const auto name = [&] { with.pair.b().queue.post_receive({}, foreign.slice()).value(); };
  EXPECT_DEATH(name(), rule_message("the memory and the queue of a request belong to different "
                                    "protection domains: RECV 0 .*uses "
                                    "memory region",
                                    here));
  with.pair.b().queue.post_receive({}, with.memory.slice()).value();
}

TEST(checker_death, region_is_destroyed_while_a_request_uses_it) {
  checked_pair with;
  auto memory = with.pair.memory(64);
  const int earlier = __LINE__ + 1;
  with.pair.b().queue.post_receive({.id = 9}, memory.slice()).value();
  const std::string rule =
      "a memory region was deregistered while a request in flight uses it: memory region .* is "
      "used by RECV 9";
  const int later = __LINE__ + 1;
  EXPECT_DEATH(static_cast<void>(std::move(memory).close()), rule_message(rule, later, earlier));
  auto other = with.pair.memory(64);
  EXPECT_DEATH(memory = std::move(other),
               rule + ".*the earlier call is at .*checker_test.cpp:" + std::to_string(earlier));
  with.drop();
  // NOLINTNEXTLINE(bugprone-use-after-move): a child process moved it, above
  EXPECT_TRUE(std::move(memory).close());
}

TEST(checker_death, datagram_receive_without_room_for_the_grh) {
  loopback pair;
  const auto memory = pair.memory(128);
  auto datagrams = pair.pd()
                       .create_qp<ud>(pair.a().sends, pair.a().receives)
                       .value()
                       .activate(queue_key(1))
                       .value();
  const int here = __LINE__ + 1;
  const auto post = [&] { datagrams.post_receive({.id = 3}, memory.slice(0, 39)).value(); };
  EXPECT_DEATH(
      post(),
      rule_message("a receive of a datagram queue pair has fewer than the 40 bytes of the GRH: "
                   "RECV 3 of queue pair .* has 39",
                   here));
  const std::array pieces = {memory.slice(0, 20), memory.slice(20, 20)};
  auto two = pair.pd()
                 .create_qp<ud>(pair.a().sends, pair.a().receives, {.queues = {.max_recv_sge = 2}})
                 .value()
                 .activate(queue_key(1))
                 .value();
  two.post_receive({.id = 4}, pieces).value();
}

TEST(checker_death, queue_of_the_parent_is_used_in_a_child_of_fork) {
  checked_pair with;
  const std::string rule = "a queue was used by a forked child of the process that created it.*";
  const auto receive = [&] { with.pair.b().queue.post_receive({.id = 1}, with.at(0, 64)).value(); };
  const auto poll = [&] {
    std::array<completion, 4> room;
    static_cast<void>(with.pair.b().receives.poll(room));
  };
  EXPECT_DEATH(receive(), rule + "checker_test.cpp");
  EXPECT_DEATH(poll(), rule + "checker_test.cpp") << "the queue is empty";
  receive();
  send(with.pair.a().queue, {.id = 2, .signaled = true}, with.at(64, 64)).value();
  take(with.pair.a().sends, 1);
  EXPECT_DEATH(poll(), rule + "checker_test.cpp") << "the queue has a copy of the completion";
  take(with.pair.b().receives, 1);
}

// A child of fork() cannot use the device. These tests start a new process with its own device.
class checker_process_death : public ::testing::Test {
 protected:
  checker_process_death() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~checker_process_death() override { GTEST_FLAG_SET(death_test_style, "fast"); }
};

TEST_F(checker_process_death, full_send_queue_without_signaled_request) {
  auto options = loopback::default_options();
  options.queues.max_send_wr = 4;
  options.signal_all = false;
  checked_pair with(options);
  auto& queue = with.pair.a().queue;
  const int earlier = __LINE__ + 2;
  for (std::uint32_t i = 0; i < queue.capabilities().max_send_wr; ++i)
    send(queue, {.id = i}, with.at(0, 8)).value();
  const int later = __LINE__ + 1;
  const auto one_more = [&] { (void)send(queue, {.signaled = true}, with.at(0, 8)); };
  EXPECT_DEATH(one_more(),
               rule_message("a send queue is full of unsignaled requests", later, earlier));
}

TEST(checker, full_queue_with_signaled_request_returns_enomem) {
  auto options = loopback::default_options();
  options.queues.max_send_wr = 4;
  checked_pair with(options);
  auto& queue = with.pair.a().queue;
  const auto room = queue.capabilities().max_send_wr;
  for (std::uint32_t i = 0; i < room; ++i)
    send(queue, {.id = i, .signaled = i + 1 == room}, with.at(0, 8)).value();
  EXPECT_EQ(send(queue, {}, with.at(0, 8)).code(), ENOMEM);
  EXPECT_EQ(check::requests_in_flight(), room);
}

// A child of fork cannot poll.
TEST_F(checker_process_death, completion_of_an_unrecorded_request) {
  checked_pair with;
  auto& side = with.pair.a();
  ibv_send_wr request{};
  request.wr_id = 77;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = with.memory.remote().address(),
                     .rkey = with.memory.remote_key().value()};
  ibv_send_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_send(side.queue.native(), &request, &refused), 0);
  EXPECT_DEATH(take(side.sends, 1),
               "a completion does not match a request in flight: .*request 77 of queue pair");
  check::posted_elsewhere(side.queue.native());
  EXPECT_EQ(take(side.sends, 1).at(0).id(), 77U);
}

TEST(checker_death, post_to_a_destroyed_queue_pair) {
  checked_pair with;
  std::optional<loopback> other(std::in_place);
  auto poster = other->a().queue.extended().value();
  ibv_qp* const gone = poster.native() != nullptr ? &poster.native()->qp_base : nullptr;
  other.reset();
  ibv_recv_wr request{};
  EXPECT_DEATH(detail::record_post(gone, &request, call_site::here()),
               "a request was posted to a destroyed queue: queue pair 0x");
}

TEST(checker_death, queue_destroyed_while_a_batch_is_open_is_reported) {
  EXPECT_DEATH(
      {
        std::optional<loopback> pair(std::in_place);
        auto batch = pair->a().queue.extended().value().start_send();
        pair.reset();
      },
      "a queue pair was destroyed while a batch of it was open");
  EXPECT_DEATH(
      {
        const auto device = open_device("soft0").value();
        const auto pd = device.allocate_pd().value();
        auto cq = std::optional(device.create_extended_cq(4).value());
        auto prepared = pd.create_qp<rc>(*cq, *cq).value();
        const auto self = prepared.endpoint();
        auto queue = std::optional(std::move(prepared).handshake(self).value());
        queue->modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
        queue->post_receive({}, std::span<const local_slice>()).value();
        while (true) {
          const auto pass = cq->poll();
          if (pass.empty()) continue;
          queue.reset();
          cq.reset();
        }
      },
      "a completion queue was destroyed between ibv_start_poll and ibv_end_poll");
}

TEST(checker, completion_retires_earlier_unsignaled_requests) {
  checked_pair with;
  auto& side = with.pair.a();
  const auto to = with.memory.remote().slice(2048, 64);
  for (std::uint64_t id = 0; id < 3; ++id) {
    auto batch = side.queue.start_send();
    batch.write({.id = id, .signaled = id == 2}, with.at(id * 64, 64), to);
    batch.submit().value();
  }
  EXPECT_EQ(check::requests_in_flight(), 3U);
  take(side.sends, 1);
  EXPECT_EQ(check::requests_in_flight(), 0U);
  with.pair.b().queue.post_receive({}, with.at(0, 192)).value();
}

TEST(checker, flush_reset_and_destruction_retire_requests) {
  checked_pair with;
  auto& side = with.pair.b();
  for (std::uint64_t id = 0; id < 3; ++id)
    side.queue.post_receive({.id = id}, with.at(id * 64, 64)).value();
  side.queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  EXPECT_EQ(take(side.receives, 3).at(0).status(), completion_status::flushed);
  EXPECT_EQ(check::requests_in_flight(), 0U);
  {
    loopback other;
    const auto memory = other.memory(64);
    auto& queue = other.b().queue;
    queue.post_receive({}, memory.slice()).value();
    queue.reset().value();
    EXPECT_EQ(check::requests_in_flight(), 0U);
  }
  {
    loopback other;
    other.b().queue.post_receive({}, std::span<const local_slice>()).value();
    EXPECT_EQ(check::requests_in_flight(), 1U);
  }
  EXPECT_EQ(check::requests_in_flight(), 0U);
}

TEST(checker, refused_requests_are_not_in_flight) {
  checked_pair with;
  auto& queue = with.pair.b().queue;
  const std::array<local_slice, 5> too_many = {with.at(0, 8), with.at(8, 8), with.at(16, 8),
                                               with.at(24, 8), with.at(32, 8)};
  EXPECT_EQ(queue.post_receive({}, too_many).code(), EINVAL);
  auto batch = queue.start_receive();
  batch.receive({.id = 1}, with.at(64, 8));
  batch.receive({.id = 2}, too_many);
  EXPECT_EQ(batch.submit().accepted_before_failure(), 1U);
  EXPECT_EQ(check::requests_in_flight(), 1U);
  queue.post_receive({}, with.at(128, 64)).value();
  auto extended = with.pair.a().queue.extended().value();
  auto refused = extended.start_send();
  refused.send({.id = 1}, too_many);
  EXPECT_FALSE(refused.submit());
  EXPECT_EQ(check::requests_in_flight(), 2U);
}

/// Connects two queue pairs whose receives are those of `shared`.
template <class Receives>
std::pair<queue_pair<rc>, queue_pair<rc>> connect_sharing(const protection_domain& pd,
                                                          const completion_queue& sends,
                                                          const Receives& receives,
                                                          const shared_receive_queue& shared) {
  auto first = pd.create_qp<rc>(sends, receives, shared, {}).value();
  auto second = pd.create_qp<rc>(sends, receives, shared, {}).value();
  const auto to_first = first.endpoint();
  const auto to_second = second.endpoint();
  return {std::move(first).handshake(to_second).value(),
          std::move(second).handshake(to_first).value()};
}

TEST(checker, completion_retires_the_srq_receive_with_its_id) {
  loopback outer;
  const auto& pd = outer.pd();
  const auto memory = outer.memory(4096);
  const auto shared = pd.create_srq({.max_wr = 8}).value();
  const auto cq = outer.context().create_cq(16).value();
  auto [sender, receiver] = connect_sharing(pd, cq, cq, shared);
  for (std::uint64_t id = 0; id < 3; ++id)
    shared.post_receive({.id = id}, memory.slice(id * 64, 64)).value();
  send(sender, {.id = 100, .signaled = true}, memory.slice(2048, 8)).value();
  take(cq, 2);
  EXPECT_EQ(check::requests_in_flight(), 2U);
  shared.post_receive({.id = 0}, memory.slice(0, 64)).value();
}

// The completion does not name its queue pair.
TEST(checker, receive_of_a_shared_queue_is_retired_once) {
  loopback outer;
  const auto& pd = outer.pd();
  const auto memory = outer.memory(4096);
  const auto shared = pd.create_srq({.max_wr = 8}).value();
  const auto sends = outer.context().create_cq(16).value();
  const auto receives =
      outer.context()
          .create_extended_cq(16, {.fields = completion_fields(completion_field::byte_length)})
          .value();
  auto [sender, receiver] = connect_sharing(pd, sends, receives, shared);
  for (std::uint64_t id = 0; id < 3; ++id)
    shared.post_receive({.id = id}, memory.slice(id * 64, 64)).value();
  send(sender, {.id = 100, .signaled = true}, memory.slice(2048, 8)).value();
  take(sends, 1);
  const auto until = deadline::after(std::chrono::seconds(60));
  for (int seen = 0; seen == 0 && !until.expired();)
    for (const auto& done : receives.poll()) seen += done.ok() ? 1 : 0;
  EXPECT_EQ(check::requests_in_flight(), 2U);
}

TEST(checker, released_borrowed_queue_can_be_posted_to_by_its_owner) {
  checked_pair with;
  auto& queue = with.pair.a().queue;
  {
    const auto borrowed = queue_pair<rc>::adopt(queue.native(), with.pair.pd(), ownership::borrow);
  }
  // A queue pair that is not owned by this library.
  ibv_qp_init_attr wanted{};
  wanted.send_cq = with.pair.a().sends.native();
  wanted.recv_cq = wanted.send_cq;
  wanted.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  wanted.qp_type = IBV_QPT_RC;
  const auto& verbs = queue.provider().verbs;
  ibv_qp* const native = verbs.create_qp(with.pair.pd().native(), &wanted);
  ASSERT_NE(native, nullptr);
  {
    const auto borrowed = queue_pair<rc>::adopt(native, with.pair.pd(), ownership::borrow);
  }
  classic_poster<rc>::lists lists;
  classic_poster<rc> poster(native, lists);
  EXPECT_EQ(poster.post_receive({.id = 1}, with.at(0, 8)).code(), EINVAL);  // it is in RESET
  EXPECT_EQ(verbs.destroy_qp(native), 0);
}

TEST(checker, lazy_polls_retire_requests_with_and_without_queue_pair_field) {
  for (const bool tells : {true, false}) {
    const auto device = open_device("soft0").value();
    const auto pd = device.allocate_pd().value();
    const auto memory = pd.allocate(256, access::local_write | access::remote_write).value();
    const auto cq =
        device
            .create_extended_cq(
                16, {.fields = tells ? completion_fields(completion_field::queue_pair)
                                     : completion_fields(completion_field::byte_length)})
            .value();
    auto first = pd.create_qp<rc>(cq, cq, {}).value();
    auto second = pd.create_qp<rc>(cq, cq, {}).value();
    const auto to_second = second.endpoint();
    const auto to_first = first.endpoint();
    auto sender = std::move(first).handshake(to_second).value();
    auto receiver = std::move(second).handshake(to_first).value();
    receiver.post_receive({.id = 1}, memory.slice(0, 64)).value();
    send(sender, {.id = 2, .signaled = true}, memory.slice(64, 64)).value();
    const auto end = deadline::after(std::chrono::seconds(20));
    for (int seen = 0; seen < 2 && !end.expired();)
      for (const auto& done : cq.poll()) seen += done.ok() ? 1 : 0;
    EXPECT_EQ(check::requests_in_flight(), 0U);
  }
}

TEST_F(checker_process_death, requests_in_flight_at_exit_are_reported) {
  const int posted = __LINE__ + 3;
  const auto leave = [] {
    auto* const with = new checked_pair;
    with->pair.b().queue.post_receive({.id = 5}, with->at(0, 64)).value();
    std::exit(0);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0),
              "1 work requests still use memory at process exit: RECV 5 of queue pair .*"
              "checker_test.cpp:" +
                  std::to_string(posted));
}

TEST(checker, threads_that_poll_one_queue_report_in_any_order) {
  checked_pair with;
  auto& side = with.pair.a();
  const auto to = with.memory.remote().slice(2048, 8);
  constexpr int rounds = 500;
  std::atomic<int> seen{0};
  const auto poll = [&] {
    const auto queue = side.sends;
    std::array<completion, 4> room;
    while (seen < rounds)
      for (const auto& done : queue.poll(room).value()) seen += done.ok() ? 1 : 0;
  };
  std::thread first(poll);
  std::thread second(poll);
  for (int posted = 0; posted < rounds;) {
    auto batch = side.queue.start_send();
    batch.write({.id = static_cast<std::uint64_t>(posted), .signaled = true}, with.at(0, 8), to);
    if (batch.submit()) ++posted;
  }
  first.join();
  second.join();
  EXPECT_EQ(check::requests_in_flight(), 0U);
}

// One of two threads that poll the queue reports the last completion first.
TEST(checker, flush_completions_of_a_long_queue_are_reported_in_any_order) {
  loopback outer;
  const auto memory = outer.memory(64);
  const auto cq = outer.context().create_cq(512).value();
  auto created = outer.pd().create_qp<rc>(cq, cq, {.queues = {.max_send_wr = 400}}).value();
  const auto self = created.endpoint();
  auto queue = std::move(created).handshake(self).value();
  queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  for (std::uint64_t id = 0; id < 300; ++id) send(queue, {.id = id}, memory.slice()).value();
  std::vector<ibv_wc> flushed(300);
  ASSERT_EQ(ibv_poll_cq(cq.native(), 300, flushed.data()), 300);  // without the checker
  std::vector<detail::in_flight::polled_completion> polled;
  for (const ibv_wc& each : flushed)
    polled.push_back({.id = each.wr_id, .queue_pair = each.qp_num, .is_receive = {}, .ok = false});
  const auto report = [&](std::size_t first, std::size_t count) {
    detail::in_flight::complete(outer.context().native(), cq.native(),
                                std::span(polled).subspan(first, count), call_site::here());
  };
  report(299, 1);
  report(0, 299);
  EXPECT_EQ(check::requests_in_flight(), 0U);
}

// The device refuses requests because the queue is full, and another thread polls the completion of
// the signaled request before the checker has removed them.
TEST(checker, queue_that_another_thread_polls_is_not_reported_as_full) {
  auto options = loopback::default_options();
  options.queues.max_send_wr = 6;
  checked_pair with(options);
  auto& side = with.pair.a();
  const auto to = with.memory.remote().slice(2048, 8);
  std::atomic<bool> done{false};
  std::thread poller([&, queue = side.sends] {
    std::array<completion, 4> room;
    while (!done)
      for (const auto& each : queue.poll(room).value()) EXPECT_TRUE(each.ok());
  });
  for (std::uint64_t posted = 0; posted < 20'000;) {
    auto batch = side.queue.start_send();
    batch.write({.id = posted, .signaled = posted % 4 == 3}, with.at(0, 8), to);
    if (batch.submit()) ++posted;
  }
  done = true;
  poller.join();
}

// Other threads may hold the lock of the checker when a thread forks.
TEST(checker, child_of_fork_uses_its_own_device) {
  checked_pair with;
  auto& side = with.pair.a();
  const auto to = with.memory.remote().slice(2048, 8);
  std::atomic<bool> done{false};
  std::atomic<int> posted{0};
  std::thread poster([&] {
    std::array<completion, 4> room;
    for (; !done; ++posted) {
      auto batch = side.queue.start_send();
      batch.write({.id = 1, .signaled = true}, with.at(0, 8), to);
      static_cast<void>(batch.submit());
      for (const auto& each : side.sends.poll(room).value()) EXPECT_TRUE(each.ok());
    }
  });
  while (posted < 10) std::this_thread::yield();
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // ends a child that waits without limit
      const auto own = open_device(with.pair.pd().context().name());
      ::_exit(own && own->create_cq(1) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
  poster.join();
}

#else

TEST(checker, unchecked_build_has_no_checker) {
  EXPECT_FALSE(check::enabled);
  EXPECT_EQ(check::requests_in_flight(), 0U);
}

#endif

}  // namespace
}  // namespace verbena
