// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/wire_path.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t bytes = 20'000;  ///< 20 packets

/// Two processes with one port. The first one that connects is the owner.
class wire_path_pair : public ::testing::Test {
 protected:
  void connect() {
    first.connect(second);
    second.connect(first);
  }
  [[nodiscard]] completion sent(wired_host& by) {
    return next_completion({&first, &second}, by.mine.sent());
  }
  [[nodiscard]] completion received(wired_host& by) {
    return next_completion({&first, &second}, by.mine.received());
  }
  [[nodiscard]] static send_request request(opcode what, wired_host& target) {
    return {.wr_id = 7,
            .opcode = what,
            .flags = send_flag::signaled,
            .immediate = 0x1234,
            .remote_address = target.memory.address(),
            .remote_key = target.memory.key(),
            .compare_or_add = 5,
            .swap = 6};
  }

  explicit wire_path_pair(const wire_path_options& options = {})
      : first(1, port, options), second(2, port, options) {}

  const std::uint16_t port = free_port();
  wired_host first;
  wired_host second;
};

TEST_F(wire_path_pair, first_process_owns_the_port_and_the_second_is_its_client) {
  connect();
  EXPECT_EQ(first.path.role(), port_share::role::owner);
  EXPECT_EQ(second.path.role(), port_share::role::client);
}

TEST_F(wire_path_pair, each_operation_completes_between_owner_and_client) {
  connect();
  struct direction {
    wired_host& from;
    wired_host& to;
  };
  for (const direction& each : {direction{first, second}, direction{second, first}}) {
    wired_host& from = each.from;
    wired_host& to = each.to;
    for (const opcode what : {opcode::send, opcode::send_with_imm, opcode::rdma_write,
                              opcode::rdma_write_with_imm, opcode::rdma_read}) {
      SCOPED_TRACE(static_cast<int>(what));
      const bool reads = what == opcode::rdma_read;
      (reads ? to : from).memory.fill(0, bytes, 11 + static_cast<unsigned>(what));
      (reads ? from : to).memory.fill(0, bytes, 99);
      if (consumes_receive(what)) {
        ASSERT_TRUE(to.mine.post_receive(3, to.memory.slice(0, bytes)));
      }
      ASSERT_TRUE(from.mine.post(request(what, to), {from.memory.slice(0, bytes)}));
      EXPECT_EQ(sent(from).status, completion_status::success);
      if (consumes_receive(what)) {
        const completion got = received(to);
        EXPECT_EQ(got.status, completion_status::success);
        EXPECT_EQ(got.byte_count, bytes);
        if (has_immediate(what)) {
          EXPECT_EQ(got.immediate, 0x1234U);
        }
      }
      EXPECT_TRUE((reads ? from : to).memory.holds(0, bytes, 11 + static_cast<unsigned>(what)));
    }
    std::uint64_t value = 5;
    std::memcpy(to.memory.data(), &value, sizeof value);
    for (const opcode what : {opcode::compare_swap, opcode::fetch_add}) {
      ASSERT_TRUE(from.mine.post(request(what, to), {from.memory.slice(64, 8)}));
      EXPECT_EQ(sent(from).status, completion_status::success);
    }
    std::memcpy(&value, to.memory.data(), sizeof value);
    EXPECT_EQ(value, 6U + 5U);
    std::memcpy(&value, from.memory.data() + 64, sizeof value);
    EXPECT_EQ(value, 6U);
  }
  EXPECT_GT(first.path.counters().intake.forwarded, 0U);
  EXPECT_EQ(first.path.counters().output.refused, 0U);
}

/// Blocks the receiving thread after the first packet, before it sends the ACK. Threads:
/// thread-safe.
class stopping_watcher final : public packet_watcher {
 public:
  void sending() noexcept override {}
  void sent(const network_header& /*around*/,
            std::span<const std::byte> /*packet*/) noexcept override {
    ++sent_packets;
  }
  void sent_all() noexcept override {}
  void arrived(const network_header& /*around*/,
               std::span<const std::byte> /*packet*/) noexcept override {}
  void settled(std::string_view /*note*/) noexcept override {
    if (inside.exchange(true)) return;
    released.wait(false);
  }
  void dismissed() noexcept override {}
  void settled_all() noexcept override {}
  void release() noexcept {
    released = true;
    released.notify_all();
  }

  std::atomic<int> sent_packets{0};
  std::atomic<bool> inside{false};
  std::atomic<bool> released{false};
};

struct stopping_watcher_first {
  stopping_watcher watcher;  ///< outlives the paths
};
/// The second process receives a message in a thread that is blocked before it sends the ACK.
class stopped_receiver : protected stopping_watcher_first, public wire_path_pair {
 protected:
  void SetUp() override {
    second.path.watch(watcher);
    first.timeout = long_timeout;
    connect();
    ASSERT_TRUE(second.mine.post_receive(3, second.memory.slice(0, 64)));
    ASSERT_TRUE(first.mine.post(request(opcode::send, second), {first.memory.slice(0, 64)}));
    receiver = std::thread([this] {
      while (!ended) second.path.progress();
    });
    ASSERT_TRUE(run_until({&first}, [this] { return watcher.inside.load(); }));
    std::array<completion, 1> found;
    ASSERT_EQ(second.mine.received().poll(found), 1U);  // polled by the program before its exit
    ASSERT_EQ(watcher.sent_packets, 0);
  }
  void TearDown() override {
    watcher.release();
    ended = true;
    if (receiver.joinable()) receiver.join();
  }

  std::atomic<bool> ended{false};
  std::thread receiver;
};

TEST_F(stopped_receiver, flush_before_exit_waits_for_the_acknowledgment) {
  std::thread later([this] {
    // lint: allow(sleep): a function that has begun to wait reports it to no other thread
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    watcher.release();
  });
  second.path.flush_before_exit();
  EXPECT_EQ(watcher.sent_packets, 1);
  later.join();
}

TEST_F(stopped_receiver, flush_before_exit_returns_while_the_receiver_is_stopped) {
  second.path.flush_before_exit();
  EXPECT_EQ(watcher.sent_packets, 0);
}

class marked_path_pair : public wire_path_pair {
 protected:
  marked_path_pair() : wire_path_pair({.faults = {.mark = 1'000'000}}) {}
};

// parity: rocev2-103
TEST_F(marked_path_pair, marked_packets_are_answered_with_notifications) {
  connect();
  constexpr std::uint32_t long_bytes = 200 * 1024;
  first.memory.fill(0, long_bytes, 3);
  const auto heard = [&] { return first.path.counters().events.cnps_handled > 0; };
  for (int i = 0; i < 100 && !heard(); ++i) {
    ASSERT_TRUE(
        first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, long_bytes)}));
    EXPECT_EQ(sent(first).status, completion_status::success);
  }
  EXPECT_TRUE(heard());
  EXPECT_TRUE(second.memory.holds(0, long_bytes, 3));
  const wire_counters counted = second.path.counters();
  EXPECT_GE(counted.intake.marked, 200U);
  EXPECT_GT(counted.events.cnps_sent, 0U);
  EXPECT_LE(counted.events.cnps_sent, counted.intake.marked);
}

TEST_F(wire_path_pair, message_longer_than_window_and_queue_arrives) {
  connect();
  constexpr std::uint32_t long_bytes = 200 * 1024;
  first.memory.fill(0, long_bytes, 3);
  ASSERT_TRUE(
      first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, long_bytes)}));
  EXPECT_EQ(sent(first).status, completion_status::success);
  EXPECT_TRUE(second.memory.holds(0, long_bytes, 3));
}

TEST_F(wire_path_pair, client_becomes_owner_when_the_owner_ends) {
  auto owner = std::make_unique<wired_host>(std::uint8_t{3}, port);
  owner->prepare(owner->pair(), owner->route_to(first));
  connect();
  ASSERT_EQ(first.path.role(), port_share::role::client);
  ASSERT_EQ(second.path.role(), port_share::role::client);
  const auto exchange = [&] {
    ASSERT_TRUE(
        first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, bytes)}));
    std::vector<wired_host*> all = {&first, &second};
    if (owner) all.push_back(owner.get());
    EXPECT_EQ(next_completion(all, first.mine.sent()).status, completion_status::success);
  };
  exchange();
  owner.reset();
  exchange();
  const bool first_owns = first.path.role() == port_share::role::owner;
  EXPECT_EQ((first_owns ? first : second).path.role(), port_share::role::owner);
  EXPECT_TRUE(run_until({&first, &second}, [&] {
    return (first_owns ? second : first).path.role() == port_share::role::client;
  }));
}

TEST(wire_path_handover, new_process_waits_until_a_client_of_the_former_owner_has_the_port) {
  const std::uint16_t port = free_port();
  auto owner = std::make_unique<port_share>(port_share::open(port, 1).value());
  ASSERT_EQ(owner->join().value(), port_share::role::owner);
  auto client = port_share::open(port, 2).value();
  ASSERT_EQ(client.join().value(), port_share::role::none);
  owner->serve(1);
  ASSERT_EQ(client.join().value(), port_share::role::client);
  owner.reset();

  wired_host newcomer(3, port, {.patience = std::chrono::minutes(1)});
  auto opened = std::async(std::launch::async, [&] { return newcomer.path.open().has_value(); });
  EXPECT_EQ(opened.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  client.leave();
  ASSERT_EQ(client.join().value(), port_share::role::owner);
  for (time_ns now = 1; opened.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready;)
    client.serve(now += 1'000'000'000);
  EXPECT_TRUE(opened.get());
  EXPECT_EQ(newcomer.path.role(), port_share::role::client);
}

// parity: rocev2-60
TEST_F(wire_path_pair, request_to_a_process_that_ended_exceeds_its_retries) {
  auto peer = std::make_unique<wired_host>(std::uint8_t{3}, port);
  first.connect(*peer);
  peer->connect(first);
  peer.reset();
  ASSERT_TRUE(first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, 8)}));
  EXPECT_EQ(sent(first).status, completion_status::retry_exceeded);
  const event_counters events = first.path.counters().events;
  EXPECT_EQ(events.retransmitted, 7U);
  EXPECT_EQ(events.timed_out, 8U);
  EXPECT_EQ(events.retries_exceeded, 1U);
}

TEST_F(wire_path_pair, rnr_naks_are_counted_on_both_sides) {
  connect();
  ASSERT_TRUE(first.mine.post(request(opcode::send, second), {first.memory.slice(0, 8)}));
  ASSERT_TRUE(
      run_until({&first, &second}, [&] { return first.path.counters().intake.rnr_naks > 0; }));
  EXPECT_GE(second.path.counters().events.rnr_naks_sent, first.path.counters().intake.rnr_naks);
  ASSERT_TRUE(second.mine.post_receive(3, second.memory.slice(0, 8)));
  EXPECT_EQ(sent(first).status, completion_status::success);
}

/// Returns the counters in the counter pages of this process.
std::vector<std::map<std::string, std::uint64_t>> published_pages() {
  std::vector<std::map<std::string, std::uint64_t>> all;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code failed;
    const std::string target = std::filesystem::read_symlink(each.path(), failed);
    if (!target.starts_with("/memfd:verbena-counters")) continue;
    std::ifstream file(each.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(text.substr(0, 8), "vbcount1");
    EXPECT_EQ(text.size(), 16 + named_counter_count * 40);
    auto& page = all.emplace_back();
    for (std::size_t at = 16; at + 40 <= text.size(); at += 40) {
      std::uint64_t value = 0;
      std::memcpy(&value, text.data() + at + 32, sizeof value);
      page[text.data() + at] = value;  // the name ends with a zero byte
    }
  }
  return all;
}

TEST_F(wire_path_pair, counters_are_published_before_a_sleep) {
  connect();
  ASSERT_TRUE(first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, bytes)}));
  EXPECT_EQ(sent(first).status, completion_status::success);
  first.path.arm();
  const auto pages = published_pages();
  EXPECT_EQ(pages.size(), 2U);
  const wire_counters now = first.path.counters();
  EXPECT_GE(now.output.sent, 20U);
  EXPECT_GT(now.output.sent_bytes, bytes);
  EXPECT_TRUE(std::ranges::any_of(pages, [&](auto page) {
    return page["sent_pkts"] == now.output.sent && page["sent_bytes"] == now.output.sent_bytes &&
           page["rcvd_pkts"] == now.intake.received &&
           page["forwarded_pkts"] == now.intake.forwarded;
  }));
}

TEST(named_counters, names_are_distinct_and_fit) {
  std::set<std::string_view> names;
  for (const named_counter& each : name_counters({})) {
    names.insert(each.name);
    EXPECT_LT(each.name.size(), 32U);
  }
  EXPECT_EQ(names.size(), named_counter_count);
}

TEST(wire_path, requests_survive_the_faults_of_the_setting) {
  const std::uint16_t port = free_port();
  const wire_path_options faulty{.faults = {.loss = 30'000,
                                            .duplicate = 30'000,
                                            .reorder = 30'000,
                                            .corrupt = 30'000,
                                            .delay = 10'000}};
  wired_host first(1, port, faulty);
  wired_host second(2, port, faulty);
  // 17 ms, so that hosts that do not run for some time do not exhaust the retries.
  constexpr std::uint8_t patient = 12;
  first.timeout = second.timeout = patient;
  first.connect(second);
  second.connect(first);
  first.memory.fill(0, bytes, 3);
  for (int i = 0; i < 20; ++i) {
    second.memory.fill(0, bytes, 9);
    ASSERT_TRUE(first.mine.post({.opcode = opcode::rdma_write,
                                 .flags = send_flag::signaled,
                                 .remote_address = second.memory.address(),
                                 .remote_key = second.memory.key()},
                                {first.memory.slice(0, bytes)}));
    ASSERT_EQ(next_completion({&first, &second}, first.mine.sent()).status,
              completion_status::success);
    EXPECT_TRUE(second.memory.holds(0, bytes, 3));
  }
  EXPECT_GT(second.path.counters().intake.injected, 20U);
  EXPECT_GT(second.path.counters().intake.damaged, 0U);
  EXPECT_GT(first.path.counters().events.retransmitted, 0U);
}

TEST_F(wire_path_pair, child_of_fork_does_not_keep_the_port) {
  auto owner = std::make_unique<wired_host>(std::uint8_t{3}, port);
  owner->prepare(owner->pair(), owner->route_to(first));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  owner->path.prepare_fork();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child != 0) owner->path.continue_after_fork();
  char word = 0;
  if (child == 0) {
    ::close(ends[1]);
    owner->path.abandon_after_fork();
    ::_exit(::read(ends[0], &word, 1) == 0 ? 0 : 1);  // exits when the parent closes its end
  }
  ::close(ends[0]);
  owner.reset();
  const bool became_free =
      run_until({}, [&] { return udp_socket::open(port, udp_socket::use::receiving).has_value(); });
  EXPECT_TRUE(became_free);
  ::close(ends[1]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Holds a lock of a queue pair in another thread, like a program with an open batch.
class lock_holder {
 public:
  explicit lock_holder(biased_lock& lock)
      : thread_([this, &lock] {
          const std::lock_guard held(lock);
          taken_.set_value();
          released_.get_future().wait();
        }) {
    taken_.get_future().wait();
  }
  ~lock_holder() { release(); }
  void release() {
    if (!thread_.joinable()) return;
    released_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> taken_;
  std::promise<void> released_;
  std::thread thread_;
};

TEST_F(wire_path_pair, packets_for_a_locked_queue_pair_wait_and_do_not_delay_others) {
  first.timeout = long_timeout;
  connect();
  simulation::end from(first.home);
  simulation::end to(second.home);
  first.connect(from, second, to);
  second.connect(to, first, from);
  first.memory.fill(0, 8, 3);
  lock_holder holder(second.pair().receive_lock());
  ASSERT_TRUE(first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, 8)}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(from.post(request(opcode::rdma_write, second), {first.memory.slice(64, 8)}));
    EXPECT_EQ(next_completion({&first, &second}, from.sent()).status, completion_status::success);
  }
  EXPECT_FALSE(second.memory.holds(0, 8, 3));
  holder.release();
  EXPECT_EQ(sent(first).status, completion_status::success);
  EXPECT_TRUE(second.memory.holds(0, 8, 3));
  EXPECT_EQ(second.path.counters().intake.busy, 0U);
}

TEST_F(wire_path_pair, packets_that_wait_for_a_lock_end_with_their_connection) {
  connect();
  second.memory.fill(0, 8, 9);
  first.memory.fill(0, 8, 3);
  lock_holder holder(second.pair().receive_lock());
  ASSERT_TRUE(first.mine.post(request(opcode::rdma_write, second), {first.memory.slice(0, 8)}));
  ASSERT_TRUE(
      run_until({&first, &second}, [&] { return second.path.counters().intake.received > 0; }));
  // Connects the queue pair to the same peer again.
  ASSERT_TRUE(second.path.connect(second.pair(), second.route_to(first)));
  holder.release();
  second.run();
  EXPECT_TRUE(second.memory.holds(0, 8, 9));
}

TEST(wire_path, owner_that_does_not_answer_is_named) {
  const std::uint16_t port = free_port();
  port_share stopped = port_share::open(port, 5).value();
  ASSERT_EQ(stopped.join().value(), port_share::role::owner);
  wired_host mine(1, port, {.patience = std::chrono::milliseconds(20)});
  const auto refused = mine.path.connect(mine.pair(), mine.route_to(mine));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EAGAIN);
  EXPECT_NE(refused.error().message().find("pid " + std::to_string(::getpid())), std::string::npos)
      << refused.error().message();
}

// The answer of the owner, which arrives later, contains its socket.
TEST(wire_path, process_that_gave_up_does_not_keep_the_port) {
  const std::uint16_t port = free_port();
  auto stopped = std::make_unique<port_share>(port_share::open(port, 5).value());
  ASSERT_EQ(stopped->join().value(), port_share::role::owner);
  wired_host mine(1, port, {.patience = std::chrono::milliseconds(20)});
  ASSERT_FALSE(mine.path.connect(mine.pair(), mine.route_to(mine)));
  stopped->serve(monotonic_now());
  stopped.reset();
  port_share next = port_share::open(port, 6).value();
  EXPECT_EQ(next.join().value(), port_share::role::owner);
}

/// An observer that can block threads in `wake`.
class gate final : public engine_observer {
 public:
  void close() { set(true); }
  void open() { set(false); }
  [[nodiscard]] bool wait_for_thread() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return inside_; });
  }
  void wake() override {
    std::unique_lock lock(mutex_);
    inside_ = closed_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    inside_ = false;
  }

 private:
  void set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool inside_ = false;
};

TEST(wire_path, fork_waits_for_the_thread_that_changes_connections) {
  const std::uint16_t port = free_port();
  gate observer;
  auto owner = std::make_unique<wired_host>(std::uint8_t{3}, port);
  wired_host client(1, port, {.observer = &observer});
  owner->prepare(owner->pair(), owner->route_to(client));
  client.prepare(client.pair(), client.route_to(*owner));
  ASSERT_EQ(client.path.role(), port_share::role::client);
  owner.reset();
  observer.close();
  // The thread finds that the owner has ended, and wakes the observer.
  std::thread receiver([&] { client.run(); });
  ASSERT_TRUE(observer.wait_for_thread());
  auto forked = std::async(std::launch::async, [&] {
    client.path.prepare_fork();
    client.path.continue_after_fork();
  });
  EXPECT_EQ(forked.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  observer.open();
  forked.wait();
  receiver.join();
}

std::string logged;
void remember(log_level /*level*/, std::string_view line, void* /*user*/) { logged += line; }

TEST(wire_path, client_warns_of_a_new_owner_that_does_not_answer) {
  const std::uint16_t port = free_port();
  auto owner = std::make_unique<wired_host>(std::uint8_t{3}, port);
  wired_host client(1, port, {.patience = std::chrono::milliseconds(20)});
  owner->prepare(owner->pair(), owner->route_to(client));
  client.prepare(client.pair(), client.route_to(*owner));
  port_share stopped = port_share::open(port, 5).value();
  ASSERT_TRUE(
      run_until({owner.get()}, [&] { return stopped.join().value() == port_share::role::client; }));
  owner.reset();
  stopped.leave();
  ASSERT_EQ(stopped.join().value(), port_share::role::owner);
  set_log_hook(&remember);
  EXPECT_TRUE(run_until({&client}, [] { return !logged.empty(); }));
  set_log_hook(nullptr);
  EXPECT_NE(logged.find("does not answer: it is stopped"), std::string::npos) << logged;
  // The process remains usable.
  EXPECT_TRUE(run_until({&client}, [&] {
    stopped.serve(monotonic_now());
    return client.path.role() == port_share::role::client;
  }));
}

TEST(wire_path, handlers_of_a_fork_within_the_receiving_thread_do_not_wait) {
  const std::uint16_t port = free_port();
  struct forking final : engine_observer {
    void wake() override {
      if (path == nullptr) return;
      path->prepare_fork();
      path->continue_after_fork();
    }
    wire_path* path = nullptr;
  } observer;
  auto owner = std::make_unique<wired_host>(std::uint8_t{3}, port);
  wired_host client(1, port, {.observer = &observer});
  owner->prepare(owner->pair(), owner->route_to(client));
  client.prepare(client.pair(), client.route_to(*owner));
  owner.reset();
  observer.path = &client.path;
  EXPECT_TRUE(run_until({&client}, [&] { return client.path.role() == port_share::role::owner; }));
}

TEST(wire_path, socket_for_sending_has_no_long_receive_queue) {
  const auto queue_bytes = [](udp_socket::use what) {
    const udp_socket made = udp_socket::open(0, what).value();
    int room = 0;
    socklen_t size = sizeof room;
    EXPECT_EQ(::getsockopt(made.fd(), SOL_SOCKET, SO_RCVBUF, &room, &size), 0);
    return room;
  };
  EXPECT_LT(queue_bytes(udp_socket::use::sending), 10'000);
  EXPECT_GT(queue_bytes(udp_socket::use::receiving), 100'000);
}

TEST(wire_path, port_of_another_program_is_refused_with_the_setting) {
  const udp_socket other = udp_socket::open(0, udp_socket::use::receiving).value();
  wired_host mine(1, other.port());
  const auto refused = mine.path.connect(mine.pair(), mine.route_to(mine));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EADDRINUSE);
  EXPECT_NE(refused.error().message().find("VERBENA_SOFTDEV_WIRE_PORT"), std::string::npos)
      << refused.error().message();
}

TEST(wire_path, only_the_first_call_waits_for_a_port_of_another_program) {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds patience{500};
  const udp_socket other = udp_socket::open(0, udp_socket::use::receiving).value();
  wired_host mine(1, other.port(), {.patience = patience});
  const auto begin = steady_clock::now();
  ASSERT_FALSE(mine.path.connect(mine.pair(), mine.route_to(mine)));
  EXPECT_GE(steady_clock::now() - begin, patience);
  int attempts = 0;
  for (const auto start = steady_clock::now(); steady_clock::now() - start < patience; ++attempts)
    ASSERT_FALSE(mine.path.connect(mine.pair(), mine.route_to(mine)));
  EXPECT_GT(attempts, 1);
}

/// A foreign host sends a WRITE with the addresses of the peer of `second`, with at most one flaw.
class wire_path_stranger : public wire_path_pair {
 protected:
  struct flaw {
    std::uint8_t source = 1;  ///< 127.0.0.n
    bool damage = false;
    std::size_t cut = 0;
    std::uint16_t pkey = 0xffff;
    std::uint32_t qpn_offset = 0;
    std::uint16_t icrc_port = 0;  ///< 0: the port of the packet
    bool marked = false;          ///< CE
  };

  void SetUp() override {
    connect();
    second.memory.fill(0, 64, 9);
    payload.fill(0x5a);
  }
  void send(const flaw& with) {
    packet made;
    made.opcode = make_opcode(packet_transport::rc, operation::write_only);
    made.pkey = with.pkey;
    made.destination_qpn = second.pair().number() + with.qpn_offset;
    made.psn = 100;
    made.ack_requested = true;
    made.remote = {second.memory.address(), second.memory.key(),
                   static_cast<std::uint32_t>(payload.size())};
    made.payload = std::as_bytes(std::span(payload));
    std::vector<std::byte> encoded(encoded_bytes(made));
    const std::size_t covered = encode(made, encoded);
    // If `reacts_to_congestion` is true, the packet has the type of service of the socket.
    const datagram_addresses ends{.source = loopback(with.source),
                                  .destination = second.address(),
                                  .reacts_to_congestion = with.marked};
    const int type_of_service = ecn_congested;
    ASSERT_EQ(
        ::setsockopt(socket.fd(), IPPROTO_IP, IP_TOS, &type_of_service, sizeof type_of_service), 0);
    const network_header around{.source = ends.source,
                                .destination = ends.destination,
                                .source_port = socket.port(),
                                .destination_port = with.icrc_port != 0 ? with.icrc_port : port};
    store_icrc(icrc(around, std::span(encoded).first(covered)) ^ (with.damage ? 0x8000'0001U : 0U),
               std::span(encoded).last<icrc_bytes>());
    iovec piece{encoded.data(), encoded.size() - with.cut};
    sockaddr_storage name;
    udp_socket::control control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    socket.address(ends, port, name, control, message);
    ASSERT_GT(::sendmsg(socket.fd(), &message, 0), 0);
  }
  /// Waits until the packets of all processes have been counted.
  [[nodiscard]] bool counted(std::uint64_t intake_counters::* which, std::uint64_t count = 1) {
    return run_until({&first, &second}, [&] {
      return first.path.counters().intake.*which + second.path.counters().intake.*which == count;
    });
  }
  [[nodiscard]] bool memory_is_unchanged() { return second.memory.holds(0, 64, 9); }

  std::array<std::uint8_t, 32> payload;
  udp_socket socket = udp_socket::open(0, udp_socket::use::receiving).value();
};

TEST_F(wire_path_stranger, right_packet_is_executed) {
  send({});
  EXPECT_TRUE(run_until({&first, &second}, [&] { return !memory_is_unchanged(); }));
}

TEST_F(wire_path_stranger, packet_for_a_process_that_takes_none_is_counted) {
  ASSERT_EQ(second.path.role(), port_share::role::client);
  const auto full = [&] { return first.path.counters().intake.forward_full > 0; };
  for (int i = 0; i < 50'000 && !full(); ++i) {
    send({});
    first.run();
  }
  EXPECT_TRUE(full());
  EXPECT_EQ(first.path.counters().intake.unknown_qp, 0U);
  EXPECT_TRUE(run_until({&first, &second}, [&] { return !memory_is_unchanged(); }));
}

// parity: rocev2-103
TEST_F(wire_path_stranger, mark_of_congestion_reaches_the_client_of_the_port) {
  ASSERT_EQ(second.path.role(), port_share::role::client);
  send({});
  EXPECT_TRUE(run_until({&first, &second}, [&] { return !memory_is_unchanged(); }));
  EXPECT_EQ(second.path.counters().intake.marked, 0U);
  send({.marked = true});
  EXPECT_TRUE(counted(&intake_counters::marked));
}

// parity: rocev2-86
TEST_F(wire_path_stranger, packet_from_another_address_is_dropped) {
  send({.source = 77});
  EXPECT_TRUE(counted(&intake_counters::foreign));
  EXPECT_TRUE(memory_is_unchanged());
}

// parity: rocev2-87
TEST_F(wire_path_stranger, packet_of_another_partition_is_dropped) {
  send({.pkey = 0x8123});
  EXPECT_TRUE(counted(&intake_counters::received));  // passed to the engine, which drops it
  EXPECT_TRUE(memory_is_unchanged());
}

// parity: rocev2-88
TEST_F(wire_path_stranger, packet_for_a_queue_pair_without_connection_is_dropped) {
  send({.qpn_offset = 1});
  EXPECT_TRUE(counted(&intake_counters::unknown_qp));
}

// parity: rocev2-84
TEST_F(wire_path_stranger, packet_for_a_process_without_the_wire_is_dropped) {
  send({.qpn_offset = 3 * limits::queue_pair_indices});
  EXPECT_TRUE(counted(&intake_counters::unknown_qp));
}

// parity: rocev2-15
TEST_F(wire_path_stranger, packet_that_was_cut_is_dropped) {
  send({.cut = 9});
  send({.cut = 40});
  EXPECT_TRUE(counted(&intake_counters::malformed, 2));
  EXPECT_TRUE(memory_is_unchanged());
}

// parity: rocev2-24
TEST_F(wire_path_stranger, damaged_packet_is_dropped) {
  send({.damage = true});
  EXPECT_TRUE(counted(&intake_counters::damaged));
  EXPECT_TRUE(memory_is_unchanged());
}

TEST_F(wire_path_stranger, packet_with_the_icrc_of_another_port_is_dropped) {
  send({.icrc_port = roce_port});
  EXPECT_TRUE(counted(&intake_counters::damaged));
  EXPECT_TRUE(memory_is_unchanged());
}

// parity: rocev2-89
TEST_F(wire_path_stranger, garbage_is_counted_and_changes_nothing) {
  std::array<std::byte, 200> garbage{};
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<std::byte>(i * 37 + 1);
  iovec piece{garbage.data(), garbage.size()};
  sockaddr_storage name;
  udp_socket::control control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  socket.address({.source = loopback(1), .destination = loopback(1)}, port, name, control, message);
  for (std::size_t length = 0; length <= garbage.size(); length += 10) {
    piece.iov_len = length;
    ASSERT_GE(::sendmsg(socket.fd(), &message, 0), 0);
  }
  const auto dropped = [&] {
    const intake_counters a = first.path.counters().intake;
    const intake_counters b = second.path.counters().intake;
    return a.malformed + a.unknown_qp + a.foreign + b.malformed + b.unknown_qp + b.foreign +
           a.forwarded;
  };
  EXPECT_TRUE(run_until({&first, &second}, [&] { return dropped() >= 21; }));
  EXPECT_TRUE(memory_is_unchanged());
  EXPECT_EQ(first.path.counters().intake.received + second.path.counters().intake.received, 0U);
}

}  // namespace
}  // namespace verbena::softdev::wire
