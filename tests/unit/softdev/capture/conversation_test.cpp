// SPDX-License-Identifier: MIT
#include "softdev/capture/conversation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "softdev/core/datagram.hpp"

namespace verbena::softdev::capture {
namespace {

using wire::operation;

constexpr std::uint32_t mtu = 256;
constexpr std::uint32_t first_psn = 0xff'fffe;
constexpr std::uint32_t requester_qpn = 0x11;
constexpr std::uint32_t responder_qpn = 0x22;
constexpr std::uint8_t minimal_timer = 12;

const conversation_route route{
    .source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1},
    .destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2}};

/// A packet with a copy of its payload.
struct seen_packet {
  wire::network_header around;
  wire::packet what;
  std::vector<std::byte> payload;

  [[nodiscard]] operation name() const {
    return static_cast<operation>(static_cast<unsigned>(what.opcode) & 0x1fU);
  }
};

/// Keeps packets. Threads: one thread at a time.
class kept_packets final : public packet_output {
 public:
  void put(const wire::network_header& around, const wire::packet& what) noexcept override {
    packets.push_back({around, what, {what.payload.begin(), what.payload.end()}});
  }
  [[nodiscard]] std::vector<operation> names() const {
    std::vector<operation> all;
    all.reserve(packets.size());
    for (const seen_packet& each : packets) all.push_back(each.name());
    return all;
  }
  [[nodiscard]] std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    all.reserve(packets.size());
    for (const seen_packet& each : packets) all.push_back(each.what.psn);
    return all;
  }

  std::vector<seen_packet> packets;
};

class softdev_capture_conversation : public testing::Test {
 protected:
  softdev_capture_conversation() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 7);
  }
  /// Returns the next request, whose data are in two segments.
  message request(opcode op, std::uint32_t length, transport kind = transport::rc) {
    message made{.opcode = op, .source_qpn = requester_qpn, .destination_qpn = responder_qpn};
    made.transport = kind;
    made.length = length;
    made.psn = next_++;
    made.remote_address = 0x1000;
    made.remote_key = 0x99;
    return made;
  }
  std::vector<segment> pieces(std::size_t length) {
    const std::size_t front = std::min<std::size_t>(length, 100);
    std::vector<segment> made{{memory_.data(), front}};
    if (length > front) made.push_back({memory_.data() + front, length - front});
    return made;
  }
  /// Sends a request; the path returns `answer`.
  void send(const message& what, const response& answer) {
    const auto local = pieces(what.length);
    with_.sending(what, local, out_);
    with_.sent(what, local, answer, out_);
  }

  std::array<std::byte, 2048> memory_{};
  std::uint32_t next_ = 500;
  kept_packets out_;
  conversation with_{route, first_psn, mtu};
};

constexpr response done{};
constexpr response pending{.outcome = verdict::pending};

TEST_F(softdev_capture_conversation, message_is_divided_by_the_mtu_and_numbered_across_the_wrap) {
  send(request(opcode::send, 600), done);
  EXPECT_EQ(out_.names(), (std::vector{operation::send_first, operation::send_middle,
                                       operation::send_last, operation::acknowledge}));
  EXPECT_EQ(out_.numbers(), (std::vector<std::uint32_t>{0xff'fffe, 0xff'ffff, 0, 0}));
  std::vector<std::byte> all;
  for (const seen_packet& each : out_.packets)
    all.insert(all.end(), each.payload.begin(), each.payload.end());
  EXPECT_TRUE(std::ranges::equal(all, std::span(memory_).first(600)));
  EXPECT_EQ(out_.packets[0].what.destination_qpn, responder_qpn);
  EXPECT_FALSE(out_.packets[0].what.ack_requested);
  EXPECT_TRUE(out_.packets[2].what.ack_requested);
  const seen_packet& answer = out_.packets.back();
  EXPECT_EQ(answer.what.destination_qpn, requester_qpn);
  EXPECT_EQ(answer.what.answer, (wire::acknowledgement{wire::syndrome_ack, 1}));
  EXPECT_EQ(answer.around.source, route.destination);
}

TEST_F(softdev_capture_conversation, lengths_at_the_mtu_make_one_packet_less) {
  for (const auto& [length, count] :
       {std::pair{0U, 1U}, std::pair{1U, 1U}, std::pair{256U, 1U}, std::pair{257U, 2U},
        std::pair{512U, 2U}, std::pair{513U, 3U}}) {
    out_.packets.clear();
    send(request(opcode::rdma_write, length), done);
    EXPECT_EQ(out_.packets.size(), count + 1) << length;
    EXPECT_EQ(out_.packets[0].what.remote, (wire::remote_range{0x1000, 0x99, length}));
  }
}

TEST_F(softdev_capture_conversation, immediate_data_and_solicitation_are_in_the_last_packet) {
  message what = request(opcode::rdma_write_with_imm, 300);
  what.solicited = true;
  send(what, done);
  EXPECT_EQ(out_.names(), (std::vector{operation::write_first, operation::write_last_with_imm,
                                       operation::acknowledge}));
  EXPECT_FALSE(out_.packets[0].what.solicited);
  EXPECT_TRUE(out_.packets[1].what.solicited);
}

TEST_F(softdev_capture_conversation, answer_that_comes_later_acknowledges_the_requests_before_it) {
  const message first = request(opcode::send, 10);
  const message second = request(opcode::send, 300);
  send(first, pending);
  send(second, pending);
  out_.packets.clear();
  with_.answered(second.psn, {}, done, out_);
  ASSERT_EQ(out_.names(), std::vector{operation::acknowledge});
  EXPECT_EQ(out_.packets[0].what.psn, 0U);  // the second request has PSNs ffffff and 0
  EXPECT_EQ(out_.packets[0].what.answer.msn, 2U);
  out_.packets.clear();
  with_.answered(first.psn, {}, done, out_);
  EXPECT_TRUE(out_.packets.empty());
}

TEST_F(softdev_capture_conversation, read_takes_a_number_for_each_response) {
  send(request(opcode::rdma_read, 600), done);
  send(request(opcode::send, 1), done);
  EXPECT_EQ(out_.names(),
            (std::vector{operation::read_request, operation::read_response_first,
                         operation::read_response_middle, operation::read_response_last,
                         operation::send_only, operation::acknowledge}));
  EXPECT_EQ(out_.numbers(), (std::vector<std::uint32_t>{0xff'fffe, 0xff'fffe, 0xff'ffff, 0, 1, 1}));
  EXPECT_EQ(out_.packets[0].what.remote.length, 600U);
  EXPECT_TRUE(std::ranges::equal(out_.packets[3].payload, std::span(memory_).subspan(512, 88)));
}

TEST_F(softdev_capture_conversation, pending_read_is_answered_with_the_data_of_its_sinks) {
  const message what = request(opcode::rdma_read, 20);
  send(what, pending);
  out_.packets.clear();
  with_.answered(what.psn, pieces(20), done, out_);
  ASSERT_EQ(out_.names(), std::vector{operation::read_response_only});
  EXPECT_TRUE(std::ranges::equal(out_.packets[0].payload, std::span(memory_).first(20)));
}

TEST_F(softdev_capture_conversation, atomic_is_answered_with_the_value_before) {
  message what = request(opcode::compare_swap, 8);
  what.compare_or_add = 5;
  what.swap = 6;
  send(what, {.original = 77});
  message added = request(opcode::fetch_add, 8);
  added.compare_or_add = 9;
  send(added, {.direct = true});
  EXPECT_EQ(out_.names(), (std::vector{operation::compare_swap, operation::atomic_acknowledge,
                                       operation::fetch_add, operation::atomic_acknowledge}));
  EXPECT_EQ(out_.packets[0].what.atomic, (wire::atomic_operands{0x1000, 0x99, 6, 5}));
  EXPECT_EQ(out_.packets[1].what.original, 77U);
  EXPECT_EQ(out_.packets[2].what.atomic, (wire::atomic_operands{0x1000, 0x99, 9, 0}));
  std::uint64_t stored = 0;
  std::memcpy(&stored, memory_.data(), sizeof stored);
  EXPECT_EQ(out_.packets[3].what.original, stored);
}

TEST_F(softdev_capture_conversation, request_to_a_receiver_that_is_not_ready_is_repeated) {
  const message what = request(opcode::send, 300);
  send(what, {.outcome = verdict::receiver_not_ready, .rnr_timer = minimal_timer});
  send(what, done);
  EXPECT_EQ(out_.numbers(), (std::vector<std::uint32_t>{0xff'fffe, 0xff'ffff, 0xff'fffe, 0xff'fffe,
                                                        0xff'ffff, 0xff'ffff}));
  EXPECT_EQ(out_.packets[2].what.answer,
            (wire::acknowledgement{wire::syndrome_rnr_nak | minimal_timer, 0}));
  EXPECT_EQ(out_.packets[5].what.answer, (wire::acknowledgement{wire::syndrome_ack, 1}));
}

TEST_F(softdev_capture_conversation, late_rnr_nak_repeats_the_requests_behind_it) {
  const message first = request(opcode::send, 1);
  const message second = request(opcode::send, 1);
  const message third = request(opcode::send, 1);
  for (const message* each : {&first, &second, &third}) send(*each, pending);
  with_.answered(first.psn, {}, done, out_);
  out_.packets.clear();
  with_.answered(second.psn, {},
                 {.outcome = verdict::receiver_not_ready, .rnr_timer = minimal_timer}, out_);
  send(second, pending);
  send(third, pending);
  EXPECT_EQ(out_.numbers(), (std::vector<std::uint32_t>{0xff'ffff, 0xff'ffff, 0}));
}

TEST_F(softdev_capture_conversation, request_that_waits_for_room_is_put_once) {
  const message what = request(opcode::rdma_write, 600);
  send(what, {.outcome = verdict::blocked});
  send(what, {.outcome = verdict::partial});
  send(what, pending);
  EXPECT_EQ(out_.packets.size(), 3U);
  // A payload that the responder cannot read is submitted again in another form, which is invisible
  // on a wire.
  with_.answered(what.psn, {}, {.outcome = verdict::unread}, out_);
  send(what, pending);
  EXPECT_EQ(out_.packets.size(), 3U);
}

TEST_F(softdev_capture_conversation, request_without_an_answer_is_repeated_without_a_nak) {
  const message what = request(opcode::send, 1);
  send(what, {.outcome = verdict::no_answer});
  send(what, {.outcome = verdict::no_answer});
  EXPECT_EQ(out_.numbers(), (std::vector<std::uint32_t>{0xff'fffe, 0xff'fffe}));
}

TEST_F(softdev_capture_conversation, refusals_are_naks_with_their_codes) {
  for (const auto& [outcome, syndrome] :
       {std::pair{verdict::invalid_request, wire::syndrome_invalid_request},
        std::pair{verdict::access_error, wire::syndrome_access_error},
        std::pair{verdict::operation_error, wire::syndrome_operation_error}}) {
    out_.packets.clear();
    send(request(opcode::rdma_read, 600), {.outcome = outcome});
    ASSERT_EQ(out_.names(), (std::vector{operation::read_request, operation::acknowledge}));
    EXPECT_EQ(out_.packets[1].what.answer.syndrome, syndrome);
    EXPECT_EQ(out_.packets[1].what.psn, out_.packets[0].what.psn);
  }
}

TEST_F(softdev_capture_conversation, messages_over_uc_are_divided_and_not_answered) {
  send(request(opcode::send, 300, transport::uc), done);
  send(request(opcode::send, 1, transport::uc), {.outcome = verdict::blocked});
  --next_;
  send(request(opcode::send, 1, transport::uc), done);
  EXPECT_EQ(out_.names(),
            (std::vector{operation::send_first, operation::send_last, operation::send_only}));
  EXPECT_EQ(static_cast<unsigned>(out_.packets[0].what.opcode), 0x20U);
  EXPECT_FALSE(out_.packets[2].what.ack_requested);
}

TEST_F(softdev_capture_conversation, message_over_uc_after_one_that_was_given_up_is_put) {
  send(request(opcode::send, 1, transport::uc), {.outcome = verdict::blocked});
  send(request(opcode::send, 1, transport::uc), done);
  send(request(opcode::send, 1, transport::uc), done);
  EXPECT_EQ(out_.names(), std::vector(3, operation::send_only));
  EXPECT_EQ(out_.numbers(), (std::vector<std::uint32_t>{0xff'fffe, 0xff'ffff, 0}));
}

TEST_F(softdev_capture_conversation, datagram_goes_between_the_addresses_of_its_route_header) {
  gid_bytes source{0xfe, 0x80};
  source[15] = 1;
  gid_bytes destination = source;
  destination[15] = 2;
  const datagram_route ipv6{.source = source,
                            .destination = destination,
                            .flow_label = 0x12345,
                            .traffic_class = 0x42,
                            .hop_limit = 9};
  const datagram_route ipv4{.source = route.destination, .destination = route.source};
  for (const datagram_route& which : {ipv6, ipv4}) {
    out_.packets.clear();
    const datagram_address address(which, {});
    std::array<std::byte, grh_bytes> header{};
    address.write(header, 30, false);
    message what = request(opcode::send, 30 + grh_bytes, transport::ud);
    what.origin = address.origin();
    what.qkey = 0x1234;
    const std::array<segment, 2> local{segment{header.data(), header.size()},
                                       segment{memory_.data(), 30}};
    with_.sending(what, local, out_);
    with_.sent(what, local, done, out_);
    ASSERT_EQ(out_.names(), std::vector{operation::send_only});
    const seen_packet& made = out_.packets[0];
    EXPECT_EQ(static_cast<unsigned>(made.what.opcode), 0x64U);
    EXPECT_EQ(made.what.datagram, (wire::datagram_header{0x1234, requester_qpn}));
    EXPECT_EQ(made.payload.size(), 30U);
    EXPECT_EQ(made.around.source, which.source);
    EXPECT_EQ(made.around.destination, which.destination);
    if (which.flow_label == 0) continue;
    EXPECT_EQ(made.around.flow_label, which.flow_label);
    EXPECT_EQ(made.around.traffic_class, which.traffic_class);
    EXPECT_EQ(made.around.hop_limit, which.hop_limit);
  }
}

}  // namespace
}  // namespace verbena::softdev::capture
