// SPDX-License-Identifier: MIT
// Unreliable connections, datagrams, shared receive queues, asynchronous events.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <utility>

#include "examples/guide/snippets.hpp"
#include "examples/guide/wait_for.hpp"

namespace guide {
namespace {

using namespace std::chrono_literals;

/// The objects that every snippet uses.
struct usual {
  verbena::context context = verbena::open_device().value();
  verbena::protection_domain pd = context.allocate_pd().value();
  verbena::completion_queue cq = context.create_cq(64).value();
  verbena::memory_region memory = pd.allocate(65536, verbena::access::local_write).value();
};

}  // namespace

void unreliable_connection() {
  const usual with;
  const auto& pd = with.pd;
  const auto& cq = with.cq;
  const auto& memory = with.memory;
  // [uc]
  auto prepared = pd.create_qp<verbena::uc>(cq, cq, {.queues = {.max_send_wr = 16}}).value();
  const verbena::endpoint peer = prepared.endpoint();  // here the queue pair is its own peer
  auto qp = std::move(prepared).handshake(peer).value();

  qp.post_receive({.id = 1}, memory.slice(4096, 64)).value();
  qp.post_send({.id = 2, .signaled = true}, memory.slice(0, 64)).value();
  // [/uc]
  wait_for(cq, 2);
}

void datagrams() {
  const usual with;
  const auto& context = with.context;
  const auto& pd = with.pd;
  const auto& cq = with.cq;
  const auto& memory = with.memory;
  std::ranges::fill(memory.bytes().subspan(4096, 64), std::byte{42});

  // [activate]
  constexpr verbena::queue_key key(0x1234);
  auto prepared = pd.create_qp<verbena::ud>(cq, cq).value();
  const verbena::endpoint about_me = prepared.endpoint();  // for peers
  auto server = std::move(prepared).activate(key).value();
  server.post_receive({.id = 1}, memory.slice(0, 40 + 64)).value();
  // [/activate]

  auto client = pd.create_qp<verbena::ud>(cq, cq).value().activate(key).value();
  client.post_receive({.id = 3}, memory.slice(8192, 40 + 64)).value();
  const verbena::endpoint& theirs = about_me;
  // [send]
  verbena::address_vector to{.lid = theirs.lid, .gid = theirs.gid};
  if (to.gid) to.source_gid_index = context.routable_gid(to.port).value().index;
  const auto way = pd.create_ah(to).value();
  client.post_send({.id = 2}, memory.slice(4096, 64), way.destination(theirs.queue_pair, key))
      .value();
  // [/send]

  std::array<verbena::completion, 1> room;
  static_cast<void>(cq.wait(room, verbena::deadline::after(10s)).value());
  const verbena::completion& received = room[0];
  received.result().value();
  require(received.id() == 1 && received.byte_length() == 40 + 64);
  require(memory.bytes()[40] == std::byte{42});
  // [reply]
  const auto datagram = verbena::received_datagram::of(received, memory.bytes()).value();
  const auto header = datagram.header().value();  // nullopt without a GRH
  const auto sender = pd.sender_address(received, verbena::port_number(1), header).value();
  const auto back = pd.create_ah(sender).value();
  server.post_send({}, memory.slice(40, 64), back.destination(received.source_queue_pair(), key))
      .value();
  // [/reply]
  wait_for(cq, 1);
  require(memory.bytes()[8192 + 40] == std::byte{42});
  require(datagram.payload().size() == 64 && datagram.payload()[0] == std::byte{42});
}

void shared_receive_queue() {
  const usual with;
  const auto& context = with.context;
  const auto& pd = with.pd;
  const auto& cq = with.cq;
  const auto& memory = with.memory;
  // [create]
  const auto srq = pd.create_srq({.max_wr = 64}).value();
  auto receives = srq.start_receive();
  for (std::uint64_t i = 0; i < 8; ++i) receives.receive({.id = i}, memory.slice(i * 512, 512));
  receives.submit().value();

  auto prepared = pd.create_qp<verbena::rc>(cq, cq, srq).value();
  // [/create]
  const auto self = prepared.endpoint();
  auto qp = std::move(prepared).handshake(self).value();

  // [limit]
  srq.arm_limit(6).value();
  // [/limit]
  auto batch = qp.start_send();
  for (int i = 0; i < 3; ++i) batch.send({.signaled = true}, memory.slice(8192, 100));
  batch.submit().value();
  wait_for(cq, 6);

  // [event]
  while (const auto event = context.wait_event(verbena::deadline::after(10s)).value()) {
    std::cout << to_string(*event) << '\n';
    if (event->kind() == verbena::async_event_kind::srq_limit_reached && event->concerns(srq))
      break;  // post more, and arm again
  }
  // [/event]
  require(srq.query().value().limit == 0);
}

void asynchronous_events() {
  const auto context = verbena::open_device().value();
  // [events]
  // When context.async_fd() is readable:
  while (const auto event = context.poll_event().value()) {
    std::cout << to_string(*event) << '\n';
    if (event->kind() == verbena::async_event_kind::port_error && event->port())
      std::cout << "stop sending through port " << int{event->port()->value()} << '\n';
  }
  // [/events]
  require(context.async_fd() >= 0);
}

}  // namespace guide
