// SPDX-License-Identifier: MIT
// Memory, registrations, lists and queues that are destroyed while they are still in use.
#include <sys/mman.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace lifetime_entries {
namespace {

const std::string message(64, 'm');
const std::string ledger(64, 'L');

void send_message(pair& with) {
  put(with.at(8192, 64), message);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(8192, 64)).value();
}

// A call with a time limit: when it passes, the caller uses the memory for something else.
void receive_given_up() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  require(take(with.b->receives, 1, deadline::after(10ms)).empty(), "nothing was sent yet");
  put(with.at(0, 64), ledger);
  send_message(with);  // late
  take_good(with.a->sends, 1);
  const auto seen = text_at(with.at(0, 64), 64);
  if (seen != ledger) harmed("the late message lies where something else was kept: " + seen);
}
void receive_ended_before_its_memory_is_used() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  require(take(with.b->receives, 1, deadline::after(10ms)).empty(), "nothing was sent yet");
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  const auto flushed = take(with.b->receives, 1);
  require(flushed.size() == 1 && !flushed[0].ok(), "the receive was not flushed");
  put(with.at(0, 64), ledger);
  send_message(with);
  require(take(with.a->sends, 1).size() == 1, "the late message did not end");
  require(text_at(with.at(0, 64), 64) == ledger, "the memory changed");
}
void buffer_of_a_receive_given_up() {
  channels with;
  const auto pool = with.pool(1);
  std::optional receiving(with.b->post_receive(*pool.take(64)));
  require(receiving->wait(deadline::after(10ms)) == nullptr, "nothing was sent yet");
  receiving.reset();
  require(!pool.take(64).has_value(), "the pool lends out what the adapter may still write");
  put(with.at(8192, 64), message);
  require(with.a->send(source(with.memory, 8192, 64), abort_at(patiently())).has_value(),
          "the late message");
  const auto until = patiently();
  while (with.b->in_flight() != 0 && !until.expired()) with.b->progress();
  require(pool.take(64).has_value(), "the buffer did not come back");
  held("the pool lent the buffer again when the late message was in it");
}

void close_a_region_too_early() {
  pair with;
  auto room = with.pd.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 2}, room.slice()).value();
  static_cast<void>(std::move(room).close());
  send_message(with);
  const auto received = take(with.b->receives, 1);
  require(received.size() == 1, "the receive did not end");
  if (!received[0].ok())
    harmed("the message did not come, and the connection is dead: " +
           to_string(received[0].status()));
}
void close_a_region_afterwards() {
  pair with;
  auto room = with.pd.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 2}, room.slice()).value();
  send_message(with);
  take_good(with.b->receives, 1);
  require(std::move(room).close().has_value(), "the region was not closed");
}

// Makes requests as helpers in C do: the list of pieces lies in a scratch area of the helper.
ibv_send_wr* with_scratch_list(ibv_send_wr& made, const local_slice& of) {
  static ibv_sge scratch;
  scratch = of.native();
  made = {};
  made.sg_list = &scratch;
  made.num_sge = 1;
  made.opcode = IBV_WR_SEND;
  made.send_flags = IBV_SEND_SIGNALED;
  return &made;
}
void list_used_again_before_the_post() {
  pair with;
  put(with.at(8192, 64), message);
  put(with.at(8256, 64), ledger);
  for (std::size_t slot = 0; slot < 2; ++slot)
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * 64, 64)).value();
  std::array<ibv_send_wr, 2> chain{};
  ibv_send_wr* const head = with_scratch_list(chain[0], with.memory.slice(8192, 64));
  head->next = with_scratch_list(chain[1], with.memory.slice(8256, 64));
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(with.a->queue.native(), head, &refused) == 0, "the post");
  take_good(with.b->receives, 2);
  const auto first = text_at(with.at(0, 64), 64);
  if (first != message) harmed("the first message of the chain is the second: " + first);
}
void lists_that_last() {
  pair with;
  put(with.at(8192, 64), message);
  put(with.at(8256, 64), ledger);
  for (std::size_t slot = 0; slot < 2; ++slot)
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * 64, 64)).value();
  const std::array first = {with.memory.slice(8192, 32), with.memory.slice(8224, 32)};
  const std::array second = {with.memory.slice(8256, 64)};
  auto batch = with.a->queue.start_send();
  batch.send({.id = 1, .signaled = true}, first);
  batch.send({.id = 2, .signaled = true}, second);
  batch.submit().value();
  take_good(with.b->receives, 2);
  require(text_at(with.at(0, 128), 128) == message + ledger, "the messages are others");
}

void wait_for_a_queue_that_is_gone() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  require(std::move(with.b->queue).close().has_value(), "the queue pair was not destroyed");
  if (take(with.b->receives, 1, briefly()).empty())
    harmed("the completion of a request of a destroyed queue pair never comes");
}
void wait_for_a_channel_that_is_gone() {
  channels with;
  const auto pool = with.pool(1);
  auto receiving = with.b->post_receive(*pool.take(64));
  with.b.reset();
  put(with.at(8192, 64), message);
  require(with.a->send(source(with.memory, 8192, 64), abort_at(patiently())).has_value(),
          "the message");
  require(receiving.wait(patiently()) != nullptr && receiving.poll()->has_value(), "nothing came");
  require(text_at(receiving.take_buffer().bytes(), 64) == message, "the message is another");
  held("the operation kept its channel until the message came");
}
void wait_before_the_queue_goes() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  require(take(with.b->receives, 1).size() == 1, "the receive was not flushed");
  require(std::move(with.b->queue).close().has_value(), "the queue pair was not destroyed");
}

// The end of a program: first the arena, then what was posted from it.
void arena_unmapped_first() {
  pair with;
  void* const arena =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(arena != MAP_FAILED, "memory");
  const auto region =
      with.pd.register_memory({static_cast<std::byte*>(arena), 4096}, access::local_write).value();
  with.b->queue.post_receive({.id = 2}, region.slice(0, 64)).value();
  munmap(arena, 4096);
  void* const other = mmap(arena, 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  require(other == arena, "the addresses are taken");
  const std::span<std::byte> page(static_cast<std::byte*>(other), 4096);
  put(page, ledger);  // the next user of these addresses
  send_message(with);
  take_good(with.b->receives, 1);
  const auto seen = text_at(page, 64);
  if (seen != ledger) harmed("the message lies in memory of somebody else: " + seen);
}
void pool_dropped_first() {
  channels with;
  std::optional pool(with.pool(1));
  auto receiving = with.b->post_receive(*pool->take(64));
  pool.reset();
  put(with.at(8192, 64), message);
  require(with.a->send(source(with.memory, 8192, 64), abort_at(patiently())).has_value(),
          "the message");
  require(receiving.wait(patiently()) != nullptr && receiving.poll()->has_value(), "nothing came");
  const auto back = receiving.take_buffer();
  require(text_at(back.bytes(), 64) == message, "the message is another");
  held("the memory lived as long as the buffer in flight");
}
void arena_unmapped_last() {
  pair with;
  {
    const auto arena = with.pd.allocate(4096, access::local_write).value();
    with.b->queue.post_receive({.id = 2}, arena.slice(0, 64)).value();
    send_message(with);
    take_good(with.b->receives, 1);
    require(text_at(arena.bytes(), 64) == message, "the message is another");
  }
  take_good(with.a->sends, 1);
}

constexpr std::array entries = {
    entry{.name = "receive_given_up_writes_memory_in_use",
          .kind = "lifetime",
          .mistake = "memory of a receive is used anew when a time limit passed",
          .seen = "pegaflow #403: a transfer's timeout lets DMA into freed memory; monarch #3804",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the pool lent the buffer again when the late message was in it",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "a scope waits for its receives, without a time limit"},
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &receive_given_up,
          .caught = &buffer_of_a_receive_given_up,
          .twin = &receive_ended_before_its_memory_is_used},
    entry{.name = "region_closed_while_a_receive_names_it",
          .kind = "lifetime",
          .mistake = "memory is deregistered while requests that name it are posted",
          .seen = "rdmapp qp.cc:288: the region goes with the coroutine's frame",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a memory region was deregistered while a request in flight uses it: .* RECV 2 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "elements borrow the memory region"},
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &close_a_region_too_early,
          .caught = &close_a_region_too_early,
          .twin = &close_a_region_afterwards},
    entry{.name = "list_of_slices_gone_before_the_post",
          .kind = "lifetime",
          .mistake = "requests of a chain point to lists of pieces that are used again",
          .seen = "rrddmma wr/macros.rs:6: set_next keeps an untracked pointer",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/temporary_list_of_slices_is_refused",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::yes, "a work request borrows its list until it was posted"},
          .rrddmma = {answer::no, "set_next is a safe function that stores a pointer"},
          .harmful = &list_used_again_before_the_post,
          .caught = nullptr,
          .twin = &lists_that_last},
    entry{.name = "completion_of_a_destroyed_queue_awaited",
          .kind = "lifetime",
          .mistake = "the queue pair goes first, then somebody waits for its requests",
          .seen = "ibverbs-rs pending_work.rs:46: drop spins for ever when the channel went first",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the operation kept its channel until the message came",
          .ibverbs = {answer::no, "nothing ties a request to its completion"},
          .ibverbs_rs = {answer::no, "pending work does not hold its channel"},
          .rrddmma = {answer::no, "posts return nothing that holds the queue pair"},
          .harmful = &wait_for_a_queue_that_is_gone,
          .caught = &wait_for_a_channel_that_is_gone,
          .twin = &wait_before_the_queue_goes},
    entry{.name = "arena_unmapped_under_its_receives",
          .kind = "lifetime",
          .mistake = "an arena is given back to the system before its posted buffers are",
          .seen = "libfabric #6244: memory unmapped under a cached registration",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the memory lived as long as the buffer in flight",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "elements borrow memory and region"},
          .rrddmma = rrddmma_keeps_no_hold,
          .harmful = &arena_unmapped_first,
          .caught = &pool_dropped_first,
          .twin = &arena_unmapped_last},
};

}  // namespace
}  // namespace lifetime_entries

std::span<const entry> lifetime() { return lifetime_entries::entries; }

}  // namespace verbena::zoo
