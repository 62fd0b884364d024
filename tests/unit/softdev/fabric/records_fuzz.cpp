// SPDX-License-Identifier: MIT
// The bytes of a ring as another process may have left them: the consumer, and the decoders of the
// records in it.
#include "softdev/fabric/records.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "softdev/core/transport/rules.hpp"
#include "softdev/shm/ring.hpp"
#include "tests/fuzz/target.hpp"

namespace verbena::softdev {
namespace {

using fuzz::require;

// An accepted request has the headers that encoding it again produces, except reserved bytes.
void check_request(const message& got, std::size_t header_bytes, std::size_t payload) {
  require(rules_of(got.transport).exists() && rules_of(got.transport).carries(got.opcode));
  require(payload <= got.length);
  require(header_bytes == records::request_bytes(got.transport, got.opcode));
  std::vector<std::byte> again(header_bytes + payload);
  std::span room(again);
  records::put_request(room, got);
  require(room.size() == payload);
  std::span<const std::byte> bytes = again;
  message second;
  require(records::take_request(bytes, second));
  require(bytes.size() == payload && second.opcode == got.opcode &&
          second.transport == got.transport && second.length == got.length &&
          second.solicited == got.solicited && second.signaled == got.signaled &&
          second.source_qpn == got.source_qpn && second.destination_qpn == got.destination_qpn &&
          second.psn == got.psn && second.qkey == got.qkey &&
          second.remote_address == got.remote_address && second.remote_key == got.remote_key &&
          second.swap == got.swap);
}

// An accepted reference is encoded as the bytes that it was decoded from, except reserved ones.
void check_reference(const message& got, const records::payload_reference& payload,
                     std::size_t bytes) {
  require(got.transport == transport::rc && !is_read_or_atomic(got.opcode) && got.length > 0);
  require(payload.count >= 1 && payload.count <= limits::max_sges);
  require(bytes == records::reference_bytes(got.transport, got.opcode, payload.count));
  std::vector<std::byte> again(bytes);
  std::span room(again);
  records::put_reference(room, got, payload.generation, payload.count);
  std::uint64_t total = 0;
  for (const sge& each : payload.list()) {
    require(each.length > 0);
    total += each.length;
    records::put(room, each);
  }
  require(room.empty() && total == got.length);
  message second;
  records::payload_reference same;
  require(records::take_reference(again, second, same));
  require(second.opcode == got.opcode && second.psn == got.psn && second.length == got.length &&
          same.generation == payload.generation && same.count == payload.count &&
          std::ranges::equal(same.list(), payload.list(), [](const sge& one, const sge& other) {
            return one.address == other.address && one.length == other.length &&
                   one.lkey == other.lkey;
          }));
}

void check_answer(const records::taken_answer& got) {
  require(got.what.outcome <= verdict::operation_error && got.what.rnr_timer <= 31);
  std::vector<std::byte> again(records::answer_bytes(got.what));
  std::span room(again);
  records::put_answer(room, got.to, got.what);
  require(room.empty());
  std::span<const std::byte> bytes = again;
  const auto second = records::take_answer(bytes);
  require(second && second->what.outcome == got.what.outcome &&
          second->what.original == got.what.original &&
          second->what.why.address == got.what.why.address && second->to.psn == got.to.psn);
}

void decode(std::span<const std::byte> payload) {
  auto bytes = payload;
  message request;
  if (records::take_request(bytes, request))
    check_request(request, payload.size() - bytes.size(), bytes.size());
  message referring;
  records::payload_reference reference;
  if (records::take_reference(payload, referring, reference))
    check_reference(referring, reference, payload.size());
  bytes = payload;
  if (const auto answer = records::take_answer(bytes)) check_answer(*answer);
  bytes = payload;
  require(records::take<records::fragment_header>(bytes).has_value() ==
          (payload.size() >= sizeof(records::fragment_header)));
}

void consume(fuzz::input input) {
  alignas(cache_line) static std::array<std::byte, min_ring_bytes> ring;
  shared_u64 published{0};
  shared_u64 consumed{0};
  // The first byte is the number of records that the producer announces.
  if (input.empty()) return;
  published = static_cast<std::uint64_t>(input[0]);
  input = input.subspan(1);
  const std::size_t bytes = std::min(input.size(), ring.size());
  if (bytes > 0) std::memcpy(ring.data(), input.data(), bytes);
  std::memset(ring.data() + bytes, 0, ring.size() - bytes);
  ring_consumer consumer(ring, published, consumed);
  // More turns than records fit into the ring.
  for (int turn = 0; turn < 512; ++turn) {
    ring_record record;
    const ring_status status = consumer.peek(record);
    if (status != ring_status::ok) break;
    require(record.payload.empty() ||
            (record.payload.data() >= ring.data() &&
             record.payload.data() + record.payload.size() <= ring.data() + ring.size()));
    require(record.payload.size() <= max_record_bytes(min_ring_bytes));
    for (int hints = 0; consumer.next_hint(); ++hints) require(hints < 8);
    decode(record.payload);
    consumer.consume();
    if (turn % 3 == 0) static_cast<void>(consumer.publish_position());
  }
  static_cast<void>(consumer.publish_position());
  static_cast<void>(consumer.check_announced());
  require(consumed % cache_line == 0);
}

void run_ring_records(fuzz::input input) {
  consume(input);
  decode(input);  // all bytes as one record
}

// The record as a producer leaves it, behind the byte with the number of records.
void add_record(fuzz::seed_folder& into, const char* name, records::type type,
                std::span<const std::byte> payload, int count = 1) {
  alignas(cache_line) std::array<std::byte, min_ring_bytes> ring{};
  shared_u64 published{0};
  const shared_u64 consumed{0};
  ring_producer producer(ring, published, consumed);
  for (int i = 0; i < count; ++i) {
    const auto room = producer.try_reserve(type, static_cast<std::uint32_t>(payload.size()));
    std::ranges::copy(payload, room.payload.begin());
    producer.commit();
  }
  fuzz::writer out;
  out.put(static_cast<std::uint8_t>(count)).put(std::span(ring).first(producer.position()));
  into.add(name, out.bytes());
}

void record_seeds(fuzz::seed_folder& into) {
  const auto add_request = [&](const char* name, const message& what, std::size_t payload,
                               int count = 1) {
    std::vector<std::byte> bytes(records::request_bytes(what.transport, what.opcode) + payload);
    std::span room(bytes);
    records::put_request(room, what);
    add_record(into, name, records::request, bytes, count);
  };
  message what{.source_qpn = 1, .destination_qpn = 2, .psn = 3, .length = 8};
  add_request("send", what, 8);
  add_request("sends", what, 8, 3);
  what.opcode = opcode::rdma_write;
  what.remote_key = 5;
  what.remote_address = 4096;
  what.length = 100;
  add_request("first_part_of_write", what, 64);
  what.opcode = opcode::rdma_read;
  add_request("read", what, 0);
  what.opcode = opcode::compare_swap;
  what.length = 8;
  add_request("compare_swap", what, 0);
  add_request("datagram", {.length = 64, .qkey = 7, .transport = transport::ud}, 64);
  add_request("delivery", {.length = 16, .qkey = 7, .transport = transport::srd}, 16);
  for (const std::uint32_t elements : {1U, 3U}) {
    const message referring{.psn = 7, .length = 4096 * elements};
    std::vector<std::byte> bytes(
        records::reference_bytes(referring.transport, referring.opcode, elements));
    std::span room(bytes);
    records::put_reference(room, referring, 1, elements);
    for (std::uint32_t i = 0; i < elements; ++i) records::put(room, sge{4096, 4096, 5});
    add_record(into, elements == 1 ? "reference" : "references", records::reference, bytes);
  }
  for (const auto& [name, answer] :
       {std::pair{"done", response{.original = 9}},
        std::pair{"refused",
                  response{.outcome = verdict::access_error,
                           .why = {.why = reason::local_not_mapped, .address = 4096}}}}) {
    std::vector<std::byte> bytes(records::answer_bytes(answer));
    std::span room(bytes);
    records::put_answer(room, {.destination_qpn = 1, .source_qpn = 2}, answer);
    add_record(into, name, records::answer, bytes);
  }
  const records::fragment_header more{.destination_qpn = 1, .source_qpn = 2, .psn = 3};
  add_record(into, "fragment", records::fragment, std::as_bytes(std::span(&more, 1)));
}

const fuzz::target ring_records("ring_records", run_ring_records, record_seeds);

}  // namespace
}  // namespace verbena::softdev
