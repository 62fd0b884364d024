// SPDX-License-Identifier: MIT
// Order of requests, completions and messages.
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

// Reads on one queue pair, whose queue is blocked, and sends the data on the other queue pair.
void read_and_forward(bool waits) {
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
    take_successful(with.a->sends, 1);
  }
  send(with.b->queue, {.id = 5, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.a->receives, 1);
  const auto arrived = text_at(with.at(4096, 64), 64);
  if (arrived != new_text)
    harmed("the message contains the bytes from before the read: " + arrived);
}
void forward_before_completion() { read_and_forward(false); }
void forward_after_completion() { read_and_forward(true); }

void wait_for_write_without_immediate() {
  pair with;
  with.b->queue.post_receive({.id = 1}, std::span<const local_slice>()).value();
  put(with.at(8192, 64), new_text);
  auto batch = with.a->queue.start_send();
  batch.write({.id = 2, .signaled = true}, with.memory.slice(8192, 64),
              with.memory.remote().slice(0, 64));
  batch.submit().value();
  take_successful(with.a->sends, 1);
  if (take(with.b->receives, 1, short_deadline()).empty())
    harmed("the write has arrived, and the peer has no completion");
}
void wait_for_write_without_immediate_in_channel() {
  channels with;
  put(with.at(8192, 64), new_text);
  require(with.a
              ->write(source(with.memory, 8192, 64), with.memory.remote().slice(0, 64),
                      abort_at(long_deadline()))
              .has_value(),
          "the write failed");
  const auto received = with.b->receive(sink(with.memory, 4096, 64), abort_at(short_deadline()));
  require(!received.has_value(), "a message arrived");
  reported(received.error().message());
}
void write_with_immediate_data() {
  pair with;
  with.b->queue.post_receive({.id = 1}, std::span<const local_slice>()).value();
  put(with.at(8192, 64), new_text);
  auto batch = with.a->queue.start_send();
  batch.write_with_immediate({.id = 2, .signaled = true}, 7, with.memory.slice(8192, 64),
                             with.memory.remote().slice(0, 64));
  batch.submit().value();
  require(take_successful(with.b->receives, 1)[0].immediate() == 7U, "the immediate data differ");
  require(text_at(with.at(0, 64), 64) == new_text, "the write has not arrived");
}

// Each side waits for the peer's message before it sends its own.
void both_receive_first() {
  pair with;
  with.a->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(64, 64)).value();
  if (take(with.a->receives, 1, short_deadline()).empty() &&
      take(with.b->receives, 1, short_deadline()).empty())
    harmed("each side waits for the peer's message");
}
void both_receive_first_in_channels() {
  channels with;
  const auto first = with.a->receive(sink(with.memory, 0, 64), abort_at(short_deadline()));
  require(!first.has_value(), "a message arrived");
  reported(first.error().message());
}
void one_side_sends_first() {
  channels with;
  const auto outcome = with.b->scope(abort_at(long_deadline()), [&](operation_scope& serving) {
    const auto question = serving.receive(sink(with.memory, 0, 64));
    put(with.at(8192, 64), new_text);
    with.a->send(source(with.memory, 8192, 64), abort_at(long_deadline())).value();
  });
  require(outcome.has_value(), "no message arrived");
  require(text_at(with.at(0, 64), 64) == new_text, "the message has other bytes");
}

// The queue is blocked: the peer has no receive for the message before the read.
void use_read_data_before_completion() {
  pair with;
  put(with.at(0, 64), old_text);
  put(with.at(8192, 64), new_text);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(1024, 8)).value();
  auto batch = with.a->queue.start_send();
  batch.read({.id = 2, .signaled = true}, with.memory.slice(0, 64),
             with.memory.remote().slice(8192, 64));
  batch.submit().value();
  const auto seen = text_at(with.at(0, 64), 64);
  if (seen != new_text) harmed("the data of the read have not arrived: " + seen);
}
void use_read_data_of_returned_buffer() {
  channels with;
  const auto pool = with.pool();
  put(with.at(8192, 64), new_text);
  auto mine = *pool.take(64);
  const auto reading =
      with.a->post_read(std::move(mine), with.memory.remote().slice(8192, 64), {.length = 64});
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): checks that the buffer is empty
  require(mine.bytes().empty(), "the posted buffer is not empty");
  auto& waiting = const_cast<pending_operation&>(reading);
  require(waiting.wait(long_deadline()) != nullptr && waiting.poll()->has_value(),
          "the read failed");
  require(text_at(waiting.take_buffer().bytes(), 64) == new_text, "the bytes differ");
  verified("the buffer was returned after the read had completed");
}
void use_read_data_after_completion() {
  pair with;
  put(with.at(8192, 64), new_text);
  auto batch = with.a->queue.start_send();
  batch.read({.id = 2, .signaled = true}, with.memory.slice(0, 64),
             with.memory.remote().slice(8192, 64));
  batch.submit().value();
  take_successful(with.a->sends, 1);
  require(text_at(with.at(0, 64), 64) == new_text, "the bytes differ");
}

struct record {
  std::uint64_t value = 0;
};
// b exports memory to a and asks for its release, but a writes later.
void write_after_revocation_in_c() {
  pair with;
  auto* const mine = reinterpret_cast<std::uint64_t*>(with.at(0, 8).data());
  *mine = 1000;  // b uses the memory again
  put(with.at(8192, 8), "overdue!");
  auto batch = with.a->queue.start_send();
  batch.write({.id = 2, .signaled = true}, with.memory.slice(8192, 8),
              with.memory.remote().slice(0, 8));
  batch.submit().value();
  take_successful(with.a->sends, 1);
  const auto seen = std::atomic_ref(*mine).load();
  if (seen != 1000) harmed("the number changed to " + std::to_string(seen));
}
void write_to_exported_memory(bool in_time) {
  pair with;
  auto exported = exported_memory<record>::create(with.pd).value();
  const auto granted = exported.grant(access::remote_write).value();
  const std::uint64_t number = 77;
  put(with.at(8192, 8), {reinterpret_cast<const char*>(&number), 8});
  if (!in_time) exported.revoke().value();
  auto batch = with.a->queue.start_send();
  batch.write({.id = 2, .signaled = true}, with.memory.slice(8192, 8), granted);
  batch.submit().value();
  const auto ended = take(with.a->sends, 1);
  require(ended.size() == 1 && ended[0].ok() == in_time, "the write completed with another status");
  if (in_time) exported.revoke().value();
  require(exported.copy_out().value == (in_time ? 77U : 0U),
          "the exported memory has another number");
  if (!in_time) reported(ended[0].result().error().message());
}
void write_after_revocation() { write_to_exported_memory(false); }
void write_before_revocation() { write_to_exported_memory(true); }

// The ID of the first completion is read after the poll has moved to the second completion.
struct extended_cq_pair {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, all_access).value();
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
void read_previous_completion_in_c() {
  extended_cq_pair with;
  with.write_twice();
  ibv_cq_ex* const queue = with.cq.native_extended();
  ibv_poll_cq_attr attributes{};
  const auto until = long_deadline();
  while (ibv_start_poll(queue, &attributes) != 0)
    require(!until.expired(), "no completion arrived");
  const std::uint64_t* const first = &queue->wr_id;
  while (ibv_next_poll(queue) != 0) require(!until.expired(), "no second completion arrived");
  const std::uint64_t kept = *first;
  ibv_end_poll(queue);
  if (kept != 1) harmed("the ID of request 1 is read as " + std::to_string(kept));
}
void read_previous_completion() {
  extended_cq_pair with;
  with.write_twice();
  const lazy_completion* first = nullptr;
  const auto until = long_deadline();
  for (int seen = 0; seen < 2 && !until.expired();)
    for (const auto& done : with.cq.poll()) {
      ++seen;
      if (first == nullptr) first = &done;
    }
  require(first != nullptr, "no completion arrived");
  std::printf("request %d\n", static_cast<int>(first->id()));
}
void copy_id_of_each_completion() {
  extended_cq_pair with;
  with.write_twice();
  std::vector<std::uint64_t> kept;
  const auto until = long_deadline();
  while (kept.size() < 2 && !until.expired())
    for (const auto& done : with.cq.poll()) kept.push_back(done.id());
  require(kept == std::vector<std::uint64_t>{1, 2}, "the requests have other IDs");
}

constexpr std::array entries = {
    entry{.name = "order_between_queue_pairs_assumed",
          .kind = "ordering",
          .mistake = "a send uses memory that a read of another queue pair is still writing",
          .seen = "ibv_post_send(3): a fence orders the requests of one queue pair",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request reads memory that a request in flight writes: SEND 5 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &forward_before_completion,
          .caught = &forward_before_completion,
          .twin = &forward_after_completion},
    entry{.name = "target_waits_for_completion_of_a_write",
          .kind = "ordering",
          .mistake = "the target of a write waits for a completion, which only the initiator gets",
          .seen = "ibv_post_send(3): only WRITE_WITH_IMM consumes a receive",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "an abort_at passed, or abort.. or a cancellation ended the connection",
          .ibverbs = {answer::no,
                      "the caller polls in a loop; only waits for events take a time limit"},
          .ibverbs_rs = {answer::no, "receive() spins without a time limit"},
          .rrddmma = {answer::no, "poll_one(blocking) spins without a time limit"},
          .harmful = &wait_for_write_without_immediate,
          .caught = &wait_for_write_without_immediate_in_channel,
          .twin = &write_with_immediate_data},
    entry{.name = "both_sides_receive_first",
          .kind = "ordering",
          .mistake =
              "both sides, or one side connected to itself, block in a receive before their send",
          .seen = "ibverbs-rs channel/mod.rs:83: the example of its documentation never ends",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "an abort_at passed, or abort.. or a cancellation ended the connection",
          .ibverbs = {answer::no,
                      "the caller polls in a loop; only waits for events take a time limit"},
          .ibverbs_rs = {answer::no, "receive() spins without a time limit"},
          .rrddmma = {answer::no, "poll_one(blocking) spins without a time limit"},
          .harmful = &both_receive_first,
          .caught = &both_receive_first_in_channels,
          .twin = &one_side_sends_first},
    entry{.name = "read_data_used_before_its_completion",
          .kind = "ordering",
          .mistake = "the data of a read are used when the read is posted",
          .seen = "ibv_post_send(3): buffers are safe to use after the completion",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the buffer was returned after the read had completed",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = ibverbs_rs_borrows,
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &use_read_data_before_completion,
          .caught = &use_read_data_of_returned_buffer,
          .twin = &use_read_data_after_completion},
    entry{.name = "late_write_to_revoked_memory",
          .kind = "ordering",
          .mistake = "a peer writes to memory after its owner has revoked the access",
          .seen = "ydb/nbs #5708, solved by memory windows in its PR #6542",
          .does = harm::wrong_data,
          .caught_by = level::value,
          .words = "remote access",
          .ibverbs = {answer::no, "bytes() of memory that peers may write is safe"},
          .ibverbs_rs = {answer::no, "memory for peers is registered by unsafe functions"},
          .rrddmma = {answer::no, "registered memory is a slice with all access flags by default"},
          .harmful = &write_after_revocation_in_c,
          .caught = &write_after_revocation,
          .twin = &write_before_revocation},
    entry{.name = "lazy_completion_read_after_next_poll",
          .kind = "ordering",
          .mistake = "a field of a completion is read after the poll has moved to the next one",
          .seen = "ibv_create_cq_ex(3): fields belong to the current completion of the poll",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a completion of an extended completion queue was read after ibv_next_poll",
          .ibverbs = {answer::yes, "a completion borrows the poll"},
          .ibverbs_rs = {answer::absent, "it has no extended completion queues"},
          .rrddmma = {answer::absent, "it has no extended completion queues"},
          .harmful = &read_previous_completion_in_c,
          .caught = &read_previous_completion,
          .twin = &copy_id_of_each_completion},
};

}  // namespace
}  // namespace ordering_entries

std::span<const entry> ordering() { return ordering_entries::entries; }

}  // namespace verbena::zoo
