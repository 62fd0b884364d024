// SPDX-License-Identifier: MIT
// wr_id, which identifies the request of a completion.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace number_entries {
namespace {

const std::string one_text(64, '1');
const std::string two_text(64, '2');

// All requests have wr_id 0, so the program cannot identify the completed receive.
void same_wr_id_twice() {
  pair with;
  put(with.at(4096, 64), one_text);
  auto shared = with.device.create_cq(16).value();
  auto prepared = with.pd.create_qp<rc>(shared, shared).value();
  const auto itself = prepared.endpoint();
  auto both = std::move(prepared).handshake(itself).value();
  both.post_receive({.id = 0}, with.memory.slice(0, 64)).value();
  both.post_receive({.id = 0}, with.memory.slice(128, 64)).value();
  std::map<std::uint64_t, std::size_t> buffers;
  for (const std::size_t offset : {0, 128}) buffers[0] = offset;  // replaces the first entry
  send(both, {.id = 0, .signaled = true}, with.memory.slice(4096, 64)).value();
  for (const auto& done : take_successful(shared, 2))
    if (done.is_receive() && text_at(with.at(buffers.at(done.id()), 64), 64) != one_text)
      harmed("the program reads the buffer at 128, which is empty");
}
void one_handle_per_operation() {
  channels with;
  const auto pool = with.pool();
  auto first = with.b->post_receive(pool.take(64).value());
  auto second = with.b->post_receive(pool.take(64).value());
  put(with.at(0, 64), one_text);
  with.a->send(source(with.memory, 0, 64), abort_at(long_deadline())).value();
  require(first.wait(long_deadline())->has_value(), "no message arrived");
  require(second.poll() == nullptr, "the second receive has completed");
  require(text_at(first.take_buffer().bytes(), 64) == one_text, "the message has other bytes");
  put(with.at(0, 64), two_text);
  with.a->send(source(with.memory, 0, 64), abort_at(long_deadline())).value();
  require(second.wait(long_deadline())->has_value(), "no message arrived");
  require(text_at(second.take_buffer().bytes(), 64) == two_text, "the message has other bytes");
  verified("each operation has its own handle instead of a number");
}

// wr_id is the index of a context in a table. After a timeout the context is reused, but the
// request completes later.
struct context_of_a_request {
  std::string what;
  bool over = false;
};
void reuse_wr_id_after_timeout() {
  pair with;
  std::array<context_of_a_request, 1> table;
  put(with.at(0, 64), one_text);
  put(with.at(64, 64), two_text);
  table[0] = {.what = "one"};
  send(with.a->queue, {.id = 0, .signaled = true}, with.memory.slice(0, 64)).value();
  require(take(with.a->sends, 1, deadline::after(10ms)).empty(), "the send completed too early");
  table[0] = {.what = "two"};  // the mistake: the first is still in flight
  send(with.a->queue, {.id = 0, .signaled = true}, with.memory.slice(64, 64)).value();
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64))
      .value();  // for one message only
  const auto done = take_successful(with.a->sends, 1);
  table.at(done[0].id()).over = true;
  take_successful(with.b->receives, 1);
  const auto arrived = text_at(with.at(4096, 64), 64);
  if (table[0].over && table[0].what == "two" && arrived != two_text)
    harmed("the second request is considered complete, but the first was sent");
}
void new_handle_after_timeout() {
  channels with;
  const auto pool = with.pool();
  auto first_memory = pool.take(64).value();
  auto second_memory = pool.take(64).value();
  put(first_memory.bytes(), one_text);
  put(second_memory.bytes(), two_text);
  std::optional first = with.a->post_send(std::move(first_memory), {.length = 64});
  require(first->wait(deadline::after(10ms)) == nullptr, "the send completed too early");
  first.reset();  // the operation remains in flight
  auto second = with.a->post_send(std::move(second_memory), {.length = 64});
  auto into = with.b->post_receive(pool.take(64).value());
  require(into.wait(long_deadline())->has_value(), "no message arrived");
  require(text_at(into.take_buffer().bytes(), 64) == one_text, "the message has other bytes");
  require(second.poll() == nullptr, "the second send has completed");
  auto then = with.b->post_receive(pool.take(64).value());
  require(second.wait(long_deadline())->has_value() && then.wait(long_deadline())->has_value(),
          "the second send did not complete");
  verified("the slot of an abandoned operation is not reused before its completion");
}

// A receive is too short. The program uses byte_len of the failed completion.
constexpr std::size_t short_length = 16;
void send_to_short_receive(pair& with) {
  put(with.at(0, 64), one_text);
  put(with.at(4096 + short_length, 64), std::string(64, 's'));  // memory after the receive
  with.b->queue.post_receive({.id = 7}, with.memory.slice(4096, short_length)).value();
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
}
void read_byte_len_of_failure_in_c() {
  pair with;
  send_to_short_receive(with);
  const auto done = c_take(with.b->receives.native(), 1);
  require(done.size() == 1 && done[0].status != IBV_WC_SUCCESS, "the receive did not fail");
  const auto read = text_at(with.at(4096, done[0].byte_len), done[0].byte_len);
  if (read.find('s') != std::string::npos)
    harmed("the message of request 7 contains bytes that were never sent: " + read);
}
void read_length_of_failure() {
  pair with;
  send_to_short_receive(with);
  const auto done = take(with.b->receives, 1);
  require(done.size() == 1, "the receive did not complete");
  static_cast<void>(done[0].byte_length());
}
void read_id_of_failure() {
  pair with;
  send_to_short_receive(with);
  const auto done = take(with.b->receives, 1);
  require(done.size() == 1 && !done[0].ok() && done[0].id() == 7,
          "the completion has another status or ID");
}

// The program reads the whole array after a poll, not only the entries that the poll has filled.
void read_whole_array() {
  pair with;
  std::array<ibv_wc, 4> room{};
  std::array<int, 4> times{};
  const auto exchange = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t id = first; id <= last; ++id) {
      require(c_receive(with.b->queue.native(), id, with.memory.slice(4096 + 64 * id, 64)) == 0,
              "the post failed");
      require(c_send(with.a->queue.native(), id, with.memory.slice(0, 8)) == 0, "the post failed");
    }
    c_take_successful(with.a->sends.native(), last - first + 1);
    for (const auto until = long_deadline(); !until.expired();)
      if (ibv_poll_cq(with.b->receives.native(), 4, room.data()) > 0) break;
    for (const ibv_wc& each : room)
      if (each.wr_id != 0) ++times.at(each.wr_id);
  };
  exchange(1, 2);
  exchange(3, 3);
  for (std::uint64_t id : {1, 2, 3})
    if (times.at(id) != 1)
      harmed("request " + std::to_string(id) + " completed " + std::to_string(times.at(id)) +
             " times");
}
void read_filled_entries() {
  pair with;
  std::array<completion, 4> room;
  std::array<int, 4> times{};
  for (std::uint64_t id : {1, 2, 3}) {
    with.b->queue.post_receive({.id = id}, with.memory.slice(4096 + 64 * id, 64)).value();
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(0, 8)).value();
    bool came = false;
    for (const auto until = long_deadline(); !came && !until.expired();)
      for (const auto& each : with.b->receives.poll(room).value()) {
        ++times.at(each.id());
        came = true;
      }
    take_successful(with.a->sends, 1);
  }
  for (std::uint64_t id : {1, 2, 3})
    require(times.at(id) == 1, "a request did not complete exactly once");
}

constexpr crate caller_selects_wr_ids = {answer::no, "the caller selects wr_ids"};
constexpr crate channel_selects_wr_ids = {answer::yes,
                                          "channels select wr_ids and store completions by them"};

constexpr std::array entries = {
    entry{.name = "same_wr_id_for_all_requests",
          .kind = "wr_id reuse",
          .mistake = "several requests in flight have the same wr_id",
          .seen = "rdma-core PR #1612 (EFA): one index for two requests in flight",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "each operation has its own handle",
          .ibverbs = caller_selects_wr_ids,
          .ibverbs_rs = channel_selects_wr_ids,
          .rrddmma = caller_selects_wr_ids,
          .harmful = &same_wr_id_twice,
          .caught = &one_handle_per_operation,
          .twin = &one_handle_per_operation},
    entry{.name = "wr_id_reused_after_timeout",
          .kind = "wr_id reuse",
          .mistake = "after a timeout the context of a wr_id is reused for the next request",
          .seen = "spdk PR #3859, #3830: contexts freed before the flushed completions arrived",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the slot of an abandoned operation is not reused",
          .ibverbs = caller_selects_wr_ids,
          .ibverbs_rs = {answer::yes, "operations cannot be abandoned: the scope waits for them"},
          .rrddmma = caller_selects_wr_ids,
          .harmful = &reuse_wr_id_after_timeout,
          .caught = &new_handle_after_timeout,
          .twin = &new_handle_after_timeout},
    entry{.name = "length_of_a_failed_completion_used",
          .kind = "wr_id reuse",
          .mistake = "opcode or length of a failed completion are used",
          .seen = "libfabric PR #7365, rpma #1142; ibv_poll_cq(3): only wr_id, status, qp_num and "
                  "vendor_err are valid",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a member that a failed completion does not define was read",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::yes, "a failed completion has a type without a length"},
          .rrddmma = {answer::no, "opcode() is read regardless of the status, and may panic"},
          .harmful = &read_byte_len_of_failure_in_c,
          .caught = &read_length_of_failure,
          .twin = &read_id_of_failure},
    entry{
        .name = "stale_entries_used_as_completions",
        .kind = "wr_id reuse",
        .mistake = "the whole array is read after a poll, not only the returned number of entries",
        .seen =
            "ibv_poll_cq(3) returns the number of filled entries and does not change the others",
        .does = harm::wrong_data,
        .caught_by = level::compiler,
        .words = "verbs/discarded_poll_is_refused",
        .ibverbs = {answer::yes, "a poll returns the filled part"},
        .ibverbs_rs = {answer::yes, "a poll returns an iterator over the filled entries"},
        .rrddmma = unknown,
        .harmful = &read_whole_array,
        .caught = nullptr,
        .twin = &read_filled_entries},
};

}  // namespace
}  // namespace number_entries

std::span<const entry> request_numbers() { return number_entries::entries; }

}  // namespace verbena::zoo
