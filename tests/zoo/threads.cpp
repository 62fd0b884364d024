// SPDX-License-Identifier: MIT
// Threads that share a queue.
#include <malloc.h>

#include <array>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace thread_entries {
namespace {

// A thread starts a batch and does not complete it. Other threads wait for the queue.
void start_without_complete() {
  pair with;
  ibv_qp_ex* const queue = with.a->queue.extended().value().native();
  std::thread([&] { ibv_wr_start(queue); }).join();  // the mistake: no complete or abort
  const bool ended = ends_in_time([=] {
    ibv_wr_start(queue);
    ibv_wr_abort(queue);
  });
  if (!ended) harmed("the other thread waits for the queue without end");
}
void destroy_batch_without_submit() {
  pair with;
  auto poster = with.a->queue.extended().value();
  std::thread([&] { static_cast<void>(poster.start_send()); }).join();
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  std::thread([&] {
    auto batch = poster.start_send();
    batch.send({.id = 2, .signaled = true}, with.memory.slice(0, 64));
    batch.submit().value();
  }).join();
  take_successful(with.b->receives, 1);
  verified("the destructor of the batch released the queue");
}

// Threads set wr_id of a queue before ibv_wr_start, so it does not belong to their batch.
void set_wr_id_before_start() {
  pair with;
  ibv_qp_ex* const queue = with.a->queue.extended().value().native();
  const auto data = with.memory.slice(0, 8).native();
  const auto post = [&] {
    ibv_wr_start(queue);
    ibv_wr_send(queue);
    ibv_wr_set_sge(queue, data.lkey, data.addr, data.length);
    require(ibv_wr_complete(queue) == 0, "the post failed");
  };
  for (std::uint64_t id : {11, 12})
    with.b->queue.post_receive({.id = id}, with.memory.slice(4096 + 64 * id, 64)).value();
  std::latch first_is_set(1);
  std::latch second_is_done(1);
  queue->wr_flags = IBV_SEND_SIGNALED;
  std::thread first([&] {
    queue->wr_id = 1;
    first_is_set.count_down();
    second_is_done.wait();
    post();
  });
  std::thread second([&] {
    first_is_set.wait();
    queue->wr_id = 2;
    post();
    second_is_done.count_down();
  });
  first.join();
  second.join();
  const auto ends = c_take_successful(with.a->sends.native(), 2);
  if (ends[0].wr_id == ends[1].wr_id)
    harmed("both requests have wr_id " + std::to_string(ends[0].wr_id));
}
void set_id_within_batch() {
  pair with;
  auto poster = with.a->queue.extended().value();
  for (std::uint64_t id : {11, 12})
    with.b->queue.post_receive({.id = id}, with.memory.slice(4096 + 64 * id, 64)).value();
  for (std::uint64_t id : {1, 2})
    std::thread([&] {
      auto batch = poster.start_send();
      batch.send({.id = id, .signaled = true}, with.memory.slice(0, 8));
      batch.submit().value();
    }).join();
  const auto ends = take_successful(with.a->sends, 2);
  require(ends[0].id() == 1 && ends[1].id() == 2, "the requests have other IDs");
  verified("the ID is part of the request within the batch");
}

// One thread destroys the queue pair before another thread posts to it.
void post_to_destroyed_qp() {
  mallopt(M_PERTURB, 0xa5);  // overwrites freed memory
  pair with;
  ibv_qp* const queue = with.a->queue.native();
  const auto data = with.memory.slice(0, 8);
  std::latch is_destroyed(1);
  std::thread poster([&] {
    is_destroyed.wait();
    static_cast<void>(c_send(queue, 1, data));
  });
  with.a.reset();
  is_destroyed.count_down();
  poster.join();
}
void submit_batch_of_destroyed_qp() {
  pair with;
  std::latch is_open(1);
  std::latch is_destroyed(1);
  std::thread poster([&] {
    auto batch = with.a->queue.start_send();
    batch.send({.id = 1, .signaled = true}, with.memory.slice(0, 8));
    is_open.count_down();
    is_destroyed.wait();
    static_cast<void>(batch.submit());
  });
  is_open.wait();
  with.a.reset();
  is_destroyed.count_down();
  poster.join();
}
void destroy_qp_by_its_user() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  std::thread([&, mine = std::move(with.a)]() mutable {
    send(mine->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 8)).value();
    take_successful(mine->sends, 1);
    mine.reset();
  }).join();
  take_successful(with.b->receives, 1);
}

// Two threads poll one queue for their own requests and discard completions of the other thread.
void poll_completions_of_other_thread() {
  pair with;
  for (std::uint64_t id : {11, 12})
    with.b->queue.post_receive({.id = id}, with.memory.slice(4096 + 64 * id, 64)).value();
  for (std::uint64_t id : {1, 2})
    require(c_send(with.a->queue.native(), id, with.memory.slice(0, 8)) == 0, "the post failed");
  const auto wait_for = [&](std::uint64_t id, deadline until) {
    while (true) {
      const auto done = c_take(with.a->sends.native(), 1, until);
      if (done.empty()) return false;
      if (done[0].wr_id == id) return true;
    }
  };
  std::latch second_has_its_own(1);
  std::thread second([&] {
    require(wait_for(2, long_deadline()), "the second request did not complete");
    second_has_its_own.count_down();
  });
  second_has_its_own.wait();
  second.join();
  bool found = true;
  std::thread([&] { found = wait_for(1, short_deadline()); }).join();
  if (!found) harmed("the second thread took the completion of the first request");
}
void handle_per_thread() {
  channels with;
  const auto pool = with.pool();
  auto into_first = with.b->post_receive(pool.take(64).value());
  auto into_second = with.b->post_receive(pool.take(64).value());
  auto first = with.a->post_send(pool.take(64).value(), {.length = 8});
  auto second = with.a->post_send(pool.take(64).value(), {.length = 8});
  std::thread([&] {
    require(second.wait(long_deadline())->has_value(), "the second send did not complete");
  }).join();
  std::thread([&] {
    require(first.wait(long_deadline())->has_value(), "the first send did not complete");
  }).join();
  require(into_first.wait(long_deadline())->has_value() &&
              into_second.wait(long_deadline())->has_value(),
          "no message arrived");
  verified("the first handle has its result although the second thread polled its completion");
}
void queue_pair_per_thread() {
  pair one;
  pair two;
  const auto run = [](pair& mine) {
    mine.b->queue.post_receive({.id = 1}, mine.memory.slice(4096, 64)).value();
    send(mine.a->queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 8)).value();
    require(take_successful(mine.a->sends, 1)[0].id() == 2,
            "the completion belongs to another request");
    take_successful(mine.b->receives, 1);
  };
  std::thread first([&] { run(one); });
  std::thread second([&] { run(two); });
  first.join();
  second.join();
}

// Two threads connect one queue pair, each to another peer.
struct three_queue_pairs {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(64 * 1024, all_access).value();
  completion_queue cq = device.create_cq(64).value();
  prepared_queue_pair<rc> shared =
      pd.create_qp<rc>(cq, cq, {.reliability = {.rnr_retry_count = 0}}).value();
  prepared_queue_pair<rc> first = pd.create_qp<rc>(cq, cq).value();
  prepared_queue_pair<rc> second = pd.create_qp<rc>(cq, cq).value();
};
void connect_by_two_threads() {
  three_queue_pairs with;
  const auto to_shared = with.shared.endpoint();
  const auto to_first = with.first.endpoint();
  const auto to_second = with.second.endpoint();
  auto first = std::move(with.first).handshake(to_shared).value();
  auto second = std::move(with.second).handshake(to_shared).value();
  with.shared.modify(with.shared.init_attributes()).value();
  std::latch first_is_done(1);
  std::thread of_first([&] {
    static_cast<void>(with.shared.modify(with.shared.rtr_attributes(to_first).value()));
    static_cast<void>(with.shared.modify(with.shared.rts_attributes(to_first)));
    first_is_done.count_down();
  });
  std::thread of_second([&] {
    first_is_done.wait();
    // The mistake: the failure is ignored, because the queue pair is already in RTR.
    static_cast<void>(with.shared.modify(with.shared.rtr_attributes(to_second).value()));
    static_cast<void>(with.shared.modify(with.shared.rts_attributes(to_second)));
  });
  of_first.join();
  of_second.join();
  auto shared = std::move(with.shared).into_queue_pair();
  put(with.memory.bytes(), "for the second");
  first.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  second.post_receive({.id = 2}, with.memory.slice(8192, 64)).value();
  send(shared, {.id = 3, .signaled = true}, with.memory.slice(0, 14)).value();
  for (const auto& done : take_successful(with.cq, 2))
    if (done.id() == 1)
      harmed("the first peer received: " + text_at(with.memory.bytes().subspan(4096), 14));
}
void connect_by_one_thread() {
  three_queue_pairs with;
  const auto to_shared = with.shared.endpoint();
  const auto to_second = with.second.endpoint();
  auto second = std::move(with.second).handshake(to_shared).value();
  auto shared = std::move(with.shared).handshake(to_second).value();
  second.post_receive({.id = 2}, with.memory.slice(8192, 64)).value();
  send(shared, {.id = 3, .signaled = true}, with.memory.slice(0, 14)).value();
  take_successful(with.cq, 2);
}

// Between ibv_start_poll and ibv_end_poll, a called function polls the same queue again.
void start_poll_within_poll() {
  pair with;
  auto lazy = with.device.create_extended_cq(16).value();
  auto prepared = with.pd.create_qp<rc>(lazy, lazy).value();
  const auto itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  for (std::uint64_t id : {1, 2})
    queue.post_receive({.id = id}, with.memory.slice(4096 * id, 64)).value();
  for (std::uint64_t id : {3, 4})
    send(queue, {.id = id, .signaled = true}, with.memory.slice(0, 8)).value();
  ibv_cq_ex* const native = lazy.native_extended();
  ibv_poll_cq_attr attributes{};
  const auto until = long_deadline();
  while (ibv_start_poll(native, &attributes) != 0 && !until.expired()) continue;
  // The called function treats the failure as an empty queue.
  bool came = false;
  for (const auto end = short_deadline(); !came && !end.expired();)
    came = ibv_start_poll(native, &attributes) == 0;
  if (!came) harmed("the queue has completions, and the second poll never returns one");
}
void poll_within_poll() {
  pair with;
  auto lazy = with.device.create_extended_cq(16).value();
  auto prepared = with.pd.create_qp<rc>(lazy, lazy).value();
  const auto itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(queue, {.id = 3, .signaled = true}, with.memory.slice(0, 8)).value();
  for (const auto until = long_deadline(); !until.expired();)
    for (const auto& each : lazy.poll())
      if (each.id() != 0) static_cast<void>(lazy.poll());
}
void poll_after_poll() {
  pair with;
  auto lazy = with.device.create_extended_cq(16).value();
  auto prepared = with.pd.create_qp<rc>(lazy, lazy).value();
  const auto itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  for (std::uint64_t id : {1, 2})
    queue.post_receive({.id = id}, with.memory.slice(4096 * id, 64)).value();
  for (std::uint64_t id : {3, 4})
    send(queue, {.id = id, .signaled = true}, with.memory.slice(0, 8)).value();
  std::size_t seen = 0;
  for (const auto until = long_deadline(); seen == 0 && !until.expired();)
    for (const auto& each : lazy.poll()) {
      require(each.ok(), "a request failed");
      ++seen;
      break;
    }
  take_successful(lazy, 4 - seen);
}

constexpr crate batch_borrows_queue_pair = {
    answer::yes, "a batch borrows its queue pair exclusively, and dropping it aborts it"};
constexpr crate no_extended_posts = {answer::absent, "it has no ibv_wr_* interface"};

constexpr std::array entries = {
    entry{.name = "unfinished_batch_blocks_other_threads",
          .kind = "threads",
          .mistake = "an early return between ibv_wr_start and ibv_wr_complete",
          .seen = "ibv_wr_post(3): ibv_wr_start is followed by ibv_wr_complete or ibv_wr_abort",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the destructor of the batch released the queue",
          .ibverbs = batch_borrows_queue_pair,
          .ibverbs_rs = no_extended_posts,
          .rrddmma = no_extended_posts,
          .harmful = &start_without_complete,
          .caught = &destroy_batch_without_submit,
          .twin = &destroy_batch_without_submit},
    entry{.name = "wr_id_set_outside_of_the_batch",
          .kind = "threads",
          .mistake = "two threads set wr_id of a queue before ibv_wr_start",
          .seen = "ibv_wr_post(3): wr_id and wr_flags are set between start and the operation",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the ID is part of the request",
          .ibverbs = batch_borrows_queue_pair,
          .ibverbs_rs = no_extended_posts,
          .rrddmma = no_extended_posts,
          .harmful = &set_wr_id_before_start,
          .caught = &set_id_within_batch,
          .twin = &set_id_within_batch},
    entry{.name = "qp_destroyed_under_a_posting_thread",
          .kind = "threads",
          .mistake = "one thread destroys the queue pair before another thread posts to it",
          .seen = "Mooncake PR #1903: use after free in ibv_post_send; rdmapp qp.cc:322",
          .does = harm::crash,
          .caught_by = level::stop,
          .words = "a request was posted to a destroyed queue: queue pair",
          .ibverbs = batch_borrows_queue_pair,
          .ibverbs_rs = {answer::yes, "every operation borrows its channel exclusively"},
          .rrddmma = unknown,
          .harmful = &post_to_destroyed_qp,
          .caught = &submit_batch_of_destroyed_qp,
          .twin = &destroy_qp_by_its_user},
    entry{.name = "completion_taken_by_the_wrong_thread",
          .kind = "threads",
          .mistake =
              "two threads poll one queue for their own requests and discard other completions",
          .seen = "rdma-core ibv_poll_cq(3): a poll takes whatever completed; ibverbs-rs "
                  "cached_completion_queue stores completions of others",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the first handle has its result",
          .ibverbs = {answer::no, "a poll returns completions of all threads"},
          .ibverbs_rs = {answer::yes, "completions of other requests are stored by wr_id"},
          .rrddmma = {answer::no, "a poll returns completions of all threads"},
          .harmful = &poll_completions_of_other_thread,
          .caught = &handle_per_thread,
          .twin = &queue_pair_per_thread},
    entry{.name = "queue_pair_connected_by_two_threads",
          .kind = "threads",
          .mistake = "two threads connect one queue pair; the second ignores its failure",
          .seen = "ibv_modify_qp(3): EINVAL for a transition that the state does not allow",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/handshake_consumes_the_prepared_queue_pair",
          .ibverbs = {answer::yes, "handshake consumes the prepared queue pair"},
          .ibverbs_rs = {answer::yes, "handshake consumes the prepared queue pair"},
          .rrddmma = {answer::yes, "bind_peer panics the second time"},
          .harmful = &connect_by_two_threads,
          .caught = nullptr,
          .twin = &connect_by_one_thread},
    entry{
        .name = "cq_polled_while_being_polled",
        .kind = "threads",
        .mistake = "between ibv_start_poll and ibv_end_poll the thread polls the queue again",
        .seen = "rdma-core providers/rxe/rxe.c: start_poll holds the queue's lock until end_poll",
        .does = harm::hang,
        .caught_by = level::stop,
        .words = "a thread began a second poll of a completion queue before it ended the first one",
        .ibverbs = {answer::no, "only its documentation states that a second poll blocks"},
        .ibverbs_rs = {answer::absent, "it has no extended completion queues"},
        .rrddmma = {answer::absent, "it has no extended completion queues"},
        .harmful = &start_poll_within_poll,
        .caught = &poll_within_poll,
        .twin = &poll_after_poll},
};

}  // namespace
}  // namespace thread_entries

std::span<const entry> threads() { return thread_entries::entries; }

}  // namespace verbena::zoo
