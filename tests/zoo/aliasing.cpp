// SPDX-License-Identifier: MIT
// Memory that two requests, or a request and the program, use at the same time.
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

/// Sends two messages of 64 bytes from a to b. The caller has posted the receives.
void send_two(pair& with) {
  put(with.at(8192, 64), first_text);
  put(with.at(8256, 64), second_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(8192, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(8256, 64)).value();
  take_successful(with.b->receives, 2);
}

void ring(std::size_t stride) {
  pair with;
  for (std::size_t slot = 0; slot < 2; ++slot)
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * stride, 64)).value();
  send_two(with);
  const auto first = text_at(with.at(0, 64), 64);
  if (first != first_text) harmed("the second message overwrote the end of the first: " + first);
}
void overlapping_slots() { ring(32); }
void separate_slots() { ring(64); }

// b sends its answer from memory into which it receives the next request. a has no receive yet.
void answer(std::size_t next_receive) {
  pair with;
  put(with.at(0, 64), first_text);
  send(with.b->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(next_receive, 64)).value();
  put(with.at(8192, 64), second_text);
  send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(8192, 64)).value();
  take_successful(with.b->receives, 1);
  with.a->queue.post_receive({.id = 4}, with.memory.slice(4096, 64)).value();
  take_successful(with.a->receives, 1);
  const auto answer = text_at(with.at(4096, 64), 64);
  if (answer != first_text) harmed("the next request overwrote the answer: " + answer);
}
void receive_into_memory_of_the_answer() { answer(0); }
void receive_into_other_memory() { answer(64); }

// A relay posts the send before the completion of the receive into the same memory.
void relay(bool waits) {
  pair with;
  put(with.at(0, 64), second_text);  // the previous message
  put(with.at(8192, 64), first_text);
  with.a->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  if (waits) {
    send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(8192, 64)).value();
    take_successful(with.b->receives, 1);
  }
  send(with.b->queue, {.id = 4, .signaled = true}, with.memory.slice(0, 64)).value();
  if (!waits) send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(8192, 64)).value();
  take_successful(with.a->receives, 1);
  const auto forwarded = text_at(with.at(4096, 64), 64);
  if (forwarded != first_text) harmed("the previous message was forwarded again: " + forwarded);
}
void relay_before_receiving() { relay(false); }
void relay_after_receiving() { relay(true); }

// The peer has not posted a receive, so the message is sent after the program modifies the memory.
void modify_memory_being_sent() {
  pair with;
  put(with.at(0, 64), first_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
  put(with.at(0, 64), second_text);  // the mistake: the send has not completed
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  take_successful(with.b->receives, 1);
  const auto arrived = text_at(with.at(4096, 64), 64);
  if (arrived != first_text)
    harmed("the message contains bytes that were written after the post: " + arrived);
}
void post_consumes_buffer() {
  channels with;
  const auto pool = with.pool();
  auto mine = pool.take(64).value();
  auto room = pool.take(64).value();
  put(mine.bytes(), first_text);
  auto sent = with.a->post_send(std::move(mine), {.length = 64});
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): checks that the buffer is empty
  require(mine.empty() && mine.bytes().empty(), "a posted buffer is empty");
  auto received = with.b->post_receive(std::move(room));
  require(received.wait(long_deadline()) != nullptr && received.poll()->has_value(),
          "no message arrived");
  require(text_at(received.take_buffer().bytes(), 64) == first_text, "the message has other bytes");
  require(sent.wait(long_deadline()) != nullptr && sent.poll()->has_value(),
          "the send did not end");
  verified(std::to_string(sent.take_buffer().capacity()) + " bytes returned with the completion");
}
void modify_memory_after_completion() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  with.b->queue.post_receive({.id = 3}, with.memory.slice(4160, 64)).value();
  for (const auto& text : {first_text, second_text}) {
    put(with.at(0, 64), text);
    send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
    take_successful(with.a->sends, 1);
  }
  take_successful(with.b->receives, 2);
  require(text_at(with.at(4096, 128), 128) == first_text + second_text,
          "the messages have other bytes");
}

// One memory range is posted to the receive queues of two connections, so two peers write it.
void receive_from_two_peers_into_one_slice() {
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
  take_successful(with.b->receives, 1);
  send(other.a->queue, {.id = 1, .signaled = true}, other.memory.slice(8192, 64)).value();
  take_successful(other.b->receives, 1);
  const auto seen = text_at(with.at(0, 64), 64);
  if (seen != first_text) harmed("the second peer overwrote the message of the first: " + seen);
}
void receive_into_split_sink() {
  channels with;
  put(with.at(8192, 64), first_text);
  with.b
      ->scope(abort_at(long_deadline()),
              [&](operation_scope& receiving) {
                sink whole(with.memory, 0, 128);
                sink behind = whole.split(64);
                const auto one = receiving.receive(std::move(whole));
                const auto two = receiving.receive(std::move(behind));
                for (int round = 0; round < 2; ++round)
                  with.a->send(source(with.memory, 8192, 64), abort_at(long_deadline())).value();
              })
      .value();
  require(text_at(with.at(0, 128), 128) == first_text + first_text,
          "the messages have other bytes");
}

constexpr std::array entries = {
    entry{.name = "slots_of_a_receive_ring_overlap",
          .kind = "aliasing",
          .mistake = "the slots of a receive ring overlap: the stride is less than their length",
          .seen = "ibverbs-rs 6428fdf: its benchmark forged slices to recycle receive buffers",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "two requests in flight write the same memory: RECV 1 .* RECV 0 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "a scatter element is an exclusive slice"},
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &overlapping_slots,
          .caught = &overlapping_slots,
          .twin = &separate_slots},
    entry{.name = "receive_posted_into_memory_being_sent",
          .kind = "aliasing",
          .mistake = "an echo server posts its next receive into memory that it is still sending",
          .seen = "ibv_post_send(3): buffers are safe to reuse after the completion",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request writes memory that a request in flight reads: RECV 2 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &receive_into_memory_of_the_answer,
          .caught = &receive_into_memory_of_the_answer,
          .twin = &receive_into_other_memory},
    entry{.name = "relay_sends_before_it_has_received",
          .kind = "aliasing",
          .mistake = "a relay sends a buffer before the receive into it has completed",
          .seen = "ibv_post_recv(3): buffers are safe to use after the completion",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request reads memory that a request in flight writes: SEND 4 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &relay_before_receiving,
          .caught = &relay_before_receiving,
          .twin = &relay_after_receiving},
    entry{.name = "memory_modified_while_it_is_sent",
          .kind = "aliasing",
          .mistake = "a buffer is refilled after the post instead of after the completion",
          .seen = "phoenix #83, ydb/nbs #5708: request buffers reused while DMA runs",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "4096 bytes returned with the completion",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &modify_memory_being_sent,
          .caught = &post_consumes_buffer,
          .twin = &modify_memory_after_completion},
    entry{.name = "buffer_posted_to_two_receive_queues",
          .kind = "aliasing",
          .mistake = "one receive buffer is posted to the queues of two connections",
          .seen = "ibverbs-rs polling_scope.rs:232: one scatter element on two channels",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "channel/sink_cannot_be_copied",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::no, "a receive borrows the list of elements only while it posts"},
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &receive_from_two_peers_into_one_slice,
          .caught = nullptr,
          .twin = &receive_into_split_sink},
};

}  // namespace
}  // namespace aliasing_entries

std::span<const entry> aliasing() { return aliasing_entries::entries; }

}  // namespace verbena::zoo
