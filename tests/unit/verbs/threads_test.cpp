// SPDX-License-Identifier: MIT
// Objects that eight threads use at once, with copies of their handles, and objects that are
// created on one thread and used on another. Each test run executes this program with
// ThreadSanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::test {
namespace {

constexpr std::size_t thread_count = 8;
constexpr std::uint64_t messages = 200;  // of each thread
constexpr std::size_t slot = 64;         // bytes of each thread

/// Runs `work(i)` on eight threads at once.
template <class Work>
void on_threads(Work work) {
  std::vector<std::thread> threads;
  threads.reserve(thread_count);
  for (std::size_t i = 0; i < thread_count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (auto& thread : threads) thread.join();
}

/// A queue pair connected to itself.
queue_pair<rc> connected_to_itself(const protection_domain& pd, const completion_queue& cq) {
  auto prepared = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  return std::move(prepared).handshake(self).value();
}

/// Counts the completions of each message, on all threads.
class tally {
 public:
  void count(const completion_queue& cq) {
    std::array<completion, 8> room;
    for (const auto& done : cq.poll(room).value()) {
      EXPECT_TRUE(done.ok()) << to_string(done);
      times_[done.id()].fetch_add(1);
      seen_.fetch_add(1);
    }
  }
  [[nodiscard]] bool complete() const { return seen_.load() >= times_.size(); }
  [[nodiscard]] bool each_once() const {
    return std::ranges::all_of(times_, [](const auto& times) { return times.load() == 1; });
  }

 private:
  std::array<std::atomic<std::uint32_t>, thread_count * messages> times_{};
  std::atomic<std::size_t> seen_{0};
};

// NOLINTBEGIN(performance-unnecessary-copy-initialization): each thread uses its own copies.
// parity: rrddmma-104, ibverbs-301
TEST(threads, share_a_context_a_domain_a_region_and_a_queue) {
  const auto shared_context = open_device("soft0").value();
  const auto shared_pd = shared_context.allocate_pd().value();
  const auto shared_region =
      shared_pd.allocate(2 * slot * thread_count, access::local_write | access::remote_write)
          .value();
  const auto shared_cq = shared_context.create_cq(thread_count * messages).value();
  tally seen;
  on_threads([&](std::size_t i) {
    const context own_context = shared_context;
    const protection_domain own_pd = shared_pd;
    const completion_queue own_cq = shared_cq;
    EXPECT_TRUE(own_context.query_port(port_number(1)).has_value());
    auto qp = connected_to_itself(own_pd, own_cq);
    const auto from = shared_region.slice(i * slot, slot);
    const auto to = shared_region.remote().slice((thread_count + i) * slot, slot);
    fill(shared_region.bytes().subspan(i * slot, slot), static_cast<std::uint32_t>(i));
    for (std::uint64_t n = 0; n < messages;) {
      auto batch = qp.start_send();
      batch.write({.id = i * messages + n, .signaled = true}, from, to);
      if (batch.submit()) ++n;  // otherwise the queue is full until a thread polls
      seen.count(own_cq);
    }
    while (!seen.complete()) seen.count(own_cq);
  });
  EXPECT_TRUE(seen.each_once());
  const auto bytes = shared_region.bytes();
  EXPECT_TRUE(
      std::ranges::equal(bytes.first(slot * thread_count), bytes.last(slot * thread_count)));
}

TEST(threads, create_and_destroy_objects_of_one_context) {
  const auto shared = open_device("soft0").value();
  on_threads([&](std::size_t i) {
    for (int round = 0; round < 10; ++round) {
      const context own = shared;
      auto pd = own.allocate_pd().value();
      auto channel = own.create_completion_channel().value();
      auto cq = own.create_cq(16, {.channel = channel}).value();
      auto qp = connected_to_itself(pd, cq);
      auto region = pd.allocate(slot, access::local_write).value();
      fill(region.bytes(), static_cast<std::uint32_t>(i));
      ASSERT_TRUE(qp.post_receive({.id = 1}, region.slice()));
      auto batch = qp.start_send();
      batch.send({.id = 2}, inline_data(std::span<const std::byte>()));
      ASSERT_TRUE(batch.submit());
      EXPECT_TRUE(take(cq, 1).front().ok());
    }
  });
}

// Each thread sends to its own queue pair. A message consumes the first receive of the SRQ, and the
// thread that polls its completion posts it again: memory is passed from thread to thread.
// parity: ibverbs-259
TEST(threads, post_to_one_srq_and_poll_its_queue_pairs) {
  const auto shared_context = open_device("soft0").value();
  const auto shared_pd = shared_context.allocate_pd().value();
  const auto sink = shared_pd.allocate(slot * thread_count, access::local_write).value();
  const auto source = shared_pd.allocate(slot * thread_count, {}).value();
  const auto shared_receives = shared_pd.create_srq({.max_wr = thread_count}).value();
  std::atomic<std::uint64_t> received{0};
  on_threads([&](std::size_t i) {
    const shared_receive_queue own_receives = shared_receives;
    const protection_domain own_pd = shared_pd;
    const auto own_cq = shared_context.create_cq(16).value();
    auto prepared = own_pd.create_qp<rc>(own_cq, own_cq, own_receives).value();
    const auto self = prepared.endpoint();
    auto qp = std::move(prepared).handshake(self).value();
    const auto sent = source.bytes().subspan(i * slot, slot);
    ASSERT_TRUE(own_receives.post_receive({.id = i}, sink.slice(i * slot, slot)));
    for (std::uint64_t n = 0; n < messages; ++n) {
      fill(sent, static_cast<std::uint32_t>(i * messages + n));
      auto batch = qp.start_send();
      batch.send({.id = thread_count, .signaled = true}, source.slice(i * slot, slot));
      ASSERT_TRUE(batch.submit());
      for (const auto& done : take(own_cq, 2)) {
        ASSERT_TRUE(done.ok()) << to_string(done);
        if (!done.is_receive()) continue;
        EXPECT_EQ(done.queue_pair(), qp.number());
        EXPECT_TRUE(std::ranges::equal(sink.bytes().subspan(done.id() * slot, slot), sent));
        received.fetch_add(1);
        auto again = own_receives.start_receive();
        again.receive({.id = done.id()}, sink.slice(done.id() * slot, slot));
        ASSERT_TRUE(again.submit());
      }
    }
  });
  EXPECT_EQ(received.load(), thread_count * messages);
}

// parity: ibverbs-129
TEST(threads, send_datagrams_by_copies_of_one_address_handle) {
  constexpr std::uint32_t datagrams = 25;  // of each thread
  constexpr std::uint32_t all = datagrams * thread_count;
  constexpr std::size_t room = global_route_header::encoded_size + slot;
  const queue_key key(0x77);
  const auto context = open_device("soft0").value();
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(all).value();
  auto prepared = pd.create_qp<ud>(cq, cq, {.queues = {.max_recv_wr = all}}).value();
  const auto way = pd.create_ah(prepared.address_of(prepared.endpoint()).value()).value();
  auto target = std::move(prepared).activate(key).value();
  const auto sink = pd.allocate(all * room, access::local_write).value();
  for (std::uint32_t id = 0; id < all; ++id)
    ASSERT_TRUE(target.post_receive({.id = id}, sink.slice(id * room, room)));
  const auto source = pd.allocate(slot * thread_count, {}).value();
  on_threads([&](std::size_t i) {
    const address_handle own_way = way;
    const auto own_cq = context.create_cq(16).value();
    auto qp = std::move(pd.create_qp<ud>(own_cq, own_cq).value()).activate(key).value();
    fill(source.bytes().subspan(i * slot, slot), static_cast<std::uint32_t>(i));
    for (std::uint32_t n = 0; n < datagrams; ++n) {
      auto batch = qp.start_send();
      batch.send_with_immediate({.signaled = true}, static_cast<std::uint32_t>(i * datagrams + n),
                                source.slice(i * slot, slot),
                                own_way.destination(target.number(), key));
      ASSERT_TRUE(batch.submit());
      EXPECT_TRUE(take(own_cq, 1).front().ok());
    }
  });
  std::array<int, all> times{};
  for (const auto& done : take(cq, all)) {
    ASSERT_TRUE(done.ok()) << to_string(done);
    const std::uint32_t number = done.immediate().value();
    ++times.at(number);
    EXPECT_TRUE(std::ranges::equal(
        sink.bytes().subspan(done.id() * room + global_route_header::encoded_size, slot),
        pattern(slot, number / datagrams)));
  }
  EXPECT_EQ(std::ranges::count(times, 1), all);
}
// NOLINTEND(performance-unnecessary-copy-initialization)

/// The objects that several threads may use at the same time without copies.
struct shared_objects {
  device entry = [] {
    for (const auto& each : list_devices().value())
      if (each.name() == "soft0") return each;
    throw std::runtime_error("soft0 is not listed");
  }();
  context opened = entry.open().value();
  protection_domain pd = opened.allocate_pd().value();
  memory_region region = pd.allocate(4096, access::local_write | access::remote_read).value();
  remote_region remote = region.remote();
  std::vector<gid_entry> gids = opened.gid_table().value();
  address_vector peer{.gid = gids.front().gid, .source_gid_index = gids.front().index};
  address_handle way = pd.create_ah(peer).value();
  completion_queue cq = opened.create_cq(16).value();
  endpoint end = pd.create_qp<rc>(cq, cq).value().endpoint();

  [[nodiscard]] std::string describe_device() const {
    return entry.name() + to_string(entry.guid()) + std::to_string(entry.index().value_or(0)) +
           to_string(entry.transport()) + std::to_string(entry.numa_node().value_or(0)) +
           to_string(entry) + entry.open().value().name() +
           std::to_string(list_devices().value().size());
  }
  [[nodiscard]] std::string describe_context() const {
    const port_number port(1);
    EXPECT_TRUE(opened.query_extended().has_value());
    EXPECT_TRUE(opened.query_pkey(port, 0).has_value());
    EXPECT_TRUE(opened.read_clock().has_value());
    EXPECT_GE(opened.async_fd(), 0);
    EXPECT_FALSE(opened.poll_event().value().has_value());
    EXPECT_TRUE(opened.create_cq(1).has_value());
    EXPECT_TRUE(opened.create_extended_cq(1).has_value());
    EXPECT_TRUE(opened.create_completion_channel().has_value());
    return opened.name() + std::to_string(opened.completion_vectors()) +
           to_string(opened.query().value().node_guid()) +
           to_string(opened.query_port(port).value()) +
           to_string(opened.query_gid(port, gids.front().index).value()) +
           to_string(opened.routable_gid(port).value()) +
           to_string(opened.gid_table().value().back());
  }
  [[nodiscard]] std::string describe_domain() const {
    EXPECT_TRUE(pd.allocate(8, {}).has_value());
    EXPECT_TRUE(pd.create_srq({}).has_value());
    EXPECT_TRUE(pd.create_ah(peer).has_value());
    const auto own_cq = opened.create_cq(1).value();
    EXPECT_TRUE(pd.create_qp<ud>(own_cq, own_cq).has_value());
    return pd.name() + pd.context().name();
  }
  // Copies of the handle of the domain.
  [[nodiscard]] std::string describe_region() const { return region.domain().name(); }
  [[nodiscard]] std::string describe_memory() const {
    const auto all = {region.slice(), region.slice(8, 8), region.slice(region.bytes().first(9)),
                      region.element<std::uint64_t>(3), region.try_slice(16, 4).value()};
    std::string text = region.name() + to_string(region.access()) + to_string(region.remote()) +
                       to_string(remote.slice(8, 16)) + to_string(remote.try_slice(0, 4).value()) +
                       region.try_slice(4096, 1).error().message();
    for (const local_slice& each : all)
      text += std::to_string(each.address()) + "+" + std::to_string(each.length()) + " ";
    for (const std::byte each : remote.encode()) text += std::to_string(std::to_integer<int>(each));
    return text + std::to_string(std::hash<remote_region>{}(remote));
  }
  [[nodiscard]] std::string describe_values() const {
    return to_string(choose_routable(gids).value()) + to_string(gids.front().gid) +
           to_string(peer) + to_string(end) + way.name() +
           std::to_string(way.destination(end.queue_pair, queue_key(1)).number().value()) +
           std::to_string(std::hash<address_vector>{}(peer)) +
           std::to_string(std::hash<endpoint>{}(end)) +
           std::to_string(std::hash<gid>{}(gids.front().gid));
  }
};

// Each group by itself, from a common start: calls of one group that take locks would order those
// of the others.
TEST(threads, call_const_functions_of_shared_objects) {
  const shared_objects shared;
  for (const auto describe : {&shared_objects::describe_device, &shared_objects::describe_context,
                              &shared_objects::describe_domain, &shared_objects::describe_region,
                              &shared_objects::describe_memory, &shared_objects::describe_values}) {
    const std::string expected = (shared.*describe)();
    std::latch start(thread_count);
    on_threads([&](std::size_t /*i*/) {
      start.arrive_and_wait();
      for (int round = 0; round < 10; ++round) EXPECT_EQ((shared.*describe)(), expected);
    });
  }
}

/// `make` creates an object on one thread, `use` uses it on another, and a third destroys it.
template <class Make, class Use>
void from_thread_to_thread(Make make, Use use) {
  auto made = std::async(std::launch::async, make).get();
  auto used = std::async(std::launch::async, [&] {
                use(made);
                return std::move(made);
              }).get();
  std::thread([last = std::move(used)] {}).join();
}

// parity: ibverbs-301
TEST(threads, move_contexts_domains_and_regions_between_threads) {
  from_thread_to_thread([] { return list_devices().value(); },
                        [](std::vector<device>& devices) { EXPECT_FALSE(devices.empty()); });
  from_thread_to_thread([] { return open_device("soft0").value(); },
                        [](context& device) { EXPECT_TRUE(device.query().has_value()); });
  const auto device = open_device("soft0").value();
  from_thread_to_thread(
      [&] { return device.allocate_pd().value(); },
      [](protection_domain& pd) { EXPECT_TRUE(pd.allocate(8, access::local_write).has_value()); });
  const auto pd = device.allocate_pd().value();
  from_thread_to_thread([&] { return pd.allocate(4096, access::local_write).value(); },
                        [](memory_region& region) { fill(region.bytes(), 7); });
}

// parity: rrddmma-103, ibverbs-301
TEST(threads, move_queues_between_threads) {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  from_thread_to_thread([&] { return device.create_completion_channel().value(); },
                        [](completion_channel& channel) { EXPECT_GE(channel.fd(), 0); });
  from_thread_to_thread([&] { return device.create_cq(16).value(); },
                        [](completion_queue& queue) { EXPECT_TRUE(take(queue, 0).empty()); });
  from_thread_to_thread(
      [&] { return device.create_extended_cq(16).value(); },
      [](extended_completion_queue& queue) { EXPECT_TRUE(queue.poll().empty()); });
  from_thread_to_thread([&] { return pd.create_qp<rc>(cq, cq).value(); },
                        [](prepared_queue_pair<rc>& prepared) {
                          EXPECT_TRUE(prepared.modify(prepared.init_attributes()).has_value());
                        });
  const auto region = pd.allocate(slot, access::local_write).value();
  from_thread_to_thread([&] { return pd.create_srq({}).value(); },
                        [&](shared_receive_queue& queue) {
                          EXPECT_TRUE(queue.post_receive({.id = 1}, region.slice()));
                        });
  from_thread_to_thread(
      [&] {
        const auto datagrams = pd.create_qp<ud>(cq, cq).value();
        return pd.create_ah(datagrams.address_of(datagrams.endpoint()).value()).value();
      },
      [](address_handle& way) { EXPECT_NE(way.native(), nullptr); });
  from_thread_to_thread([&] { return connected_to_itself(pd, cq); },
                        [&](queue_pair<rc>& qp) {
                          ASSERT_TRUE(qp.post_receive({.id = 1}, region.slice(1, 8)));
                          auto batch = qp.start_send();
                          batch.send({.id = 2, .signaled = true}, region.slice(0, 1));
                          ASSERT_TRUE(batch.submit());
                          EXPECT_EQ(take(cq, 2).size(), 2U);
                        });
}

}  // namespace
}  // namespace verbena::test
