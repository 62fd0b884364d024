// SPDX-License-Identifier: MIT
#include "verbena/memory/buffer.hpp"

#include "verbena/base/sanitizers.hpp"

#ifdef VERBENA_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::log_catcher;
using testing_support::open_soft;

static_assert(std::is_nothrow_move_constructible_v<buffer>);
static_assert(std::is_nothrow_move_assignable_v<buffer>);
static_assert(std::is_nothrow_default_constructible_v<buffer>);
static_assert(!std::is_copy_constructible_v<buffer>);

std::uint64_t address_of(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

TEST(buffer, covers_the_whole_region) {
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
  EXPECT_EQ(made.access(), access::local_write | access::remote_read);
  EXPECT_EQ(made.native_pd(), pd.native());
}

TEST(buffer, try_slice_returns_the_part_or_an_error_with_the_range) {
  const auto pd = open_soft().allocate_pd().value();
  const auto made = buffer::of(pd.allocate(100, access::local_write).value());
  EXPECT_EQ(made.try_slice(0, 100).value(), made.slice());
  EXPECT_EQ(made.try_slice(99, 1).value(), made.slice(99, 1));
  EXPECT_EQ(made.try_element<std::uint64_t>(11).value(), made.slice(88, 8));
  EXPECT_EQ(made.try_element<std::uint16_t>(1, 3).value(), made.slice(2, 6));
  expect_error(made.try_slice(90, 11), "slice [90, 101) exceeds the buffer of 100 bytes");
  expect_error(made.try_slice(101, 1), "exceeds the buffer of 100 bytes");
  expect_error(made.try_slice(100, 0), "slice [100, 100) is empty");
  expect_error(made.try_element<std::uint64_t>(12), "slice [96, 104) exceeds the buffer");
  expect_error(made.try_element<std::uint64_t>(0, 0), "is empty");
  EXPECT_EQ(made.try_slice(100, 1).error().kind(), error_kind::invalid_argument);
  // Sums and products that exceed 64 bits.
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  expect_error(made.try_slice(1, most), "slice [1, 1 + 18446744073709551615) exceeds the buffer");
  expect_error(made.try_slice(most, 1), "exceeds the buffer");
  expect_error(made.try_slice(most, most), "exceeds the buffer");
  expect_error(made.try_element<std::uint64_t>(most / 8 + 1), "exceeds the buffer");
  expect_error(made.try_element<std::uint64_t>(1, most / 8 + 1), "exceeds the buffer");
  const buffer empty;
  expect_error(empty.try_slice(0, 1), "slice [0, 1) exceeds the buffer of 0 bytes");
  expect_error(empty.try_element<int>(0), "exceeds the buffer of 0 bytes");
}

TEST(buffer, moved_from_buffer_is_empty) {
  const auto pd = open_soft().allocate_pd().value();
  auto first = buffer::of(pd.allocate(64, access::local_write).value());
  const auto address = address_of(first.bytes());
  buffer second = std::move(first);
  EXPECT_EQ(address_of(second.bytes()), address);
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): that is what is tested
  EXPECT_TRUE(first.empty());
  EXPECT_FALSE(first);
  EXPECT_EQ(first.capacity(), 0U);
  EXPECT_TRUE(first.bytes().empty());
  EXPECT_EQ(first.native_pd(), nullptr);
  // NOLINTEND(bugprone-use-after-move,*.Move)
  first = std::move(second);
  EXPECT_EQ(address_of(first.bytes()), address);
  buffer& self = first;
  first = std::move(self);
  EXPECT_EQ(address_of(first.bytes()), address);
}

TEST(buffer, destructor_deregisters_and_frees) {
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

TEST(buffer, failed_deregistration_is_logged_and_leaks_the_memory) {
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

/// Memory of mmap(2) whose deleter counts its calls.
struct mapped_memory {
  static constexpr std::size_t size = 8192;
  int unmapped = 0;
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;

  mapped_memory() {
    void* const address =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(address, MAP_FAILED);
    bytes = {static_cast<std::byte*>(address), size};
    owner = std::shared_ptr<void>(address, [this](void* memory) {
      ++unmapped;
      EXPECT_EQ(::munmap(memory, size), 0);
    });
  }
};

TEST(buffer, adopted_mmap_memory_is_unmapped_once_after_deregistration) {
  counting_provider counting(*soft_provider().value());
  mapped_memory mapped;
  const auto pd = open_soft(counting.get()).value().allocate_pd().value();
  auto region = pd.register_memory(mapped.bytes, access::local_write).value();
  const auto whole = region.slice();
  auto made = buffer::adopt(std::move(region), mapped.bytes, std::move(mapped.owner));
  EXPECT_EQ(made.bytes().data(), mapped.bytes.data());
  EXPECT_EQ(made.capacity(), mapped_memory::size);
  EXPECT_EQ(made.slice().address(), whole.address());
  EXPECT_EQ(made.slice(10, 20).address(), whole.address() + 10);
  buffer moved = std::move(made);
  EXPECT_EQ(mapped.unmapped, 0);
  moved.reset();
  EXPECT_EQ(mapped.unmapped, 1);
  EXPECT_FALSE(counting.is_live("memory"));
}

TEST(buffer, adopted_memory_without_mapping_has_no_bytes) {
  mapped_memory mapped;  // in place of a dma-buf
  const auto pd = open_soft().allocate_pd().value();
  auto region = pd.register_memory(mapped.bytes, access::local_write).value();
  const auto whole = region.slice();
  const auto made = buffer::adopt(std::move(region), {}, std::move(mapped.owner));
  EXPECT_TRUE(made.bytes().empty());
  EXPECT_EQ(made.capacity(), mapped_memory::size);
  EXPECT_EQ(made.slice().address(), whole.address());
}

#ifdef VERBENA_ADDRESS_SANITIZER
// LeakSanitizer ignores allocations while this object exists.
using expected_leak = __lsan::ScopedDisabler;
#else
struct expected_leak {
  ~expected_leak() {}  // prevents warnings about unused variables
};
#endif

TEST(buffer, adopted_memory_is_leaked_if_deregistration_is_refused) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  mapped_memory mapped;
  {
    const expected_leak leak;
    const auto pd = open_soft(failing.get()).value().allocate_pd().value();
    const auto made = buffer::adopt(pd.register_memory(mapped.bytes, access::local_write).value(),
                                    mapped.bytes, std::move(mapped.owner));
    failing.fail_verb("ibv_dereg_mr", EBUSY);
  }
  failing.fail_call(0, 0);
  EXPECT_EQ(mapped.unmapped, 0);
  EXPECT_TRUE(log.contains("memory of the program is leaked")) << log.text();
}

TEST(buffer, violated_preconditions_stop_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto pd = open_soft().allocate_pd().value();
  const auto made = buffer::of(pd.allocate(64, access::local_write).value());
  EXPECT_DEATH(static_cast<void>(made.slice(60, 5)), "a slice exceeds its buffer");
  EXPECT_DEATH(static_cast<void>(made.slice(65, 0)), "a slice exceeds its buffer");
  const buffer empty;
  EXPECT_DEATH(static_cast<void>(empty.remote()), "empty or moved-from buffer");
  EXPECT_DEATH(static_cast<void>(empty.access()), "empty or moved-from buffer");
  // Checked builds check the buffer, other builds only the slice.
  EXPECT_DEATH(static_cast<void>(empty.slice()), "empty or moved-from buffer|a slice has 0 bytes");
  std::array<std::byte, 64> mine{};
  EXPECT_DEATH(static_cast<void>(buffer::of(pd.register_memory(mine, {}).value())),
               "use buffer::adopt");
  EXPECT_DEATH(static_cast<void>(buffer::of(pd.allocate(64, access::zero_based).value())),
               "register the memory without access::zero_based");
}

}  // namespace
}  // namespace verbena
