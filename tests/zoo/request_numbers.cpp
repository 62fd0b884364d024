// SPDX-License-Identifier: MIT
// The number of a request, by which a program finds out what a completion is of.
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

// All requests have number 0: which of two receives is over?
void one_number_for_all() {
  pair with;
  put(with.at(4096, 64), one_text);
  auto shared = with.device.create_cq(16).value();
  auto prepared = with.pd.create_qp<rc>(shared, shared).value();
  const auto itself = prepared.endpoint();
  auto both = std::move(prepared).handshake(itself).value();
  both.post_receive({.id = 0}, with.memory.slice(0, 64)).value();
  both.post_receive({.id = 0}, with.memory.slice(128, 64)).value();
  std::map<std::uint64_t, std::size_t> buffers;
  for (const std::size_t offset : {0, 128}) buffers[0] = offset;  // the second hides the first
  send(both, {.id = 0, .signaled = true}, with.memory.slice(4096, 64)).value();
  for (const auto& done : take_good(shared, 2))
    if (done.is_receive() && text_at(with.at(buffers.at(done.id()), 64), 64) != one_text)
      harmed("the buffer at 128 is taken for received, and there is nothing in it");
}
void a_handle_for_each() {
  channels with;
  const auto pool = with.pool();
  auto first = with.b->post_receive(pool.take(64).value());
  auto second = with.b->post_receive(pool.take(64).value());
  put(with.at(0, 64), one_text);
  with.a->send(source(with.memory, 0, 64), abort_at(patiently())).value();
  require(first.wait(patiently())->has_value(), "no message");
  require(second.poll() == nullptr, "the second has a message");
  require(text_at(first.take_buffer().bytes(), 64) == one_text, "another message");
  put(with.at(0, 64), two_text);
  with.a->send(source(with.memory, 0, 64), abort_at(patiently())).value();
  require(second.wait(patiently())->has_value(), "no message");
  require(text_at(second.take_buffer().bytes(), 64) == two_text, "another message");
  held("each operation has its own handle, and no number");
}

// The number is the place of a context in a table. A request that took too long is given up: its
// place is free again, its completion comes later.
struct context_of_a_request {
  std::string what;
  bool over = false;
};
void place_given_to_another() {
  pair with;
  std::array<context_of_a_request, 1> table;
  put(with.at(0, 64), one_text);
  put(with.at(64, 64), two_text);
  table[0] = {.what = "one"};
  send(with.a->queue, {.id = 0, .signaled = true}, with.memory.slice(0, 64)).value();
  require(take(with.a->sends, 1, deadline::after(10ms)).empty(), "there was a receive");
  table[0] = {.what = "two"};  // "the first timed out"
  send(with.a->queue, {.id = 0, .signaled = true}, with.memory.slice(64, 64)).value();
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();  // one, not two
  const auto done = take_good(with.a->sends, 1);
  table.at(done[0].id()).over = true;
  take_good(with.b->receives, 1);
  const auto arrived = text_at(with.at(4096, 64), 64);
  if (table[0].over && table[0].what == "two" && arrived != two_text)
    harmed("the second is taken for sent, and the first was");
}
void handle_of_its_own() {
  channels with;
  const auto pool = with.pool();
  auto first_memory = pool.take(64).value();
  auto second_memory = pool.take(64).value();
  put(first_memory.bytes(), one_text);
  put(second_memory.bytes(), two_text);
  std::optional first = with.a->post_send(std::move(first_memory), {.length = 64});
  require(first->wait(deadline::after(10ms)) == nullptr, "there was a receive");
  first.reset();  // given up
  auto second = with.a->post_send(std::move(second_memory), {.length = 64});
  auto into = with.b->post_receive(pool.take(64).value());
  require(into.wait(patiently())->has_value(), "no message");
  require(text_at(into.take_buffer().bytes(), 64) == one_text, "another message");
  require(second.poll() == nullptr, "the second is taken for sent");
  auto then = with.b->post_receive(pool.take(64).value());
  require(second.wait(patiently())->has_value() && then.wait(patiently())->has_value(),
          "the second was not sent");
  held("the slot of what was given up is not given to another before its completion");
}

// A receive was too short, and its completion is taken for one that succeeded: for as many bytes
// as it says.
constexpr std::size_t short_room = 16;
void start_too_short(pair& with) {
  put(with.at(0, 64), one_text);
  put(with.at(4096 + short_room, 64), std::string(64, 's'));  // what lies behind it
  with.b->queue.post_receive({.id = 7}, with.memory.slice(4096, short_room)).value();
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
}
void length_of_a_failure() {
  pair with;
  start_too_short(with);
  const auto done = c_take(with.b->receives.native(), 1);
  require(done.size() == 1 && done[0].status != IBV_WC_SUCCESS, "it did not fail");
  const auto read = text_at(with.at(4096, done[0].byte_len), done[0].byte_len);
  if (read.find('s') != std::string::npos)
    harmed("the message of request 7 ends in bytes that were never sent: " + read);
}
void length_of_a_failure_is_asked() {
  pair with;
  start_too_short(with);
  const auto done = take(with.b->receives, 1);
  require(done.size() == 1, "it did not end");
  static_cast<void>(done[0].byte_length());
}
void number_of_a_failure_is_asked() {
  pair with;
  start_too_short(with);
  const auto done = take(with.b->receives, 1);
  require(done.size() == 1 && !done[0].ok() && done[0].id() == 7, "another end");
}

// The program looks at all of the array that it polls into, not at what the poll has filled.
void rest_of_the_array() {
  pair with;
  std::array<ibv_wc, 4> room{};
  std::array<int, 4> times{};
  const auto exchange = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t id = first; id <= last; ++id) {
      require(c_receive(with.b->queue.native(), id, with.memory.slice(4096 + 64 * id, 64)) == 0,
              "refused");
      require(c_send(with.a->queue.native(), id, with.memory.slice(0, 8)) == 0, "refused");
    }
    c_take_good(with.a->sends.native(), last - first + 1);
    for (const auto until = patiently(); !until.expired();)
      if (ibv_poll_cq(with.b->receives.native(), 4, room.data()) > 0) break;
    for (const ibv_wc& each : room)
      if (each.wr_id != 0) ++times.at(each.wr_id);
  };
  exchange(1, 2);
  exchange(3, 3);
  for (std::uint64_t id : {1, 2, 3})
    if (times.at(id) != 1)
      harmed("request " + std::to_string(id) + " ended " + std::to_string(times.at(id)) + " times");
}
void part_that_was_filled() {
  pair with;
  std::array<completion, 4> room;
  std::array<int, 4> times{};
  for (std::uint64_t id : {1, 2, 3}) {
    with.b->queue.post_receive({.id = id}, with.memory.slice(4096 + 64 * id, 64)).value();
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(0, 8)).value();
    bool came = false;
    for (const auto until = patiently(); !came && !until.expired();)
      for (const auto& each : with.b->receives.poll(room).value()) {
        ++times.at(each.id());
        came = true;
      }
    take_good(with.a->sends, 1);
  }
  for (std::uint64_t id : {1, 2, 3}) require(times.at(id) == 1, "not once");
}

constexpr crate numbers_are_the_callers = {answer::no, "numbers are given by the caller"};
constexpr crate numbers_are_its_own = {answer::yes, "channels give the numbers, and park by them"};

constexpr std::array entries = {
    entry{.name = "one_number_for_all_requests",
          .kind = "wr_id reuse",
          .mistake = "several requests in flight have the same wr_id",
          .seen = "rdma-core PR #1612 (EFA): one index for two requests in flight",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "each operation has its own handle",
          .ibverbs = numbers_are_the_callers,
          .ibverbs_rs = numbers_are_its_own,
          .rrddmma = numbers_are_the_callers,
          .harmful = &one_number_for_all,
          .caught = &a_handle_for_each,
          .twin = &a_handle_for_each},
    entry{.name = "place_of_a_request_given_up_used_again",
          .kind = "wr_id reuse",
          .mistake = "after a timeout the context behind a wr_id is given to the next request",
          .seen = "spdk PR #3859, #3830: contexts freed before the flushed completions came",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the slot of what was given up is not given to another",
          .ibverbs = numbers_are_the_callers,
          .ibverbs_rs = {answer::yes, "no operation can be given up: it is waited for"},
          .rrddmma = numbers_are_the_callers,
          .harmful = &place_given_to_another,
          .caught = &handle_of_its_own,
          .twin = &handle_of_its_own},
    entry{.name = "length_of_a_failed_completion_trusted",
          .kind = "wr_id reuse",
          .mistake = "opcode or length of a completion that failed are used with its wr_id",
          .seen = "libfabric PR #7365, rpma #1142; ibv_poll_cq(3): only wr_id, status, qp_num and "
                  "vendor_err are valid",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a member of a failed completion was read that is not defined",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::yes, "a failed completion has a type without a length"},
          .rrddmma = {answer::no, "opcode() is read whatever the status is, and may panic"},
          .harmful = &length_of_a_failure,
          .caught = &length_of_a_failure_is_asked,
          .twin = &number_of_a_failure_is_asked},
    entry{.name = "stale_entries_taken_for_completions",
          .kind = "wr_id reuse",
          .mistake = "all of the array is looked at after a poll, not as many as it returned",
          .seen = "ibv_poll_cq(3) returns how many entries it filled, and leaves the others",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/discarded_poll_is_refused",
          .ibverbs = {answer::yes, "a poll returns the part that was filled"},
          .ibverbs_rs = {answer::yes, "a poll returns an iterator over what was filled"},
          .rrddmma = unknown,
          .harmful = &rest_of_the_array,
          .caught = nullptr,
          .twin = &part_that_was_filled},
};

}  // namespace
}  // namespace number_entries

std::span<const entry> request_numbers() { return number_entries::entries; }

}  // namespace verbena::zoo
