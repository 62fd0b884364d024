// SPDX-License-Identifier: MIT
// Providers with only the classic verbs: soft0 without its newer functions. Operations that do not
// need these functions work; for others the error names the missing verb.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/device_clock.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/port_attributes.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena {
namespace {

using test::take;
using testing_support::expect_error;

// The forms of a context without newer functions: no table of extended functions, a shorter table
// of an older libibverbs, or a table with null pointers.
enum class lack : std::uint8_t { table, length, functions };

class classic_provider : public ::testing::TestWithParam<lack> {
 protected:
  classic_provider() {
    if (GetParam() == lack::table) device.native()->abi_compat = nullptr;
    if (GetParam() == lack::length) newer.sz = sizeof(ibv_context) + sizeof newer.sz;
    if (GetParam() != lack::functions) return;
    newer.query_port = nullptr;
    newer.query_device_ex = nullptr;
    newer.create_qp_ex = nullptr;
    newer.create_srq_ex = nullptr;
    newer.create_cq_ex = nullptr;
    newer.modify_cq = nullptr;
    newer.query_rt_values = nullptr;
    newer.advise_mr = nullptr;
  }
  ~classic_provider() override {
    newer = before;
    device.native()->abi_compat = __VERBS_ABI_IS_EXTENDED;
  }
  classic_provider(const classic_provider&) = delete;
  classic_provider& operator=(const classic_provider&) = delete;

  // Sends a message and the requests that `more` adds, with the interface of with_poster().
  template <class Transport, class More>
  void moves_data(queue_pair<Transport>& queue, More more) {
    EXPECT_FALSE(queue.is_extended());
    EXPECT_FALSE(queue.extended().has_value());
    queue.post_receive({.id = 1}, memory.slice(2048, 512)).value();
    bool posted = false;
    queue.with_poster([&](auto& poster) {
      auto batch = poster.start_send();
      more(batch);
      posted = batch.submit().has_value();
    });
    EXPECT_TRUE(posted);
    for (const auto& done : take(cq, 2)) EXPECT_TRUE(done.ok()) << to_string(done);
  }

  context device = open_device("soft0").value();
  verbs_context& newer = *verbs_get_ctx(device.native());
  const verbs_context before = newer;
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(16).value();
  memory_region memory = pd.allocate(4096, access::local_write | access::remote_write).value();
};
std::string name_of(const ::testing::TestParamInfo<lack>& of) {
  if (of.param == lack::table) return "table";
  return of.param == lack::length ? "length" : "functions";
}
INSTANTIATE_TEST_SUITE_P(without, classic_provider,
                         ::testing::Values(lack::table, lack::length, lack::functions), name_of);

TEST_P(classic_provider, connections_move_data_by_the_classic_interface) {
  const auto send = [&](auto& batch) { batch.send({.signaled = true}, memory.slice(0, 8)); };
  auto reliable = pd.create_qp<rc>(cq, cq).value();
  const auto itself = reliable.endpoint();
  auto queue = std::move(reliable).handshake(itself).value();
  moves_data(queue, send);
  auto unreliable = pd.create_qp<uc>(cq, cq, {.operations = send_operation::send}).value();
  const auto itself_too = unreliable.endpoint();
  auto other = std::move(unreliable).handshake(itself_too).value();
  moves_data(other, send);
}

TEST_P(classic_provider, datagrams_and_shared_receives_are_made_by_the_classic_verbs) {
  auto prepared = pd.create_qp<ud>(cq, cq).value();
  const auto way = pd.create_ah(prepared.address_of(prepared.endpoint()).value()).value();
  auto datagrams = std::move(prepared).activate(queue_key(9)).value();
  moves_data(datagrams, [&](auto& batch) {
    batch.send({.signaled = true}, memory.slice(0, 8),
               way.destination(datagrams.number(), queue_key(9)));
  });

  const auto shared = pd.create_srq({}).value();
  auto made = pd.create_qp<rc>(cq, cq, shared).value();
  const auto itself = made.endpoint();
  auto queue = std::move(made).handshake(itself).value();
  EXPECT_FALSE(queue.is_extended());
  shared.post_receive({.id = 4}, memory.slice(0, 64)).value();
  auto batch = queue.start_send();
  batch.send({.signaled = true}, memory.slice(64, 64));
  batch.submit().value();
  for (const auto& done : take(cq, 2)) EXPECT_TRUE(done.ok()) << to_string(done);
}

TEST_P(classic_provider, attributes_are_those_of_the_classic_verbs) {
  const auto basic = device.query().value();
  const auto all = device.query_extended().value();
  EXPECT_EQ(all.native().orig_attr.max_qp, basic.native().max_qp);
  EXPECT_EQ(all.completion_timestamp_mask(), 0U);
  EXPECT_FALSE(all.has_on_demand_paging());
  const auto port = device.query_port(port_number(1)).value();
  EXPECT_EQ(port.state(), port_state::active);
  EXPECT_EQ(port.link_layer(), link_layer::ethernet);
  EXPECT_TRUE(device.routable_gid(port_number(1)));
}

TEST_P(classic_provider, missing_verbs_are_named) {
  const auto refused = [](const auto& outcome, std::string_view call, std::string_view words) {
    expect_error(outcome, words);
    EXPECT_EQ(outcome.error().kind(), error_kind::not_supported);
    EXPECT_EQ(outcome.error().call(), call);
  };
  refused(device.create_extended_cq(4), "ibv_create_cq_ex", "use create_cq()");
  refused(device.read_clock(), "ibv_query_rt_values_ex", "no clock that can be read");
  refused(cq.moderate({.completions = 4, .period = std::chrono::microseconds(5)}), "ibv_modify_cq",
          "does not support moderation of notifications");
  const std::array slices{memory.slice(0, 64)};
  refused(pd.advise(memory_advice::prefetch, slices), "ibv_advise_mr",
          "does not support the advice prefetch");
}

// Functions that an older libibverbs does not export.
class older_library : public ::testing::Test {
 protected:
  provider from = *soft_provider().value();
  context device = testing_support::open_soft(from).value();
  protection_domain pd = device.allocate_pd().value();
  std::array<std::byte, 64> memory{};
};

TEST_F(older_library, registration_omits_optional_access_flags) {
  from.verbs.reg_mr_iova2.set(nullptr);
  const auto region =
      pd.register_memory(memory, access::local_write | access::relaxed_ordering).value();
  EXPECT_EQ(region.slice().length(), 64U);
}

TEST_F(older_library, base_address_is_not_supported) {
  from.verbs.reg_mr_iova2.set(nullptr);
  const auto refused = pd.register_memory(memory, access::local_write, {.iova = 64});
  expect_error(refused, "does not have this function, which iova needs");
  EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
  EXPECT_EQ(refused.error().call(), "ibv_reg_mr_iova2");
}

// parity: rrddmma-5
TEST_F(older_library, missing_verb_is_named_at_creation) {
  from.verbs.create_srq.set(nullptr);
  from.verbs.create_ah.set(nullptr);
  const auto refused = [](const auto& outcome, std::string_view call) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind(), error_kind::not_supported);
    EXPECT_EQ(outcome.error().call(), call);
  };
  refused(pd.create_srq({}), "ibv_create_srq");
  refused(pd.create_ah({.gid = parse_gid("192.0.2.1").value()}), "ibv_create_ah");
}

TEST_F(older_library, local_address_is_found_without_the_verbs_for_gid_tables) {
  from.verbs.query_gid_table.set(nullptr);
  from.verbs.query_gid_ex.set(nullptr);
  const auto cq = device.create_cq(4).value();
  EXPECT_TRUE(pd.create_qp<rc>(cq, cq));
  EXPECT_TRUE(pd.create_qp<rc>(cq, cq, {.route = {.gid_index = gid_index(0)}}));
}

}  // namespace
}  // namespace verbena
