// SPDX-License-Identifier: MIT
// Inline data.
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace inline_entries {
namespace {

ibv_sge slice_of(const void* data, std::size_t length) {
  return {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(length), 0};
}

/// Posts `pieces` as one message and ignores the result.
void post_without_checking(pair& with, std::span<ibv_sge> pieces, unsigned flags) {
  ibv_send_wr request{};
  request.wr_id = 1;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags | IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  static_cast<void>(ibv_post_send(with.a->queue.native(), &request, &refused));
}
/// Returns whether a message arrived in the receive that b has posted.
bool has_arrived(pair& with) { return !take(with.b->receives, 1, short_deadline()).empty(); }

queue_pair_options<rc> with_inline(std::uint32_t bytes) {
  auto options = pair::default_options();
  options.queues.max_inline_data = bytes;
  return options;
}

// The queue pair was created with max_inline_data 0.
void inline_data_above_limit() {
  pair with(with_inline(0));
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  std::array<char, 16> note{};
  std::array pieces = {slice_of(note.data(), note.size())};
  post_without_checking(with, pieces, IBV_SEND_INLINE);
  if (!has_arrived(with)) harmed("the message never arrives");
}
void inline_data_above_limit_is_reported() {
  pair with(with_inline(0));
  const std::array<std::byte, 16> note{};
  auto batch = with.a->queue.start_send();
  batch.send({.id = 1, .signaled = true}, inline_data(note));
  const auto refused = batch.submit();
  require(!refused.has_value(), "the post succeeded");
  reported(with.a->queue.describe_refused_send(refused, {.inline_bytes = 16}).message());
}
void send_inline(std::uint32_t room, std::span<const inline_data> pieces, std::size_t length) {
  pair with(with_inline(room));
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 256)).value();
  auto batch = with.a->queue.start_send();
  batch.send({.id = 2, .signaled = true}, pieces);
  batch.submit().value();
  require(take_successful(with.b->receives, 1)[0].byte_length() == length,
          "the message has another length");
}
void inline_data_within_limit() {
  const std::array<std::byte, 16> note{};
  send_inline(16, std::array{inline_data(note)}, 16);
}

// Each slice is within the limit, but their sum is not.
void slices_within_limit_each() {
  pair with(with_inline(64));
  const std::uint32_t limit = with.a->queue.capabilities().max_inline_data;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 4096)).value();
  const std::vector<char> text(limit);
  std::vector<ibv_sge> pieces(2, slice_of(text.data(), text.size()));
  for (const ibv_sge& each : pieces) require(each.length <= limit, "the slice exceeds the limit");
  post_without_checking(with, pieces, IBV_SEND_INLINE);
  if (!has_arrived(with)) harmed("the message never arrives");
}
void slices_above_limit_together_are_reported() {
  pair with(with_inline(64));
  const std::uint32_t limit = with.a->queue.capabilities().max_inline_data;
  const std::vector<std::byte> text(limit);
  const std::array pieces = {inline_data(text), inline_data(text)};
  auto batch = with.a->queue.start_send();
  batch.send({.id = 1, .signaled = true}, pieces);
  const auto refused = batch.submit();
  require(!refused.has_value(), "the post succeeded");
  reported(with.a->queue.describe_refused_send(refused, {.inline_bytes = 2 * limit}).message());
}
void slices_within_limit_together() {
  const std::array<std::byte, 32> half{};
  send_inline(64, std::array{inline_data(half), inline_data(half)}, 64);
}

// A read into unregistered memory with IBV_SEND_INLINE.
void read_into_inline_data() {
  pair with;
  put(with.at(4096, 8), "8 bytes!");
  std::array<char, 8> into{};
  ibv_sge piece = slice_of(into.data(), into.size());
  ibv_send_wr request{};
  request.wr_id = 1;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = with.memory.remote().address() + 4096;
  request.wr.rdma.rkey = with.memory.remote().key().value();
  ibv_send_wr* refused = nullptr;
  static_cast<void>(ibv_post_send(with.a->queue.native(), &request, &refused));
  static_cast<void>(c_take(with.a->sends.native(), 1, short_deadline()));
  const std::string read(into.data(), into.size());
  if (read != "8 bytes!") harmed("the read returned no data");
}
void read_into_registered_memory() {
  pair with;
  put(with.at(4096, 8), "8 bytes!");
  auto batch = with.a->queue.start_send();
  batch.read({.id = 1, .signaled = true}, with.memory.slice(0, 8),
             with.memory.remote().slice(4096, 8));
  batch.submit().value();
  take_successful(with.a->sends, 1);
  require(text_at(with.at(0, 8), 8) == "8 bytes!", "the read returned other data");
}

// Memory on the stack is sent without IBV_SEND_INLINE.
void stack_memory_without_flag() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  std::array<char, 16> note{};
  std::array pieces = {slice_of(note.data(), note.size())};
  post_without_checking(with, pieces, 0);
  if (!has_arrived(with)) harmed("the message never arrives, and the connection is broken");
}

// A loop builds a list of requests that all refer to one variable. Inline data are copied by
// ibv_post_send, not when the list is built.
void list_that_reuses_a_variable() {
  pair with;
  for (std::uint64_t id : {0, 1, 2})
    with.b->queue.post_receive({.id = id}, with.memory.slice(64 * id, 64)).value();
  std::array<ibv_send_wr, 3> list{};
  std::array<ibv_sge, 3> pieces{};
  std::uint64_t note = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    note = 10 + i;
    pieces[i] = slice_of(&note, sizeof note);
    list[i].wr_id = i;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    list[i].sg_list = &pieces[i];
    list[i].num_sge = 1;
    list[i].opcode = IBV_WR_SEND;
    list[i].send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  }
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(with.a->queue.native(), list.data(), &refused) == 0, "the post failed");
  take_successful(with.b->receives, 3);
  std::uint64_t first = 0;
  std::memcpy(&first, with.at(0, sizeof first).data(), sizeof first);
  if (first != 10) harmed("the first message is " + std::to_string(first) + ", not 10");
}
void operations_that_reuse_a_variable() {
  auto options = channels::default_options();
  options.queues.max_inline_data = 16;
  channels with(options);
  const auto pool = with.pool();
  std::vector<pending_operation> into;
  into.reserve(3);
  for (int i = 0; i < 3; ++i) into.push_back(with.b->post_receive(pool.take(64).value()));
  with.a
      ->scope(abort_at(long_deadline()),
              [&](operation_scope& sending) {
                std::uint64_t note = 0;
                std::vector<scoped_operation> sent;
                sent.reserve(3);
                for (std::uint64_t i = 0; i < 3; ++i) {
                  note = 10 + i;
                  sent.push_back(sending.send(inline_data(std::as_bytes(std::span(&note, 1)))));
                }
              })
      .value();
  for (std::uint64_t i = 0; i < 3; ++i) {
    require(into[i].wait(long_deadline())->has_value(), "no message arrived");
    std::uint64_t note = 0;
    std::memcpy(&note, into[i].take_buffer().bytes().data(), sizeof note);
    require(note == 10 + i, "the message has other bytes");
  }
  verified("each operation is posted immediately and copies its bytes");
}

constexpr crate limit_is_not_checked = {answer::no, "inline data are not compared with the limit"};
constexpr crate without_inline = {answer::absent, "max_inline_data is always 0"};

constexpr std::array entries = {
    entry{.name = "inline_data_with_max_inline_data_0",
          .kind = "inline limits",
          .mistake = "inline data are posted to a queue pair with max_inline_data 0",
          .seen = "ROCm/mori PR #424, uccl #267",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "the request has 16 bytes of inline data, max_inline_data of the queue pair is",
          .ibverbs = limit_is_not_checked,
          .ibverbs_rs = without_inline,
          .rrddmma = unknown,
          .harmful = &inline_data_above_limit,
          .caught = &inline_data_above_limit_is_reported,
          .twin = &inline_data_within_limit},
    entry{.name = "inline_limit_checked_per_slice_only",
          .kind = "inline limits",
          .mistake = "each slice is within max_inline_data, but their sum is not",
          .seen = "libfabric PR #6952; in a provider: rdma-core PR #1752",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "the request has [0-9]+ bytes of inline data, max_inline_data of the queue pair "
                   "is",
          .ibverbs = limit_is_not_checked,
          .ibverbs_rs = without_inline,
          .rrddmma = unknown,
          .harmful = &slices_within_limit_each,
          .caught = &slices_above_limit_together_are_reported,
          .twin = &slices_within_limit_together},
    entry{.name = "rdma_read_with_inline_flag",
          .kind = "inline limits",
          .mistake = "a read into memory that is not registered, with IBV_SEND_INLINE",
          .seen = "ibv_post_send(3): IBV_SEND_INLINE is valid for sends and writes only",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/read_into_inline_data_is_refused",
          .ibverbs = {answer::yes, "reads take slices of registered memory"},
          .ibverbs_rs = without_inline,
          .rrddmma = unknown,
          .harmful = &read_into_inline_data,
          .caught = nullptr,
          .twin = &read_into_registered_memory},
    entry{.name = "stack_memory_sent_without_inline_flag",
          .kind = "inline limits",
          .mistake = "unregistered memory is sent without IBV_SEND_INLINE",
          .seen = "ROCm/mori PR #424: memory on the stack, with lkey 0, needs the flag",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/unregistered_bytes_cannot_be_sent",
          .ibverbs = {answer::yes, "data that are not inline are slices of a region"},
          .ibverbs_rs = {answer::yes, "an element refers to its region"},
          .rrddmma = {answer::yes, "a slice belongs to a region"},
          .harmful = &stack_memory_without_flag,
          .caught = nullptr,
          .twin = &inline_data_within_limit},
    entry{.name = "inline_data_modified_before_the_post",
          .kind = "inline limits",
          .mistake = "all requests of a list refer to one variable, which is copied at the post",
          .seen = "ibv_post_send(3): inline buffers can be reused immediately after the call "
                  "returns, and not before",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "each operation is posted immediately",
          .ibverbs = unknown,
          .ibverbs_rs = without_inline,
          .rrddmma = {answer::no, "a reusable request keeps pointers to its memory"},
          .harmful = &list_that_reuses_a_variable,
          .caught = &operations_that_reuse_a_variable,
          .twin = &operations_that_reuse_a_variable},
};

}  // namespace
}  // namespace inline_entries

std::span<const entry> inline_limits() { return inline_entries::entries; }

}  // namespace verbena::zoo
