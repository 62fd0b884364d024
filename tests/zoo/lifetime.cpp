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
const std::string reused_text(64, 'L');

void send_message(pair& with) {
  put(with.at(8192, 64), message);
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(8192, 64)).value();
}

// After a timeout, the caller reuses the memory of a posted receive.
void reuse_memory_after_timeout() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  require(take(with.b->receives, 1, deadline::after(10ms)).empty(), "a message arrived too early");
  put(with.at(0, 64), reused_text);
  send_message(with);  // after the timeout
  take_successful(with.a->sends, 1);
  const auto seen = text_at(with.at(0, 64), 64);
  if (seen != reused_text) harmed("the late message overwrote reused memory: " + seen);
}
void flush_before_reusing_memory() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  require(take(with.b->receives, 1, deadline::after(10ms)).empty(), "a message arrived too early");
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  const auto flushed = take(with.b->receives, 1);
  require(flushed.size() == 1 && !flushed[0].ok(), "the receive was not flushed");
  put(with.at(0, 64), reused_text);
  send_message(with);
  require(take(with.a->sends, 1).size() == 1, "the send of the late message did not complete");
  require(text_at(with.at(0, 64), 64) == reused_text, "the memory changed");
}
void destroy_handle_of_receive() {
  channels with;
  const auto pool = with.pool(1);
  std::optional receiving(with.b->post_receive(*pool.take(64)));
  require(receiving->wait(deadline::after(10ms)) == nullptr, "a message arrived too early");
  receiving.reset();
  require(!pool.take(64).has_value(),
          "the pool returned a buffer that the adapter may still write");
  put(with.at(8192, 64), message);
  require(with.a->send(source(with.memory, 8192, 64), abort_at(long_deadline())).has_value(),
          "the late message was not sent");
  const auto until = long_deadline();
  while (with.b->in_flight() != 0 && !until.expired()) with.b->progress();
  require(pool.take(64).has_value(), "the buffer was not returned");
  verified("the pool reused the buffer only after the late message had arrived");
}

void close_region_before_completion() {
  pair with;
  auto room = with.pd.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 2}, room.slice()).value();
  static_cast<void>(std::move(room).close());
  send_message(with);
  const auto received = take(with.b->receives, 1);
  require(received.size() == 1, "the receive did not complete");
  if (!received[0].ok())
    harmed("the message did not arrive, and the connection failed: " +
           to_string(received[0].status()));
}
void close_region_after_completion() {
  pair with;
  auto room = with.pd.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 2}, room.slice()).value();
  send_message(with);
  take_successful(with.b->receives, 1);
  require(std::move(room).close().has_value(), "the region was not closed");
}

// Builds a request whose scatter/gather list is a static variable of the function.
ibv_send_wr* request_with_static_sge(ibv_send_wr& made, const local_slice& of) {
  static ibv_sge scratch;
  scratch = of.native();
  made = {};
  made.sg_list = &scratch;
  made.num_sge = 1;
  made.opcode = IBV_WR_SEND;
  made.send_flags = IBV_SEND_SIGNALED;
  return &made;
}
void reuse_sge_list_before_post() {
  pair with;
  put(with.at(8192, 64), message);
  put(with.at(8256, 64), reused_text);
  for (std::size_t slot = 0; slot < 2; ++slot)
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * 64, 64)).value();
  std::array<ibv_send_wr, 2> chain{};
  ibv_send_wr* const head = request_with_static_sge(chain[0], with.memory.slice(8192, 64));
  head->next = request_with_static_sge(chain[1], with.memory.slice(8256, 64));
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(with.a->queue.native(), head, &refused) == 0, "the post failed");
  take_successful(with.b->receives, 2);
  const auto first = text_at(with.at(0, 64), 64);
  if (first != message)
    harmed("the first request of the chain sent the data of the second: " + first);
}
void separate_sge_lists() {
  pair with;
  put(with.at(8192, 64), message);
  put(with.at(8256, 64), reused_text);
  for (std::size_t slot = 0; slot < 2; ++slot)
    with.b->queue.post_receive({.id = slot}, with.memory.slice(slot * 64, 64)).value();
  const std::array first = {with.memory.slice(8192, 32), with.memory.slice(8224, 32)};
  const std::array second = {with.memory.slice(8256, 64)};
  auto batch = with.a->queue.start_send();
  batch.send({.id = 1, .signaled = true}, first);
  batch.send({.id = 2, .signaled = true}, second);
  batch.submit().value();
  take_successful(with.b->receives, 2);
  require(text_at(with.at(0, 128), 128) == message + reused_text, "the messages have other bytes");
}

void poll_after_destroying_qp() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  require(std::move(with.b->queue).close().has_value(), "the queue pair was not destroyed");
  if (take(with.b->receives, 1, short_deadline()).empty())
    harmed("a request of a destroyed queue pair never completes");
}
void operation_outlives_channel() {
  channels with;
  const auto pool = with.pool(1);
  auto receiving = with.b->post_receive(*pool.take(64));
  with.b.reset();
  put(with.at(8192, 64), message);
  require(with.a->send(source(with.memory, 8192, 64), abort_at(long_deadline())).has_value(),
          "the message was not sent");
  require(receiving.wait(long_deadline()) != nullptr && receiving.poll()->has_value(),
          "no message arrived");
  require(text_at(receiving.take_buffer().bytes(), 64) == message, "the message has other bytes");
  verified("the operation kept its channel until the message arrived");
}
void flush_before_destroying_qp() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(0, 64)).value();
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  require(take(with.b->receives, 1).size() == 1, "the receive was not flushed");
  require(std::move(with.b->queue).close().has_value(), "the queue pair was not destroyed");
}

// At the end of the program, the arena is unmapped before its posted receives have completed.
void unmap_arena_before_completion() {
  pair with;
  void* const arena =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(arena != MAP_FAILED, "mmap failed");
  const auto region =
      with.pd.register_memory({static_cast<std::byte*>(arena), 4096}, access::local_write).value();
  with.b->queue.post_receive({.id = 2}, region.slice(0, 64)).value();
  munmap(arena, 4096);
  void* const other = mmap(arena, 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  require(other == arena, "the addresses are in use");
  const std::span<std::byte> page(static_cast<std::byte*>(other), 4096);
  put(page, reused_text);  // the next user of the addresses
  send_message(with);
  take_successful(with.b->receives, 1);
  const auto seen = text_at(page, 64);
  if (seen != reused_text) harmed("the message overwrote memory of another user: " + seen);
}
void destroy_pool_before_completion() {
  channels with;
  std::optional pool(with.pool(1));
  auto receiving = with.b->post_receive(*pool->take(64));
  pool.reset();
  put(with.at(8192, 64), message);
  require(with.a->send(source(with.memory, 8192, 64), abort_at(long_deadline())).has_value(),
          "the message was not sent");
  require(receiving.wait(long_deadline()) != nullptr && receiving.poll()->has_value(),
          "no message arrived");
  const auto back = receiving.take_buffer();
  require(text_at(back.bytes(), 64) == message, "the message has other bytes");
  verified("the memory existed as long as the buffer was in flight");
}
void unmap_arena_after_completion() {
  pair with;
  {
    const auto arena = with.pd.allocate(4096, access::local_write).value();
    with.b->queue.post_receive({.id = 2}, arena.slice(0, 64)).value();
    send_message(with);
    take_successful(with.b->receives, 1);
    require(text_at(arena.bytes(), 64) == message, "the message has other bytes");
  }
  take_successful(with.a->sends, 1);
}

constexpr std::array entries = {
    entry{.name = "memory_reused_after_receive_timeout",
          .kind = "lifetime",
          .mistake = "memory of a posted receive is reused after a timeout",
          .seen = "pegaflow #403: a transfer's timeout lets DMA into freed memory; monarch #3804",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the pool reused the buffer only after the late message had arrived",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "a scope waits for its receives, without a time limit"},
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &reuse_memory_after_timeout,
          .caught = &destroy_handle_of_receive,
          .twin = &flush_before_reusing_memory},
    entry{.name = "region_deregistered_under_posted_receive",
          .kind = "lifetime",
          .mistake = "memory is deregistered while requests in flight use it",
          .seen = "rdmapp qp.cc:288: the region is destroyed with the coroutine's frame",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a memory region was deregistered while a request in flight uses it: .* RECV 2 ",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "elements borrow the memory region"},
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &close_region_before_completion,
          .caught = &close_region_before_completion,
          .twin = &close_region_after_completion},
    entry{.name = "sge_list_reused_before_the_post",
          .kind = "lifetime",
          .mistake = "requests of a chain point to scatter/gather lists that are reused",
          .seen = "rrddmma wr/macros.rs:6: set_next keeps an untracked pointer",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/temporary_list_of_slices_is_refused",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::yes, "a work request borrows its list until it is posted"},
          .rrddmma = {answer::no, "set_next is a safe function that stores a pointer"},
          .harmful = &reuse_sge_list_before_post,
          .caught = nullptr,
          .twin = &separate_sge_lists},
    entry{
        .name = "completion_of_destroyed_qp_awaited",
        .kind = "lifetime",
        .mistake = "the program waits for requests of a queue pair that it has destroyed",
        .seen =
            "ibverbs-rs pending_work.rs:46: drop never returns if the channel was destroyed first",
        .does = harm::hang,
        .caught_by = level::unwritable,
        .words = "the operation kept its channel until the message arrived",
        .ibverbs = {answer::no, "requests and completions are not linked"},
        .ibverbs_rs = {answer::no, "pending work does not hold its channel"},
        .rrddmma = {answer::no, "posts return no object that holds the queue pair"},
        .harmful = &poll_after_destroying_qp,
        .caught = &operation_outlives_channel,
        .twin = &flush_before_destroying_qp},
    entry{.name = "arena_unmapped_under_posted_receives",
          .kind = "lifetime",
          .mistake = "an arena is unmapped before its posted buffers have completed",
          .seen = "libfabric #6244: memory unmapped under a cached registration",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the memory existed as long as the buffer was in flight",
          .ibverbs = ibverbs_posts_are_unsafe,
          .ibverbs_rs = {answer::yes, "elements borrow memory and region"},
          .rrddmma = rrddmma_does_not_borrow,
          .harmful = &unmap_arena_before_completion,
          .caught = &destroy_pool_before_completion,
          .twin = &unmap_arena_after_completion,
          .in_c_verbs = "usage error: memory of a request in flight was unmapped"},
};

}  // namespace
}  // namespace lifetime_entries

std::span<const entry> lifetime() { return lifetime_entries::entries; }

}  // namespace verbena::zoo
