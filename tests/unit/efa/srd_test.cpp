// SPDX-License-Identifier: MIT
// Calls of the library to libefa and to the extended interface, without an EFA device.
#include "verbena/efa/srd.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "tests/unit/efa/fake_efa.hpp"
#include "tests/unit/efa/recording_queue.hpp"
#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/poster.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;
using testing_support::open_soft;

class srd_creation : public ::testing::Test {
 protected:
  [[nodiscard]] auto create(const queue_pair_options<efa::srd>& options = {}) const {
    return pd.create_qp<efa::srd>(cq, cq, options);
  }

  test::fake_efa fake;
  context device = open_soft(fake.get()).value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(16).value();
};

TEST(srd_options, defaults_equal_those_of_other_transports) {
  constexpr queue_pair_options<efa::srd> options;
  static_assert(options.queues == queue_sizes{});
  static_assert(options.route == datagram_route{});
}

// parity: ibverbs-264
TEST_F(srd_creation, creation_passes_device_operations_to_libefa) {
  const auto made = create({.queues = {.max_send_wr = 5, .max_inline_data = 7}}).value();
  EXPECT_EQ(fake.requested.qp_type, IBV_QPT_DRIVER);
  EXPECT_EQ(fake.kind.driver_qp_type, unsigned{EFADV_QP_DRIVER_TYPE_SRD});
  EXPECT_EQ(fake.kind.comp_mask, 0U);
  EXPECT_EQ(fake.size, sizeof(efadv_qp_init_attr));
  EXPECT_EQ(fake.requested.comp_mask,
            unsigned{IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS});
  EXPECT_EQ(
      fake.requested.send_ops_flags,
      unsigned{IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ});
  EXPECT_EQ(fake.requested.srq, nullptr);
  EXPECT_EQ(fake.requested.cap.max_send_wr, 5U);
  EXPECT_GE(made.capabilities().max_inline_data, 7U);
  EXPECT_TRUE(made.is_extended());
  EXPECT_TRUE(made.endpoint().gid.has_value()) << "peers need its GID";

  fake.attributes.device_caps |= 8;
  const auto newer = create().value();
  EXPECT_EQ(fake.requested.send_ops_flags, operations_of<efa::srd>.mask());
}

TEST_F(srd_creation, unsupported_operations_and_limits_are_named) {
  const auto write = create({.operations = send_operation::send | send_operation::write});
  expect_error(write, "do not have RDMA_WRITE on this device, they have SEND | SEND_WITH_IMM | ");
  EXPECT_EQ(write.error().kind(), error_kind::not_supported);
  expect_error(create({.operations = send_operation::fetch_and_add}),
               "queue pairs of SRD do not support ATOMIC_FETCH_AND_ADD");
}

TEST_F(srd_creation, failed_creation_names_verb_domain_and_limits) {
  static verbena::provider refusing;
  refusing = fake.get();
  auto efa = std::make_shared<sys::efa_table>(*refusing.efa);
  efa->create_qp_ex.set(
      [](ibv_context*, ibv_qp_init_attr_ex*, efadv_qp_init_attr*, std::uint32_t) -> ibv_qp* {
        errno = EINVAL;
        return nullptr;
      });
  refusing.efa = std::move(efa);
  const auto context = open_soft(refusing).value();
  const auto domain = context.allocate_pd().value();
  const auto queue = context.create_cq(4).value();
  const auto refused = domain.create_qp<efa::srd>(
      queue, queue, {.queues = {.max_recv_wr = 1000, .max_send_sge = 9, .max_inline_data = 64}});
  expect_error(refused, "efadv_create_qp_ex on protection domain of soft0");
  expect_error(refused,
               "max_recv_wr 1000 exceeds the device's maximum of 512, max_send_sge 9 exceeds the "
               "device's maximum of 2, max_inline_data 64 exceeds the device's maximum of 32");
  EXPECT_EQ(refused.error().code(), EINVAL);
}

TEST_F(srd_creation, active_queue_pair_posts_by_the_extended_interface) {
  auto queue = create().value().activate(queue_key(5)).value();
  EXPECT_EQ(queue.current_state().value(), queue_pair_state::ready_to_send);
  ASSERT_TRUE(queue.extended().has_value());
  EXPECT_EQ(queue.extended()->native(), queue.native_extended());
  const bool same =
      queue.with_poster([&](auto& poster) { return poster.native() == queue.native_extended(); });
  EXPECT_TRUE(same);
}

TEST_F(srd_creation, device_without_extended_interface_is_rejected) {
  static verbena::provider classic;
  classic = fake.get();
  classic.verbs.qp_to_qp_ex.set([](ibv_qp* /*made*/) -> ibv_qp_ex* { return nullptr; });
  testing_support::counting_provider counting(classic);
  {
    const auto context = open_soft(counting.get()).value();
    const auto domain = context.allocate_pd().value();
    const auto queue = context.create_cq(4).value();
    const auto refused = domain.create_qp<efa::srd>(queue, queue);
    expect_error(refused, "which queue pairs of SRD need");
    EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
    EXPECT_FALSE(counting.is_live("efadv_create_qp_ex"));
  }
  EXPECT_EQ(counting.live(), "");
}

// Makes each call fail in turn: the error names the call, and no object leaks.
TEST_F(srd_creation, failure_of_any_call_leaks_no_object) {
  const auto path = [](const provider& from) -> result<queue_pair<efa::srd>> {
    VERBENA_TRY(const auto context, open_soft(from));
    VERBENA_TRY(const auto domain, context.allocate_pd());
    VERBENA_TRY(const auto queue, context.create_cq(16));
    VERBENA_TRY(auto prepared, domain.create_qp<efa::srd>(queue, queue));
    return std::move(prepared).activate(queue_key(7));
  };
  testing_support::counting_provider counting(fake.get());
  failing_provider failing(counting.get());
  std::size_t calls = 0;
  {
    const auto made = path(failing.get());
    ASSERT_TRUE(made.has_value()) << made.error().message();
    calls = failing.calls();
  }
  ASSERT_EQ(counting.live(), "");
  std::string seen;
  for (std::size_t n = 1; n <= calls; ++n) {
    failing.fail_call(n, ENOMEM);
    const auto refused = path(failing.get());
    const std::string verb(failing.failed_verb());
    ASSERT_FALSE(refused.has_value()) << verb;
    expect_error(refused, verb.substr(verb.starts_with('_') ? 1 : 0) + " on ");
    EXPECT_TRUE(refused.error().code() == ENOMEM || verb == "ibv_qp_to_qp_ex") << verb;
    EXPECT_EQ(counting.live(), "") << verb;
    seen += verb + " ";
  }
  EXPECT_NE(seen.find("efadv_query_device "), std::string::npos);
  EXPECT_NE(seen.find("efadv_create_qp_ex "), std::string::npos);
}

// parity: ibverbs-265
TEST(srd_batch, each_request_has_its_destination) {
  test::recording_queue queue;
  ibv_pd pd{};
  ibv_ah ways[2] = {{nullptr, &pd, 10}, {nullptr, &pd, 11}};
  queue.native()->qp_base.pd = &pd;
  const destination first(&ways[0], queue_pair_number(5), queue_key(6));
  const destination second(&ways[1], queue_pair_number(7), queue_key(8));
  const local_slice slice(1000, 64, local_key(3));
  const remote_region remote({.address = 2000, .length = 64, .key = remote_key(9)});
  const std::array list = {slice.slice(0, 10), slice.slice(20, 5)};
  {
    extended_queue<efa::srd> poster(queue.native());
    auto batch = poster.start_send();
    batch.send({.id = 1}, slice, first);
    batch.send_with_immediate({.id = 2}, 22, inline_data(bytes_of("abc")), second);
    batch.write({.id = 3}, slice, remote, second);
    batch.write_with_immediate({.id = 4}, 44, slice, remote, first);
    batch.read({.id = 5}, list, remote, second);
    EXPECT_TRUE(batch.submit());
  }
  EXPECT_EQ(queue.text(),
            "start; 1 send to(10,5,6) sge(3,1000)64; 2 send_imm(22) to(11,7,8) inline(3)"
            "; 3 write(9,2000) to(11,7,8) sge(3,1000)64"
            "; 4 write_imm(9,2000)44 to(10,5,6) sge(3,1000)64"
            "; 5 read(9,2000) to(11,7,8) list(2) complete");
}

TEST(srd_batch, batch_satisfies_the_addressed_batch_concept) {
  static_assert(datagram_poster<extended_queue<efa::srd>>);
  static_assert(!connected_poster<extended_queue<efa::srd>>);
  static_assert(!datagram_poster<queue_pair<efa::srd>>, "it has no classic interface");
  EXPECT_EQ(transport_traits<efa::srd>::name, "SRD");
}

}  // namespace
}  // namespace verbena
