// SPDX-License-Identifier: MIT
#include "verbena/memory/exported_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::log_catcher;
using testing_support::open_soft;

enum class phase : std::uint32_t { empty, full = 7 };
struct slot {
  std::uint64_t version;
  phase state;
  char text[9];
  std::array<std::uint8_t, 11> odd;
};
#pragma pack(push, 1)
struct packed {
  std::uint8_t first;
  std::uint32_t misaligned;
};
#pragma pack(pop)

constexpr access_flags read_write = access::remote_read | access::remote_write;

template <class T>
exported_memory<T> make_window(std::size_t count = 1) {
  return exported_memory<T>::create(open_soft().allocate_pd().value(), count).value();
}

std::array<std::uint8_t, 11> numbers(std::uint8_t first) {
  std::array<std::uint8_t, 11> made{};
  std::iota(made.begin(), made.end(), first);
  return made;
}

/// Returns the status of a write of 8 bytes to the beginning of `there`.
completion_status write_into(const protection_domain& pd, const remote_region& there,
                             std::uint64_t value) {
  const auto cq = pd.context().create_cq(4).value();
  auto prepared = pd.create_qp<rc>(cq, cq, {.access = read_write | access::remote_atomic}).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  const auto from = pd.allocate(8, {}).value();
  std::memcpy(from.bytes().data(), &value, sizeof value);
  auto batch = queue.start_send();
  batch.write({.signaled = true}, from.slice(), there.slice(0, 8));
  batch.submit().value();
  return test::take(cq, 1).at(0).status();
}

TEST(exported_memory, copies_in_and_out) {
  auto window = make_window<slot>(3);
  EXPECT_EQ(window.count(), 3U);
  EXPECT_EQ(window.copy_out(element_index(2)).version, 0U);
  slot one{.version = 5, .state = phase::full, .text = "12345678", .odd = numbers(3)};
  window.copy_in(one, element_index(1));
  EXPECT_EQ(window.copy_out(element_index(0)).version, 0U);
  EXPECT_EQ(window.copy_out(element_index(1)).odd, numbers(3));
  EXPECT_STREQ(window.copy_out(element_index(1)).text, "12345678");
  EXPECT_EQ(window.copy_out(element_index(2)).version, 0U);
  // One of the fields begins and ends in the middle of a word.
  window.copy_in(&slot::odd, numbers(100), element_index(1));
  EXPECT_EQ(window.copy_out(&slot::odd, element_index(1)), numbers(100));
  EXPECT_STREQ(window.copy_out(element_index(1)).text, "12345678");
  EXPECT_EQ(window.copy_out(&slot::state, element_index(1)), phase::full);
  window.copy_in(&slot::version, 9, element_index(1));
  EXPECT_EQ(window.load(&slot::version, element_index(1)), 9U);
  window.store(&slot::state, phase::empty, element_index(1));
  EXPECT_EQ(window.copy_out(element_index(1)).state, phase::empty);
  EXPECT_EQ(window.copy_out(element_index(1)).version, 9U);
}

TEST(exported_memory, words_are_loaded_and_stored) {
  auto window = make_window<std::int32_t>(2);
  window.store(-5, element_index(1));
  EXPECT_EQ(window.load(element_index(1)), -5);
  EXPECT_EQ(window.load(), 0);
  EXPECT_EQ(window.copy_out(element_index(1)), -5);
}

TEST(exported_memory, try_functions_check_the_index) {
  auto window = make_window<slot>(3);
  const slot one{.version = 5, .state = phase::full, .text = "12345678", .odd = numbers(3)};
  EXPECT_TRUE(window.try_copy_in(one, element_index(2)));
  EXPECT_EQ(window.try_copy_out(element_index(2)).value().odd, numbers(3));
  EXPECT_TRUE(window.try_copy_in(&slot::odd, numbers(9), element_index(2)));
  EXPECT_EQ(window.try_copy_out(&slot::odd, element_index(2)).value(), numbers(9));
  EXPECT_TRUE(window.try_store(&slot::version, 6, element_index(2)));
  EXPECT_EQ(window.try_load(&slot::version, element_index(2)).value(), 6U);
  EXPECT_EQ(window.copy_out(element_index(1)).version, 0U);

  // The last index multiplied by the size of an element exceeds 64 bits.
  for (const std::size_t index : {std::size_t{3}, std::numeric_limits<std::size_t>::max() / 2}) {
    const auto text = "element " + std::to_string(index) + " exceeds the exported memory of 3 elem";
    expect_error(window.try_copy_in(one, element_index(index)), text);
    expect_error(window.try_copy_out(element_index(index)), text);
    expect_error(window.try_copy_in(&slot::odd, numbers(1), element_index(index)), text);
    expect_error(window.try_copy_out(&slot::odd, element_index(index)), text);
    expect_error(window.try_store(&slot::version, 7, element_index(index)), text);
    expect_error(window.try_load(&slot::version, element_index(index)), text);
  }
  EXPECT_EQ(window.try_copy_out(element_index(3)).error().kind(), error_kind::invalid_argument);
  EXPECT_EQ(window.try_copy_out(element_index(3)).error().call(), "exported_memory::try_copy_out");
  EXPECT_EQ(window.load(&slot::version, element_index(2)), 6U);

  auto words = make_window<std::int32_t>(2);
  EXPECT_TRUE(words.try_store(-5, element_index(1)));
  EXPECT_EQ(words.try_load(element_index(1)).value(), -5);
  expect_error(words.try_store(1, element_index(2)),
               "element 2 exceeds the exported memory of 2 elements");
  expect_error(words.try_load(element_index(2)),
               "element 2 exceeds the exported memory of 2 elements");
  const auto taken = std::move(words);
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): it has no elements
  expect_error(words.try_load(element_index(0)), "exceeds the exported memory of 0 elements");
}

TEST(exported_memory, peers_have_access_from_grant_to_revoke) {
  const auto pd = open_soft().allocate_pd().value();
  auto window = exported_memory<slot>::create(pd).value();
  EXPECT_FALSE(window.granted());
  const auto there = window.grant(read_write).value();
  EXPECT_TRUE(window.granted());
  EXPECT_EQ(there.length(), sizeof(slot));
  const auto version = remote_view<slot>::of(there)->field(&slot::version);
  EXPECT_EQ(write_into(pd, version.region(), 42), completion_status::success);
  EXPECT_EQ(window.load(&slot::version), 42U);
  window.revoke().value();
  EXPECT_FALSE(window.granted());
  EXPECT_EQ(write_into(pd, there, 43), completion_status::remote_access_error);
  EXPECT_EQ(window.load(&slot::version), 42U);
  window.revoke().value();
  const auto again = window.grant(read_write).value();
  EXPECT_EQ(write_into(pd, again, 44), completion_status::success);
  EXPECT_EQ(write_into(pd, there, 45), completion_status::remote_access_error);
  EXPECT_EQ(window.load(&slot::version), 44U);
}

TEST(exported_memory, peers_have_only_the_granted_access) {
  const auto pd = open_soft().allocate_pd().value();
  auto window = exported_memory<std::uint64_t>::create(pd).value();
  const auto there = window.grant(access::remote_read).value();
  EXPECT_EQ(write_into(pd, there, 1), completion_status::remote_access_error);
  EXPECT_EQ(window.load(), 0U);
  window.revoke().value();
  expect_error(window.grant({}), "no other access flag, not none");
  expect_error(window.grant(access::local_write), "no other access flag, not local_write");
  expect_error(window.grant(read_write | access::zero_based), "no other access flag");
  EXPECT_TRUE(window.grant(access::remote_atomic).has_value());
}

TEST(exported_memory, invalid_size_is_refused) {
  const auto pd = open_soft().allocate_pd().value();
  for (const std::size_t count :
       {std::size_t{0}, std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60U})
    expect_error(exported_memory<std::uint64_t>::create(pd, count), "must be at least 1");
  EXPECT_EQ(exported_memory<std::uint64_t>::create(pd, std::size_t{1} << 55U).error().code(),
            ENOMEM);
}

TEST(exported_memory, failed_revocation_keeps_the_access) {
  failing_provider failing(*soft_provider().value());
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  auto window = exported_memory<std::uint64_t>::create(pd).value();
  const auto there = window.grant(read_write).value();
  failing.fail_call(1, EBUSY);
  expect_error(window.revoke(), "ibv_dereg_mr");
  failing.fail_call(0, 0);
  EXPECT_TRUE(window.granted());
  EXPECT_EQ(write_into(pd, there, 3), completion_status::success);
  window.revoke().value();
  EXPECT_EQ(window.load(), 3U);
}

TEST(exported_memory, destructor_revokes_before_it_frees_the_memory) {
  counting_provider counting(*soft_provider().value());
  {
    const auto pd = open_soft(counting.get()).value().allocate_pd().value();
    auto window = std::make_optional(exported_memory<slot>::create(pd).value());
    EXPECT_FALSE(counting.is_live("ibv_reg_mr"));
    static_cast<void>(window->grant(read_write).value());
    auto moved = std::move(*window);
    window.reset();
    EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
    EXPECT_TRUE(counting.is_live("memory"));
    EXPECT_TRUE(moved.granted());
    moved = exported_memory<slot>::create(pd).value();
    EXPECT_FALSE(counting.is_live("ibv_reg_mr"));
  }
  EXPECT_EQ(counting.live(), "");
}

TEST(exported_memory, memory_is_kept_if_revocation_fails_in_the_destructor) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  {
    const auto pd = open_soft(failing.get()).value().allocate_pd().value();
    auto window = exported_memory<slot>::create(pd).value();
    static_cast<void>(window.grant(read_write).value());
    failing.fail_verb("ibv_dereg_mr", EBUSY);
  }
  failing.fail_call(0, 0);
  EXPECT_TRUE(log.contains("ibv_dereg_mr on memory region 0x")) << log.text();
  for (const char* kept : {"ibv_reg_mr", "memory", "ibv_alloc_pd", "ibv_open_device"})
    EXPECT_TRUE(counting.is_live(kept)) << kept;
}

TEST(exported_memory, failed_grant_leaves_no_registration) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  auto window = exported_memory<slot>::create(pd).value();
  const auto live = counting.live();
  failing.fail_call(1, ENOMEM);
  expect_error(window.grant(read_write), "ibv_reg_mr on protection domain of soft0 failed");
  failing.fail_call(0, 0);
  EXPECT_EQ(counting.live(), live);
  EXPECT_FALSE(window.granted());
  EXPECT_TRUE(window.grant(read_write).has_value());
}

TEST(exported_memory, violated_preconditions_stop_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto window = make_window<slot>(2);
  EXPECT_DEATH(static_cast<void>(window.copy_out(element_index(2))), "not less than count");
  EXPECT_DEATH(window.store(&slot::version, 1, element_index(2)), "not less than count");
  auto misaligned = make_window<packed>();
  EXPECT_DEATH(static_cast<void>(misaligned.load(&packed::misaligned)), "not aligned to its size");
  static_cast<void>(window.grant(read_write).value());
  EXPECT_DEATH(static_cast<void>(window.grant(read_write)), "call revoke.. first");
  const auto taken = std::move(window);
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): the test is about a moved-from object
  EXPECT_DEATH(static_cast<void>(window.copy_out(element_index(0))), "not less than count");
  EXPECT_DEATH(static_cast<void>(window.granted()), "a moved-from exported_memory was used");
  // NOLINTEND(bugprone-use-after-move,*.Move)
}

}  // namespace
}  // namespace verbena
