// SPDX-License-Identifier: MIT
// Counting the entries of queues.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace queue_accounting_entries {
namespace {

post_status write_word(pair& with, std::uint64_t id, bool signaled) {
  auto batch = with.a->queue.start_send();
  batch.write({.id = id, .signaled = signaled}, with.memory.slice(0, 8),
              with.memory.remote().slice(4096, 8));
  return batch.submit();
}

// Posts writes. If the queue is full, polls for a completion.
void write_many(std::uint64_t signaled_every) {
  pair with;
  const std::uint64_t room = with.a->queue.capabilities().max_send_wr;
  const auto end = signaled_every == 0 ? short_deadline() : long_deadline();
  for (std::uint64_t id = 1; id <= 3 * room;) {
    if (write_word(with, id, signaled_every != 0 && id % signaled_every == 0)) {
      ++id;
    } else {
      take(with.a->sends, 1, deadline::after(10ms));
      if (end.expired())
        harmed("the queue remains full after " + std::to_string(id - 1) + " unsignaled writes");
    }
  }
}
void post_unsignaled_only() { write_many(0); }
void signal_every_fourth() { write_many(4); }

// Posts more requests than the completion queue has entries, without polling.
void more_completions_than_entries() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto memory = pd.allocate(4096, all_access).value();
  const auto cq = device.create_cq(2).value();
  auto prepared = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  const std::size_t posted = cq.capacity() + 2;
  for (std::size_t id = 0; id < posted; ++id) {
    auto batch = queue.start_send();
    batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8));
    static_cast<void>(batch.submit());
  }
  std::size_t seen = 0;
  std::array<completion, 64> room;
  for (const auto until = short_deadline(); seen < posted && !until.expired();) {
    const auto polled = cq.poll(room);
    if (!polled) break;
    seen += (*polled).size();
  }
  if (seen < posted)
    harmed(std::to_string(posted - seen) + " of " + std::to_string(posted) +
           " completions are lost, and ibv_poll_cq " + (cq.poll(room) ? "finds none" : "fails"));
}
void channel_with_few_entries() {
  auto options = channels::default_options();
  options.min_cq_entries = 1;
  channels with(options);
  const auto pool = with.pool(32);
  std::vector<pending_operation> writes;
  writes.reserve(options.queues.max_send_wr);
  for (std::uint32_t posted = 0; posted < options.queues.max_send_wr; ++posted)
    writes.push_back(
        with.a->post_write(*pool.take(64), with.memory.remote().slice(0, 64), {.length = 64}));
  for (auto& each : writes)
    require(each.wait(long_deadline()) != nullptr && each.poll()->has_value(), "a write failed");
  verified("each operation has completed: " + std::to_string(writes.size()));
}
void fewer_completions_than_entries() {
  pair with;
  for (std::uint64_t id = 0; id < 16; ++id) write_word(with, id, true).value();
  take_successful(with.a->sends, 16);
}

// A table of requests by wr_id. A library in the same program posts requests with its own IDs.
struct table {
  std::vector<std::string> open = {"", "first write"};
};
void post_by_another_library(ibv_qp* queue, const pair& with) {
  ibv_sge piece = with.memory.slice(512, 8).native();
  ibv_send_wr request{};
  request.wr_id = 1;  // an ID that the program also uses
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = with.memory.remote().slice(1024, 8).address(),
                     .rkey = with.memory.remote_key().value()};
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(queue, &request, &refused) == 0, "the post of the library failed");
}
void poll_completion_of_another_poster() {
  pair with;
  put(with.at(0, 8), "contents");
  post_by_another_library(with.a->queue.native(), with);
  table mine;
  const auto done = take_successful(with.a->sends, 1)[0].id();
  if (mine.open.at(done) == "first write" && text_at(with.at(4096, 8), 8) != "contents")
    harmed("request 1 is considered complete, but was never posted");
}
void posts_by_others_are_announced() {
  pair with;
  check::posted_elsewhere(with.a->queue.native());
  put(with.at(0, 8), "contents");
  post_by_another_library(with.a->queue.native(), with);
  write_word(with, 2, true).value();
  const auto done = take_successful(with.a->sends, 2);
  require(done[0].id() == 1 && done[1].id() == 2, "the requests have other IDs");
  require(text_at(with.at(4096, 8), 8) == "contents", "the write has not arrived");
}

// A chain of receives exceeds the free entries of the receive queue.
void post_more_than_capacity(bool looks) {
  pair with;
  const std::size_t room = with.b->queue.capabilities().max_recv_wr;
  std::vector<ibv_recv_wr> chain(room + 4);
  for (std::size_t slot = 0; slot < chain.size(); ++slot) {
    chain[slot].wr_id = slot;
    chain[slot].next = slot + 1 < chain.size() ? &chain[slot + 1] : nullptr;
  }
  check::posted_elsewhere(with.b->queue.native());
  ibv_recv_wr* refused = nullptr;
  static_cast<void>(ibv_post_recv(with.b->queue.native(), chain.data(), &refused));
  std::size_t awaited = chain.size();
  if (looks && refused != nullptr) awaited = refused->wr_id;
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  const auto seen =
      take(with.b->receives, awaited, looks ? long_deadline() : short_deadline()).size();
  require(!looks || seen == awaited, "completions are missing");
  if (seen < awaited)
    harmed(std::to_string(awaited - seen) + " of " + std::to_string(awaited) +
           " requests never complete");
}
void await_rejected_requests() { post_more_than_capacity(false); }
void await_accepted_requests_only() { post_more_than_capacity(true); }

// A server posts receives when it starts and does not replace them.
void send_without_new_receives() {
  pair with;
  for (std::uint64_t id = 0; id < 2; ++id)
    with.b->queue.post_receive({.id = id}, with.memory.slice(id * 64, 64)).value();
  for (std::uint64_t id = 0; id < 3; ++id)
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(8192, 64)).value();
  const auto sent = take(with.a->sends, 3, short_deadline());
  if (sent.size() < 3)
    harmed("message 3 has no receive: " + std::to_string(sent.size()) + " of 3 sent");
}
void send_without_new_receives_in_channel() {
  channels with;
  const auto outcome = with.b->scope(abort_at(long_deadline()), [&](operation_scope& serving) {
    const auto first = serving.receive(sink(with.memory, 0, 64));
    const auto second = serving.receive(sink(with.memory, 64, 64));
    for (int sent = 0; sent < 2; ++sent)
      with.a->send(source(with.memory, 8192, 64), abort_at(long_deadline())).value();
    const auto third = with.a->send(source(with.memory, 8192, 64), abort_at(short_deadline()));
    require(!third.has_value(), "message 3 was sent");
    reported(third.error().message());
  });
  require(outcome.has_value(), "the receives failed");
}
void replace_receives() {
  pair with;
  for (std::uint64_t id = 0; id < 2; ++id)
    with.b->queue.post_receive({.id = id}, with.memory.slice(id * 64, 64)).value();
  for (std::uint64_t id = 0; id < 6; ++id) {
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(8192, 64)).value();
    const auto slot = take_successful(with.b->receives, 1)[0].id();
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * 64, 64)).value();
  }
  take_successful(with.a->sends, 6);
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
}

// Every fourth write is signaled, so each completion frees four entries of the send queue.
void count_free_slots(std::uint32_t freed_by_a_completion) {
  pair with;
  std::uint32_t free = with.a->queue.capabilities().max_send_wr;
  const auto end = freed_by_a_completion == 1 ? short_deadline() : long_deadline();
  for (std::uint64_t id = 1; id <= 64;) {
    if (free != 0) {
      write_word(with, id, id % 4 == 0).value();
      --free;
      ++id;
    }
    free += freed_by_a_completion *
            static_cast<std::uint32_t>(take(with.a->sends, 1, deadline::after(1ms)).size());
    if (free == 0 && end.expired())
      harmed("by the program's count the queue remains full after " + std::to_string(id - 1) +
             " writes");
  }
}
void one_slot_per_completion() { count_free_slots(1); }
void four_slots_per_completion() { count_free_slots(4); }
void channel_counts_slots() {
  channels with;
  const auto room = with.a->free_sends();
  const auto pool = with.pool(32);
  for (int round = 0; round < 64; ++round) {
    auto written =
        with.a->post_write(*pool.take(64), with.memory.remote().slice(0, 64), {.length = 64});
    require(written.wait(long_deadline()) != nullptr && written.poll()->has_value(),
            "a write failed");
  }
  require(with.a->free_sends() == room, "slots were lost");
  verified("all slots are free again: " + std::to_string(room));
}

constexpr std::array entries = {
    entry{.name = "queue_full_of_unsignaled_requests",
          .kind = "queue accounting",
          .mistake = "no request of a full send queue is signaled",
          .seen = "rust-rdma-io docs/bugs/ring-send-queue-exhaustion.md; spdk #3195",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a send queue is full of unsignaled requests",
          .ibverbs = {answer::no, "signaling is optional, and unsignaled requests are not counted"},
          .ibverbs_rs = {answer::yes, "every request is signaled"},
          .rrddmma = {answer::no, "signaling is optional, and unsignaled requests are not counted"},
          .harmful = &post_unsignaled_only,
          .caught = &post_unsignaled_only,
          .twin = &signal_every_fourth},
    entry{.name = "completion_queue_overrun",
          .kind = "queue accounting",
          .mistake = "a completion queue is too small for its signaled requests",
          .seen = "rdmapp cq.h: 128 entries for any number of queue pairs; libfabric PR #4913",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "each operation has completed",
          .ibverbs = {answer::no, "the caller selects the size of the queue"},
          .ibverbs_rs = {answer::no, "min_cq_entries is not compared with the depths"},
          .rrddmma = {answer::no, "the caller selects the size of the queue"},
          .harmful = &more_completions_than_entries,
          .caught = &channel_with_few_entries,
          .twin = &fewer_completions_than_entries,
          .in_c_verbs = "ibv_poll_cq fails"},
    entry{.name = "completion_of_another_poster_counted",
          .kind = "queue accounting",
          .mistake = "two parts of a program post to one queue with overlapping wr_ids",
          .seen = "ibv_poll_cq(3): only wr_id identifies the request",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a completion does not match a request in flight",
          .ibverbs = {answer::no, "raw handles may be used beside it"},
          .ibverbs_rs = {answer::absent, "it does not expose raw handles"},
          .rrddmma = {answer::no, "raw handles may be used beside it"},
          .harmful = &poll_completion_of_another_poster,
          .caught = &poll_completion_of_another_poster,
          .twin = &posts_by_others_are_announced},
    entry{.name = "completion_of_rejected_request_awaited",
          .kind = "queue accounting",
          .mistake = "the status of a post is ignored: the number of accepted requests is unknown",
          .seen = "ibverbs lib.rs:5188: bad_wr is discarded; 3FS IBConnect.cc:1096",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/discarded_submit_is_refused",
          .ibverbs = {answer::no,
                      "an error of post_recv does not contain the number of accepted requests"},
          .ibverbs_rs = {answer::yes, "requests are posted one by one, with a Result"},
          .rrddmma = unknown,
          .harmful = &await_rejected_requests,
          .caught = nullptr,
          .twin = &await_accepted_requests_only},
    entry{.name = "consumed_receives_not_replaced",
          .kind = "queue accounting",
          .mistake = "consumed receives are not replaced",
          .seen = "ibv_modify_qp(3): rnr_retry 7 retries without limit",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "an abort_at passed, or abort.. or a cancellation ended the connection",
          .ibverbs = {answer::no, "the caller polls in a loop"},
          .ibverbs_rs = {answer::no, "send() spins without a time limit"},
          .rrddmma = {answer::no, "poll_one(blocking) spins without a time limit"},
          .harmful = &send_without_new_receives,
          .caught = &send_without_new_receives_in_channel,
          .twin = &replace_receives},
    entry{
        .name = "completion_frees_one_slot_only",
        .kind = "queue accounting",
        .mistake = "a completion confirms all unsignaled requests before it, but is counted as one",
        .seen = "ibv_post_send(3): unsignaled requests; ROCm TransferBench PR #239",
        .does = harm::hang,
        .caught_by = level::unwritable,
        .words = "all slots are free again",
        .ibverbs = {answer::no, "it does not count free slots"},
        .ibverbs_rs = {answer::absent, "every request is signaled"},
        .rrddmma = {answer::no, "it does not count free slots"},
        .harmful = &one_slot_per_completion,
        .caught = &channel_counts_slots,
        .twin = &four_slots_per_completion},
};

}  // namespace
}  // namespace queue_accounting_entries

std::span<const entry> queue_accounting() { return queue_accounting_entries::entries; }

}  // namespace verbena::zoo
