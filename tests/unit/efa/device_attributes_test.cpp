// SPDX-License-Identifier: MIT
#include "verbena/efa/device_attributes.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/efa/fake_efa.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/efa/completion_queue.hpp"
#include "verbena/efa/srd.hpp"

namespace verbena {
namespace {

// Not all versions of the headers have these names.
static_assert(static_cast<int>(efa::capability::rnr_retry) == EFADV_DEVICE_ATTR_CAPS_RNR_RETRY);
static_assert(static_cast<int>(efa::capability::source_gid) == EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID);

using testing_support::expect_error;
using testing_support::open_soft;

TEST(efa_device, query_returns_limits_and_operations) {
  test::fake_efa fake;
  const auto context = open_soft(fake.get()).value();
  const auto found = efa::query_device(context).value();
  EXPECT_EQ(fake.size, sizeof(efadv_device_attr));
  EXPECT_EQ(found.max_send_requests(), 256U);
  EXPECT_EQ(found.max_receive_requests(), 512U);
  EXPECT_EQ(found.max_send_sge(), 2U);
  EXPECT_EQ(found.max_recv_sge(), 3U);
  EXPECT_EQ(found.max_inline_data(), 32U);
  EXPECT_EQ(found.max_rdma_bytes(), 1U << 30);
  EXPECT_EQ(to_string(found.operations()), "SEND | SEND_WITH_IMM | RDMA_READ");
  EXPECT_NE(to_string(found).find("max inline bytes: 32\n"), std::string::npos);
  EXPECT_TRUE(efa::is_efa(context));

  fake.attributes.device_caps |= 8 | EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID;
  const auto newer = efa::query_device(context).value();
  EXPECT_TRUE(newer.capabilities().contains(efa::capability::source_gid));
  EXPECT_EQ(newer.operations(), operations_of<efa::srd>);
  EXPECT_EQ(to_string(newer.capabilities()), "RDMA_READ | CQ_WITH_SGID | RDMA_WRITE");
}

TEST(efa_device, other_device_returns_not_supported) {
  test::fake_efa fake;
  const auto context = open_soft(fake.get()).value();
  fake.code = EOPNOTSUPP;
  const auto refused = efa::query_device(context);
  expect_error(refused, "soft0");
  expect_error(refused, "not an Elastic Fabric Adapter");
  EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
  EXPECT_FALSE(efa::is_efa(context));
}

TEST(efa_device, older_device_has_no_source_gid) {
  test::fake_efa fake;
  const auto context = open_soft(fake.get()).value();
  const auto refused = efa::create_cq(context, 4);
  expect_error(refused, "efadv_create_cq on soft0");
  expect_error(refused, "older device");
  EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
}

// A software device without EFA support, and linked drivers without it.
TEST(efa_device, provider_without_efa_functions_returns_an_error) {
  verbena::provider older = *soft_provider().value();
  older.efa = {};
  const auto context = open_soft(older).value();
  expect_error(efa::query_device(context), "the software device that was loaded has no EFA");
  older.origin = provider_origin::linked;
  expect_error(efa::query_device(context), "VERBENA_LINKED_DRIVERS");
}

}  // namespace
}  // namespace verbena
