// SPDX-License-Identifier: MIT
#include "verbena/memory/buffer.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::log_catcher;
using testing_support::open_soft;

static_assert(std::is_nothrow_move_constructible_v<buffer>);
static_assert(std::is_nothrow_move_assignable_v<buffer>);
static_assert(std::is_nothrow_default_constructible_v<buffer>);
static_assert(!std::is_copy_constructible_v<buffer>);

std::uint64_t address_of(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

TEST(buffer, of_a_region_is_all_of_it) {
  const auto pd = open_soft().allocate_pd().value();
  auto region = pd.allocate(1000, access::local_write | access::remote_read).value();
  const auto whole = region.slice();
  const auto remote = region.remote();
  const auto memory = region.bytes();
  const auto made = buffer::of(std::move(region));
  EXPECT_TRUE(made);
  EXPECT_EQ(made.bytes().data(), memory.data());
  EXPECT_EQ(made.capacity(), 1000U);
  EXPECT_EQ(made.slice().address(), whole.address());
  EXPECT_EQ(made.slice().length(), 1000U);
  EXPECT_EQ(made.slice().key(), whole.key());
  EXPECT_EQ(made.slice(10, 20).address(), whole.address() + 10);
  EXPECT_EQ(made.slice(10, 20).length(), 20U);
  EXPECT_EQ(made.slice(999, 1).length(), 1U);
  EXPECT_EQ(made.remote(), remote);
  EXPECT_EQ(made.rights(), access::local_write | access::remote_read);
  EXPECT_EQ(made.domain_identity(), pd.native());
}

TEST(buffer, moving_leaves_an_empty_one_behind) {
  const auto pd = open_soft().allocate_pd().value();
  auto first = buffer::of(pd.allocate(64, access::local_write).value());
  const auto address = address_of(first.bytes());
  buffer second = std::move(first);
  EXPECT_EQ(address_of(second.bytes()), address);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(first);
  EXPECT_EQ(first.capacity(), 0U);
  EXPECT_TRUE(first.bytes().empty());
  EXPECT_EQ(first.domain_identity(), nullptr);
  first = std::move(second);
  EXPECT_EQ(address_of(first.bytes()), address);
  buffer& self = first;
  first = std::move(self);
  EXPECT_EQ(address_of(first.bytes()), address);
}

TEST(buffer, of_a_region_deregisters_and_frees_when_it_goes) {
  counting_provider counting(*soft_provider().value());
  const auto pd = open_soft(counting.get()).value().allocate_pd().value();
  auto made = buffer::of(pd.allocate(64, access::local_write).value());
  auto other = buffer::of(pd.allocate(64, access::local_write).value());
  EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
  made = std::move(other);
  EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
  made.reset();
  EXPECT_FALSE(counting.is_live("ibv_reg_mr"));
  EXPECT_FALSE(counting.is_live("memory"));
  EXPECT_TRUE(made.empty());
  made.reset();
}

TEST(buffer, a_refused_deregistration_is_reported_and_leaks_the_memory) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  {
    const auto pd = open_soft(failing.get()).value().allocate_pd().value();
    const auto made = buffer::of(pd.allocate(64, access::local_write).value());
    failing.fail_verb("ibv_dereg_mr", EBUSY);
  }
  failing.fail_call(0, 0);
  EXPECT_TRUE(log.contains("ibv_dereg_mr on memory region 0x")) << log.text();
  EXPECT_TRUE(counting.is_live("memory"));
}

TEST(buffer, broken_rules_stop_the_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto pd = open_soft().allocate_pd().value();
  const auto made = buffer::of(pd.allocate(64, access::local_write).value());
  EXPECT_DEATH(static_cast<void>(made.slice(60, 5)), "a slice lies inside its buffer");
  EXPECT_DEATH(static_cast<void>(made.slice(65, 0)), "a slice lies inside its buffer");
  EXPECT_DEATH(static_cast<void>(buffer().remote()), "moved-from or empty has no memory");
  EXPECT_DEATH(static_cast<void>(buffer().rights()), "moved-from or empty has no memory");
  // Checked builds say it of the buffer, others of the slice.
  EXPECT_DEATH(static_cast<void>(buffer().slice()), "has no memory|at least one byte");
  std::array<std::byte, 64> mine{};
  EXPECT_DEATH(static_cast<void>(buffer::of(pd.register_memory(mine, {}).value())),
               "whose memory the library allocated");
  EXPECT_DEATH(static_cast<void>(buffer::of(pd.allocate(64, access::zero_based).value())),
               "not made of a zero-based region");
}

}  // namespace
}  // namespace verbena
