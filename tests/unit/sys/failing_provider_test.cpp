// SPDX-License-Identifier: MIT
#include "verbena/sys/failing_provider.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string_view>

namespace verbena {
namespace {

// A provider of functions that always succeed; the native objects are never looked at.
ibv_context* const some_context = reinterpret_cast<ibv_context*>(0x1000);
ibv_pd* const some_pd = reinterpret_cast<ibv_pd*>(0x2000);

const char* device_name(ibv_device* /*device*/) { return "fake"; }
ibv_pd* alloc_pd(ibv_context* /*context*/) { return some_pd; }
int dealloc_pd(ibv_pd* /*pd*/) { return 0; }
int close_device(ibv_context* /*context*/) { return 0; }
ssize_t gid_table(ibv_context* /*context*/, ibv_gid_entry* /*entries*/, std::size_t /*count*/,
                  std::uint32_t /*flags*/, std::size_t /*size*/) {
  return 5;
}

provider fake() {
  provider made;
  made.origin = provider_origin::soft;
  made.verbs.get_device_name.set(&device_name);
  made.verbs.alloc_pd.set(&alloc_pd);
  made.verbs.dealloc_pd.set(&dealloc_pd);
  made.verbs.close_device.set(&close_device);
  made.verbs.query_gid_table.set(&gid_table);
  return made;
}

TEST(failing_provider, forwards_and_counts_calls_that_can_fail) {
  const provider inner = fake();
  failing_provider failing(inner);
  const auto& verbs = failing.get().verbs;
  EXPECT_EQ(failing.get().origin, provider_origin::soft);
  EXPECT_EQ(verbs.alloc_pd(some_context), some_pd);
  EXPECT_EQ(verbs.dealloc_pd(some_pd), 0);
  EXPECT_STREQ(verbs.get_device_name(nullptr), "fake");
  EXPECT_EQ(failing.calls(), 2U) << "a name cannot fail and is not counted";
  EXPECT_EQ(failing.failed_verb(), "");
}

TEST(failing_provider, fail_call_fails_only_the_nth_call) {
  const provider inner = fake();
  failing_provider failing(inner);
  const auto& verbs = failing.get().verbs;
  failing.fail_call(2, ENOMEM);
  EXPECT_EQ(verbs.alloc_pd(some_context), some_pd);
  errno = 0;
  EXPECT_EQ(verbs.alloc_pd(some_context), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(failing.failed_verb(), "ibv_alloc_pd");
  EXPECT_EQ(verbs.alloc_pd(some_context), some_pd);
  EXPECT_EQ(failing.calls(), 3U);
}

TEST(failing_provider, failure_follows_the_convention_of_the_verb) {
  const provider inner = fake();
  failing_provider failing(inner);
  const auto& verbs = failing.get().verbs;
  failing.fail_call(1, EBUSY);
  EXPECT_EQ(verbs.dealloc_pd(some_pd), EBUSY);
  failing.fail_call(1, EIO);
  EXPECT_EQ(verbs.close_device(some_context), -1);
  EXPECT_EQ(errno, EIO);
  failing.fail_call(1, EACCES);
  EXPECT_EQ(verbs.query_gid_table(some_context, nullptr, 0, 0, 0), -EACCES);
}

TEST(failing_provider, fail_verb_fails_every_call_of_that_verb) {
  const provider inner = fake();
  failing_provider failing(inner);
  const auto& verbs = failing.get().verbs;
  failing.fail_verb("ibv_dealloc_pd", EBUSY);
  EXPECT_EQ(verbs.alloc_pd(some_context), some_pd);
  EXPECT_EQ(verbs.dealloc_pd(some_pd), EBUSY);
  EXPECT_EQ(verbs.dealloc_pd(some_pd), EBUSY);
  EXPECT_EQ(failing.failed_verb(), "ibv_dealloc_pd");
  failing.fail_call(0, 0);
  EXPECT_EQ(verbs.dealloc_pd(some_pd), 0);
  EXPECT_EQ(failing.calls(), 1U);
  EXPECT_EQ(failing.failed_verb(), "");
}

TEST(failing_provider, second_instance_after_the_first_works) {
  const provider inner = fake();
  {
    const failing_provider first(inner);
  }
  failing_provider second(inner);
  second.fail_call(1, EPERM);
  EXPECT_EQ(second.get().verbs.alloc_pd(some_context), nullptr);
}

TEST(failing_provider_death, two_instances_abort) {
  const provider inner = fake();
  const failing_provider first(inner);
  EXPECT_DEATH(const failing_provider second(inner), "a second failing_provider was created");
}

TEST(failing_provider_death, fail_verb_with_unknown_name_aborts) {
  const provider inner = fake();
  failing_provider failing(inner);
  EXPECT_DEATH(failing.fail_verb("ibv_no_such_verb", EIO), "a verb of the table");
}

}  // namespace
}  // namespace verbena
