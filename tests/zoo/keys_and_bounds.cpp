// SPDX-License-Identifier: MIT
// Keys of the wrong kind, memory of the wrong domain, rights that nobody meant, ends that are not
// where they are taken to be.
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

/// How a request of a ended that the C API posts.
completion post_raw(pair& with, ibv_send_wr request, ibv_sge piece) {
  check::posted_elsewhere(with.a->queue.native());
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  require(ibv_post_send(with.a->queue.native(), &request, &refused) == 0, "the post");
  const auto ended = take(with.a->sends, 1);
  require(ended.size() == 1, "the request did not end");
  return ended[0];
}
ibv_send_wr raw_write(std::uint64_t to, std::uint32_t key) {
  ibv_send_wr made{};
  made.opcode = IBV_WR_RDMA_WRITE;
  made.wr.rdma = {.remote_addr = to, .rkey = key};
  return made;
}
/// That a message does not come any more, since a request before it failed.
[[noreturn]] void connection_is_dead(pair& with, const completion& failed) {
  require(!failed.ok(), "the request succeeded");
  const auto posted = send(with.a->queue, {.id = 9, .signaled = true}, with.memory.slice(0, 8));
  const auto later = posted ? take(with.a->sends, 1) : std::vector<completion>();
  require(later.empty() || !later[0].ok(), "the connection works");
  harmed("what is sent from now on does not come, after: " + to_string(failed.status()));
}

void own_key_for_the_peer() {
  pair with;
  const auto outbox = with.pd.allocate(64, access::local_write).value();
  const auto target = with.memory.remote().slice(4096, 64);
  connection_is_dead(with, post_raw(with, raw_write(target.address(), outbox.local_key().value()),
                                    outbox.slice().native()));
}
void write_text(pair& with, const remote_region& to) {
  put(with.at(0, 64), text);
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 64), to);
  batch.submit().value();
  take_good(with.a->sends, 1);
}
void remote_key_for_the_peer() {
  pair with;
  write_text(with, with.memory.remote().slice(4096, 64));
  require(text_at(with.at(4096, 64), 64) == text, "the write is not there");
}

void memory_of_another_domain() {
  pair with;
  const auto other = with.device.allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 1}, foreign.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto sent = take(with.a->sends, 1);
  require(sent.size() == 1, "the message did not end");
  connection_is_dead(with, sent[0]);
}
void memory_of_the_same_domain() {
  pair with;
  const auto own = with.pd.allocate(64, access::local_write).value();
  with.b->queue.post_receive({.id = 1}, own.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_good(with.b->receives, 1);
}

// A table of slots of 64 bytes under one key: the adapter knows the table's end, not the slot's.
void write_beyond_the_slot() {
  pair with;
  put(with.at(4096 + 64, 64), neighbour);
  const auto slot = with.memory.remote().slice(4096, 64);
  const auto done = post_raw(with, raw_write(slot.address(), slot.key().value()),
                             with.memory.slice(0, 128).native());
  require(done.ok(), "the write failed");
  const auto seen = text_at(with.at(4096 + 64, 64), 64);
  if (seen != neighbour) harmed("the write went over the end of its slot into the next one");
}
void write_beyond_the_slot_here() {
  pair with;
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 128),
              with.memory.remote().slice(4096, 64));
  batch.submit().value();
}
void write_of_the_slot() {
  pair with;
  put(with.at(4096 + 64, 64), neighbour);
  write_text(with, with.memory.remote().slice(4096, 64));
  require(text_at(with.at(4096, 128), 128) == text + neighbour, "the slots are others");
}

// Requests have 32 bits for a length.
constexpr std::size_t four_gib = std::size_t{1} << 32U;
struct huge_memory {
  std::span<std::byte> bytes = map();
  static std::span<std::byte> map() {
    constexpr std::size_t size = four_gib + 4096;
    void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(at != MAP_FAILED, "address space");
    return {static_cast<std::byte*>(at), size};
  }
};
void long_message_cut() {
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
    harmed("of " + std::to_string(length) + " bytes 64 were written, as a success");
}
void long_slice() {
  pair with;
  const huge_memory from;
  const auto region = with.pd.register_memory(from.bytes, access::local_write).value();
  std::printf("%zu\n", region.slice(0, four_gib + 64).length());
}
void slice_behind_four_gib() {
  pair with;
  const huge_memory from;
  const auto region = with.pd.register_memory(from.bytes, access::local_write).value();
  put(from.bytes.subspan(four_gib), text);
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, region.slice(four_gib, 64)).value();
  take_good(with.b->receives, 1);
  require(text_at(with.at(0, 64), 64) == text, "the message is another");
  take_good(with.a->sends, 1);
}

void receive_into_what_may_not_be_written() {
  pair with;
  const auto room = with.pd.allocate(64, access::remote_read).value();
  with.b->queue.post_receive({.id = 1}, room.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto sent = take(with.a->sends, 1);
  require(sent.size() == 1, "the message did not end");
  connection_is_dead(with, sent[0]);
}
void sink_that_may_not_be_written() {
  channels with;
  const auto room = with.pd.allocate(64, access::remote_read).value();
  require(!with.b->receive(sink(room), abort_at(briefly())).has_value(), "it was received into");
}
void sink_that_may_be_written() {
  channels with;
  const auto room = with.pd.allocate(64, access::local_write).value();
  const auto outcome = with.b->scope(abort_at(patiently()), [&](operation_scope& serving) {
    const auto received = serving.receive(sink(room));
    with.a->send(source(with.memory, 0, 64), abort_at(patiently())).value();
  });
  require(outcome.has_value(), "no message came");
}

// A buffer that is only sent, registered "with everything, to be sure". The peer knows its key from
// an earlier read of it.
void rights_to_be_sure() {
  pair with;
  const auto ledger = with.pd.allocate(64, every_right).value();
  put(ledger.bytes(), neighbour);
  write_text(with, ledger.remote());
  if (text_at(ledger.bytes(), 64) != neighbour)
    harmed("a peer wrote to memory that was only meant to be sent");
}
void rights_as_needed() {
  pair with;
  const auto ledger = with.pd.allocate(64, access::local_write).value();
  put(ledger.bytes(), neighbour);
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 64), ledger.remote());
  batch.submit().value();
  const auto refused = take(with.a->sends, 1);
  require(refused.size() == 1 && !refused[0].ok(), "the peer may write it");
  require(text_at(ledger.bytes(), 64) == neighbour, "the memory changed");
}

void addition_on_an_odd_address() {
  pair with;
  ibv_send_wr request{};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {.remote_addr = with.memory.remote().slice(4100, 8).address(),
                       .compare_add = 1,
                       .swap = 0,
                       .rkey = with.memory.remote_key().value()};
  connection_is_dead(with, post_raw(with, request, with.memory.slice(0, 8).native()));
}
void add(std::uint64_t offset) {
  pair with;
  auto batch = with.a->queue.start_send();
  batch.fetch_and_add({.id = 1, .signaled = true}, with.memory.slice(0, 8),
                      with.memory.remote().slice(offset, 8), 1);
  batch.submit().value();
  take_good(with.a->sends, 1);
}
void addition_on_an_odd_address_here() { add(4100); }
void addition_on_an_even_address() { add(4096); }

void register_the_vector_itself() {
  pair with;
  std::vector<std::uint64_t> numbers(8);
  // NOLINTNEXTLINE(bugprone-sizeof-container): that is the mistake
  const std::span<std::byte> object(reinterpret_cast<std::byte*>(&numbers), sizeof(numbers));
  const auto region = with.pd.register_memory(object, access::local_write).value();
  put(with.at(0, 64), text);
  with.b->queue.post_receive({.id = 1}, region.slice()).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, object.size())).value();
  take_good(with.b->receives, 1);
  ++numbers.front();
}
void register_what_is_in_the_vector() {
  pair with;
  std::vector<std::uint64_t> numbers(8);
  {
    const auto region =
        with.pd.register_memory(std::as_writable_bytes(std::span(numbers)), access::local_write)
            .value();
    put(with.at(0, 64), text);
    with.b->queue.post_receive({.id = 1}, region.slice()).value();
    send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
    take_good(with.b->receives, 1);
  }
  require(text_at(std::as_bytes(std::span(numbers)), 64) == text, "the message is another");
  take_good(with.a->sends, 1);
}

constexpr crate slices_have_kinds = {answer::yes, "local and remote slices are of different types"};
constexpr crate domains_are_not_compared = {answer::no, "only the adapter compares the domains"};

constexpr std::array entries = {
    entry{.name = "local_key_given_to_the_peer",
          .kind = "keys and bounds",
          .mistake = "the lkey of the own memory is put where the rkey of the peer's belongs",
          .seen = "ibv_reg_mr(3): lkey for own requests, rkey for those of peers",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "base/strong_ids_do_not_mix",
          .ibverbs = slices_have_kinds,
          .ibverbs_rs = slices_have_kinds,
          .rrddmma = slices_have_kinds,
          .harmful = &own_key_for_the_peer,
          .caught = nullptr,
          .twin = &remote_key_for_the_peer},
    entry{.name = "memory_of_another_protection_domain",
          .kind = "keys and bounds",
          .mistake = "a program with two protection domains names memory of the wrong one",
          .seen = "brpc #1402: protection domain and cm_id of different devices",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a request uses memory of another protection domain than its queue: RECV 1 ",
          .ibverbs = domains_are_not_compared,
          .ibverbs_rs = domains_are_not_compared,
          .rrddmma = domains_are_not_compared,
          .harmful = &memory_of_another_domain,
          .caught = &memory_of_another_domain,
          .twin = &memory_of_the_same_domain},
    entry{.name = "write_beyond_the_end_of_a_slot",
          .kind = "keys and bounds",
          .mistake = "a write is longer than the slot of the peer's table that it goes to",
          .seen = "ibverbs-rs remote_memory_region.rs:67: a field's region runs to the table's end",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a request exceeds its remote region",
          .ibverbs = {answer::no, "local and remote length are not compared"},
          .ibverbs_rs = {answer::no, "local and remote length are not compared"},
          .rrddmma = unknown,
          .harmful = &write_beyond_the_slot,
          .caught = &write_beyond_the_slot_here,
          .twin = &write_of_the_slot},
    entry{.name = "length_cut_to_32_bits",
          .kind = "keys and bounds",
          .mistake = "a length of more than 4 GiB is put into the 32 bits that a request has",
          .seen = "rdmapp qp.cc:281: sge.length = mr->length(); rrddmma mr_slice.rs:90",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a slice exceeds 4 GiB - 1 bytes",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::no, "unchecked in release builds: scatter_gather_element.rs:96"},
          .rrddmma = {answer::no, "the length is cut by `as u32`"},
          .harmful = &long_message_cut,
          .caught = &long_slice,
          .twin = &slice_behind_four_gib},
    entry{.name = "receive_into_memory_not_writable",
          .kind = "keys and bounds",
          .mistake = "memory registered without IBV_ACCESS_LOCAL_WRITE is received into",
          .seen = "ibv_reg_mr(3): local read access is always enabled, local write is not",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a sink of memory that was registered without access::local_write",
          .ibverbs = {answer::no, "rights are not compared with the operation"},
          .ibverbs_rs = {answer::no, "rights are not compared with the operation"},
          .rrddmma = {answer::no, "rights are not compared with the operation"},
          .harmful = &receive_into_what_may_not_be_written,
          .caught = &sink_that_may_not_be_written,
          .twin = &sink_that_may_be_written},
    entry{.name = "every_right_by_default",
          .kind = "keys and bounds",
          .mistake = "memory that is only sent is registered with all rights, for peers to write",
          .seen = "rdmapp pd.h:49 and rrddmma Permission: remote write by default",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/rights_are_stated",
          .ibverbs = {answer::no, "0.9.2 has DEFAULT_ACCESS_FLAGS with all of them"},
          .ibverbs_rs = {answer::yes, "safe registration is with local_write alone"},
          .rrddmma = {answer::no, "the default has all of them"},
          .harmful = &rights_to_be_sure,
          .caught = nullptr,
          .twin = &rights_as_needed},
    entry{.name = "atomic_on_an_odd_address",
          .kind = "keys and bounds",
          .mistake = "the target of an atomic operation is not aligned to 8 bytes",
          .seen = "ibv_post_send(3); InfiniBand specification: a remote invalid request",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "the target of an atomic operation is not aligned to 8 bytes",
          .ibverbs = {answer::no, "size and alignment of atomics are not looked at"},
          .ibverbs_rs = {answer::absent, "it has no atomic operations"},
          .rrddmma = {answer::yes, "in debug builds: size and alignment are asserted"},
          .harmful = &addition_on_an_odd_address,
          .caught = &addition_on_an_odd_address_here,
          .twin = &addition_on_an_even_address},
    entry{.name = "container_registered_for_its_bytes",
          .kind = "keys and bounds",
          .mistake = "&vector and sizeof(vector) are registered: the object, not what is in it",
          .seen = "rdmapp examples/write_bw.cc:46",
          .does = harm::crash,
          .caught_by = level::compiler,
          .words = "verbs/memory_is_named_by_its_bytes",
          .ibverbs = {answer::no, "register_from_raw takes a pointer and a length, unsafe"},
          .ibverbs_rs = {answer::yes, "safe registration takes a slice of bytes"},
          .rrddmma = {answer::no, "Mr::reg takes a pointer and a length, unsafe"},
          .harmful = &register_the_vector_itself,
          .caught = nullptr,
          .twin = &register_what_is_in_the_vector},
};

}  // namespace
}  // namespace keys_and_bounds_entries

std::span<const entry> keys_and_bounds() { return keys_and_bounds_entries::entries; }

}  // namespace verbena::zoo
