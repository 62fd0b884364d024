// SPDX-License-Identifier: MIT
// A host with one queue pair and a packet engine. The test is the peer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "softdev/core/datagram.hpp"
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/packet.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"
#include "tests/unit/softdev/wire/simulation/host.hpp"

namespace verbena::softdev::wire {

/// A sent packet with a copy of its payload.
struct sent_packet {
  packet what;
  std::vector<std::byte> payload;
  datagram_route by;  ///< of UD

  [[nodiscard]] operation name() const { return static_cast<operation>(what.opcode); }
};

/// Keeps packets. Accepts `room` of them. Threads: one thread at a time.
class kept_output final : public packet_output {
 public:
  bool has_room() noexcept override {
    ++room_asked;
    return room > 0;
  }
  bool put(const queue_pair& /*from*/, const packet& what) noexcept override {
    return keep(what, {});
  }
  bool put_datagram(const datagram_route& by, const packet& what) noexcept override {
    return keep(what, by);
  }
  void count(packet_event what) noexcept override { ++counts[what]; }
  /// Returns the packets since the last call.
  [[nodiscard]] std::vector<sent_packet> take() { return std::exchange(packets, {}); }

  static constexpr int plenty = 1'000'000;
  int room = plenty;
  int room_asked = 0;  ///< calls of has_room
  std::vector<sent_packet> packets;
  std::map<packet_event, int> counts;

 private:
  bool keep(const packet& what, const datagram_route& by) {
    std::vector<std::byte> bytes(encoded_bytes(what));
    if (encode(what, bytes) == 0) return false;
    --room;
    packets.push_back({what, {what.payload.begin(), what.payload.end()}, by});
    return true;
  }
};

class lone_host : public ::testing::Test {
 protected:
  static constexpr std::uint32_t slot = 1;
  static constexpr std::uint32_t peer_qpn = 0x20'0011;
  static constexpr std::uint32_t mtu = 256;
  static constexpr std::uint32_t peer_psn = 0xff'fffe;  ///< the first PSN of the peer
  static constexpr std::uint32_t own_psn = 0xff'fff0;
  static constexpr std::size_t buffer_bytes = 64 * 1024;

  /// By default, without selective repeat and larger windows.
  explicit lone_host(transport kind = transport::rc,
                     const packet_engine_options& options = {.selective_repeat = false,
                                                             .larger_windows = false})
      : engine_of_packets(home, slot, out, options), mine(home, kind) {
    simulation::now = 1'000'000;
    attributes.receive_psn = peer_psn;
    attributes.send_psn = own_psn;
    attributes.retry_count = 2;
    attributes.timeout = 10;
    peer_memory.resize(buffer_bytes);
  }
  void connect() { mine.connect(attributes); }

  [[nodiscard]] static std::uint32_t psn(std::uint32_t index) {
    return (peer_psn + index) & psn_mask;
  }
  [[nodiscard]] static std::uint32_t sent_psn(std::uint32_t index) {
    return (own_psn + index) & psn_mask;
  }
  /// Returns request packet `index` of the peer, with `bytes` of payload from `offset` of its
  /// memory.
  [[nodiscard]] packet request(operation what, std::uint32_t index, std::size_t bytes = 0,
                               std::size_t offset = 0) {
    packet made;
    made.opcode = make_opcode(packet_transport::rc, what);
    made.destination_qpn = mine.pair().number();
    made.psn = psn(index);
    made.ack_requested = true;
    made.payload = std::span(peer_memory).subspan(offset, bytes);
    return made;
  }
  /// Returns a READ request, or the first packet of a WRITE.
  [[nodiscard]] packet remote(operation what, std::uint32_t index, std::uint32_t length,
                              std::size_t bytes = 0, std::uint64_t offset = 0) {
    packet made = request(what, index, bytes);
    made.remote = {target.address() + offset, target.key(), length};
    return made;
  }
  [[nodiscard]] packet atomic(operation what, std::uint32_t index, std::uint64_t swap_or_add,
                              std::uint64_t compare = 0) {
    packet made = request(what, index);
    made.atomic = {target.address(), target.key(), swap_or_add, compare};
    return made;
  }
  /// Returns a response of the peer to packet `index` of this host.
  [[nodiscard]] packet reply(operation what, std::uint32_t index,
                             std::uint8_t syndrome = syndrome_ack, std::size_t bytes = 0,
                             std::size_t offset = 0) {
    packet made = request(what, 0, bytes, offset);
    made.psn = sent_psn(index);
    made.answer.syndrome = syndrome;
    return made;
  }
  /// Passes packets to the engine as one batch. Returns the packets that it sends.
  std::vector<sent_packet> exchange(const std::vector<packet>& some) {
    for (const packet& each : some) EXPECT_TRUE(engine_of_packets.receive(each));
    return transmit();
  }
  std::vector<sent_packet> transmit() {
    engine_of_packets.transmit();
    return out.take();
  }
  /// Advances the time to the next deadline. Returns the packets that the engine sends.
  std::vector<sent_packet> wait() {
    const time_ns next = std::min(home.next_deadline(), engine_of_packets.next_deadline());
    EXPECT_NE(next, never);
    simulation::now = std::max(simulation::now, next);
    engine_of_packets.expire(simulation::now);
    while (home.progress()) {
    }
    return transmit();
  }
  void post_receives(std::uint32_t count, std::uint32_t bytes = buffer_bytes) {
    for (std::uint32_t i = 0; i < count; ++i)
      EXPECT_TRUE(mine.post_receive(receives_++, sink.slice(0, bytes)));
  }
  /// Posts a request. Returns the packets that the engine sends.
  std::vector<sent_packet> post(opcode op, std::uint32_t bytes, send_flags flags = {}) {
    const send_request made{.wr_id = sends_++,
                            .opcode = op,
                            .flags = flags | send_flag::signaled,
                            .immediate = 0x1234,
                            .remote_address = 0x10'0000,
                            .remote_key = 0x77,
                            .compare_or_add = 5,
                            .swap = 6};
    EXPECT_TRUE(mine.post(made, {sink.slice(0, bytes)}));
    return transmit();
  }
  [[nodiscard]] static std::vector<completion> drain(completion_queue& queue) {
    std::array<completion, 64> some;
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(queue.poll(some))};
  }

  /// Expects exactly one packet: an ACK or NAK with these fields.
  static void expect_answer(const std::vector<sent_packet>& some, std::uint32_t index,
                            std::uint8_t syndrome, std::uint32_t msn) {
    ASSERT_EQ(some.size(), 1U);
    EXPECT_EQ(some[0].name(), operation::acknowledge);
    EXPECT_EQ(some[0].what.psn, psn(index));
    EXPECT_EQ(some[0].what.answer.syndrome, syndrome);
    EXPECT_EQ(some[0].what.answer.msn, msn);
    EXPECT_EQ(some[0].what.destination_qpn, peer_qpn);
  }
  static void expect_packets(const std::vector<sent_packet>& some, std::uint32_t first,
                             const std::vector<operation>& names) {
    ASSERT_EQ(some.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(some[i].name(), names[i]) << i;
      EXPECT_EQ(some[i].what.psn, (first + i) & psn_mask) << i;
    }
  }
  void expect_completion(completion_status status, std::uint64_t wr_id = 0) {
    const auto all = drain(mine.sent());
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all[0].status, status);
    EXPECT_EQ(all[0].wr_id, wr_id);
  }

  engine home{{.process_slot = slot, .clock = +[] { return simulation::now; }}};
  kept_output out;
  packet_engine engine_of_packets;
  queue_pair_attributes attributes = simulation::attributes_for(peer_qpn);
  simulation::end mine;
  simulation::memory target{home, buffer_bytes};  ///< memory that the peer accesses
  simulation::memory sink{home, buffer_bytes};    ///< for receives and own requests
  std::vector<std::byte> peer_memory;

 private:
  std::uint64_t receives_ = 0;
  std::uint64_t sends_ = 0;
};

}  // namespace verbena::softdev::wire
