// SPDX-License-Identifier: MIT
// Places in queues: who counts them, and when one is free again.
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

// Posts, and when the queue is full polls for a completion that makes room.
void write_many(std::uint64_t signaled_every) {
  pair with;
  const std::uint64_t room = with.a->queue.capabilities().max_send_wr;
  const auto end = signaled_every == 0 ? briefly() : patiently();
  for (std::uint64_t id = 1; id <= 3 * room;) {
    if (write_word(with, id, signaled_every != 0 && id % signaled_every == 0)) {
      ++id;
    } else {
      take(with.a->sends, 1, deadline::after(10ms));
      if (end.expired())
        harmed("the queue is full for ever after " + std::to_string(id - 1) +
               " writes that report nothing");
    }
  }
}
void none_is_signaled() { write_many(0); }
void every_fourth_is_signaled() { write_many(4); }

// More requests than their completion queue has places, and nobody polls meanwhile.
void more_completions_than_places() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto memory = pd.allocate(4096, every_right).value();
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
  for (const auto until = briefly(); seen < posted && !until.expired();) {
    const auto polled = cq.poll(room);
    if (!polled) break;  // the queue is lost
    seen += (*polled).size();
  }
  if (seen < posted)
    harmed(std::to_string(posted - seen) + " of " + std::to_string(posted) +
           " completions are lost, and with them the queue");
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
    require(each.wait(patiently()) != nullptr && each.poll()->has_value(), "a write failed");
  held("as many completions came as operations were posted: " + std::to_string(writes.size()));
}
void completions_that_have_places() {
  pair with;
  for (std::uint64_t id = 0; id < 16; ++id) write_word(with, id, true).value();
  take_good(with.a->sends, 16);
}

// Tables of requests, by their numbers; a library in the same program posts on its own.
struct table {
  std::vector<std::string> open = {"", "write the ledger"};
};
void post_for_oneself(ibv_qp* queue, const pair& with) {
  ibv_sge piece = with.memory.slice(512, 8).native();
  ibv_send_wr request{};
  request.wr_id = 1;  // its own numbering
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = with.memory.remote().slice(1024, 8).address(),
                     .rkey = with.memory.remote_key().value()};
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(queue, &request, &refused) == 0, "the other one's post");
}
void completion_of_a_stranger() {
  pair with;
  put(with.at(0, 8), "ledger..");
  post_for_oneself(with.a->queue.native(), with);
  table mine;
  const auto done = take_good(with.a->sends, 1)[0].id();  // whose is it?
  if (mine.open.at(done) == "write the ledger" && text_at(with.at(4096, 8), 8) != "ledger..")
    harmed("request 1 is taken for done, which was never posted");
}
void strangers_are_announced() {
  pair with;
  check::posted_elsewhere(with.a->queue.native());
  put(with.at(0, 8), "ledger..");
  post_for_oneself(with.a->queue.native(), with);
  write_word(with, 2, true).value();
  const auto done = take_good(with.a->sends, 2);
  require(done[0].id() == 1 && done[1].id() == 2, "the requests are others");
  require(text_at(with.at(4096, 8), 8) == "ledger..", "the write is not there");
}

// A chain of which only a part found room.
void post_more_than_there_is_room(bool looks) {
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
  const auto seen = take(with.b->receives, awaited, looks ? patiently() : briefly()).size();
  require(!looks || seen == awaited, "completions do not come");
  if (seen < awaited)
    harmed(std::to_string(awaited - seen) + " of " + std::to_string(awaited) +
           " completions never come");
}
void refused_part_is_awaited() { post_more_than_there_is_room(false); }
void refused_part_is_known() { post_more_than_there_is_room(true); }

// A server that posted its receives when it began, and none afterwards.
void receives_are_not_replaced() {
  pair with;
  for (std::uint64_t id = 0; id < 2; ++id)
    with.b->queue.post_receive({.id = id}, with.memory.slice(id * 64, 64)).value();
  for (std::uint64_t id = 0; id < 3; ++id)
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(8192, 64)).value();
  const auto sent = take(with.a->sends, 3, briefly());
  if (sent.size() < 3)
    harmed("message 3 waits for a receive for ever: " + std::to_string(sent.size()) + " of 3 sent");
}
void receives_are_not_replaced_in_a_channel() {
  channels with;
  const auto outcome = with.b->scope(abort_at(patiently()), [&](operation_scope& serving) {
    const auto first = serving.receive(sink(with.memory, 0, 64));
    const auto second = serving.receive(sink(with.memory, 64, 64));
    for (int sent = 0; sent < 2; ++sent)
      with.a->send(source(with.memory, 8192, 64), abort_at(patiently())).value();
    const auto third = with.a->send(source(with.memory, 8192, 64), abort_at(briefly()));
    require(!third.has_value(), "message 3 was sent");
    told(third.error().message());
  });
  require(outcome.has_value(), "the receives");
}
void receives_are_replaced() {
  pair with;
  for (std::uint64_t id = 0; id < 2; ++id)
    with.b->queue.post_receive({.id = id}, with.memory.slice(id * 64, 64)).value();
  for (std::uint64_t id = 0; id < 6; ++id) {
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(8192, 64)).value();
    const auto slot = take_good(with.b->receives, 1)[0].id();
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * 64, 64)).value();
  }
  take_good(with.a->sends, 6);
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
}

// One in four writes reports its completion. How many places does that free?
void count_places(std::uint32_t freed_by_a_completion) {
  pair with;
  std::uint32_t free = with.a->queue.capabilities().max_send_wr;
  const auto end = freed_by_a_completion == 1 ? briefly() : patiently();
  for (std::uint64_t id = 1; id <= 64;) {
    if (free != 0) {
      write_word(with, id, id % 4 == 0).value();
      --free;
      ++id;
    }
    free += freed_by_a_completion *
            static_cast<std::uint32_t>(take(with.a->sends, 1, deadline::after(1ms)).size());
    if (free == 0 && end.expired())
      harmed("by its own count the queue is full for ever, after " + std::to_string(id - 1) +
             " writes");
  }
}
void one_place_for_a_completion() { count_places(1); }
void four_places_for_a_completion() { count_places(4); }
void channel_counts_places() {
  channels with;
  const auto room = with.a->free_sends();
  const auto pool = with.pool(32);
  for (int round = 0; round < 64; ++round) {
    auto written =
        with.a->post_write(*pool.take(64), with.memory.remote().slice(0, 64), {.length = 64});
    require(written.wait(patiently()) != nullptr && written.poll()->has_value(), "a write failed");
  }
  require(with.a->free_sends() == room, "places were lost");
  held("all places are free again: " + std::to_string(room));
}

constexpr std::array entries = {
    entry{.name = "queue_full_of_unsignaled_requests",
          .kind = "queue accounting",
          .mistake = "no request of a full send queue will ever report a completion",
          .seen = "rust-rdma-io docs/bugs/ring-send-queue-exhaustion.md; spdk #3195",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a send queue is full of unsignaled requests",
          .ibverbs = {answer::no, "requests are signaled by choice, and nobody counts them"},
          .ibverbs_rs = {answer::yes, "every request is signaled"},
          .rrddmma = {answer::no, "requests are signaled by choice, and nobody counts them"},
          .harmful = &none_is_signaled,
          .caught = &none_is_signaled,
          .twin = &every_fourth_is_signaled},
    entry{.name = "completion_queue_overrun",
          .kind = "queue accounting",
          .mistake = "more requests report completions than the completion queue has places",
          .seen = "rdmapp cq.h: 128 entries for any number of queue pairs; libfabric PR #4913",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "as many completions came as operations were posted",
          .ibverbs = {answer::no, "the size of the queue is the caller's"},
          .ibverbs_rs = {answer::no, "min_cq_entries is not compared with the depths"},
          .rrddmma = {answer::no, "the size of the queue is the caller's"},
          .harmful = &more_completions_than_places,
          .caught = &channel_with_few_entries,
          .twin = &completions_that_have_places},
    entry{.name = "completion_of_somebody_else_counted",
          .kind = "queue accounting",
          .mistake = "two parts of a program post to one queue, each with numbers of its own",
          .seen = "ibv_poll_cq(3): wr_id is all that tells requests of a queue apart",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a completion of no request in flight",
          .ibverbs = {answer::no, "raw handles may be used beside it"},
          .ibverbs_rs = {answer::absent, "it gives out no raw handles"},
          .rrddmma = {answer::no, "raw handles may be used beside it"},
          .harmful = &completion_of_a_stranger,
          .caught = &completion_of_a_stranger,
          .twin = &strangers_are_announced},
    entry{.name = "refused_part_of_a_post_awaited",
          .kind = "queue accounting",
          .mistake = "the status of a post is dropped: nobody knows which requests were taken",
          .seen = "ibverbs lib.rs:5188: bad_wr is discarded; 3FS IBConnect.cc:1096",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/discarded_submit_is_refused",
          .ibverbs = {answer::no, "an error of post_recv does not say how many were taken"},
          .ibverbs_rs = {answer::yes, "requests are posted one by one, with a Result"},
          .rrddmma = unknown,
          .harmful = &refused_part_is_awaited,
          .caught = nullptr,
          .twin = &refused_part_is_known},
    entry{.name = "receives_not_replaced",
          .kind = "queue accounting",
          .mistake = "receives are posted at the beginning, and not again when they are used up",
          .seen = "ibv_modify_qp(3): rnr_retry 7 tries for ever",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "an abort_at passed, and the connection was ended",
          .ibverbs = {answer::no, "polling is a loop of the caller's"},
          .ibverbs_rs = {answer::no, "send() spins without a time limit"},
          .rrddmma = {answer::no, "poll_one(blocking) spins without a time limit"},
          .harmful = &receives_are_not_replaced,
          .caught = &receives_are_not_replaced_in_a_channel,
          .twin = &receives_are_replaced},
    entry{.name = "one_place_counted_for_a_completion",
          .kind = "queue accounting",
          .mistake = "a completion stands for all unsignaled requests before it, and counts as one",
          .seen = "ibv_post_send(3): unsignaled requests; ROCm TransferBench PR #239",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "all places are free again",
          .ibverbs = {answer::no, "it counts no places"},
          .ibverbs_rs = {answer::absent, "every request is signaled"},
          .rrddmma = {answer::no, "it counts no places"},
          .harmful = &one_place_for_a_completion,
          .caught = &channel_counts_places,
          .twin = &four_places_for_a_completion},
};

}  // namespace
}  // namespace queue_accounting_entries

std::span<const entry> queue_accounting() { return queue_accounting_entries::entries; }

}  // namespace verbena::zoo
