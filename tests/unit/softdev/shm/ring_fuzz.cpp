// SPDX-License-Identifier: MIT
// Both sides of a ring whose other side writes any positions, counts and bytes.
#include "softdev/shm/ring.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/target.hpp"

namespace verbena::softdev {
namespace {

using fuzz::require;

constexpr std::uint32_t ring_size = min_ring_bytes;

class hostile_ring {
 public:
  hostile_ring() { ring_.fill(std::byte{0}); }

  void step(fuzz::reader& from) {
    const auto what = from.take<std::uint8_t>();
    switch (what % 8) {
      case 0:
        return produce(from.take<std::uint16_t>());
      case 1:  // a peer that consumes correctly
        consumed_ = producer_.position();
        return;
      case 2:
        consumed_ = from.take<std::uint64_t>();
        return;
      case 3:
        producer_.announce();
        require(!producer_.has_room(ring_size));
        return;
      case 4:
        published_ = from.take<std::uint64_t>();
        return;
      case 5:
        write_bytes(from);
        return;
      case 6:
        return read();
      default:
        static_cast<void>(consumer_.publish_position());
        if (const auto status = consumer_.check_announced(); status == ring_status::corrupt)
          corrupt_ = true;
        require(!corrupt_ || consumer_.announced() == 0);
    }
  }

 private:
  [[nodiscard]] bool is_inside(std::span<const std::byte> part) const {
    return part.empty() || (part.data() >= ring_.data() &&
                            part.data() + part.size() <= ring_.data() + ring_.size());
  }

  void produce(std::uint32_t bytes) {
    bytes %= max_record_bytes(ring_size) + 1;
    const std::uint64_t before = producer_.position();
    const auto room = producer_.try_reserve(1, bytes);
    if (room.status != ring_status::ok) {
      require(room.payload.empty() && producer_.position() == before);
      return;
    }
    require(room.payload.size() == bytes && is_inside(room.payload));
    std::ranges::fill(room.payload, std::byte{0x5a});
    producer_.commit();
    // The record never overtakes the position of the consumer.
    require(producer_.position() - producer_.consumed() <= ring_size);
    require(producer_.position() % cache_line == 0);
  }

  void write_bytes(fuzz::reader& from) {
    const std::size_t at = from.take<std::uint16_t>() % ring_size;
    const auto bytes = from.take_bytes(from.take<std::uint8_t>() % 64);
    const std::size_t count = std::min(bytes.size(), ring_size - at);
    if (count > 0) std::memcpy(ring_.data() + at, bytes.data(), count);
  }

  void read() {
    ring_record record;
    const ring_status status = consumer_.peek(record);
    require(!corrupt_ || status == ring_status::corrupt);
    corrupt_ = status == ring_status::corrupt;
    if (status != ring_status::ok) return;
    require(is_inside(record.payload) && record.payload.size() <= max_record_bytes(ring_size));
    for (int hints = 0; consumer_.next_hint(); ++hints) require(hints < 8);
    consumer_.consume();
    require(own_position_ % cache_line == 0);
  }

  alignas(cache_line) std::array<std::byte, ring_size> ring_;
  shared_u64 published_{0};
  shared_u64 consumed_{0};
  shared_u64 own_position_{0};
  bool corrupt_ = false;
  ring_producer producer_{ring_, published_, consumed_};
  ring_consumer consumer_{ring_, published_, own_position_};
};

void run_ring(fuzz::input input) {
  fuzz::reader from(input);
  hostile_ring both;
  while (!from.empty()) both.step(from);
}

void ring_seeds(fuzz::seed_folder& into) {
  using byte = std::uint8_t;
  fuzz::writer some;
  for (const std::uint16_t bytes : {0, 56, 57, 1000}) some.put(byte{0}).put(bytes);
  some.put(byte{3});
  into.add("produced", some.bytes());
  for (int i = 0; i < 4; ++i) some.put(byte{6});
  some.put(byte{7});
  into.add("consumed", some.bytes());
  some.put(byte{2}).put(std::uint64_t{64}).put(byte{0}).put(std::uint16_t{4000});
  into.add("position", some.bytes());
  some.put(byte{4}).put(~std::uint64_t{0}).put(byte{7});
  into.add("count", some.bytes());
  fuzz::writer full;
  for (int i = 0; i < 20; ++i) full.put(byte{0}).put(std::uint16_t{1500}).put(byte{6}).put(byte{1});
  into.add("around", full.bytes());
  fuzz::writer header;
  header.put(byte{5}).put(std::uint16_t{0}).put(byte{8}).put(std::uint64_t{0xb1ad'0001'0000'0fff});
  into.add("header", header.put(byte{6}).bytes());
}

const fuzz::target rings("ring", run_ring, ring_seeds);

}  // namespace
}  // namespace verbena::softdev
