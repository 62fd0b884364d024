// SPDX-License-Identifier: MIT
#include "verbena/sys/provider.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/unit/sys/fresh_process.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"

namespace verbena {
namespace {

using testing_support::environment;

void expect_unavailable(const result<const provider*>& found, const std::string& words) {
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().kind(), error_kind::unavailable);
  EXPECT_NE(found.error().message().find(words), std::string::npos) << found.error().message();
}

// parity: rrddmma-1
TEST(system_provider, has_every_function_of_the_header_floor) {
  const auto found = system_provider();
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ((*found)->origin, provider_origin::system);
  auto table = (*found)->verbs;
  table.for_each([](const auto& member) { EXPECT_TRUE(member.available()) << member.name(); });
  EXPECT_EQ((*found)->soft_allocate, nullptr);
  EXPECT_EQ((*found)->soft_free, nullptr);
  EXPECT_EQ((*found)->soft_explain, nullptr);
  EXPECT_EQ((*found)->soft_check_commands, nullptr);
  EXPECT_EQ((*found)->soft_reaches_hosts, nullptr);
}

TEST(system_provider, has_all_functions_of_libefa) {
  const auto found = efa_functions(*system_provider().value());
  ASSERT_TRUE(found.has_value()) << found.error().message();
  auto table = **found;
  table.for_each([](const auto& member) { EXPECT_TRUE(member.available()) << member.name(); });
}

TEST(system_provider, has_all_functions_of_librdmacm) {
  const auto found = cm_functions(*system_provider().value());
  ASSERT_TRUE(found.has_value()) << found.error().message();
  auto table = **found;
  table.for_each([](const auto& member) { EXPECT_TRUE(member.available()) << member.name(); });
}

TEST(system_provider, returns_the_same_provider_each_time) {
  EXPECT_EQ(system_provider().value(), system_provider().value());
}

TEST(soft_provider, has_all_functions_of_librdmacm) {
  const auto found = cm_functions(*soft_provider().value());
  ASSERT_TRUE(found.has_value()) << found.error().message();
  auto table = **found;
  table.for_each([](const auto& member) { EXPECT_TRUE(member.available()) << member.name(); });
}

TEST(soft_provider, has_all_functions_of_libibverbs) {
  const auto found = soft_provider();
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ((*found)->origin, provider_origin::soft);
  auto table = (*found)->verbs;
  table.for_each([](const auto& member) { EXPECT_TRUE(member.available()) << member.name(); });
  EXPECT_NE((*found)->soft_allocate, nullptr);
  EXPECT_NE((*found)->soft_free, nullptr);
  EXPECT_NE((*found)->soft_explain, nullptr);
  EXPECT_NE((*found)->soft_check_commands, nullptr);
  EXPECT_NE((*found)->soft_reaches_hosts, nullptr);
  EXPECT_EQ(soft_provider().value(), *found);
}

// parity: rrddmma-2
TEST(provider_death, soft_provider_works_without_libibverbs) {
  const environment ibverbs("VERBENA_LIBIBVERBS", "/nowhere/libibverbs.so");
  VERBENA_IN_FRESH_PROCESS({
    expect_unavailable(system_provider(), "VERBENA_LIBIBVERBS is set to this path");
    EXPECT_TRUE(soft_provider().has_value());
  });
}

TEST(provider_death, libefa_is_loaded_on_first_use) {
  const environment efa("VERBENA_LIBEFA", "/nowhere/libefa.so");
  VERBENA_IN_FRESH_PROCESS({
    const provider& system = *system_provider().value();
    EXPECT_EQ(system.efa->query_device(nullptr, nullptr, 0), EOPNOTSUPP);
    const auto missing = efa_functions(system);
    EXPECT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().kind(), error_kind::unavailable);
    EXPECT_NE(missing.error().message().find("VERBENA_LIBEFA is set to this path"),
              std::string::npos);
    ::setenv("VERBENA_LIBEFA", "libm.so.6", 1);
    EXPECT_EQ(system.efa->create_cq(nullptr, nullptr, nullptr, 0), nullptr) << "libm has no verbs";
    ::unsetenv("VERBENA_LIBEFA");
    EXPECT_TRUE(efa_functions(system).has_value());
  });
}

TEST(provider_death, librdmacm_is_loaded_on_first_use) {
  const environment rdmacm("VERBENA_LIBRDMACM", "/nowhere/librdmacm.so.1");
  VERBENA_IN_FRESH_PROCESS({
    const provider& system = *system_provider().value();
    EXPECT_EQ(system.cm->destroy_id(nullptr), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
    const auto missing = cm_functions(system);
    EXPECT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().kind(), error_kind::unavailable);
    EXPECT_NE(missing.error().message().find("VERBENA_LIBRDMACM is set to this path"),
              std::string::npos);
    ::unsetenv("VERBENA_LIBRDMACM");
    EXPECT_TRUE(cm_functions(system).has_value());
  });
}

TEST(provider_death, system_provider_works_without_soft_device) {
  const environment soft("VERBENA_SOFTDEV_LIBRARY", "/nowhere/libverbena-soft.so.0");
  VERBENA_IN_FRESH_PROCESS({
    expect_unavailable(soft_provider(), "VERBENA_SOFTDEV_LIBRARY is set to this path");
    EXPECT_TRUE(system_provider().has_value());
  });
}

TEST(provider_death, wrong_library_as_libibverbs_is_refused) {
  const environment ibverbs("VERBENA_LIBIBVERBS", "libm.so.6");
  VERBENA_IN_FRESH_PROCESS(expect_unavailable(system_provider(), "no ibv_get_device_list"));
}

TEST(provider_death, wrong_library_as_soft_device_is_refused) {
  const environment soft("VERBENA_SOFTDEV_LIBRARY", "libm.so.6");
  VERBENA_IN_FRESH_PROCESS(expect_unavailable(soft_provider(), "and this library differ"));
}

TEST(provider_death, next_call_retries_after_failure) {
  const environment ibverbs("VERBENA_LIBIBVERBS", "/nowhere/libibverbs.so");
  VERBENA_IN_FRESH_PROCESS({
    EXPECT_FALSE(system_provider().has_value());
    ::unsetenv("VERBENA_LIBIBVERBS");
    EXPECT_TRUE(system_provider().has_value());
    ::setenv("VERBENA_LIBIBVERBS", "/nowhere/libibverbs.so", 1);
    EXPECT_TRUE(system_provider().has_value());
  });
}

TEST(provider, origins_have_names) {
  EXPECT_STREQ(to_string(provider_origin::system), "system");
  EXPECT_STREQ(to_string(provider_origin::linked), "linked");
  EXPECT_STREQ(to_string(provider_origin::soft), "soft");
  EXPECT_STREQ(to_string(static_cast<provider_origin>(9)), "unknown");
}

}  // namespace
}  // namespace verbena
