// SPDX-License-Identifier: MIT
// Data that travel inside of the request.
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

/// Posts `pieces` as one message, and lets the program not look at what came of it.
void post_unseen(pair& with, std::span<ibv_sge> pieces, unsigned flags) {
  ibv_send_wr request{};
  request.wr_id = 1;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags | IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  static_cast<void>(ibv_post_send(with.a->queue.native(), &request, &refused));
}
/// Whether a message came to the receive that b has posted.
bool has_come(pair& with) { return !take(with.b->receives, 1, briefly()).empty(); }

queue_pair_options<rc> with_inline(std::uint32_t bytes) {
  auto options = pair::default_options();
  options.queues.max_inline_data = bytes;
  return options;
}

// Nobody asked for room for inline data when the queue pair was made.
void inline_without_room() {
  pair with(with_inline(0));
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  std::array<char, 16> note{};
  std::array pieces = {slice_of(note.data(), note.size())};
  post_unseen(with, pieces, IBV_SEND_INLINE);
  if (!has_come(with)) harmed("the note never comes");
}
void inline_without_room_is_told() {
  pair with(with_inline(0));
  const std::array<std::byte, 16> note{};
  auto batch = with.a->queue.start_send();
  batch.send({.id = 1, .signaled = true}, inline_data(note));
  const auto refused = batch.submit();
  require(!refused.has_value(), "there was room");
  told(with.a->queue.describe_refused_send(refused, {.inline_bytes = 16}).message());
}
void send_note(std::uint32_t room, std::span<const inline_data> pieces, std::size_t length) {
  pair with(with_inline(room));
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 256)).value();
  auto batch = with.a->queue.start_send();
  batch.send({.id = 2, .signaled = true}, pieces);
  batch.submit().value();
  require(take_good(with.b->receives, 1)[0].byte_length() == length, "another length");
}
void inline_with_room() {
  const std::array<std::byte, 16> note{};
  send_note(16, std::array{inline_data(note)}, 16);
}

// Each piece is short enough, and all of them together are not.
void pieces_that_are_short_enough() {
  pair with(with_inline(64));
  const std::uint32_t limit = with.a->queue.capabilities().max_inline_data;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 4096)).value();
  const std::vector<char> text(limit);
  std::vector<ibv_sge> pieces(2, slice_of(text.data(), text.size()));
  for (const ibv_sge& each : pieces) require(each.length <= limit, "that is too long");
  post_unseen(with, pieces, IBV_SEND_INLINE);
  if (!has_come(with)) harmed("the message never comes");
}
void pieces_that_are_too_long_together() {
  pair with(with_inline(64));
  const std::uint32_t limit = with.a->queue.capabilities().max_inline_data;
  const std::vector<std::byte> text(limit);
  const std::array pieces = {inline_data(text), inline_data(text)};
  auto batch = with.a->queue.start_send();
  batch.send({.id = 1, .signaled = true}, pieces);
  const auto refused = batch.submit();
  require(!refused.has_value(), "there was room");
  told(with.a->queue.describe_refused_send(refused, {.inline_bytes = 2 * limit}).message());
}
void pieces_that_fit_together() {
  const std::array<std::byte, 32> half{};
  send_note(64, std::array{inline_data(half), inline_data(half)}, 64);
}

// The flag is there, so the memory needs no registration: also for what comes back.
void read_into_inline_data() {
  pair with;
  put(with.at(4096, 8), "a letter");
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
  static_cast<void>(c_take(with.a->sends.native(), 1, briefly()));
  const std::string read(into.data(), into.size());
  if (read != "a letter") harmed("nothing was read");
}
void read_into_registered_memory() {
  pair with;
  put(with.at(4096, 8), "a letter");
  auto batch = with.a->queue.start_send();
  batch.read({.id = 1, .signaled = true}, with.memory.slice(0, 8),
             with.memory.remote().slice(4096, 8));
  batch.submit().value();
  take_good(with.a->sends, 1);
  require(text_at(with.at(0, 8), 8) == "a letter", "something else was read");
}

// A note on the stack is sent without the flag.
void note_without_the_flag() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  std::array<char, 16> note{};
  std::array pieces = {slice_of(note.data(), note.size())};
  post_unseen(with, pieces, 0);
  if (!has_come(with)) harmed("the note never comes, and the connection is broken");
}

// Requests are put into a list in a loop, and posted behind it: all of them name the variable of
// the loop. The data are copied when they are posted, not when the list is made.
void list_of_one_variable() {
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
  require(ibv_post_send(with.a->queue.native(), list.data(), &refused) == 0, "refused");
  take_good(with.b->receives, 3);
  std::uint64_t first = 0;
  std::memcpy(&first, with.at(0, sizeof first).data(), sizeof first);
  if (first != 10) harmed("the first message is " + std::to_string(first) + ", not 10");
}
void operations_of_one_variable() {
  auto options = channels::default_options();
  options.queues.max_inline_data = 16;
  channels with(options);
  const auto pool = with.pool();
  std::vector<pending_operation> into;
  into.reserve(3);
  for (int i = 0; i < 3; ++i) into.push_back(with.b->post_receive(pool.take(64).value()));
  with.a
      ->scope(abort_at(patiently()),
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
    require(into[i].wait(patiently())->has_value(), "no message");
    std::uint64_t note = 0;
    std::memcpy(&note, into[i].take_buffer().bytes().data(), sizeof note);
    require(note == 10 + i, "another message");
  }
  held("each operation is posted when it is made, and has its own bytes");
}

constexpr crate checks_at_the_device = {answer::no, "inline data are not compared with the limit"};
constexpr crate without_inline = {answer::absent, "max_inline_data is always 0"};

constexpr std::array entries = {
    entry{.name = "inline_data_without_asking_for_room",
          .kind = "inline limits",
          .mistake = "a queue pair made with max_inline_data 0 is posted inline data",
          .seen = "ROCm/mori PR #424, uccl #267",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "the request has 16 bytes of inline data, max_inline_data of the queue pair is",
          .ibverbs = checks_at_the_device,
          .ibverbs_rs = without_inline,
          .rrddmma = unknown,
          .harmful = &inline_without_room,
          .caught = &inline_without_room_is_told,
          .twin = &inline_with_room},
    entry{.name = "inline_limit_compared_with_each_piece",
          .kind = "inline limits",
          .mistake = "each slice is within max_inline_data, all together are not",
          .seen = "libfabric PR #6952; in a provider: rdma-core PR #1752",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "the request has [0-9]+ bytes of inline data, max_inline_data of the queue pair "
                   "is",
          .ibverbs = checks_at_the_device,
          .ibverbs_rs = without_inline,
          .rrddmma = unknown,
          .harmful = &pieces_that_are_short_enough,
          .caught = &pieces_that_are_too_long_together,
          .twin = &pieces_that_fit_together},
    entry{.name = "read_with_the_inline_flag",
          .kind = "inline limits",
          .mistake = "a read into memory that is not registered, with IBV_SEND_INLINE",
          .seen = "ibv_post_send(3): IBV_SEND_INLINE is valid for sends and writes only",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/reads_do_not_go_into_inline_data",
          .ibverbs = {answer::yes, "reads take slices of registered memory"},
          .ibverbs_rs = without_inline,
          .rrddmma = unknown,
          .harmful = &read_into_inline_data,
          .caught = nullptr,
          .twin = &read_into_registered_memory},
    entry{.name = "stack_sent_without_the_inline_flag",
          .kind = "inline limits",
          .mistake = "a note that is not registered is sent, and the flag is forgotten",
          .seen = "ROCm/mori PR #424: a note on the stack, with lkey 0, needs the flag",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/bytes_without_registration_are_no_message",
          .ibverbs = {answer::yes, "what is not inline data is a slice of a region"},
          .ibverbs_rs = {answer::yes, "an element names its region"},
          .rrddmma = {answer::yes, "a slice is of a region"},
          .harmful = &note_without_the_flag,
          .caught = nullptr,
          .twin = &inline_with_room},
    entry{.name = "inline_data_overwritten_before_the_post",
          .kind = "inline limits",
          .mistake = "requests of a list all name one variable, which is copied at the post",
          .seen = "ibv_post_send(3): inline buffers can be reused immediately after the call "
                  "returns, and not before",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "each operation is posted when it is made",
          .ibverbs = unknown,
          .ibverbs_rs = without_inline,
          .rrddmma = {answer::no, "a reusable request keeps pointers to its memory"},
          .harmful = &list_of_one_variable,
          .caught = &operations_of_one_variable,
          .twin = &operations_of_one_variable},
};

}  // namespace
}  // namespace inline_entries

std::span<const entry> inline_limits() { return inline_entries::entries; }

}  // namespace verbena::zoo
