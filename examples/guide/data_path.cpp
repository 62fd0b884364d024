// SPDX-License-Identifier: MIT
// Connecting queue pairs, posting, completions and threads.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "examples/guide/snippets.hpp"
#include "examples/guide/wait_for.hpp"

namespace guide {
namespace {

using namespace std::chrono_literals;

constexpr auto all_access = verbena::access::local_write | verbena::access::remote_write |
                            verbena::access::remote_read | verbena::access::remote_atomic;

/// Two connected queue pairs, and memory with all access flags.
struct both_ends {
  both_ends() {
    auto first = pd.create_qp<verbena::rc>(cq, cq, {.access = all_access}).value();
    auto second = pd.create_qp<verbena::rc>(cq, cq, {.access = all_access}).value();
    const auto to_first = first.endpoint();
    const auto to_second = second.endpoint();
    queues.push_back(std::move(first).handshake(to_second).value());
    queues.push_back(std::move(second).handshake(to_first).value());
  }
  verbena::context context = verbena::open_device().value();
  verbena::protection_domain pd = context.allocate_pd().value();
  verbena::completion_queue cq = context.create_cq(64).value();
  verbena::memory_region memory = pd.allocate(65536, all_access).value();
  std::vector<verbena::queue_pair<verbena::rc>> queues;
};

}  // namespace

void reliable_connection() {
  both_ends ends;
  const auto& cq = ends.cq;
  const auto& memory = ends.memory;
  auto& here = ends.queues[0];
  auto& there = ends.queues[1];

  // [send]
  there.post_receive({.id = 1}, memory.slice(4096, 64)).value();
  here.post_send({.id = 2, .signaled = true}, memory.slice(0, 64)).value();
  wait_for(cq, 2);  // the receive and the send
  // [/send]

  const auto& their_memory = memory;
  // [one_sided]
  const verbena::remote_region theirs = their_memory.remote();  // received from the peer
  auto many = here.start_send();
  many.write({.id = 3}, memory.slice(0, 1000), theirs.slice(8192, 1000));
  many.read({.id = 4}, memory.slice(16384, 1000), theirs.slice(8192, 1000));
  many.fetch_and_add({.id = 5, .signaled = true}, memory.slice(32768, 8), theirs.slice(32776, 8),
                     1);
  many.submit().value();  // posts all with one call
  wait_for(cq, 1);        // requests of one queue complete in order
  // [/one_sided]
  std::uint64_t counter = 0;
  std::ranges::copy(memory.bytes().subspan(32776, 8),
                    std::as_writable_bytes(std::span(&counter, 1)).begin());
  require(counter == 1);
}

void options() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(512).value();
  // [options]
  auto prepared =
      pd.create_qp<verbena::rc>(
            cq, cq,
            {.queues = {.max_send_wr = 256, .max_send_sge = 4, .max_inline_data = 64},
             .access = verbena::access::remote_read,
             .route = {.path_mtu = verbena::mtu::bytes_1024, .service_level = 3},
             .reliability = {.timeout = verbena::ack_timeout::at_least(100ms), .retry_count = 4}})
          .value();
  // [/options]
  const auto peer = prepared.endpoint();
  require(std::move(prepared).handshake(peer).has_value());
}

void reliable_connection_over_tcp() {
  const auto until = verbena::deadline::after(30s);
  auto listener = verbena::bringup::listener::open({.host = "127.0.0.1", .port = 0}).value();
  auto server = std::async(std::launch::async, [&] {
    // [server]
    const auto context = verbena::open_device().value();
    const auto pd = context.allocate_pd().value();
    const auto cq = context.create_cq(16).value();
    const auto inbox = pd.allocate(4096, verbena::access::local_write).value();

    auto peer = listener.accept(until).value();
    auto qp = verbena::bringup::connect_queue_pair(
                  pd.create_qp<verbena::rc>(cq, cq).value(), peer, until,
                  [&](auto& connected) -> verbena::result<void> {
                    connected.post_receive({.id = 1}, inbox.slice()).value();
                    return {};
                  })
                  .value();
    wait_for(cq, 1);
    // [/server]
    return std::to_integer<int>(inbox.bytes()[0]);
  });
  // [client]
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(16).value();
  const auto outbox = pd.allocate(4096, verbena::access::local_write).value();
  outbox.bytes()[0] = std::byte{42};

  auto peer = verbena::bringup::stream::connect(listener.local_address(), until).value();
  auto qp =
      verbena::bringup::connect_queue_pair(pd.create_qp<verbena::rc>(cq, cq).value(), peer, until)
          .value();
  qp.post_send({.signaled = true}, outbox.slice(0, 100)).value();
  wait_for(cq, 1);
  // [/client]
  require(server.get() == 42);
}

void negotiated_connection() {
  const auto until = verbena::deadline::after(30s);
  auto listener = verbena::bringup::listener::open({.host = "127.0.0.1", .port = 0}).value();
  auto server = std::async(std::launch::async, [&] {
    const auto context = verbena::open_device().value();
    const auto pd = context.allocate_pd().value();
    const auto cq = context.create_cq(16).value();
    auto peer = listener.accept(until).value();
    return verbena::bringup::connect_queue_pair(pd.create_qp<verbena::rc>(cq, cq).value(), peer,
                                                until,
                                                {.probing = verbena::bringup::probing::always})
        .has_value();
  });
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(16).value();
  auto peer = verbena::bringup::stream::connect(listener.local_address(), until).value();
  const auto post_nothing = [](auto&) -> verbena::result<void> { return {}; };
  // [negotiate]
  auto made = verbena::bringup::negotiate_queue_pair(
                  pd.create_qp<verbena::rc>(cq, cq).value(), peer, until, post_nothing,
                  {.probing = verbena::bringup::probing::always, .port_timeout = 10s})
                  .value();
  if (made.terms)
    std::cout << to_string(made.terms->agreed, made.terms->ours, made.terms->theirs) << "\n";
  // [/negotiate]
  require(server.get() && made.terms.has_value());
}

void completions_by_polling() {
  both_ends ends;
  const auto write = [&](auto& batch, std::uint64_t id, bool signaled) {
    batch.write({.id = id, .signaled = signaled}, ends.memory.slice(0, 64),
                ends.memory.remote().slice(4096, 64));
  };
  auto batch = ends.queues[0].start_send();
  for (std::uint64_t id = 1; id <= 8; ++id) write(batch, id, id == 8);
  batch.submit().value();
  wait_for(ends.cq, 1);

  // [failure]
  const verbena::remote_region nowhere({.address = 8, .length = 8, .key = verbena::remote_key(1)});
  ends.queues[0].post_write({.id = 9, .signaled = true}, ends.memory.slice(0, 8), nowhere).value();
  std::array<verbena::completion, 4> room;
  for (bool ended = false; !ended;)
    for (const auto& done : ends.cq.poll(room).value()) {
      if (!done.ok()) std::cout << done.result().error().message() << '\n';
      ended = ended || done.id() == 9;
    }
  // [/failure]
}

void completions_by_events() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  // [channel]
  const auto channel = context.create_completion_channel().value();
  const auto cq = context.create_cq(16, {.channel = channel}).value();
  // [/channel]
  auto prepared = pd.create_qp<verbena::rc>(cq, cq, {.access = all_access}).value();
  const auto self = prepared.endpoint();
  auto qp = std::move(prepared).handshake(self).value();
  const auto memory = pd.allocate(4096, all_access).value();
  qp.post_write({.signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8)).value();

  // [cq_wait]
  std::array<verbena::completion, 16> completions;
  const auto until = verbena::deadline::after(10s);
  for (const auto& done : cq.wait(completions, until).value()) done.result().value();
  // [/cq_wait]
  qp.post_write({.signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8)).value();

  // [wait]
  std::array<verbena::completion, 16> room;
  const auto drain = [&] {
    std::size_t count = 0;
    for (auto found = cq.poll(room).value(); !found.empty(); found = cq.poll(room).value())
      for (const auto& done : found) {
        done.result().value();
        ++count;
      }
    return count;
  };
  const auto limit = verbena::deadline::after(10s);
  for (std::size_t finished = 0; finished == 0;) {
    cq.request_notification(verbena::notify::any_completion).value();     // arm,
    finished = drain();                                                   // then drain,
    if (finished == 0) require(channel.wait(limit).value().has_value());  // then wait
  }
  // [/wait]
}

void threads() {
  const auto context = verbena::open_device().value();
  // [copies]
  const auto pd = context.allocate_pd().value();
  const auto work = [](const verbena::protection_domain& mine) {  // std::async copies it
    const auto cq = mine.context().create_cq(16).value();
    auto prepared = mine.create_qp<verbena::rc>(cq, cq, {.access = all_access}).value();
    const auto self = prepared.endpoint();
    auto qp = std::move(prepared).handshake(self).value();
    const auto memory = mine.allocate(4096, all_access).value();
    qp.post_write({.signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8)).value();
    wait_for(cq, 1);
  };
  std::vector<std::future<void>> workers;
  workers.reserve(4);
  for (int i = 0; i < 4; ++i)
    workers.push_back(std::async(std::launch::async, work, verbena::protection_domain(pd)));
  for (auto& worker : workers) worker.get();
  // [/copies]
}

}  // namespace guide
