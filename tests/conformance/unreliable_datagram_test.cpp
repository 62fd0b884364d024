// SPDX-License-Identifier: MIT
// Unreliable datagrams: addresses, GRH with the source, and silent drops.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/conformance/ends.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/global_route_header.hpp"

namespace verbena::conformance {
namespace {

constexpr std::size_t ud_bytes = 16 << 10;
constexpr std::size_t header_bytes = global_route_header::encoded_size;
constexpr queue_key key(0x1357);

class unreliable_datagram : public ::testing::TestWithParam<variant> {
 protected:
  void open() {
    VERBENA_NEEDS(!is_iwarp(), "iWARP has no datagrams");
    add_end();
    if (GetParam().shape == topology::pair) add_end();
    source.emplace(make.pd().allocate(ud_bytes, all_access()).value());
    sink.emplace(make.pd().allocate(ud_bytes, all_access()).value());
  }
  void add_end() {
    auto made = make.prepare({.queues = {.max_recv_sge = 2, .max_inline_data = 32},
                              .extended = GetParam().interface == interface_kind::extended});
    endpoints.push_back(made.queue.endpoint());
    ways.push_back(make.pd().create_ah(made.queue.address_of(endpoints.back()).value()).value());
    ends.push_back({made.sends, made.receives, std::move(made.queue).activate(key).value()});
  }
  [[nodiscard]] end<ud>& initiator() { return ends.front(); }
  [[nodiscard]] end<ud>& target() { return ends.back(); }
  // Returns the destination of datagrams with the Q_Key `with`.
  [[nodiscard]] destination to_target(queue_key with = key) {
    return ways.back().destination(target().queue.number(), with);
  }
  template <class Add>
  void post(Add&& add) {
    post_by(GetParam().interface, initiator().queue, std::forward<Add>(add));
  }
  void receive(std::uint64_t id, std::size_t bytes) {
    target().queue.post_receive({.id = id}, sink->slice(0, bytes)).value();
  }
  [[nodiscard]] completion sent() { return take_one(initiator().sends); }
  [[nodiscard]] completion received() { return take_one(target().receives); }

  maker<ud> make;
  std::vector<endpoint> endpoints;
  std::vector<address_handle> ways;
  std::vector<end<ud>> ends;
  std::optional<memory_region> source;
  std::optional<memory_region> sink;
};
INSTANTIATE_TEST_SUITE_P(ud, unreliable_datagram, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-57, ibverbs-252, ibverbs-257, rrddmma-83
TEST_P(unreliable_datagram, datagram_has_a_grh_and_its_source) {
  VERBENA_OPEN();
  const auto packet = byte_count(endpoints.front().mtu);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{packet}}) {
    fill(source->bytes().first(bytes), static_cast<std::uint32_t>(bytes));
    receive(bytes, header_bytes + bytes);
    post([&](auto& batch) {
      batch.send_with_immediate({.id = 1, .signaled = true}, 0x0a0b0c0d, source->slice(0, bytes),
                                to_target());
    });
    const completion arrived = received();
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.id(), bytes);
    EXPECT_EQ(arrived.byte_length(), header_bytes + bytes);
    EXPECT_EQ(arrived.immediate(), 0x0a0b0c0dU);
    EXPECT_EQ(arrived.native().src_qp, initiator().queue.number().value());
    EXPECT_TRUE(holds(*sink, header_bytes, source->bytes().first(bytes)));
    expect_source(arrived, sink->bytes(), endpoints.front(), endpoints.back());
    EXPECT_TRUE(sent().ok());
  }
}

// parity: ibverbs-tests-85
TEST_P(unreliable_datagram, address_handle_from_completion_replies_to_the_sender) {
  VERBENA_OPEN();
  receive(1, 200);
  post([&](auto& batch) { batch.send({.signaled = true}, source->slice(0, 50), to_target()); });
  const completion asked = received();
  ASSERT_TRUE(asked.ok() && sent().ok());
  const auto header = header_of(asked, sink->bytes());
  const auto way = make.pd().sender_address(asked, port_number(1), header).value();
  EXPECT_TRUE(is_address_of(way, endpoints.front()));
  const auto back = make.pd().create_ah(way).value();
  const auto to_sender = back.destination(queue_pair_number(asked.native().src_qp), key);

  fill(source->bytes().first(60), 9);
  initiator().queue.post_receive({.id = 2}, sink->slice(1000, 200)).value();
  post_by(GetParam().interface, target().queue, [&](auto& batch) {
    batch.send({.id = 3, .signaled = true}, source->slice(0, 60), to_sender);
  });
  const completion answer = take_one(initiator().receives);
  ASSERT_TRUE(answer.ok()) << to_string(answer);
  EXPECT_EQ(answer.id(), 2U);
  EXPECT_EQ(answer.native().src_qp, target().queue.number().value());
  EXPECT_TRUE(holds(*sink, 1000 + header_bytes, source->bytes().first(60)));
  EXPECT_EQ(take_one(target().sends).id(), 3U);
}

// parity: ibverbs-208
TEST_P(unreliable_datagram, datagram_with_wrong_qkey_is_dropped_and_consumes_no_receive) {
  VERBENA_OPEN();
  receive(7, 500);
  post([&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, source->slice(0, 11), to_target(queue_key(0x2468)));
    batch.send({.id = 2, .signaled = true}, source->slice(0, 22), to_target());
  });
  const completion arrived = received();
  EXPECT_EQ(arrived.id(), 7U);
  EXPECT_EQ(arrived.byte_length(), header_bytes + 22);
  EXPECT_TRUE(take(initiator().sends, 2).front().ok()) << "the send must succeed";
}

// parity: ibverbs-209
TEST_P(unreliable_datagram, qkey_with_the_high_bit_selects_the_senders_qkey) {
  VERBENA_NEEDS(!is_efa(), "no document says what an EFA does with such a Q_Key");
  VERBENA_OPEN();
  receive(7, 500);
  post([&](auto& batch) {
    batch.send({.id = 1}, source->slice(0, 33), to_target(queue_key(0x80000000)));
    batch.send({.id = 2, .signaled = true}, source->slice(0, 44), to_target());
  });
  EXPECT_EQ(received().byte_length(), header_bytes + 33);
  EXPECT_EQ(sent().id(), 2U);
}

TEST_P(unreliable_datagram, datagram_without_receive_is_dropped_and_the_next_one_arrives) {
  VERBENA_OPEN();
  // Sends a second datagram to itself. When it has arrived, the first one has been dropped.
  const auto to_itself = ways.front().destination(initiator().queue.number(), key);
  post([&](auto& batch) { batch.send({.signaled = true}, source->slice(0, 10), to_target()); });
  EXPECT_TRUE(sent().ok());
  if (GetParam().shape == topology::pair) {
    initiator().queue.post_receive({.id = 4}, sink->slice(4096, 100)).value();
    post([&](auto& batch) { batch.send({.signaled = true}, source->slice(0, 20), to_itself); });
    EXPECT_EQ(take_one(initiator().receives).id(), 4U);
    EXPECT_TRUE(sent().ok());
  }
  EXPECT_TRUE(stays_empty(target().receives));
  receive(5, 100);
  post([&](auto& batch) { batch.send({.signaled = true}, source->slice(0, 30), to_target()); });
  const completion arrived = received();
  EXPECT_EQ(arrived.id(), 5U);
  EXPECT_EQ(arrived.byte_length(), header_bytes + 30);
  EXPECT_TRUE(sent().ok());
}

TEST_P(unreliable_datagram, one_batch_reaches_many_queue_pairs) {
  VERBENA_OPEN();
  add_end();
  add_end();
  for (std::size_t i = 0; i < ends.size(); ++i)
    ends[i].queue.post_receive({.id = i}, sink->slice(i * 256, 256)).value();
  fill(source->bytes().first(1024), 12);
  post([&](auto& batch) {
    for (std::size_t i = 0; i < ends.size(); ++i)
      batch.send({.id = i, .signaled = true}, source->slice(i * 100, 100),
                 ways[i].destination(ends[i].queue.number(), key));
  });
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const completion arrived = take_one(ends[i].receives);
    EXPECT_EQ(arrived.id(), i);
    EXPECT_EQ(arrived.byte_length(), header_bytes + 100);
    EXPECT_TRUE(holds(*sink, i * 256 + header_bytes, source->bytes().subspan(i * 100, 100)));
  }
  EXPECT_EQ(take(initiator().sends, ends.size()).back().id(), ends.size() - 1);
}

// parity: ibverbs-252
TEST_P(unreliable_datagram, inline_data_arrives_from_one_and_two_sges) {
  VERBENA_OPEN();
  const std::array parts = {sink->slice(0, header_bytes), sink->slice(2048, 64)};
  target().queue.post_receive({}, parts).value();
  post([&](auto& batch) {
    batch.send({.signaled = true}, inline_data(bytes_of("inline")), to_target());
  });
  EXPECT_EQ(received().byte_length(), header_bytes + 6);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 2048, bytes_of("inline")));
}

TEST_P(unreliable_datagram, datagram_longer_than_the_mtu_does_not_arrive) {
  VERBENA_OPEN();
  const auto packet = byte_count(tested().context.query_port(port_number(1)).value().max_mtu());
  receive(1, ud_bytes);
  post([&](auto& batch) {
    batch.send({.signaled = true}, source->slice(0, packet + 1), to_target());
  });
  // The specification (C10-93.1.1) requires success, but devices differ.
  static_cast<void>(sent());
  EXPECT_TRUE(stays_empty(target().receives));
}

class datagram_queue_pairs : public ::testing::Test {
 protected:
  void SetUp() override { VERBENA_NEEDS(!is_iwarp(), "iWARP has no datagrams"); }

  maker<ud> make;
};

// parity: ibverbs-tests-76, ibverbs-207
TEST_F(datagram_queue_pairs, queue_pair_reaches_rts_by_manual_transitions) {
  using attribute = queue_pair_attribute;
  auto made = make.prepare({.first_psn = packet_sequence_number(77)});
  const auto init = made.queue.init_attributes(queue_key(0x11111111));
  const auto rtr = made.queue.rtr_attributes();
  const auto rts = made.queue.rts_attributes();
  auto queue = std::move(made.queue).into_queue_pair();
  queue.modify(init).value();
  queue.modify(rtr).value();
  queue.modify(rts).value();
  const auto now = queue.query(attribute::state | attribute::qkey | attribute::send_psn).value();
  EXPECT_EQ(now.state(), queue_pair_state::ready_to_send);
  EXPECT_EQ(now.qkey(), queue_key(0x11111111));
  EXPECT_EQ(now.send_psn(), packet_sequence_number(77));
}

TEST_F(datagram_queue_pairs, attributes_of_connections_are_refused_and_named) {
  VERBENA_NEEDS(!is_efa(), "an EFA refuses attributes that it does not have with EOPNOTSUPP");
  auto made = make.prepare({});
  made.queue.modify(made.queue.init_attributes(key)).value();
  auto rtr = made.queue.rtr_attributes();
  rtr.set_destination(queue_pair_number(3));
  const auto refused = made.queue.modify(rtr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EINVAL);
  EXPECT_NE(refused.error().message().find("does not permit DEST_QPN"), std::string::npos)
      << refused.error().message();
  const auto unready = make.prepare({}).queue.modify(
      queue_pair_attributes().set_state(queue_pair_state::init).set_port(port_number(1)));
  ASSERT_FALSE(unready);
  EXPECT_NE(unready.error().message().find("needs PKEY_INDEX | QKEY"), std::string::npos)
      << unready.error().message();
}

TEST_F(datagram_queue_pairs, extended_completion_reports_the_source) {
  const auto fields = completion_field::byte_length | completion_field::source_queue_pair;
  const auto of_other_links = completion_field::source_lid | completion_field::service_level |
                              completion_field::destination_path_bits;
  const auto cq = tested().context.create_extended_cq(
      16, {.fields = is_on_ethernet() ? fields : fields | of_other_links});
  VERBENA_NEEDS(cq.has_value(), "the provider has no extended completion queues");
  auto made = make.pd().create_qp<ud>(*cq, *cq).value();
  const auto itself = made.endpoint();
  const auto way = make.pd().create_ah(made.address_of(itself).value()).value();
  auto queue = std::move(made).activate(key).value();
  const auto memory = make.pd().allocate(4096, all_access()).value();
  queue.post_receive({.id = 1}, memory.slice(0, 200)).value();
  auto batch = queue.start_send();
  batch.send({.id = 2, .signaled = true}, memory.slice(1000, 40),
             way.destination(queue.number(), key));
  batch.submit().value();
  const deadline limit = test_deadline();
  for (bool found = false; !found;) {
    ASSERT_FALSE(limit.expired());
    for (const auto& done : cq->poll()) {
      ASSERT_TRUE(done.ok());
      if (done.id() == 2) continue;
      EXPECT_EQ(done.byte_length(), header_bytes + 40);
      EXPECT_EQ(done.source_queue_pair(), queue.number());
      std::optional<global_route_header> header;
      if (done.flags().contains(completion_flag::global_route_header))
        header = global_route_header::decode(memory.bytes()).value();
      const auto back = make.pd().sender_address(done, port_number(1), header);
      EXPECT_TRUE(is_address_of(back.value(), itself));
      found = true;
      break;
    }
  }
}

TEST_F(datagram_queue_pairs, invalid_address_vector_is_refused_and_named) {
  const auto refused =
      make.pd().create_ah({.gid = parse_gid("192.0.2.1"), .source_gid_index = gid_index(254)});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("index 254"), std::string::npos)
      << refused.error().message();
  EXPECT_FALSE(make.pd().create_ah({.port = port_number(77)}));
}

}  // namespace
}  // namespace verbena::conformance
