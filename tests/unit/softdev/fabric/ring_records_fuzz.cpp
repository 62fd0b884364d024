// SPDX-License-Identifier: MIT
// The bytes of a ring as another process may have left them: the consumer, and the decoders of the
// records in it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "softdev/fabric/host_records.hpp"
#include "softdev/shm/ring.hpp"

namespace verbena::softdev {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void decode(const ring_record& record) {
  auto bytes = record.payload;
  if (const auto request = host_records::take_request(bytes)) {
    require(carries(request->transport, request->opcode));
    require(bytes.size() <= request->length);
  }
  bytes = record.payload;
  if (const auto answer = host_records::take_answer(bytes)) {
    require(answer->what.outcome <= verdict::operation_error);
    require(answer->what.rnr_timer <= 31);
  }
  bytes = record.payload;
  static_cast<void>(host_records::take<host_records::fragment_header>(bytes));
}

void consume(std::span<const std::byte> input) {
  alignas(cache_line) static std::array<std::byte, min_ring_bytes> ring;
  shared_u64 published{0};
  shared_u64 consumed{0};
  // The first byte is the number of records that the producer announces.
  if (input.empty()) return;
  published = static_cast<std::uint64_t>(input[0]);
  input = input.subspan(1);
  const std::size_t bytes = std::min(input.size(), ring.size());
  std::memcpy(ring.data(), input.data(), bytes);
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
    decode(record);
    consumer.consume();
    if (turn % 3 == 0) static_cast<void>(consumer.publish_position());
  }
  static_cast<void>(consumer.publish_position());
  static_cast<void>(consumer.check_announced());
  require(consumed % cache_line == 0);
}

}  // namespace
}  // namespace verbena::softdev

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  verbena::softdev::consume({bytes, size});
  // All bytes as one record.
  verbena::softdev::decode({.type = 1, .payload = {bytes, size}});
  return 0;
}
