// SPDX-License-Identifier: MIT
#include "verbena/verbs/protection_domain.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::open_soft;

protection_domain new_pd() { return open_soft().allocate_pd().value(); }

// soft0 without soft_allocate: memory comes from mmap(2), as with an adapter.
provider without_allocator() {
  provider made = *soft_provider().value();
  made.origin = provider_origin::system;
  made.soft_allocate = nullptr;
  made.soft_free = nullptr;
  return made;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// parity: rrddmma-41, ibverbs-152
TEST(protection_domain, allocates_zeroed_page_aligned_memory) {
  const auto pd = new_pd();
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const std::size_t bytes : {1, 4096, 4097, 1 << 20}) {
    const auto region = pd.allocate(bytes, access::local_write).value();
    EXPECT_EQ(region.bytes().size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.bytes().data()) % page, 0U);
    EXPECT_TRUE(all_zero(region.bytes()));
    std::fill(region.bytes().begin(), region.bytes().end(), std::byte{0xa5});
  }
}

TEST(protection_domain, allocates_with_mmap_if_the_provider_does_not_allocate) {
  const provider plain = without_allocator();
  const auto pd = open_soft(plain).value().allocate_pd().value();
  const auto region = pd.allocate(5000, access::local_write | access::remote_write).value();
  ASSERT_EQ(region.bytes().size(), 5000U);
  EXPECT_TRUE(all_zero(region.bytes()));
  region.bytes().back() = std::byte{1};
}

TEST(protection_domain, preferred_huge_pages_fall_back) {
  const provider plain = without_allocator();
  for (const provider* from : {soft_provider().value(), &plain}) {
    const auto pd = open_soft(*from).value().allocate_pd().value();
    const auto region =
        pd.allocate(4096, access::local_write, {.huge_pages = huge_pages::preferred}).value();
    EXPECT_TRUE(all_zero(region.bytes()));
  }
}

void* no_huge_pages(std::size_t bytes, int huge_pages) {
  if (huge_pages == 0) return soft_provider().value()->soft_allocate(bytes, 0);
  errno = ENOMEM;
  return nullptr;
}

TEST(protection_domain, required_huge_pages_fail_if_none_are_free) {
  provider changed = *soft_provider().value();
  changed.soft_allocate = &no_huge_pages;
  const auto pd = open_soft(changed).value().allocate_pd().value();
  expect_error(pd.allocate(4096, {}, {.huge_pages = huge_pages::required}),
               "/proc/sys/vm/nr_hugepages");
  EXPECT_TRUE(pd.allocate(4096, {}, {.huge_pages = huge_pages::preferred}).has_value());
}

TEST(protection_domain, huge_allocation_error_names_the_size) {
  const provider plain = without_allocator();
  for (const provider* from : {soft_provider().value(), &plain}) {
    const auto pd = open_soft(*from).value().allocate_pd().value();
    for (const std::size_t bytes : {std::size_t{1} << 60, std::numeric_limits<std::size_t>::max()})
      EXPECT_EQ(pd.allocate(bytes, {}).error().code(), ENOMEM);
    expect_error(pd.allocate(std::size_t{1} << 60, {}), "1048576 TiB");
  }
}

// parity: ibverbs-140, rrddmma-35, ibverbs-rs-59
TEST(protection_domain, registers_memory_of_the_caller) {
  const auto pd = new_pd();
  std::vector<std::byte> memory(10000);
  const auto region =
      pd.register_memory(std::span(memory).subspan(10, 5000), access::local_write).value();
  EXPECT_FALSE(region.owns_memory());
  EXPECT_EQ(region.length(), 5000U);
  EXPECT_EQ(region.slice().address(), reinterpret_cast<std::uintptr_t>(memory.data()) + 10);
  EXPECT_EQ(region.native()->addr, memory.data() + 10);
}

// parity: rrddmma-43
TEST(protection_domain, empty_memory_is_refused) {
  const auto pd = new_pd();
  const auto allocated = pd.allocate(0, {});
  expect_error(allocated, "a memory region has at least one byte");
  EXPECT_EQ(allocated.error().kind(), error_kind::invalid_argument);
  expect_error(pd.register_memory({}, {}), "there is nothing to register");
}

// parity: rrddmma-38
TEST(protection_domain, remote_write_without_local_write_is_refused) {
  failing_provider failing(*soft_provider().value());
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  std::array<std::byte, 64> memory{};
  failing.fail_call(0, 0);
  for (const access right : {access::remote_write, access::remote_atomic}) {
    expect_error(pd.allocate(64, right), "need local_write, the access flags are");
    expect_error(pd.register_memory(memory, right | access::remote_read),
                 "need local_write, the access flags are");
  }
  EXPECT_EQ(failing.calls(), 0U);
  EXPECT_TRUE(pd.allocate(64, access::remote_read).has_value());
  EXPECT_TRUE(pd.allocate(64, access::remote_atomic | access::local_write).has_value());
}

unsigned last_access = 0;
bool newer_verb_called = false;

ibv_mr* old_verb(ibv_pd* pd, void* address, std::size_t length, int access) {
  last_access = static_cast<unsigned>(access);
  newer_verb_called = false;
  return soft_provider().value()->verbs.reg_mr(pd, address, length, access);
}
ibv_mr* newer_verb(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                   unsigned access) {
  EXPECT_EQ(iova, reinterpret_cast<std::uintptr_t>(address));
  last_access = access;
  newer_verb_called = true;
  return soft_provider().value()->verbs.reg_mr(
      pd, address, length, static_cast<int>(access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}));
}

TEST(protection_domain, optional_access_flags_use_reg_mr_iova2_if_available) {
  provider changed = *soft_provider().value();
  changed.verbs.reg_mr.set(&old_verb);
  changed.verbs.reg_mr_iova2.set(&newer_verb);
  const auto pd = open_soft(changed).value().allocate_pd().value();
  EXPECT_TRUE(pd.allocate(64, access::local_write).has_value());
  EXPECT_FALSE(newer_verb_called);
  EXPECT_EQ(last_access, unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_TRUE(pd.allocate(64, access::local_write | access::relaxed_ordering).has_value());
  EXPECT_TRUE(newer_verb_called);
  EXPECT_EQ(last_access, unsigned{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_RELAXED_ORDERING);
  changed.verbs.reg_mr_iova2.set(nullptr);
  EXPECT_TRUE(pd.allocate(64, access::local_write | access::relaxed_ordering).has_value());
  EXPECT_FALSE(newer_verb_called);
  EXPECT_EQ(last_access, unsigned{IBV_ACCESS_LOCAL_WRITE}) << "optional rights may be left out";
}

// Returns the error of register_memory() if the verb fails with `code`.
std::string registration_failure(provider_origin origin, int code, access_flags access) {
  failing_provider failing(*soft_provider().value());
  provider from = failing.get();
  from.origin = origin;
  const auto pd = open_soft(from).value().allocate_pd().value();
  std::array<std::byte, 64> memory{};
  failing.fail_call(1, code);
  return pd.register_memory(memory, access).error().message();
}

TEST(protection_domain, enomem_names_the_limit_and_the_needed_size) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const rlimit lower{std::min<rlim_t>(limit.rlim_cur, 65536), limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &lower), 0);
  const std::string hardware = registration_failure(provider_origin::system, ENOMEM, {});
  const std::string soft = registration_failure(provider_origin::soft, ENOMEM, {});
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  for (const char* words :
       {"ibv_reg_mr on protection domain of soft0 failed", "the limit of locked memory is 64 KiB",
        "this region needs 64 bytes", "ulimit -l unlimited", "it has room for"})
    EXPECT_NE(hardware.find(words), std::string::npos) << words << " is not in: " << hardware;
  EXPECT_EQ(soft.find("locked memory"), std::string::npos) << "soft0 locks nothing: " << soft;
  EXPECT_NE(soft.find("the device has room for"), std::string::npos) << soft;
}

TEST(protection_domain, other_registration_errors_are_explained) {
  const auto failure = [](int code, access_flags access) {
    return registration_failure(provider_origin::soft, code, access);
  };
  const std::pair<std::string, const char*> cases[] = {
      {failure(EFAULT, access::local_write), "the memory is mapped read-only"},
      {failure(EAGAIN, {}), "try again"},
      {failure(EOPNOTSUPP, access::on_demand), "does not support on-demand paging"},
      {failure(EOPNOTSUPP, access::huge_pages), "does not support the access flags huge_pages"},
      {failure(EINVAL, access::local_write), "refuses the access flags local_write or the memory"},
      {failure(ENODEV, {}), "the device was removed or has failed"},
  };
  for (const auto& [message, words] : cases)
    EXPECT_NE(message.find(words), std::string::npos) << words << " is not in: " << message;
}

// parity: rrddmma-42
TEST(protection_domain, a_failed_registration_frees_the_allocated_memory) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  failing.fail_call(1, ENOMEM);
  EXPECT_FALSE(pd.allocate(4096, {}).has_value());
  EXPECT_FALSE(counting.is_live("memory"));
}

TEST(protection_domain, returns_its_context) {
  const auto opened = open_soft();
  const auto pd = opened.allocate_pd().value();
  EXPECT_EQ(pd.context().native(), opened.native());
  EXPECT_EQ(pd.name(), "protection domain of soft0");
}

// parity: ibverbs-rs-7, ibverbs-125, rrddmma-34
TEST(protection_domain, keeps_the_device_open) {
  counting_provider counting(*soft_provider().value());
  {
    auto first = std::optional(open_soft(counting.get()).value().allocate_pd().value());
    const protection_domain pd = *first;
    EXPECT_EQ(pd.native(), first->native());
    first.reset();
    EXPECT_TRUE(pd.context().query().has_value());
    EXPECT_TRUE(pd.allocate(64, {}).has_value());
  }
  EXPECT_EQ(counting.live(), "");
}

TEST(protection_domain, close_of_shared_domain_returns_it) {
  counting_provider counting(*soft_provider().value());
  const auto opened = open_soft(counting.get()).value();
  auto pd = opened.allocate_pd().value();
  std::optional<memory_region> region = pd.allocate(64, {}).value();
  auto refused = std::move(pd).close();
  expect_error(refused, "ibv_dealloc_pd on protection domain of soft0 failed");
  pd = std::move(refused).object();
  region.reset();
  EXPECT_TRUE(std::move(pd).close().has_value());
  EXPECT_FALSE(counting.is_live("ibv_alloc_pd"));
}

TEST(protection_domain, failed_close_returns_the_domain) {
  failing_provider failing(*soft_provider().value());
  auto pd = open_soft(failing.get()).value().allocate_pd().value();
  failing.fail_call(1, EBUSY);
  auto refused = std::move(pd).close();
  expect_error(refused, "memory regions or queue pairs that were made from it still exist");
  pd = std::move(refused).object();
  EXPECT_TRUE(pd.allocate(64, {}).has_value()) << "it is usable";
  EXPECT_TRUE(std::move(pd).close().has_value());
}

// parity: rrddmma-26
TEST(protection_domain, adopted_with_take_is_deallocated_and_borrowed_is_not) {
  counting_provider counting(*soft_provider().value());
  const auto opened = open_soft(counting.get()).value();
  const auto& verbs = counting.get().verbs;
  ibv_pd* const native = verbs.alloc_pd(opened.native());
  {
    const auto borrowed = protection_domain::adopt(native, opened, ownership::borrow);
    EXPECT_TRUE(borrowed.allocate(64, {}).has_value());
  }
  EXPECT_TRUE(counting.is_live("ibv_alloc_pd"));
  {
    const auto taken = protection_domain::adopt(native, opened, ownership::take);
  }
  EXPECT_FALSE(counting.is_live("ibv_alloc_pd"));
}

// parity: ibverbs-309, rrddmma-6
TEST(protection_domain, raw_verbs_take_the_native_domain) {
  const auto pd = new_pd();
  const auto& verbs = pd.provider().verbs;
  std::array<std::byte, 64> memory{};
  ibv_mr* const region = verbs.reg_mr(pd.native(), memory.data(), memory.size(), 0);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(verbs.dereg_mr(region), 0);
}

TEST(protection_domain_death, use_of_moved_from_domain_aborts) {
  auto pd = new_pd();
  const auto other = std::move(pd);
  const char* rule = "a moved-from protection_domain was used";
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): that is what is tested
  EXPECT_DEATH(static_cast<void>(pd.allocate(64, {})), rule);
  EXPECT_DEATH(static_cast<void>(pd.context()), rule);
  EXPECT_DEATH(static_cast<void>(pd.native()), rule);
  // NOLINTEND(bugprone-use-after-move,*.Move)
}

TEST(protection_domain_death, adopt_with_wrong_context_aborts) {
  const auto first = open_soft();
  const auto second = open_soft();
  const auto pd = first.allocate_pd().value();
  EXPECT_DEATH(static_cast<void>(protection_domain::adopt(nullptr, first, ownership::borrow)),
               "protection_domain::adopt\\(\\) with a null pointer");
  EXPECT_DEATH(static_cast<void>(protection_domain::adopt(pd.native(), second, ownership::borrow)),
               "protection_domain::adopt\\(\\) with another context");
}

}  // namespace
}  // namespace verbena
