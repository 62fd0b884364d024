// SPDX-License-Identifier: MIT
// Wrong keys, protection domains, access flags, lengths and addresses.
#include <sys/mman.h>

#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace keys_and_bounds_entries {
namespace {

const std::string text(64, 't');
const std::string neighbour(64, 'N');

/// Posts a request of a by the C API and returns its completion.
completion post_raw(pair& with, ibv_send_wr request, ibv_sge piece) {
  check::posted_elsewhere(with.a->queue.native());
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(with.a->queue.native(), &request, &refused) == 0, "the post failed");
  const auto ended = take(with.a->sends, 1);
  require(ended.size() == 1, "the request did not complete");
  return ended[0];
}
ibv_send_wr raw_write(std::uint64_t to, std::uint32_t key) {
  ibv_send_wr made{};
  made.opcode = IBV_WR_RDMA_WRITE;
  made.wr.rdma = {.remote_addr = to, .rkey = key};
  return made;
}
/// Shows that messages no longer arrive after the failed request.
[[noreturn]] void expect_broken_connection(pair& with, const completion& failed) {
  require(!failed.ok(), "the request succeeded");
  const auto posted = send(with.a->queue, {.id = 9, .signaled = true}, with.memory.slice(0, 8));
  const auto later = posted ? take(with.a->sends, 1) : std::vector<completion>();
  require(later.empty() || !later[0].ok(), "the connection still works");
  harmed("later messages do not arrive, after: " + to_string(failed.status()));
}

void write_with_lkey() {
  pair with;
  const auto outbox = with.pd.allocate(64, access::local_write).value();
  const auto target = with.memory.remote().slice(4096, 64);
  expect_broken_connection(with,
                           post_raw(with, raw_write(target.address(), outbox.local_key().value()),
                                    outbox.slice().native()));
}
void write_text(pair& with, const remote_region& to) {
  put(with.at(0, 64), text);
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 64), to);
  batch.submit().value();
  take_successful(with.a->sends, 1);
}
void write_with_rkey() {
  pair with;
  write_text(with, with.memory.remote().slice(4096, 64));
  require(text_at(with.at(4096, 64), 64) == text, "the write has not arrived");
}

void receive_into_memory_of_another_domain() {
  pair with;
  const auto other = with.device.allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 1}, foreign.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto sent = take(with.a->sends, 1);
  require(sent.size() == 1, "the send did not complete");
  expect_broken_connection(with, sent[0]);
}
void receive_into_memory_of_the_same_domain() {
  pair with;
  const auto own = with.pd.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 1}, own.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.b->receives, 1);
}

// A table of 64-byte slots in one memory region: the adapter checks the bounds of the region only.
void write_exceeding_the_slot() {
  pair with;
  put(with.at(4096 + 64, 64), neighbour);
  const auto slot = with.memory.remote().slice(4096, 64);
  const auto done = post_raw(with, raw_write(slot.address(), slot.key().value()),
                             with.memory.slice(0, 128).native());
  require(done.ok(), "the write failed");
  const auto seen = text_at(with.at(4096 + 64, 64), 64);
  if (seen != neighbour) harmed("the write overwrote the next slot");
}
void checked_write_exceeding_the_slot() {
  pair with;
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 128),
              with.memory.remote().slice(4096, 64));
  batch.submit().value();
}
void write_within_the_slot() {
  pair with;
  put(with.at(4096 + 64, 64), neighbour);
  write_text(with, with.memory.remote().slice(4096, 64));
  require(text_at(with.at(4096, 128), 128) == text + neighbour, "the slots have other bytes");
}

// The length of a request has 32 bits.
constexpr std::size_t four_gib = std::size_t{1} << 32U;
struct huge_memory {
  std::span<std::byte> bytes = map();
  static std::span<std::byte> map() {
    constexpr std::size_t size = four_gib + 4096;
    void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(at != MAP_FAILED, "mmap failed");
    return {static_cast<std::byte*>(at), size};
  }
};
void truncated_length() {
  pair with;
  const huge_memory from;
  const huge_memory to;
  const auto source_region = with.pd.register_memory(from.bytes, access::local_write).value();
  const auto target_region =
      with.pd.register_memory(to.bytes, access::local_write | access::remote_write).value();
  put(from.bytes.subspan(four_gib), text);
  const std::size_t length = four_gib + 64;
  const auto done = post_raw(
      with, raw_write(target_region.remote().address(), target_region.remote_key().value()),
      {.addr = source_region.slice(0, 1).address(),
       .length = static_cast<std::uint32_t>(length),
       .lkey = source_region.local_key().value()});
  require(done.ok(), "the write failed");
  if (text_at(to.bytes.subspan(four_gib), 64) != text)
    harmed("of " + std::to_string(length) + " bytes only 64 were written, with status success");
}
void slice_longer_than_32_bits() {
  pair with;
  const huge_memory from;
  const auto region = with.pd.register_memory(from.bytes, access::local_write).value();
  std::printf("%zu\n", region.slice(0, four_gib + 64).length());
}
void slice_at_offset_4_gib() {
  pair with;
  const huge_memory from;
  const auto region = with.pd.register_memory(from.bytes, access::local_write).value();
  put(from.bytes.subspan(four_gib), text);
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, region.slice(four_gib, 64)).value();
  take_successful(with.b->receives, 1);
  require(text_at(with.at(0, 64), 64) == text, "the message has other bytes");
  take_successful(with.a->sends, 1);
}

void receive_into_memory_without_local_write() {
  pair with;
  const auto room = with.pd.allocate(64, access::remote_read).value();
  with.b->queue.post_receive({.id = 1}, room.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto sent = take(with.a->sends, 1);
  require(sent.size() == 1, "the send did not complete");
  expect_broken_connection(with, sent[0]);
}
void sink_without_local_write() {
  channels with;
  const auto room = with.pd.allocate(64, access::remote_read).value();
  require(!with.b->receive(sink(room), abort_at(short_deadline())).has_value(),
          "the receive succeeded");
}
void sink_with_local_write() {
  channels with;
  const auto room = with.pd.allocate(64, access::local_write).value();
  const auto outcome = with.b->scope(abort_at(long_deadline()), [&](operation_scope& serving) {
    const auto received = serving.receive(sink(room));
    with.a->send(source(with.memory, 0, 64), abort_at(long_deadline())).value();
  });
  require(outcome.has_value(), "no message arrived");
}

// Memory that is only sent is registered with all access flags. The peer knows its rkey.
void register_with_all_access() {
  pair with;
  const auto own_data = with.pd.allocate(64, all_access).value();
  put(own_data.bytes(), neighbour);
  write_text(with, own_data.remote());
  if (text_at(own_data.bytes(), 64) != neighbour)
    harmed("a peer wrote to memory that is only sent");
}
void register_with_needed_access() {
  pair with;
  const auto own_data = with.pd.allocate(64, access::local_write).value();
  put(own_data.bytes(), neighbour);
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 64), own_data.remote());
  batch.submit().value();
  const auto refused = take(with.a->sends, 1);
  require(refused.size() == 1 && !refused[0].ok(), "the write of the peer succeeded");
  require(text_at(own_data.bytes(), 64) == neighbour, "the memory changed");
}

void unaligned_atomic_in_c() {
  pair with;
  ibv_send_wr request{};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {.remote_addr = with.memory.remote().slice(4100, 8).address(),
                       .compare_add = 1,
                       .swap = 0,
                       .rkey = with.memory.remote_key().value()};
  expect_broken_connection(with, post_raw(with, request, with.memory.slice(0, 8).native()));
}
void add(std::uint64_t offset) {
  pair with;
  auto batch = with.a->queue.start_send();
  batch.fetch_and_add({.id = 1, .signaled = true}, with.memory.slice(0, 8),
                      with.memory.remote().slice(offset, 8), 1);
  batch.submit().value();
  take_successful(with.a->sends, 1);
}
void unaligned_atomic() { add(4100); }
void aligned_atomic() { add(4096); }

void register_the_vector_object() {
  pair with;
  std::vector<std::uint64_t> numbers(8);
  // NOLINTNEXTLINE(bugprone-sizeof-container): the mistake that is shown
  const std::span<std::byte> object(reinterpret_cast<std::byte*>(&numbers), sizeof(numbers));
  const auto region = with.pd.register_memory(object, access::local_write).value();
  put(with.at(0, 64), text);
  with.b->queue.post_receive({.id = 1}, region.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, object.size())).value();
  take_successful(with.b->receives, 1);
  ++numbers.front();
}
void register_the_elements() {
  pair with;
  std::vector<std::uint64_t> numbers(8);
  {
    const auto region =
        with.pd.register_memory(std::as_writable_bytes(std::span(numbers)), access::local_write)
            .value();
    put(with.at(0, 64), text);
    with.b->queue.post_receive({.id = 1}, region.slice()).value();
    send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
    take_successful(with.b->receives, 1);
  }
  require(text_at(std::as_bytes(std::span(numbers)), 64) == text, "the message has other bytes");
  take_successful(with.a->sends, 1);
}

constexpr crate slice_types_differ = {answer::yes,
                                      "local and remote slices are of different types"};
constexpr crate domains_are_not_compared = {answer::no, "only the adapter compares the domains"};

constexpr std::array entries = {
    entry{.name = "lkey_used_as_rkey",
          .kind = "keys and bounds",
          .mistake = "the local lkey is used as the rkey of the peer's memory",
          .seen = "ibv_reg_mr(3): lkey is for local requests, rkey for requests of peers",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "base/strong_ids_do_not_mix",
          .ibverbs = slice_types_differ,
          .ibverbs_rs = slice_types_differ,
          .rrddmma = slice_types_differ,
          .harmful = &write_with_lkey,
          .caught = nullptr,
          .twin = &write_with_rkey},
    entry{
        .name = "memory_of_another_protection_domain",
        .kind = "keys and bounds",
        .mistake = "a request uses memory of another protection domain than its queue pair",
        .seen = "brpc #1402: protection domain and cm_id of different devices",
        .does = harm::hang,
        .caught_by = level::stop,
        .words =
            "the memory and the queue of a request belong to different protection domains: RECV 1 ",
        .ibverbs = domains_are_not_compared,
        .ibverbs_rs = domains_are_not_compared,
        .rrddmma = domains_are_not_compared,
        .harmful = &receive_into_memory_of_another_domain,
        .caught = &receive_into_memory_of_another_domain,
        .twin = &receive_into_memory_of_the_same_domain},
    entry{.name = "write_exceeds_slot_of_remote_table",
          .kind = "keys and bounds",
          .mistake = "a write is longer than its slot in the peer's table",
          .seen = "ibverbs-rs remote_memory_region.rs:67: the region of a field extends to the end "
                  "of the table",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request exceeds its remote region",
          .ibverbs = {answer::no, "local and remote length are not compared"},
          .ibverbs_rs = {answer::no, "local and remote length are not compared"},
          .rrddmma = unknown,
          .harmful = &write_exceeding_the_slot,
          .caught = &checked_write_exceeding_the_slot,
          .twin = &write_within_the_slot},
    entry{.name = "length_truncated_to_32_bits",
          .kind = "keys and bounds",
          .mistake = "a length of more than 4 GiB is stored in the 32 bits of a request",
          .seen = "rdmapp qp.cc:281: sge.length = mr->length(); rrddmma mr_slice.rs:90",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a slice exceeds 4 GiB - 1 bytes",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::no, "unchecked in release builds: scatter_gather_element.rs:96"},
          .rrddmma = {answer::no, "`as u32` truncates the length"},
          .harmful = &truncated_length,
          .caught = &slice_longer_than_32_bits,
          .twin = &slice_at_offset_4_gib},
    entry{.name = "receive_without_local_write_access",
          .kind = "keys and bounds",
          .mistake = "memory registered without IBV_ACCESS_LOCAL_WRITE is received into",
          .seen = "ibv_reg_mr(3): local read access is always enabled, local write is not",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a sink was created from memory that was registered without access::local_write",
          .ibverbs = {answer::no, "access flags are not compared with the operation"},
          .ibverbs_rs = {answer::no, "access flags are not compared with the operation"},
          .rrddmma = {answer::no, "access flags are not compared with the operation"},
          .harmful = &receive_into_memory_without_local_write,
          .caught = &sink_without_local_write,
          .twin = &sink_with_local_write},
    entry{.name = "memory_registered_with_all_access",
          .kind = "keys and bounds",
          .mistake = "memory that is only sent is registered with all access flags",
          .seen = "rdmapp pd.h:49 and rrddmma Permission: remote write by default",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/access_flags_must_be_stated",
          .ibverbs = {answer::no, "0.9.2 has DEFAULT_ACCESS_FLAGS with all flags"},
          .ibverbs_rs = {answer::yes, "safe registration uses only local_write"},
          .rrddmma = {answer::no, "the default has all flags"},
          .harmful = &register_with_all_access,
          .caught = nullptr,
          .twin = &register_with_needed_access},
    entry{.name = "atomic_on_an_unaligned_address",
          .kind = "keys and bounds",
          .mistake = "the target of an atomic operation is not aligned to 8 bytes",
          .seen = "ibv_post_send(3); InfiniBand specification: a remote invalid request",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "the target of an atomic operation is not aligned to 8 bytes",
          .ibverbs = {answer::no, "size and alignment of atomics are not checked"},
          .ibverbs_rs = {answer::absent, "it has no atomic operations"},
          .rrddmma = {answer::yes, "in debug builds: size and alignment are asserted"},
          .harmful = &unaligned_atomic_in_c,
          .caught = &unaligned_atomic,
          .twin = &aligned_atomic},
    entry{
        .name = "container_registered_instead_of_its_data",
        .kind = "keys and bounds",
        .mistake = "&vector and sizeof(vector) are registered: the object instead of its elements",
        .seen = "rdmapp examples/write_bw.cc:46",
        .does = harm::crash,
        .caught_by = level::compiler,
        .words = "verbs/registration_takes_bytes_not_containers",
        .ibverbs = {answer::no, "register_from_raw takes a pointer and a length, unsafe"},
        .ibverbs_rs = {answer::yes, "safe registration takes a slice of bytes"},
        .rrddmma = {answer::no, "Mr::reg takes a pointer and a length, unsafe"},
        .harmful = &register_the_vector_object,
        .caught = nullptr,
        .twin = &register_the_elements},
};

}  // namespace
}  // namespace keys_and_bounds_entries

std::span<const entry> keys_and_bounds() { return keys_and_bounds_entries::entries; }

}  // namespace verbena::zoo
