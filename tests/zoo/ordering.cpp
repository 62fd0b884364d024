// SPDX-License-Identifier: MIT
// What comes before what: completions, fences, and what the other side has been told.
#include <array>
#include <string>
#include <utility>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace ordering_entries {
namespace {

const std::string old_text(64, 'o');
const std::string new_text(64, 'n');

// Reads by one queue pair, which is held up, and sends what was read by the other one.
void read_and_pass_on(bool waits) {
  pair with;
  put(with.at(0, 64), old_text);
  put(with.at(8192, 64), new_text);
  with.a->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 2}, with.memory.slice(1024, 8)).value();
  auto batch = with.a->queue.start_send();
  batch.read({.id = 3, .signaled = true}, with.memory.slice(0, 64),
             with.memory.remote().slice(8192, 64));
  batch.submit().value();
  if (waits) {
    with.b->queue.post_receive({.id = 4}, with.memory.slice(2048, 8)).value();
    take_good(with.a->sends, 1);
  }
  send(with.b->queue, {.id = 5, .signaled = true}, with.memory.slice(0, 64)).value();
  take_good(with.a->receives, 1);
  const auto arrived = text_at(with.at(4096, 64), 64);
  if (arrived != new_text) harmed("the message has what was there before the read: " + arrived);
}
void read_and_pass_on_at_once() { read_and_pass_on(false); }
void read_and_pass_on_afterwards() { read_and_pass_on(true); }

void wait_for_a_plain_write() {
  pair with;
  with.b->queue.post_receive({.id = 1}, std::span<const local_slice>()).value();
  put(with.at(8192, 64), new_text);
  auto batch = with.a->queue.start_send();
  batch.write({.id = 2, .signaled = true}, with.memory.slice(8192, 64),
              with.memory.remote().slice(0, 64));
  batch.submit().value();
  take_good(with.a->sends, 1);
  if (take(with.b->receives, 1, briefly()).empty())
    harmed("the write is there, and the peer was not told");
}
void wait_for_a_plain_write_in_a_channel() {
  channels with;
  put(with.at(8192, 64), new_text);
  require(with.a
              ->write(source(with.memory, 8192, 64), with.memory.remote().slice(0, 64),
                      abort_at(patiently()))
              .has_value(),
          "the write");
  const auto received = with.b->receive(sink(with.memory, 4096, 64), abort_at(briefly()));
  require(!received.has_value(), "a message came");
  told(received.error().message());
}
void write_that_tells() {
  pair with;
  with.b->queue.post_receive({.id = 1}, std::span<const local_slice>()).value();
  put(with.at(8192, 64), new_text);
  auto batch = with.a->queue.start_send();
  batch.write_with_immediate({.id = 2, .signaled = true}, 7, with.memory.slice(8192, 64),
                             with.memory.remote().slice(0, 64));
  batch.submit().value();
  require(take_good(with.b->receives, 1)[0].immediate() == 7U, "the number");
  require(text_at(with.at(0, 64), 64) == new_text, "the write is not there");
}

// Each side waits for the other one's message before it sends its own.
void both_receive_first() {
  pair with;
  with.a->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(64, 64)).value();
  if (take(with.a->receives, 1, briefly()).empty() && take(with.b->receives, 1, briefly()).empty())
    harmed("each side waits for the other one's message");
}
void both_receive_first_in_channels() {
  channels with;
  const auto first = with.a->receive(sink(with.memory, 0, 64), abort_at(briefly()));
  require(!first.has_value(), "a message came");
  told(first.error().message());
}
void one_sends_first() {
  channels with;
  const auto outcome = with.b->scope(abort_at(patiently()), [&](operation_scope& serving) {
    const auto question = serving.receive(sink(with.memory, 0, 64));
    put(with.at(8192, 64), new_text);
    with.a->send(source(with.memory, 8192, 64), abort_at(patiently())).value();
  });
  require(outcome.has_value(), "no message came");
  require(text_at(with.at(0, 64), 64) == new_text, "the message is another");
}

// The queue is held up: the peer has no receive for the message in front of the read.
void look_before_the_completion() {
  pair with;
  put(with.at(0, 64), old_text);
  put(with.at(8192, 64), new_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(1024, 8)).value();
  auto batch = with.a->queue.start_send();
  batch.read({.id = 2, .signaled = true}, with.memory.slice(0, 64),
             with.memory.remote().slice(8192, 64));
  batch.submit().value();
  const auto seen = text_at(with.at(0, 64), 64);
  if (seen != new_text) harmed("what was read is not there yet: " + seen);
}
void look_when_the_buffer_is_back() {
  channels with;
  const auto pool = with.pool();
  put(with.at(8192, 64), new_text);
  auto mine = *pool.take(64);
  const auto reading =
      with.a->post_read(std::move(mine), with.memory.remote().slice(8192, 64), {.length = 64});
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): that there is nothing is the point
  require(mine.bytes().empty(), "there is something to look at");
  auto& waiting = const_cast<pending_operation&>(reading);
  require(waiting.wait(patiently()) != nullptr && waiting.poll()->has_value(), "the read");
  require(text_at(waiting.take_buffer().bytes(), 64) == new_text, "the bytes are others");
  held("the bytes could be seen when they were there");
}
void look_after_the_completion() {
  pair with;
  put(with.at(8192, 64), new_text);
  auto batch = with.a->queue.start_send();
  batch.read({.id = 2, .signaled = true}, with.memory.slice(0, 64),
             with.memory.remote().slice(8192, 64));
  batch.submit().value();
  take_good(with.a->sends, 1);
  require(text_at(with.at(0, 64), 64) == new_text, "the bytes are others");
}

struct record {
  std::uint64_t value = 0;
};
// b exports memory to a, and revokes it by a message that a ignores.
void late_write() {
  pair with;
  auto* const mine = reinterpret_cast<std::uint64_t*>(with.at(0, 8).data());
  *mine = 1000;  // b takes it back, and computes on
  put(with.at(8192, 8), "overdue!");
  auto batch = with.a->queue.start_send();
  batch.write({.id = 2, .signaled = true}, with.memory.slice(8192, 8),
              with.memory.remote().slice(0, 8));
  batch.submit().value();
  take_good(with.a->sends, 1);
  const auto seen = std::atomic_ref(*mine).load();
  if (seen != 1000) harmed("the number became " + std::to_string(seen));
}
void write_to_a_window(bool in_time) {
  pair with;
  auto window = exported_memory<record>::create(with.pd).value();
  const auto lent = window.grant(access::remote_write).value();
  const std::uint64_t number = 77;
  put(with.at(8192, 8), {reinterpret_cast<const char*>(&number), 8});
  if (!in_time) window.revoke().value();
  auto batch = with.a->queue.start_send();
  batch.write({.id = 2, .signaled = true}, with.memory.slice(8192, 8), lent);
  batch.submit().value();
  const auto ended = take(with.a->sends, 1);
  require(ended.size() == 1 && ended[0].ok() == in_time, "the write ended in another way");
  if (in_time) window.revoke().value();
  require(window.copy_out().value == (in_time ? 77U : 0U), "the window has another number");
  if (!in_time) told(ended[0].result().error().message());
}
void late_write_to_a_window() { write_to_a_window(false); }
void write_in_time_to_a_window() { write_to_a_window(true); }

// A pass over two completions: the number of the first one is asked for when the second one is up.
struct lazily_polled {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, every_right).value();
  extended_completion_queue cq = device.create_extended_cq(8).value();
  queue_pair<rc> queue = connected();

  queue_pair<rc> connected() const {
    auto made = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
    const auto self = made.endpoint();
    return std::move(made).handshake(self).value();
  }
  void write_twice() {
    for (const std::uint64_t id : {1, 2}) {
      auto batch = queue.start_send();
      batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8));
      batch.submit().value();
    }
  }
};
void view_kept_in_c() {
  lazily_polled with;
  with.write_twice();
  ibv_cq_ex* const queue = with.cq.native_extended();
  ibv_poll_cq_attr attributes{};
  const auto until = patiently();
  while (ibv_start_poll(queue, &attributes) != 0) require(!until.expired(), "no completion came");
  const std::uint64_t* const first = &queue->wr_id;
  while (ibv_next_poll(queue) != 0) require(!until.expired(), "no second completion came");
  const std::uint64_t kept = *first;
  ibv_end_poll(queue);
  if (kept != 1) harmed("request 1 is told to be request " + std::to_string(kept));
}
void view_kept() {
  lazily_polled with;
  with.write_twice();
  const lazy_completion* first = nullptr;
  const auto until = patiently();
  for (int seen = 0; seen < 2 && !until.expired();)
    for (const auto& done : with.cq.poll()) {
      ++seen;
      if (first == nullptr) first = &done;
    }
  require(first != nullptr, "no completion came");
  std::printf("request %d\n", static_cast<int>(first->id()));
}
void number_kept() {
  lazily_polled with;
  with.write_twice();
  std::vector<std::uint64_t> kept;
  const auto until = patiently();
  while (kept.size() < 2 && !until.expired())
    for (const auto& done : with.cq.poll()) kept.push_back(done.id());
  require(kept == std::vector<std::uint64_t>{1, 2}, "the requests are others");
}

constexpr std::array entries = {
    entry{.name = "order_between_queue_pairs_assumed",
          .kind = "ordering",
          .mistake = "a message out of memory that a read of another queue pair still fills",
          .seen = "ibv_post_send(3): a fence orders the requests of one queue pair",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request reads memory that a request in flight writes: SEND 5 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &read_and_pass_on_at_once,
          .caught = &read_and_pass_on_at_once,
          .twin = &read_and_pass_on_afterwards},
    entry{.name = "target_waits_for_a_plain_write",
          .kind = "ordering",
          .mistake = "the target of a write waits for a completion, which only the writer gets",
          .seen = "ibv_post_send(3): only WRITE_WITH_IMM uses up a receive",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "an abort_at passed, and the connection was ended",
          .ibverbs = {answer::no,
                      "polling is a loop of the caller's; only waits for events take a time limit"},
          .ibverbs_rs = {answer::no, "receive() spins without a time limit"},
          .rrddmma = {answer::no, "poll_one(blocking) spins without a time limit"},
          .harmful = &wait_for_a_plain_write,
          .caught = &wait_for_a_plain_write_in_a_channel,
          .twin = &write_that_tells},
    entry{.name = "both_sides_receive_first",
          .kind = "ordering",
          .mistake = "a blocking receive in front of the send, on both sides or on one to itself",
          .seen = "ibverbs-rs channel/mod.rs:83: the example of its documentation spins for ever",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "an abort_at passed, and the connection was ended",
          .ibverbs = {answer::no,
                      "polling is a loop of the caller's; only waits for events take a time limit"},
          .ibverbs_rs = {answer::no, "receive() spins without a time limit"},
          .rrddmma = {answer::no, "poll_one(blocking) spins without a time limit"},
          .harmful = &both_receive_first,
          .caught = &both_receive_first_in_channels,
          .twin = &one_sends_first},
    entry{.name = "read_looked_at_before_its_completion",
          .kind = "ordering",
          .mistake = "the memory of a read is looked at when the read is posted",
          .seen = "ibv_post_send(3): buffers are safe to use after the completion",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the bytes could be seen when they were there",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &look_before_the_completion,
          .caught = &look_when_the_buffer_is_back,
          .twin = &look_after_the_completion},
    entry{.name = "late_write_to_memory_taken_back",
          .kind = "ordering",
          .mistake = "a peer writes to memory that was lent to it and was asked back",
          .seen = "ydb/nbs #5708, solved by memory windows in its PR #6542",
          .does = harm::wrong_data,
          .caught_by = level::value,
          .words = "remote access",
          .ibverbs = {answer::no, "bytes() of memory that peers may write is safe"},
          .ibverbs_rs = {answer::no, "memory for peers is registered by unsafe functions"},
          .rrddmma = {answer::no, "registered memory is a slice with every right by default"},
          .harmful = &late_write,
          .caught = &late_write_to_a_window,
          .twin = &write_in_time_to_a_window},
    entry{.name = "lazy_completion_read_after_its_pass",
          .kind = "ordering",
          .mistake = "a field of a completion is read when the poll stands on the next one",
          .seen = "ibv_create_cq_ex(3): fields are of the completion that the poll stands on",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a lazy completion was read after its pass continued or ended",
          .ibverbs = {answer::yes, "a completion borrows the poll"},
          .ibverbs_rs = {answer::absent, "it has no extended completion queues"},
          .rrddmma = {answer::absent, "it has no extended completion queues"},
          .harmful = &view_kept_in_c,
          .caught = &view_kept,
          .twin = &number_kept},
};

}  // namespace
}  // namespace ordering_entries

std::span<const entry> ordering() { return ordering_entries::entries; }

}  // namespace verbena::zoo
