// SPDX-License-Identifier: MIT
// What one thread does to a queue that another one uses.
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

// A thread leaves its batch open: it returned early, or threw. The others wait for the queue.
void batch_left_open() {
  pair with;
  ibv_qp_ex* const queue = with.a->queue.extended().value().native();
  std::thread([&] { ibv_wr_start(queue); }).join();  // "nothing to send after all"
  const bool ended = ends_in_time([=] {
    ibv_wr_start(queue);
    ibv_wr_abort(queue);
  });
  if (!ended) harmed("the other thread waits for the queue for ever");
}
void batch_dropped() {
  pair with;
  auto poster = with.a->queue.extended().value();
  std::thread([&] { static_cast<void>(poster.start_send()); }).join();
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  std::thread([&] {
    auto batch = poster.start_send();
    batch.send({.id = 2, .signaled = true}, with.memory.slice(0, 64));
    batch.submit().value();
  }).join();
  take_good(with.b->receives, 1);
  held("the batch gave the queue back when it went");
}

// The number of a request is put into the queue, outside of what belongs to the thread.
void number_set_outside() {
  pair with;
  ibv_qp_ex* const queue = with.a->queue.extended().value().native();
  const auto data = with.memory.slice(0, 8).native();
  const auto post = [&] {
    ibv_wr_start(queue);
    ibv_wr_send(queue);
    ibv_wr_set_sge(queue, data.lkey, data.addr, data.length);
    require(ibv_wr_complete(queue) == 0, "the post was refused");
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
  const auto ends = c_take_good(with.a->sends.native(), 2);
  if (ends[0].wr_id == ends[1].wr_id)
    harmed("both requests have number " + std::to_string(ends[0].wr_id));
}
void number_said_with_the_request() {
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
  const auto ends = take_good(with.a->sends, 2);
  require(ends[0].id() == 1 && ends[1].id() == 2, "the requests have other numbers");
  held("the number is said with the request, inside of the batch");
}

// One thread takes the queue down while another one is about to post to it.
void queue_taken_down_by_another() {
  mallopt(M_PERTURB, 0xa5);  // memory that was freed says nothing any more
  pair with;
  ibv_qp* const queue = with.a->queue.native();
  const auto data = with.memory.slice(0, 8);
  std::latch is_gone(1);
  std::thread poster([&] {
    is_gone.wait();
    static_cast<void>(c_send(queue, 1, data));
  });
  with.a.reset();
  is_gone.count_down();
  poster.join();
}
void batch_of_a_queue_that_is_gone() {
  pair with;
  std::latch is_open(1);
  std::latch is_gone(1);
  std::thread poster([&] {
    auto batch = with.a->queue.start_send();
    batch.send({.id = 1, .signaled = true}, with.memory.slice(0, 8));
    is_open.count_down();
    is_gone.wait();
    static_cast<void>(batch.submit());
  });
  is_open.wait();
  with.a.reset();
  is_gone.count_down();
  poster.join();
}
void queue_taken_down_by_its_last_user() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  std::thread([&, mine = std::move(with.a)]() mutable {
    send(mine->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 8)).value();
    take_good(mine->sends, 1);
    mine.reset();
  }).join();
  take_good(with.b->receives, 1);
}

// Two threads wait for the ends of their own requests in one queue; each throws away the other's.
void own_completion_taken_by_another() {
  pair with;
  for (std::uint64_t id : {11, 12})
    with.b->queue.post_receive({.id = id}, with.memory.slice(4096 + 64 * id, 64)).value();
  for (std::uint64_t id : {1, 2})
    require(c_send(with.a->queue.native(), id, with.memory.slice(0, 8)) == 0, "a post is refused");
  const auto wait_for = [&](std::uint64_t id, deadline until) {
    while (true) {
      const auto done = c_take(with.a->sends.native(), 1, until);
      if (done.empty()) return false;
      if (done[0].wr_id == id) return true;
    }
  };
  std::latch second_has_its_own(1);
  std::thread second([&] {
    require(wait_for(2, patiently()), "the second request does not end");
    second_has_its_own.count_down();
  });
  second_has_its_own.wait();
  second.join();
  bool found = true;
  std::thread([&] { found = wait_for(1, briefly()); }).join();
  if (!found) harmed("the end of the first request was taken by the thread of the second");
}
void every_handle_gets_its_own() {
  channels with;
  const auto pool = with.pool();
  auto into_first = with.b->post_receive(pool.take(64).value());
  auto into_second = with.b->post_receive(pool.take(64).value());
  auto first = with.a->post_send(pool.take(64).value(), {.length = 8});
  auto second = with.a->post_send(pool.take(64).value(), {.length = 8});
  std::thread([&] {
    require(second.wait(patiently())->has_value(), "the second does not end");
  }).join();
  std::thread([&] {
    require(first.wait(patiently())->has_value(), "the first does not end");
  }).join();
  require(into_first.wait(patiently())->has_value() && into_second.wait(patiently())->has_value(),
          "no message");
  held("the handle of the first had its end, though the thread of the second polled it");
}
void a_queue_for_each_thread() {
  pair one;
  pair two;
  const auto run = [](pair& mine) {
    mine.b->queue.post_receive({.id = 1}, mine.memory.slice(4096, 64)).value();
    send(mine.a->queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 8)).value();
    require(take_good(mine.a->sends, 1)[0].id() == 2, "another's end");
    take_good(mine.b->receives, 1);
  };
  std::thread first([&] { run(one); });
  std::thread second([&] { run(two); });
  first.join();
  second.join();
}

// Two threads connect one queue pair, each to the peer that it was asked for.
struct loose_ends {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(64 * 1024, every_right).value();
  completion_queue cq = device.create_cq(64).value();
  prepared_queue_pair<rc> shared =
      pd.create_qp<rc>(cq, cq, {.reliability = {.rnr_retry_count = 0}}).value();
  prepared_queue_pair<rc> first = pd.create_qp<rc>(cq, cq).value();
  prepared_queue_pair<rc> second = pd.create_qp<rc>(cq, cq).value();
};
void connected_by_two() {
  loose_ends with;
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
    // Refused: it is ready already. "Another thread was faster."
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
  for (const auto& done : take_good(with.cq, 2))
    if (done.id() == 1)
      harmed("the first peer got: " + text_at(with.memory.bytes().subspan(4096), 14));
}
void connected_by_one() {
  loose_ends with;
  const auto to_shared = with.shared.endpoint();
  const auto to_second = with.second.endpoint();
  auto second = std::move(with.second).handshake(to_shared).value();
  auto shared = std::move(with.shared).handshake(to_second).value();
  second.post_receive({.id = 2}, with.memory.slice(8192, 64)).value();
  send(shared, {.id = 3, .signaled = true}, with.memory.slice(0, 14)).value();
  take_good(with.cq, 2);
}

// A thread that has a pass over the queue open polls it once more, in a function that it calls.
void polled_inside_of_a_pass() {
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
  const auto until = patiently();
  while (ibv_start_poll(native, &attributes) != 0 && !until.expired()) continue;
  // A function that is called in between: it takes a refusal for "nothing there yet".
  bool came = false;
  for (const auto end = briefly(); !came && !end.expired();)
    came = ibv_start_poll(native, &attributes) == 0;
  if (!came) harmed("there are completions, and the second poll never gets one");
}
void poll_inside_of_a_pass() {
  pair with;
  auto lazy = with.device.create_extended_cq(16).value();
  auto prepared = with.pd.create_qp<rc>(lazy, lazy).value();
  const auto itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(queue, {.id = 3, .signaled = true}, with.memory.slice(0, 8)).value();
  for (const auto until = patiently(); !until.expired();)
    for (const auto& each : lazy.poll())
      if (each.id() != 0) static_cast<void>(lazy.poll());
}
void poll_after_the_pass() {
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
  for (const auto until = patiently(); seen == 0 && !until.expired();)
    for (const auto& each : lazy.poll()) {
      require(each.ok(), "a request failed");
      ++seen;
      break;
    }
  take_good(lazy, 4 - seen);
}

constexpr crate one_borrow_for_a_batch = {
    answer::yes, "a batch borrows its queue pair exclusively, and dropping it aborts it"};
constexpr crate no_extended_posts = {answer::absent, "it has no ibv_wr_* interface"};

constexpr std::array entries = {
    entry{.name = "batch_left_open_blocks_other_threads",
          .kind = "threads",
          .mistake = "an early return between ibv_wr_start and ibv_wr_complete",
          .seen = "ibv_wr_post(3): ibv_wr_start is followed by ibv_wr_complete or ibv_wr_abort",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the batch gave the queue back when it went",
          .ibverbs = one_borrow_for_a_batch,
          .ibverbs_rs = no_extended_posts,
          .rrddmma = no_extended_posts,
          .harmful = &batch_left_open,
          .caught = &batch_dropped,
          .twin = &batch_dropped},
    entry{.name = "request_number_set_outside_of_the_batch",
          .kind = "threads",
          .mistake = "two threads set wr_id of a queue before they call ibv_wr_start",
          .seen = "ibv_wr_post(3): wr_id and wr_flags are set between start and the operation",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the number is said with the request",
          .ibverbs = one_borrow_for_a_batch,
          .ibverbs_rs = no_extended_posts,
          .rrddmma = no_extended_posts,
          .harmful = &number_set_outside,
          .caught = &number_said_with_the_request,
          .twin = &number_said_with_the_request},
    entry{.name = "queue_destroyed_under_a_posting_thread",
          .kind = "threads",
          .mistake = "one thread destroys the queue pair, another one is about to post to it",
          .seen = "Mooncake PR #1903: use after free in ibv_post_send; rdmapp qp.cc:322",
          .does = harm::crash,
          .caught_by = level::stop,
          .words = "a request was posted to a destroyed queue: queue pair",
          .ibverbs = one_borrow_for_a_batch,
          .ibverbs_rs = {answer::yes, "every operation borrows its channel exclusively"},
          .rrddmma = unknown,
          .harmful = &queue_taken_down_by_another,
          .caught = &batch_of_a_queue_that_is_gone,
          .twin = &queue_taken_down_by_its_last_user},
    entry{.name = "completion_taken_by_the_wrong_thread",
          .kind = "threads",
          .mistake = "two threads poll one queue, each for its own request, and drop the rest",
          .seen = "rdma-core ibv_poll_cq(3): a poll takes whatever completed; ibverbs-rs "
                  "cached_completion_queue parks what is of others",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the handle of the first had its end",
          .ibverbs = {answer::no, "a poll gives whatever completed to whoever polls"},
          .ibverbs_rs = {answer::yes, "completions of other requests are parked by their number"},
          .rrddmma = {answer::no, "a poll gives whatever completed to whoever polls"},
          .harmful = &own_completion_taken_by_another,
          .caught = &every_handle_gets_its_own,
          .twin = &a_queue_for_each_thread},
    entry{.name = "queue_pair_connected_by_two_threads",
          .kind = "threads",
          .mistake = "two threads connect one queue pair; the second takes its refusal for done",
          .seen = "ibv_modify_qp(3): EINVAL for a transition that the state does not allow",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/handshake_consumes_the_prepared_queue_pair",
          .ibverbs = {answer::yes, "handshake consumes the prepared queue pair"},
          .ibverbs_rs = {answer::yes, "handshake consumes the prepared queue pair"},
          .rrddmma = {answer::yes, "bind_peer panics the second time"},
          .harmful = &connected_by_two,
          .caught = nullptr,
          .twin = &connected_by_one},
    entry{.name = "queue_polled_inside_of_a_pass_over_it",
          .kind = "threads",
          .mistake = "between ibv_start_poll and ibv_end_poll the thread polls the queue again",
          .seen = "rdma-core providers/rxe/rxe.c: start_poll holds the queue's lock until end_poll",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a thread opened a second pass over a completion queue",
          .ibverbs = {answer::no, "documented only: a second poll of the thread locks up"},
          .ibverbs_rs = {answer::absent, "it has no extended completion queues"},
          .rrddmma = {answer::absent, "it has no extended completion queues"},
          .harmful = &polled_inside_of_a_pass,
          .caught = &poll_inside_of_a_pass,
          .twin = &poll_after_the_pass},
};

}  // namespace
}  // namespace thread_entries

std::span<const entry> threads() { return thread_entries::entries; }

}  // namespace verbena::zoo
