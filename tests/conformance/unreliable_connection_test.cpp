// SPDX-License-Identifier: MIT
// Unreliable connections: messages arrive unchanged and in order; a message without a receive is
// dropped silently.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "tests/conformance/ends.hpp"

namespace verbena::conformance {
namespace {

constexpr std::size_t uc_bytes = 64 << 10;

class unreliable_connection : public ::testing::TestWithParam<variant> {
 protected:
  void open() {
    VERBENA_NEEDS(!is_iwarp(), "iWARP has reliable connections only");
    VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
    const queue_pair_options<uc> options{
        .queues = {.max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 32},
        .extended = GetParam().interface == interface_kind::extended,
        .access = access::remote_write};
    if (GetParam().shape == topology::self) {
      ends.push_back(make.loop(make.prepare(options)));
    } else {
      auto [a, b] = make.join(make.prepare(options), make.prepare(options));
      ends.push_back(std::move(a));
      ends.push_back(std::move(b));
    }
    source.emplace(make.pd().allocate(uc_bytes, all_access()).value());
    sink.emplace(make.pd().allocate(uc_bytes, all_access()).value());
  }
  [[nodiscard]] end<uc>& initiator() { return ends.front(); }
  [[nodiscard]] end<uc>& target() { return ends.back(); }
  template <class Add>
  void post(Add&& add) {
    post_by(GetParam().interface, initiator().queue, std::forward<Add>(add));
  }
  [[nodiscard]] completion sent() { return take_one(initiator().sends); }
  [[nodiscard]] completion received() { return take_one(target().receives); }

  // Waits until the target has executed all posted requests. Requests of one connection are
  // executed in order, so a final write to memory shows it.
  void wait_for_the_target() {
    ++mark;
    auto bytes = source->bytes().last(8);
    std::memcpy(bytes.data(), &mark, sizeof mark);
    post([&](auto& batch) {
      batch.write({.id = 99, .signaled = true}, source->slice(uc_bytes - 8, 8),
                  sink->remote().slice(uc_bytes - 8, 8));
    });
    EXPECT_TRUE(sent().ok());
    auto& seen = *reinterpret_cast<std::uint64_t*>(sink->bytes().last(8).data());
    const deadline limit = test_deadline();
    while (std::atomic_ref(seen).load() != mark) ASSERT_FALSE(limit.expired());
  }

  maker<uc> make;
  std::vector<end<uc>> ends;
  std::optional<memory_region> source;
  std::optional<memory_region> sink;
  std::uint64_t mark = 0;
};
INSTANTIATE_TEST_SUITE_P(uc, unreliable_connection, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-55, ibverbs-206, ibverbs-250
TEST_P(unreliable_connection, messages_of_any_size_arrive_intact_and_in_order) {
  VERBENA_OPEN();
  for (const std::size_t bytes : {1U, 1023U, 1024U, 4097U, 20000U}) {
    fill(source->bytes().first(bytes), static_cast<std::uint32_t>(bytes));
    target().queue.post_receive({.id = bytes}, sink->slice(0, bytes)).value();
    post([&](auto& batch) {
      batch.send_with_immediate({.id = 1, .signaled = true}, 0x01020304, source->slice(0, bytes));
    });
    const completion arrived = received();
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.id(), bytes);
    EXPECT_EQ(arrived.byte_length(), bytes);
    EXPECT_EQ(arrived.immediate(), 0x01020304U);
    EXPECT_TRUE(sent().ok());
    EXPECT_TRUE(holds(*sink, 0, source->bytes().first(bytes)));
  }
}

// parity: ibverbs-250
TEST_P(unreliable_connection, writes_arrive_with_and_without_immediate_data) {
  VERBENA_OPEN();
  fill(source->bytes().first(8192), 2);
  target().queue.post_receive({.id = 5}, std::span<const local_slice>{}).value();
  post([&](auto& batch) {
    batch.write({.id = 1}, source->slice(0, 4096), sink->remote().slice(0, 4096));
    batch.write_with_immediate({.id = 2, .signaled = true}, 77, source->slice(4096, 4096),
                               sink->remote().slice(4096, 4096));
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.opcode(), completion_opcode::receive_write_with_immediate);
  EXPECT_EQ(arrived.immediate(), 77U);
  EXPECT_EQ(sent().id(), 2U);
  EXPECT_TRUE(holds(*sink, 0, source->bytes().first(8192)));
}

TEST_P(unreliable_connection, inline_data_arrives) {
  VERBENA_OPEN();
  target().queue.post_receive({}, sink->slice(0, 64)).value();
  post([&](auto& batch) { batch.send({.signaled = true}, inline_data(bytes_of("inline"))); });
  EXPECT_EQ(received().byte_length(), 6U);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 0, bytes_of("inline")));
}

// parity: ibverbs-250
TEST_P(unreliable_connection, message_without_receive_is_dropped_and_the_next_one_arrives) {
  VERBENA_OPEN();
  post([&](auto& batch) { batch.send({.id = 1, .signaled = true}, source->slice(0, 100)); });
  EXPECT_TRUE(sent().ok()) << "the send must succeed";
  ASSERT_NO_FATAL_FAILURE(wait_for_the_target());
  target().queue.post_receive({.id = 6}, sink->slice(0, 200)).value();
  post([&](auto& batch) { batch.send({.id = 2, .signaled = true}, source->slice(0, 200)); });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.byte_length(), 200U);
  EXPECT_EQ(sent().id(), 2U);
}

TEST_P(unreliable_connection, write_with_wrong_rkey_is_dropped_silently) {
  VERBENA_OPEN();
  const remote_region nowhere({.address = sink->remote().address(),
                               .length = 64,
                               .key = remote_key(sink->remote().key().value() ^ 0x5a)});
  post([&](auto& batch) { batch.write({.signaled = true}, source->slice(0, 64), nowhere); });
  EXPECT_TRUE(sent().ok());
  EXPECT_EQ(initiator().queue.current_state().value(), queue_pair_state::ready_to_send);
}

class unreliable_connection_bringup : public ::testing::Test {
 protected:
  void SetUp() override {
    VERBENA_NEEDS(!is_iwarp(), "iWARP has reliable connections only");
    VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
  }

  maker<uc> make;
};

// parity: rrddmma-63
TEST_F(unreliable_connection_bringup, manual_bringup_equals_the_handshake) {
  auto made = make.prepare({.route = {.path_mtu = mtu::bytes_512, .service_level = 1},
                            .first_psn = packet_sequence_number(0x1234)});
  const endpoint itself = made.queue.endpoint();
  const auto init = made.queue.init_attributes();
  const auto rtr = made.queue.rtr_attributes(itself).value();
  const auto rts = made.queue.rts_attributes(itself);
  auto queue = std::move(made.queue).into_queue_pair();
  queue.modify(init).value();
  queue.modify(rtr).value();
  queue.modify(rts).value();
  using attribute = queue_pair_attribute;
  const auto now = queue
                       .query(attribute::state | attribute::path_mtu | attribute::destination |
                              attribute::send_psn | attribute::receive_psn | attribute::access)
                       .value();
  EXPECT_EQ(now.state(), queue_pair_state::ready_to_send);
  EXPECT_EQ(now.path_mtu(), mtu::bytes_512);
  EXPECT_EQ(now.destination(), itself.queue_pair);
  EXPECT_EQ(now.receive_psn(), packet_sequence_number(0x1234));
}

// parity: ibverbs-tests-84
TEST_F(unreliable_connection_bringup, queue_pair_with_send_ops_flags_has_only_those_operations) {
  auto one = make.loop(make.prepare({.operations = send_operation::send}));
  VERBENA_NEEDS(one.queue.is_extended(), "the provider has no extended interface");
  const auto memory = make.pd().allocate(4096, all_access()).value();
  one.queue.post_receive({.id = 1}, memory.slice(0, 64)).value();
  post_by(interface_kind::extended, one.queue,
          [&](auto& batch) { batch.send({.signaled = true}, memory.slice(64, 5)); });
  EXPECT_EQ(take_one(one.receives).byte_length(), 5U);
  EXPECT_TRUE(take_one(one.sends).ok());
}

TEST_F(unreliable_connection_bringup, attributes_of_reliable_connections_are_refused_and_named) {
  auto made = make.prepare({});
  const endpoint itself = made.queue.endpoint();
  made.queue.modify(made.queue.init_attributes()).value();
  auto rtr = made.queue.rtr_attributes(itself).value();
  rtr.set_min_rnr_timer(rnr_timer());
  const auto refused = made.queue.modify(rtr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EINVAL);
  EXPECT_NE(refused.error().message().find("does not permit MIN_RNR_TIMER"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace verbena::conformance
