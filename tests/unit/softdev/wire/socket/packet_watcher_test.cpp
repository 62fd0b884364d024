// SPDX-License-Identifier: MIT
// A packet watcher sees each counted packet as it was on the wire.
#include "softdev/wire/packet_watcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

/// A packet and its note.
struct watched_packet {
  network_header around;
  std::vector<std::byte> bytes;
  std::string note;

  [[nodiscard]] packet read() const {
    packet what;
    EXPECT_EQ(parse(bytes, largest_mtu, what), packet_fault::none);
    return what;
  }
  [[nodiscard]] bool is_intact() const {
    const auto covered = std::span(bytes).first(bytes.size() - icrc_bytes);
    return icrc(around, covered) == load_icrc(std::span(bytes).last<icrc_bytes>());
  }
  bool operator==(const watched_packet& other) const {
    return around == other.around && bytes == other.bytes;
  }
};

using watched_packets = std::vector<watched_packet>;

/// Keeps packets. Threads: one thread at a time.
class keeping_watcher final : public packet_watcher {
 public:
  void sending() noexcept override { EXPECT_FALSE(std::exchange(sending_, true)); }
  void sent(const network_header& around, std::span<const std::byte> packet) noexcept override {
    EXPECT_TRUE(sending_);
    out.push_back({around, {packet.begin(), packet.end()}, {}});
  }
  void sent_all() noexcept override { sending_ = false; }
  void arrived(const network_header& around, std::span<const std::byte> packet) noexcept override {
    arriving_ = {around, {packet.begin(), packet.end()}, {}};
  }
  void settled(std::string_view note) noexcept override {
    EXPECT_FALSE(arriving_.bytes.empty());
    arriving_.note = note;
    in.push_back(std::exchange(arriving_, {}));
  }
  void dismissed() noexcept override { arriving_ = {}; }
  void settled_all() noexcept override { EXPECT_TRUE(arriving_.bytes.empty()); }

  watched_packets out;
  watched_packets in;

 private:
  bool sending_ = false;
  watched_packet arriving_;
};

template <class Which>
std::uint64_t count(const watched_packets& of, Which which) {
  return static_cast<std::uint64_t>(std::ranges::count_if(of, which));
}
bool is_taken(const watched_packet& which) { return which.note.empty(); }

/// Two processes with a watcher each. The first forwards the packets of the second.
class watched_pair : public ::testing::Test {
 protected:
  static constexpr std::uint32_t bytes = 20'000;  ///< 20 packets
  void SetUp() override {
    first.path.watch(at_first);
    second.path.watch(at_second);
    first.timeout = second.timeout = long_timeout;
    first.connect(second);
    second.connect(first);
  }
  void run(opcode what) {
    ASSERT_TRUE(first.mine.post({.opcode = what,
                                 .flags = send_flag::signaled,
                                 .remote_address = second.memory.address(),
                                 .remote_key = second.memory.key()},
                                {first.memory.slice(0, bytes)}));
    ASSERT_EQ(next_completion({&first, &second}, first.mine.sent()).status,
              completion_status::success);
  }
  /// Sends the bytes of a packet from `source` to the first process.
  void inject(const network_address& source, std::span<const std::byte> packet) {
    iovec piece{const_cast<std::byte*>(packet.data()), packet.size()};
    sockaddr_storage name;
    udp_socket::control control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    stranger.address({.source = source, .destination = first.address()}, port, name, control,
                     message);
    ASSERT_GT(::sendmsg(stranger.fd(), &message, 0), 0);
  }
  [[nodiscard]] std::vector<std::byte> acknowledgement(std::uint32_t qpn, std::uint32_t damage,
                                                       const network_address& source) const {
    packet made{.opcode = make_opcode(packet_transport::rc, operation::acknowledge),
                .destination_qpn = qpn};
    std::vector<std::byte> encoded(encoded_bytes(made));
    const std::size_t covered = encode(made, encoded);
    const network_header around{.source = source,
                                .destination = first.address(),
                                .source_port = stranger.port(),
                                .destination_port = port};
    store_icrc(icrc(around, std::span(encoded).first(covered)) ^ damage,
               std::span(encoded).last<icrc_bytes>());
    return encoded;
  }

  const std::uint16_t port = free_port();
  wired_host first{1, port};
  wired_host second{2, port, {.faults = {.loss = 30'000}}};
  keeping_watcher at_first;
  keeping_watcher at_second;
  udp_socket stranger = udp_socket::open(0, udp_socket::use::sending).value();
};

TEST_F(watched_pair, each_packet_that_is_counted_is_seen_once_as_it_was_on_the_wire) {
  for (int i = 0; i < 20; ++i) {
    run(opcode::rdma_write);
    run(opcode::rdma_read);
  }
  // The ACK of a retransmitted request can still be in flight.
  ASSERT_TRUE(run_until({&first, &second}, [&] {
    return at_first.in.size() == at_second.out.size() && at_second.in.size() == at_first.out.size();
  }));
  struct side {
    wired_host& host;
    keeping_watcher& seen;
  };
  for (const side& each : {side{first, at_first}, side{second, at_second}}) {
    const wire_counters counted = each.host.path.counters();
    const keeping_watcher& seen = each.seen;
    EXPECT_EQ(counted.output.sent, seen.out.size());
    std::uint64_t sent_bytes = 0;
    for (const watched_packet& one : seen.out) sent_bytes += one.bytes.size();
    EXPECT_EQ(counted.output.sent_bytes, sent_bytes);
    EXPECT_EQ(counted.intake.received, count(seen.in, is_taken));
    EXPECT_EQ(counted.intake.injected,
              count(seen.in, [](const watched_packet& one) { return !is_taken(one); }));
    EXPECT_EQ(counted.intake.sequence_naks, count(seen.in, [](const watched_packet& one) {
                return is_taken(one) && nak_of(one.read()) == nak_kind::sequence;
              }));
    EXPECT_EQ(counted.events.sequence_naks_sent, count(seen.out, [](const watched_packet& one) {
                return nak_of(one.read()) == nak_kind::sequence;
              }));
    EXPECT_TRUE(std::ranges::all_of(seen.out, &watched_packet::is_intact));
    EXPECT_TRUE(std::ranges::all_of(seen.in, &watched_packet::is_intact));
  }
  EXPECT_EQ(at_first.out, at_second.in) << "what leaves is what arrives, lost packets included";
  EXPECT_EQ(at_second.out, at_first.in);
  EXPECT_GT(second.path.counters().intake.injected, 0U);
  std::set<std::uint32_t> numbers;
  const std::uint64_t repeated = count(at_first.out, [&](const watched_packet& one) {
    const packet what = one.read();
    // An offer of selective repeat has the PSN of the lost packet.
    const bool is_offer = what.opcode == packet_opcode::selective_offer;
    const bool is_read = operation_of(what.opcode) == operation::read_request;
    return !is_offer && !is_read && !numbers.insert(what.psn).second;
  });
  EXPECT_GT(repeated, 0U) << "a lost packet is seen again";
  EXPECT_LE(repeated, first.path.counters().events.retransmitted);
}

TEST_F(watched_pair, packet_that_is_dropped_is_seen_with_its_reason) {
  constexpr std::array<std::byte, 5> garbage{};
  inject(second.address(), garbage);
  const std::uint32_t qpn = first.pair().number();
  constexpr std::uint32_t wrong_bits = 0x8000'0001;
  inject(second.address(), acknowledgement(qpn + 1, 0, second.address()));
  inject(loopback(9), acknowledgement(qpn, 0, loopback(9)));
  inject(second.address(), acknowledgement(qpn, wrong_bits, second.address()));
  constexpr std::uint32_t absent_process = 77;
  inject(second.address(), acknowledgement(number_at(absent_process, 3), 0, second.address()));
  ASSERT_TRUE(run_until({&first, &second}, [&] { return at_first.in.size() == 5; }));
  std::vector<std::string> notes;
  for (const watched_packet& each : at_first.in) notes.push_back(each.note);
  EXPECT_EQ(notes, (std::vector<std::string>{"dropped_malformed", "dropped_unknown_qp",
                                             "dropped_wrong_source", "dropped_icrc",
                                             "dropped_unknown_qp"}));
  EXPECT_TRUE(std::ranges::equal(at_first.in[0].bytes, garbage));
  EXPECT_EQ(at_first.in[2].around.source, loopback(9));
  EXPECT_EQ(at_first.in[2].around.source_port, stranger.port());
  EXPECT_TRUE(at_second.in.empty()) << "another process";
}

}  // namespace
}  // namespace verbena::softdev::wire
