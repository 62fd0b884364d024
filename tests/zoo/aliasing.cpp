// SPDX-License-Identifier: MIT
// Memory that two want at once: two requests, a request and the program, the program and a peer.
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace aliasing_entries {
namespace {

const std::string first_text(64, 'a');
const std::string second_text(64, 'b');

/// Two messages of 64 bytes from a to b, which has receives for them.
void send_two(pair& with) {
  put(with.at(8192, 64), first_text);
  put(with.at(8256, 64), second_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(8192, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(8256, 64)).value();
  take_good(with.b->receives, 2);
}

void ring(std::size_t stride) {
  pair with;
  for (std::size_t slot = 0; slot < 2; ++slot)
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * stride, 64)).value();
  send_two(with);
  const auto first = text_at(with.at(0, 64), 64);
  if (first != first_text) harmed("the first message ends in bytes of the second: " + first);
}
void ring_of_slots_that_overlap() { ring(32); }
void ring_of_slots() { ring(64); }

// b answers out of the memory that it receives into; a is slow and has no receive yet.
void answer(std::size_t next_receive) {
  pair with;
  put(with.at(0, 64), first_text);
  send(with.b->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(next_receive, 64)).value();
  put(with.at(8192, 64), second_text);
  send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(8192, 64)).value();
  take_good(with.b->receives, 1);
  with.a->queue.post_receive({.id = 4}, with.memory.slice(4096, 64)).value();
  take_good(with.a->receives, 1);
  const auto answer = text_at(with.at(4096, 64), 64);
  if (answer != first_text) harmed("the answer has the bytes of the next question: " + answer);
}
void receive_into_an_answer_on_its_way() { answer(0); }
void receive_beside_an_answer_on_its_way() { answer(64); }

// A relay passes on what it has not received yet.
void relay(bool waits) {
  pair with;
  put(with.at(0, 64), second_text);  // the message before
  put(with.at(8192, 64), first_text);
  with.a->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  if (waits) {
    send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(8192, 64)).value();
    take_good(with.b->receives, 1);
  }
  send(with.b->queue, {.id = 4, .signaled = true}, with.memory.slice(0, 64)).value();
  if (!waits) send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(8192, 64)).value();
  take_good(with.a->receives, 1);
  const auto passed_on = text_at(with.at(4096, 64), 64);
  if (passed_on != first_text) harmed("the message before was passed on again: " + passed_on);
}
void relay_that_does_not_wait() { relay(false); }
void relay_that_waits() { relay(true); }

// The peer has no receive yet, so the message is still to be read when the program goes on.
void write_what_is_being_sent() {
  pair with;
  put(with.at(0, 64), first_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
  put(with.at(0, 64), second_text);  // "it is posted, so it is sent"
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  take_good(with.b->receives, 1);
  const auto arrived = text_at(with.at(4096, 64), 64);
  if (arrived != first_text) harmed("what arrived is what was written later: " + arrived);
}
void buffer_is_gone_while_it_is_sent() {
  channels with;
  const auto pool = with.pool();
  auto mine = pool.take(64).value();
  auto room = pool.take(64).value();
  put(mine.bytes(), first_text);
  auto sent = with.a->post_send(std::move(mine), {.length = 64});
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): that there is nothing is the point
  require(mine.empty() && mine.bytes().empty(), "a buffer that was posted has no bytes");
  auto received = with.b->post_receive(std::move(room));
  require(received.wait(patiently()) != nullptr && received.poll()->has_value(), "no message came");
  require(text_at(received.take_buffer().bytes(), 64) == first_text, "the message is another");
  require(sent.wait(patiently()) != nullptr && sent.poll()->has_value(), "the send did not end");
  held(std::to_string(sent.take_buffer().capacity()) + " bytes came back with the completion");
}
void write_after_the_completion() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  with.b->queue.post_receive({.id = 3}, with.memory.slice(4160, 64)).value();
  for (const auto& text : {first_text, second_text}) {
    put(with.at(0, 64), text);
    send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
    take_good(with.a->sends, 1);
  }
  take_good(with.b->receives, 2);
  require(text_at(with.at(4096, 128), 128) == first_text + second_text, "the messages are others");
}

// One buffer stands in the receive queues of two connections: two peers write it.
void one_sink_for_two_peers() {
  pair with;
  pair other;
  const auto shared = with.memory.slice(0, 64);
  const auto registered =
      other.pd.register_memory(with.at(0, 64), access::local_write).value();  // the same bytes
  with.b->queue.post_receive({.id = 1}, shared).value();
  other.b->queue.post_receive({.id = 2}, registered.slice()).value();
  put(with.at(8192, 64), first_text);
  put(other.at(8192, 64), second_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(8192, 64)).value();
  take_good(with.b->receives, 1);
  send(other.a->queue, {.id = 1, .signaled = true}, other.memory.slice(8192, 64)).value();
  take_good(other.b->receives, 1);
  const auto seen = text_at(with.at(0, 64), 64);
  if (seen != first_text) harmed("the message of one peer became that of the other: " + seen);
}
void two_halves_of_a_sink() {
  channels with;
  put(with.at(8192, 64), first_text);
  with.b
      ->scope(abort_at(patiently()),
              [&](operation_scope& receiving) {
                sink whole(with.memory, 0, 128);
                sink behind = whole.split(64);
                const auto one = receiving.receive(std::move(whole));
                const auto two = receiving.receive(std::move(behind));
                for (int round = 0; round < 2; ++round)
                  with.a->send(source(with.memory, 8192, 64), abort_at(patiently())).value();
              })
      .value();
  require(text_at(with.at(0, 128), 128) == first_text + first_text, "the messages are others");
}

constexpr std::array entries = {
    entry{.name = "receives_of_a_ring_overlap",
          .kind = "aliasing",
          .mistake = "slots of a receive ring whose stride is less than their length",
          .seen = "ibverbs-rs 6428fdf: its benchmark forged slices to recycle receive buffers",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "two requests in flight write the same memory: RECV 1 .* RECV 0 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "a scatter element is an exclusive slice"},
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &ring_of_slots_that_overlap,
          .caught = &ring_of_slots_that_overlap,
          .twin = &ring_of_slots},
    entry{.name = "receive_posted_into_an_answer_being_sent",
          .kind = "aliasing",
          .mistake = "an echo server posts its next receive before the answer was sent",
          .seen = "ibv_post_send(3): buffers are safe to reuse after the completion",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request writes memory that a request in flight reads: RECV 2 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &receive_into_an_answer_on_its_way,
          .caught = &receive_into_an_answer_on_its_way,
          .twin = &receive_beside_an_answer_on_its_way},
    entry{.name = "message_passed_on_before_it_was_received",
          .kind = "aliasing",
          .mistake = "a relay posts the send out of a buffer that still waits for its message",
          .seen = "ibv_post_recv(3): buffers are safe to use after the completion",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request reads memory that a request in flight writes: SEND 4 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &relay_that_does_not_wait,
          .caught = &relay_that_does_not_wait,
          .twin = &relay_that_waits},
    entry{.name = "memory_written_while_it_is_sent",
          .kind = "aliasing",
          .mistake = "a buffer is filled anew after the post, not after the completion",
          .seen = "phoenix #83, ydb/nbs #5708: request buffers reused while DMA runs",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "4096 bytes came back with the completion",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &write_what_is_being_sent,
          .caught = &buffer_is_gone_while_it_is_sent,
          .twin = &write_after_the_completion},
    entry{.name = "sink_posted_for_two_peers",
          .kind = "aliasing",
          .mistake = "one receive buffer stands in the queues of two connections",
          .seen = "ibverbs-rs polling_scope.rs:232: one scatter element on two channels",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "channel/sink_cannot_be_copied",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::no, "a receive borrows the list of elements only while it posts"},
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &one_sink_for_two_peers,
          .caught = nullptr,
          .twin = &two_halves_of_a_sink},
};

}  // namespace
}  // namespace aliasing_entries

std::span<const entry> aliasing() { return aliasing_entries::entries; }

}  // namespace verbena::zoo
