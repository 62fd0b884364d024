// SPDX-License-Identifier: MIT
#include "verbena/diagnose/device_facts.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/unit/sys/fresh_process.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena::diagnose {
namespace {

using testing_support::environment;

TEST(device_facts, soft0_is_queried_and_its_test_message_arrives) {
  const environment set("VERBENA_SOFTDEV", "only");
  const auto facts = gather_devices_facts();
  EXPECT_TRUE(facts.system.hidden);
  EXPECT_FALSE(facts.mode_failure);
  ASSERT_EQ(facts.soft.devices.size(), 1U);
  const auto& port = facts.soft.devices[0].ports.at(0);
  EXPECT_TRUE(port.tried);
  EXPECT_FALSE(port.trial_failure) << port.trial_failure->message();
  EXPECT_FALSE(port.gids.empty());
  EXPECT_EQ(facts.shared_memory_error, 0);
}

TEST(device_facts, hidden_provider_is_not_queried) {
  const environment set("VERBENA_SOFTDEV", "off");
  const auto facts = gather_devices_facts();
  EXPECT_TRUE(facts.soft.hidden);
  EXPECT_TRUE(facts.soft.devices.empty());
}

TEST(device_facts, invalid_mode_is_reported) {
  const environment set("VERBENA_SOFTDEV", "sometimes");
  EXPECT_TRUE(gather_devices_facts().mode_failure);
}

TEST(device_facts, failure_of_each_step_of_the_port_test_is_reported) {
  failing_provider failing(*soft_provider().value());
  const auto device = testing_support::open_soft(failing.get()).value();
  for (const char* const verb : {"ibv_alloc_pd", "ibv_create_cq", "ibv_reg_mr", "ibv_modify_qp"}) {
    failing.fail_verb(verb, EIO);
    const auto outcome = try_port(device, port_number(1));
    failing.fail_call(0, 0);
    ASSERT_FALSE(outcome) << verb;
    EXPECT_EQ(outcome.error().call(), verb);
  }
  EXPECT_TRUE(try_port(device, port_number(1)));
  EXPECT_FALSE(try_port(device, port_number(2)));
}

}  // namespace
}  // namespace verbena::diagnose
