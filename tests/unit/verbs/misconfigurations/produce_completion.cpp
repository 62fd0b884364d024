// SPDX-License-Identifier: MIT
// Misconfigurations: failed requests, as described by the queue pair.
#include <chrono>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "verbena/check/checker.hpp"

namespace verbena::misconfigurations {
namespace {

using opcode = completion_opcode;
using test::loopback;
using test::side;

queue_pair_options<rc> short_timeout_options() {
  auto options = loopback::default_options();
  options.reliability.timeout = ack_timeout::at_least(std::chrono::microseconds(100));
  options.reliability.retry_count = 1;
  options.reliability.rnr_retry_count = 1;
  options.reliability.min_rnr_timer = rnr_timer::at_least(std::chrono::microseconds(10));
  return options;
}

queue_pair_options<rc> without(access_flags removed) {
  auto options = short_timeout_options();
  options.access = options.access.without(removed);
  return options;
}

error described(const side& of, const completion_queue& from, const request_details& known) {
  const completion failed = test::take(from, 1).at(0);
  if (!failed.ok()) return of.queue.describe(failed, known);
  ADD_FAILURE() << to_string(failed);
  return error(error_kind::os, 0, "nothing failed");
}
error failed_send(const side& of, const request_details& known) {
  return described(of, of.sends, known);
}
error failed_receive(const side& of) {
  return described(of, of.receives, {.operation = opcode::receive});
}

// Posts the requests that `add` adds to A; returns the description of the failure by A.
template <class Add>
error failing(loopback& pair, const request_details& known, Add&& add) {
  auto batch = pair.a().queue.start_send();
  add(batch);
  batch.submit().value();
  return failed_send(pair.a(), known);
}
error failing_send(loopback& pair, const local_slice& data) {
  return failing(pair, {.operation = opcode::send},
                 [&](auto& batch) { batch.send({.id = 1, .signaled = true}, data); });
}
error failing_write(loopback& pair, const local_slice& data, const remote_region& to) {
  return failing(pair, {.operation = opcode::write, .remote = to},
                 [&](auto& batch) { batch.write({.id = 1, .signaled = true}, data, to); });
}
error failing_read(loopback& pair, const local_slice& into, const remote_region& from) {
  return failing(pair, {.operation = opcode::read, .remote = from},
                 [&](auto& batch) { batch.read({.id = 1, .signaled = true}, into, from); });
}
error failing_addition(loopback& pair, const local_slice& into, const remote_region& to) {
  return failing(pair, {.operation = opcode::fetch_and_add, .remote = to}, [&](auto& batch) {
    batch.fetch_and_add({.id = 1, .signaled = true}, into, to, 1);
  });
}

remote_region with_key(const remote_region& of, std::uint32_t key) {
  return remote_region({.address = of.address(), .length = of.length(), .key = remote_key(key)});
}

// Flushes the posted requests before their memory is freed.
void forget(test::side& of) {
  of.queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
}

// Sends a message to a receive whose region has the access flags `rights`.
struct message_into {
  explicit message_into(access_flags access)
      : pair(short_timeout_options()),
        room(pair.pd().allocate(64, access).value()),
        data(pair.memory(64)) {
    pair.b().queue.post_receive({.id = 5}, room.slice()).value();
  }
  error at_sender() {
    error failed = failing_send(pair, data.slice(0, 16));
    forget(pair.b());
    return failed;
  }
  error at_receiver() {
    EXPECT_NE(failing_send(pair, data.slice(0, 16)).code(), 0);
    return failed_receive(pair.b());
  }

  loopback pair;
  memory_region room;
  memory_region data;
};

// Sends a message that is longer than the receive.
struct long_message {
  long_message() : pair(short_timeout_options()), memory(pair.memory(64)) {
    pair.b().queue.post_receive({.id = 5}, memory.slice(0, 10)).value();
  }
  error at_sender() {
    error failed = failing_send(pair, memory.slice(16, 11));
    forget(pair.b());
    return failed;
  }
  error at_receiver() {
    EXPECT_NE(failing_send(pair, memory.slice(16, 11)).code(), 0);
    return failed_receive(pair.b());
  }

  loopback pair;
  memory_region memory;
};

// Sends a message to a queue pair that `change` changed or left in an earlier state.
template <class Change>
error message_to_changed_peer(Change&& change) {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  auto ours = pd.create_qp<rc>(cq, cq, short_timeout_options()).value();
  auto theirs = pd.create_qp<rc>(cq, cq, short_timeout_options()).value();
  auto to_them = theirs.endpoint();
  change(theirs, ours.endpoint(), to_them);
  auto queue = std::move(ours).handshake(to_them).value();
  const auto memory = pd.allocate(64, access::local_write).value();
  auto batch = queue.start_send();
  batch.send({.id = 1, .signaled = true}, memory.slice());
  batch.submit().value();
  const completion failed = test::take(cq, 1).at(0);
  return queue.describe(failed, {.operation = opcode::send});
}

}  // namespace

error no_receive_posted() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  return failing_send(pair, memory.slice());
}
error receive_too_short() { return long_message().at_sender(); }
error message_longer_than_receive() { return long_message().at_receiver(); }
error receive_into_constant_memory() { return message_into(access_flags()).at_receiver(); }
error peer_receives_into_constant_memory() { return message_into(access_flags()).at_sender(); }
error remote_key_wrong() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  return failing_write(pair, memory.slice(), with_key(memory.remote(), 0x1234567));
}
error remote_range() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  const auto all = memory.remote();
  return failing_write(
      pair, memory.slice(),
      remote_region({.address = all.address() + 60, .length = 64, .key = all.key()}));
}
error remote_access_to_write() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  const auto closed = pair.pd().allocate(64, access::local_write).value();
  return failing_write(pair, memory.slice(), closed.remote());
}
error remote_access_to_read() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  const auto closed = pair.pd().allocate(64, access::local_write).value();
  return failing_read(pair, memory.slice(), closed.remote());
}
error remote_access_to_atomics() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  const auto closed = pair.pd().allocate(64, access::local_write).value();
  return failing_addition(pair, memory.slice(0, 8), closed.remote());
}
error remote_domain() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  const auto other = pair.context().allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write | access::remote_write).value();
  return failing_write(pair, memory.slice(), foreign.remote());
}
error queue_pair_access_to_write() {
  loopback pair(without(access::remote_write));
  const auto memory = pair.memory(64);
  return failing_write(pair, memory.slice(), memory.remote());
}
error queue_pair_access_to_read() {
  loopback pair(without(access::remote_read));
  const auto memory = pair.memory(64);
  return failing_read(pair, memory.slice(), memory.remote());
}
error atomic_misaligned() {
  // The library refuses such a request, so the C API posts it.
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  ibv_sge into{.addr = memory.slice().address(), .length = 8, .lkey = memory.local_key().value()};
  ibv_send_wr request{};
  request.wr_id = 1;
  request.sg_list = &into;
  request.num_sge = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = memory.remote().address() + 4;
  request.wr.atomic.rkey = memory.remote_key().value();
  ibv_send_wr* refused = nullptr;
  check::posted_elsewhere(pair.a().queue.native());
  EXPECT_EQ(ibv_post_send(pair.a().queue.native(), &request, &refused), 0);
  return failed_send(pair.a(), {.operation = opcode::fetch_and_add});
}
error local_key_stale() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  return failing_send(pair, local_slice(memory.slice().address(), 64, local_key(0x7654321)));
}
error local_range() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  return failing_send(pair, local_slice(memory.slice().address() + 60, 64, memory.local_key()));
}
error read_into_constant_memory() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  const auto constant = pair.pd().allocate(64, access::remote_read).value();
  return failing_read(pair, constant.slice(), memory.remote());
}
error reads_not_negotiated() {
  auto options = short_timeout_options();
  options.reliability.read_depth = 0;
  loopback pair(options);
  const auto memory = pair.memory(64);
  return failing_read(pair, memory.slice(), memory.remote());
}
error peer_destroyed() {
  return message_to_changed_peer(
      [](auto& theirs, const endpoint&, endpoint&) { EXPECT_TRUE(std::move(theirs).close()); });
}
error peer_not_ready() {
  return message_to_changed_peer([](auto& theirs, const endpoint&, endpoint&) {
    theirs.modify(theirs.init_attributes()).value();
  });
}
error peer_with_another_partner() {
  return message_to_changed_peer([](auto& theirs, endpoint other, endpoint&) {
    other.queue_pair = theirs.endpoint().queue_pair;
    theirs.modify(theirs.init_attributes()).value();
    theirs.modify(theirs.rtr_attributes(other).value()).value();
  });
}
error sequence_numbers_differ() {
  return message_to_changed_peer([](auto& theirs, endpoint ours, endpoint&) {
    ours.first_psn = packet_sequence_number(ours.first_psn.value() ^ 0x10U);
    theirs.modify(theirs.init_attributes()).value();
    theirs.modify(theirs.rtr_attributes(ours).value()).value();
  });
}
error flushed_behind_a_failure() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  auto batch = pair.a().queue.start_send();
  batch.write({.id = 1, .signaled = true}, memory.slice(), with_key(memory.remote(), 0x1234568));
  batch.write({.id = 2, .signaled = true}, memory.slice(), memory.remote());
  batch.submit().value();
  const auto done = test::take(pair.a().sends, 2);
  EXPECT_FALSE(done.at(0).ok());
  return pair.a().queue.describe(done.at(1), {.operation = opcode::write});
}
error flushed_by_the_program() {
  loopback pair(short_timeout_options());
  const auto memory = pair.memory(64);
  pair.b().queue.post_receive({.id = 5}, memory.slice()).value();
  pair.b().queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  return failed_receive(pair.b());
}

}  // namespace verbena::misconfigurations
