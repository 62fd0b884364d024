// SPDX-License-Identifier: MIT
// If an object of soft0 is passed to libibverbs, the program stops with a message.
#include <gtest/gtest.h>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

const char* const words = "belongs to Verbena's software device";

const sys::verbs_table& system_verbs() { return system_provider().value()->verbs; }

TEST(foreign_object_death, context_given_to_the_system_names_the_mistake) {
  const auto opened = testing_support::open_soft();
  EXPECT_DEATH(system_verbs().alloc_pd(opened.native()), words);
}

TEST(foreign_object_death, domain_given_to_the_system_names_the_mistake) {
  const auto pd = testing_support::open_soft().allocate_pd().value();
  EXPECT_DEATH(system_verbs().dealloc_pd(pd.native()), words);
}

TEST(foreign_object_death, region_given_to_the_system_names_the_mistake) {
  const auto pd = testing_support::open_soft().allocate_pd().value();
  const auto region = pd.allocate(4096, {}).value();
  EXPECT_DEATH(system_verbs().dereg_mr(region.native()), words);
}

TEST(foreign_object_death, queue_given_to_the_system_names_the_mistake) {
  const auto cq = testing_support::open_soft().create_cq(16).value();
  EXPECT_DEATH(system_verbs().destroy_cq(cq.native()), words);
}

}  // namespace
}  // namespace verbena
