// SPDX-License-Identifier: MIT
// Extended completion queues: their fields equal those of ibv_poll_cq.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/traffic.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena::conformance {
namespace {

constexpr completion_fields usual_fields =
    completion_field::byte_length | completion_field::immediate | completion_field::queue_pair;

/// The fields of one completion.
struct seen {
  std::uint64_t id;
  completion_status status;
  queue_pair_number queue_pair;
  std::optional<completion_opcode> opcode;
  std::uint32_t byte_length;
  std::optional<std::uint32_t> immediate;
};

std::vector<seen> take_lazily(const extended_completion_queue& queue, std::size_t count) {
  std::vector<seen> taken;
  const deadline end = test_deadline();
  while (taken.size() < count && !end.expired()) {
    auto pass = queue.poll();
    for (const auto& done : pass)
      taken.push_back({done.id(), done.status(), done.queue_pair(),
                       done.ok() ? std::optional(done.opcode()) : std::nullopt,
                       done.ok() ? done.byte_length() : 0, done.immediate()});
    pass.result().value();
  }
  if (taken.size() != count)
    raise(error::timed_out("poll", queue.name(),
                           std::to_string(taken.size()) + " completions instead of " +
                               std::to_string(count) + " arrived before the deadline"));
  return taken;
}

class extended_completions : public data_test {
 protected:
  void open() {
    VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
    wires = make_connector();
    auto made = wires->context().create_extended_cq(64, {.fields = usual_fields});
    VERBENA_NEEDS(made || made.error().kind() != error_kind::not_supported,
                  "the provider has no extended completion queues");
    queue.emplace(std::move(made).value());
    auto options = default_options();
    options.extended = GetParam().interface == interface_kind::extended;
    ends.emplace(wires->connect({{*queue, *queue}, options}, {{*queue, *queue}, options}));
    if (options.extended)
      VERBENA_NEEDS(ends->first.is_extended(), "the provider has no extended interface");
    memory.emplace(wires->pd().allocate(8192, all_access()).value());
  }
  template <class Add>
  void post_first(Add&& add) {
    const auto with = [&](auto&& poster) {
      auto batch = poster.start_send();
      add(batch);
      batch.submit().value();
    };
    if (GetParam().interface == interface_kind::extended)
      with(ends->first.extended().value());
    else
      with(ends->first);
  }

  std::unique_ptr<connector> wires;
  std::optional<extended_completion_queue> queue;
  std::optional<connector::ends> ends;
  std::optional<memory_region> memory;
};
INSTANTIATE_TEST_SUITE_P(rc, extended_completions, ::testing::ValuesIn(variants_with_two_ends()),
                         name_of);

// parity: ibverbs-tests-72, ibverbs-108
TEST_P(extended_completions, completion_fields_describe_sends_and_receives) {
  VERBENA_OPEN();
  ends->second.post_receive({.id = 1}, memory->slice(0, 100)).value();
  post_first([&](auto& batch) {
    batch.send_with_immediate({.id = 2, .signaled = true}, 0xcafe, memory->slice(4096, 77));
  });
  for (const seen& done : take_lazily(*queue, 2)) {
    EXPECT_EQ(done.status, completion_status::success);
    if (done.id == 1) {
      EXPECT_EQ(done.opcode, completion_opcode::receive);
      EXPECT_EQ(done.byte_length, 77U);
      EXPECT_EQ(done.immediate, 0xcafeU);
      EXPECT_EQ(done.queue_pair, ends->second.number());
    } else {
      EXPECT_EQ(done.id, 2U);
      EXPECT_EQ(done.opcode, completion_opcode::send);
      EXPECT_EQ(done.queue_pair, ends->first.number());
    }
  }
}

// parity: ibverbs-104
TEST_P(extended_completions, completions_are_in_order_over_many_polls) {
  VERBENA_OPEN();
  std::uint64_t next = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    post_first([&](auto& batch) {
      for (std::uint64_t i = 0; i < 5; ++i)
        batch.write({.id = round * 5 + i, .signaled = true}, memory->slice(0, 8),
                    memory->remote().slice(64, 8));
    });
    for (const seen& done : take_lazily(*queue, 5)) {
      ASSERT_EQ(done.status, completion_status::success);
      ASSERT_EQ(done.id, next++);
      ASSERT_EQ(done.opcode, completion_opcode::write);
    }
  }
}

// parity: ibverbs-110
TEST_P(extended_completions, failed_request_reports_status_and_vendor_error) {
  VERBENA_OPEN();
  const local_slice beyond(memory->slice().address() + 8190, 64, memory->local_key());
  post_first([&](auto& batch) { batch.send({.id = 3, .signaled = true}, beyond); });
  const auto done = take_lazily(*queue, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].id, 3U);
  EXPECT_EQ(done[0].status, completion_status::local_protection_error) << to_string(done[0].status);
  EXPECT_EQ(done[0].queue_pair, ends->first.number());
}

// parity: ibverbs-tests-78, ibverbs-96
TEST_P(extended_completions, extended_queue_can_be_polled_with_poll_cq) {
  VERBENA_OPEN();
  post_first([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, memory->slice(0, 8), memory->remote().slice(64, 8));
    batch.write({.id = 2, .signaled = true}, memory->slice(0, 8), memory->remote().slice(64, 8));
  });
  const auto done = take(*queue, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].id(), 1U);
  EXPECT_EQ(done[1].id(), 2U);
}

// parity: ibverbs-103
TEST_P(extended_completions, poll_of_empty_queue_ends_immediately) {
  VERBENA_OPEN();
  auto pass = queue->poll();
  EXPECT_TRUE(pass.empty());
  pass.result().value();
}

// parity: ibverbs-tests-71, ibverbs-112
TEST(extended_completion_queue, timestamps_are_available_if_the_device_supports_them) {
  const auto mask = tested().context.query_extended().value().completion_timestamp_mask();
  VERBENA_NEEDS(mask != 0, "the device has no completion timestamps");
  const auto queue =
      tested()
          .context.create_extended_cq(16, {.fields = usual_fields | completion_field::timestamp})
          .value();
  const auto pd = tested().context.allocate_pd().value();
  auto prepared = pd.create_qp<rc>(queue, queue, default_options()).value();
  const endpoint itself = prepared.endpoint();
  auto pair = std::move(prepared).handshake(itself).value();
  const auto memory = pd.allocate(4096, all_access()).value();
  std::optional<device_clock_time> last;
  for (int i = 0; i < 3; ++i) {
    auto batch = pair.start_send();
    batch.write({.signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8));
    batch.submit().value();
    const deadline end = test_deadline();
    for (bool found = false; !found && !end.expired();)
      for (const auto& done : queue.poll()) {
        found = true;
        EXPECT_FALSE(last && done.timestamp().is_before(*last));
        last = done.timestamp();
      }
    EXPECT_TRUE(last.has_value());
  }
}

}  // namespace
}  // namespace verbena::conformance
