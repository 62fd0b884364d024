// SPDX-License-Identifier: MIT
#include "verbena/verbs/memory_region.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::log_catcher;
using testing_support::open_soft;

static_assert(!std::is_copy_constructible_v<memory_region>);
static_assert(std::is_nothrow_move_constructible_v<memory_region>);

constexpr access_flags all_rights =
    access::local_write | access::remote_write | access::remote_read | access::remote_atomic;

protection_domain make_pd() { return open_soft().allocate_pd().value(); }

std::uint64_t address_of(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

// parity: ibverbs-150, rrddmma-40
TEST(memory_region, has_keys_access_flags_and_name) {
  const auto region = make_pd().allocate(4096, all_rights).value();
  EXPECT_EQ(region.local_key().value(), region.native()->lkey);
  EXPECT_EQ(region.remote_key().value(), region.native()->rkey);
  EXPECT_EQ(region.access(), all_rights);
  EXPECT_EQ(region.length(), 4096U);
  EXPECT_TRUE(region.owns_memory());
  EXPECT_TRUE(region.name().starts_with("memory region 0x")) << region.name();
  EXPECT_TRUE(region.name().ends_with("+4096 of soft0")) << region.name();
}

// parity: ibverbs-154, rrddmma-45
TEST(memory_region, slices_carry_address_length_and_key) {
  const auto region = make_pd().allocate(4096, access::local_write).value();
  EXPECT_EQ(region.slice().address(), address_of(region.bytes()));
  EXPECT_EQ(region.slice().length(), 4096U);
  EXPECT_EQ(region.slice().key(), region.local_key());
  EXPECT_EQ(region.slice(96, 1000).address(), address_of(region.bytes()) + 96);
  EXPECT_EQ(region.slice(96, 1000).length(), 1000U);
  EXPECT_EQ(region.slice(4095, 1).length(), 1U);
}

// parity: ibverbs-159, rrddmma-112
TEST(memory_region, remote_has_address_length_and_rkey) {
  const auto region = make_pd().allocate(4096, all_rights).value();
  const auto remote = region.remote();
  EXPECT_EQ(remote.address(), address_of(region.bytes()));
  EXPECT_EQ(remote.length(), 4096U);
  EXPECT_EQ(remote.key(), region.remote_key());
  EXPECT_EQ(remote_region::decode(remote.encode()).value(), remote);
}

TEST(memory_region, keeps_its_domain_and_device) {
  counting_provider counting(*soft_provider().value());
  {
    const auto region =
        open_soft(counting.get()).value().allocate_pd().value().allocate(64, {}).value();
    EXPECT_TRUE(region.domain().allocate(64, {}).has_value());
    EXPECT_TRUE(region.domain().context().query().has_value());
  }
  EXPECT_EQ(counting.live(), "");
}

TEST(memory_region, moving_leaves_an_empty_region_behind) {
  const auto pd = make_pd();
  auto first = pd.allocate(64, {}).value();
  const auto address = first.slice().address();
  auto second = std::move(first);
  EXPECT_EQ(second.slice().address(), address);
  EXPECT_EQ(first.length(), 0U);  // NOLINT(bugprone-use-after-move,*.Move)
  EXPECT_FALSE(first.owns_memory());
  second = pd.allocate(128, {}).value();
  EXPECT_EQ(second.length(), 128U);
  first = std::move(second);
  EXPECT_EQ(first.length(), 128U);
}

// parity: ibverbs-137, rrddmma-44
TEST(memory_region, is_deregistered_before_its_memory_is_freed) {
  counting_provider counting(*soft_provider().value());
  const auto opened = open_soft(counting.get()).value();
  const auto pd = opened.allocate_pd().value();
  {
    const auto region = pd.allocate(4096, {}).value();
    EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
    EXPECT_TRUE(counting.is_live("memory"));
  }
  EXPECT_FALSE(counting.is_live("ibv_reg_mr"));
  EXPECT_FALSE(counting.is_live("memory"));
}

// parity: ibverbs-153
TEST(memory_region, close_deregisters_and_frees) {
  counting_provider counting(*soft_provider().value());
  const auto pd = open_soft(counting.get()).value().allocate_pd().value();
  auto region = pd.allocate(4096, {}).value();
  EXPECT_TRUE(std::move(region).close().has_value());
  EXPECT_FALSE(counting.is_live("ibv_reg_mr"));
  EXPECT_FALSE(counting.is_live("memory"));
}

// parity: ibverbs-153
TEST(memory_region, failed_close_returns_the_region) {
  failing_provider failing(*soft_provider().value());
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  auto region = pd.allocate(4096, access::local_write).value();
  failing.fail_call(1, EBUSY);
  auto refused = std::move(region).close();
  expect_error(refused, "memory windows are still bound to it");
  region = std::move(refused).object();
  ASSERT_EQ(region.bytes().size(), 4096U);
  region.bytes().front() = std::byte{7};
  EXPECT_EQ(region.slice().length(), 4096U);
}

// parity: ibverbs-137, ibverbs-rs-6, rrddmma-44
TEST(memory_region, failed_deregistration_is_logged_and_keeps_memory) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  {
    auto region = open_soft(failing.get()).value().allocate_pd().value().allocate(64, {}).value();
    failing.fail_verb("ibv_dereg_mr", EBUSY);
  }
  failing.fail_call(0, 0);
  EXPECT_TRUE(log.contains("ibv_dereg_mr on memory region 0x")) << log.text();
  EXPECT_TRUE(log.contains("Device or resource busy")) << log.text();
  EXPECT_TRUE(log.contains("kept until the process ends")) << log.text();
  for (const char* kept : {"ibv_reg_mr", "memory", "ibv_alloc_pd", "ibv_open_device"})
    EXPECT_TRUE(counting.is_live(kept)) << kept;
}

TEST(memory_region, adopted_with_take_is_deregistered_and_borrowed_is_not) {
  counting_provider counting(*soft_provider().value());
  const auto pd = open_soft(counting.get()).value().allocate_pd().value();
  std::array<std::byte, 64> memory{};
  ibv_mr* const native = counting.get().verbs.reg_mr(pd.native(), memory.data(), memory.size(),
                                                     IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(native, nullptr);
  {
    const auto borrowed = memory_region::adopt(native, pd, access::local_write, ownership::borrow);
    EXPECT_FALSE(borrowed.owns_memory());
    EXPECT_EQ(borrowed.slice().address(), address_of(memory));
    EXPECT_EQ(borrowed.access(), access_flags(access::local_write));
  }
  EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
  {
    const auto taken = memory_region::adopt(native, pd, access::local_write, ownership::take);
  }
  EXPECT_FALSE(counting.is_live("ibv_reg_mr"));
}

// parity: rrddmma-39
TEST(memory_region, addresses_of_a_zero_based_region_are_offsets) {
  const auto pd = make_pd();
  std::array<std::byte, 64> memory{};
  ibv_mr* const native =
      pd.provider().verbs.reg_mr(pd.native(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  const auto region =
      memory_region::adopt(native, pd, access::local_write | access::zero_based, ownership::take);
  EXPECT_EQ(region.slice().address(), 0U);
  EXPECT_EQ(region.slice(10, 5).address(), 10U);
  EXPECT_EQ(region.remote().address(), 0U);
  EXPECT_EQ(region.remote().length(), 64U);
}

TEST(memory_region, base_address_sets_the_iova) {
  const auto pd = make_pd();
  alignas(4096) static std::array<std::byte, 4096> memory;
  constexpr std::uint64_t base = 0x7000'0000'0000;
  const auto region =
      pd.register_memory(std::span(memory).subspan(64), access::local_write | access::remote_write,
                         {.iova = base + 64})
          .value();
  EXPECT_EQ(region.slice().address(), base + 64);
  EXPECT_EQ(region.slice(10, 5).address(), base + 74);
  EXPECT_EQ(region.remote().address(), base + 64);
  EXPECT_EQ(region.remote().length(), memory.size() - 64);
  // Work requests with addresses from `iova` transfer bytes.
  const auto cq = pd.context().create_cq(4).value();
  auto prepared = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  memory[64] = std::byte{42};
  auto batch = queue.start_send();
  batch.write({.signaled = true}, region.slice(0, 1), region.remote().slice(100, 1));
  batch.submit().value();
  EXPECT_TRUE(test::take(cq, 1).at(0).ok());
  EXPECT_EQ(memory[164], std::byte{42});
}

TEST(memory_region, invalid_base_address_is_refused) {
  const auto pd = make_pd();
  std::array<std::byte, 64> memory{};
  const auto beyond =
      pd.register_memory(memory, access::local_write, {.iova = ~std::uint64_t{0} - 62});
  expect_error(beyond, "exceeds the 64-bit address space");
  EXPECT_EQ(beyond.error().kind(), error_kind::invalid_argument);
  expect_error(pd.register_memory(memory, access::local_write | access::zero_based, {.iova = 64}),
               "the addresses of a zero-based region begin at 0");
  failing_provider failing(*soft_provider().value());
  const auto other = open_soft(failing.get()).value().allocate_pd().value();
  failing.fail_call(1, EINVAL);
  const auto moved =
      other.register_memory(memory, access::local_write, {.iova = address_of(memory) + 1});
  expect_error(moved, "ibv_reg_mr_iova2 on protection domain of soft0 failed");
  expect_error(moved, "different offsets in their pages");
}

ibv_mr dmabuf_region{};
int dmabuf_code = 0;
struct {
  std::uint64_t offset;
  std::size_t length;
  std::uint64_t base;
  int fd;
  int access;
} dmabuf_asked{};

class dmabuf_regions : public ::testing::Test {
 protected:
  dmabuf_regions() {
    dmabuf_code = 0;
    from.verbs.reg_dmabuf_mr.set([](ibv_pd* of, std::uint64_t offset, std::size_t length,
                                    std::uint64_t base, int fd, int access) -> ibv_mr* {
      if (dmabuf_code != 0) {
        errno = dmabuf_code;
        return nullptr;
      }
      dmabuf_asked = {offset, length, base, fd, access};
      dmabuf_region = {};
      dmabuf_region.context = of->context;
      dmabuf_region.pd = of;
      // rdma-core stores the offset as the address.
      dmabuf_region.addr = reinterpret_cast<void*>(offset);
      dmabuf_region.length = length;
      dmabuf_region.lkey = 5;
      dmabuf_region.rkey = 6;
      return &dmabuf_region;
    });
    from.verbs.dereg_mr.set([](ibv_mr* region) { return region == &dmabuf_region ? 0 : EINVAL; });
  }
  provider from = *soft_provider().value();
  protection_domain pd = open_soft(from).value().allocate_pd().value();
};

TEST_F(dmabuf_regions, library_without_the_verb_is_named_with_the_version) {
  provider older = from;
  older.verbs.reg_dmabuf_mr.set(nullptr);
  const auto refused = open_soft(older).value().allocate_pd().value().register_dmabuf(
      {.fd = 7, .length = 4096}, access::local_write);
  expect_error(refused, "does not have ibv_reg_dmabuf_mr, which needs rdma-core 34 or newer");
  EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
}

// parity: ibverbs-143
TEST_F(dmabuf_regions, slices_start_at_the_base_address) {
  const auto region =
      pd.register_dmabuf({.fd = 7, .offset = 0x3000, .length = 0x2000, .iova = 0x5000'0000'0000},
                         access::local_write | access::remote_read)
          .value();
  EXPECT_EQ(dmabuf_asked.offset, 0x3000U);
  EXPECT_EQ(dmabuf_asked.length, 0x2000U);
  EXPECT_EQ(dmabuf_asked.base, 0x5000'0000'0000U);
  EXPECT_EQ(dmabuf_asked.fd, 7);
  EXPECT_EQ(dmabuf_asked.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(region.remote(),
            remote_region({.address = 0x5000'0000'0000, .length = 0x2000, .key = remote_key(6)}));
  EXPECT_EQ(region.slice(16, 8).address(), 0x5000'0000'0010U);
  EXPECT_EQ(region.local_key(), local_key(5));
  EXPECT_FALSE(region.owns_memory());
  EXPECT_EQ(region.name(), "memory region dma-buf 7 at 0x3000+8192 of soft0");
  const auto zero_based =
      pd.register_dmabuf({.fd = 7, .length = 4096}, access::local_write | access::zero_based);
  EXPECT_EQ(zero_based->remote().address(), 0U);
}

// parity: ibverbs-142, ibverbs-144
TEST_F(dmabuf_regions, errors_name_the_cause) {
  const auto ask = [&](dmabuf memory) { return pd.register_dmabuf(memory, access::local_write); };
  expect_error(ask({.fd = 7}), "at least one byte");
  expect_error(ask({.fd = 7, .length = 2, .iova = ~std::uint64_t{0}}), "address space");
  expect_error(ask({.fd = 7, .offset = ~std::uint64_t{0}, .length = 2}), "address space");
  expect_error(pd.register_dmabuf({.fd = 7, .length = 1}, access::remote_write),
               "need local_write");
  for (const auto& [code, words] : {std::pair{EBADF, "the descriptor is not open"},
                                    std::pair{EOPNOTSUPP, "does not support dma-buf"},
                                    std::pair{EINVAL, "the range exceeds the dma-buf"},
                                    std::pair{ENODEV, "the device was removed or has failed"},
                                    std::pair{ENOMEM, "the device has room for"}}) {
    dmabuf_code = code;
    const auto refused = ask({.fd = 7, .offset = 4096, .length = 4096});
    expect_error(refused, "ibv_reg_dmabuf_mr on dma-buf 7 at 0x1000+4096 of protection domain");
    expect_error(refused, words);
    EXPECT_EQ(refused.error().code(), code);
  }
  dmabuf_code = EINVAL;
  expect_error(ask({.fd = 7, .offset = 4096, .length = 4096, .iova = 8}),
               "different offsets in their pages");
  from.verbs.reg_dmabuf_mr.set(nullptr);
  EXPECT_EQ(ask({.fd = 7, .length = 1}).error().kind(), error_kind::not_supported);
}

// The process does not map the memory: the test reads the transferred bytes from the file.
// parity: ibverbs-141, ibverbs-rs-60
TEST(dmabuf_region, supports_write_read_send_and_receive) {
  constexpr std::size_t page = 4096;
  for (const int seals : {0, F_SEAL_SHRINK}) {
    const unique_fd file(::memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(file.get(), 4 * page), 0);
    ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    const auto in_file = [&](std::size_t offset, std::size_t length) {
      std::vector<std::byte> bytes(length);
      EXPECT_EQ(::pread(file.get(), bytes.data(), length, static_cast<off_t>(offset)),
                static_cast<ssize_t>(length));
      return bytes;
    };
    test::loopback pair;
    const auto region =
        pair.pd()
            .register_dmabuf(
                {.fd = file.get(), .offset = page, .length = 2 * page, .iova = 0x5000'0000'0000},
                all_rights)
            .value();
    const auto memory = pair.memory(4 * page);
    test::fill(memory.bytes().first(page), 50);
    auto there = pair.a().queue.start_send();
    there.write({.signaled = true}, memory.slice(0, page), region.remote().slice(100, page));
    there.read({.signaled = true}, memory.slice(page, page), region.remote().slice(100, page));
    there.submit().value();
    for (const auto& done : test::take(pair.a().sends, 2)) done.result().value();
    EXPECT_EQ(in_file(page + 100, page), test::pattern(page, 50));
    EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(page, page), memory.bytes().first(page)));
    // As local memory: a receive, then a send of the received bytes.
    pair.b().queue.post_receive({}, region.slice(page + 200, 64)).value();
    pair.a().queue.post_receive({}, memory.slice(3 * page, 64)).value();
    auto message = pair.a().queue.start_send();
    message.send({.signaled = true}, memory.slice(8, 64));
    message.submit().value();
    test::take(pair.b().receives, 1).at(0).result().value();
    test::take(pair.a().sends, 1).at(0).result().value();
    EXPECT_EQ(in_file(2 * page + 200, 64), in_file(page + 108, 64));
    auto back = pair.b().queue.start_send();
    back.send({.signaled = true}, region.slice(page + 200, 64));
    back.submit().value();
    test::take(pair.a().receives, 1).at(0).result().value();
    test::take(pair.b().sends, 1).at(0).result().value();
    EXPECT_TRUE(
        std::ranges::equal(memory.bytes().subspan(3 * page, 64), memory.bytes().subspan(8, 64)));
    EXPECT_EQ(in_file(0, page), std::vector<std::byte>(page));
    EXPECT_EQ(in_file(3 * page, page), std::vector<std::byte>(page));
  }
}

int advice_code = 0;
struct {
  int advice;
  std::uint32_t flags;
  std::vector<ibv_sge> slices;
} advice_given;

// parity: ibverbs-tests-41, ibverbs-162, ibverbs-163
TEST(memory_advice, advise_passes_advice_and_slices_to_the_verb) {
  provider from = *soft_provider().value();
  from.verbs.advise_mr.set([](ibv_pd*, ib_uverbs_advise_mr_advice advice, std::uint32_t flags,
                              ibv_sge* slices, std::uint32_t count) {
    advice_given = {static_cast<int>(advice), flags, {slices, slices + count}};
    return advice_code;
  });
  advice_code = 0;
  advice_given = {-1, 0, {}};
  const auto pd = open_soft(from).value().allocate_pd().value();
  const auto region = pd.allocate(4096, access::local_write).value();
  const std::array parts{region.slice(0, 64), region.slice(1024, 100)};
  pd.advise(memory_advice::prefetch_write, {}).value();
  EXPECT_EQ(advice_given.advice, -1) << "there are no slices";
  pd.advise(memory_advice::prefetch_write, parts, {.wait = true}).value();
  EXPECT_EQ(advice_given.advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
  EXPECT_EQ(advice_given.flags, std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH});
  ASSERT_EQ(advice_given.slices.size(), 2U);
  EXPECT_EQ(advice_given.slices[1].addr, parts[1].address());
  EXPECT_EQ(advice_given.slices[1].length, 100U);
  EXPECT_EQ(advice_given.slices[1].lkey, region.local_key().value());
  pd.advise(memory_advice::prefetch_no_fault, parts).value();
  EXPECT_EQ(advice_given.advice, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);
  EXPECT_EQ(advice_given.flags, 0U);
  for (const auto& [code, words] :
       {std::pair{EOPNOTSUPP, "does not support the advice prefetch: omit it"},
        std::pair{EFAULT, "a slice exceeds its region"},
        std::pair{EPERM, "another protection domain"}, std::pair{ENOENT, "not the key of a region"},
        std::pair{EINVAL, "access::on_demand"},
        std::pair{EIO, "the device was removed or has failed"}}) {
    advice_code = code;
    const auto refused = pd.advise(memory_advice::prefetch, parts);
    expect_error(refused, "ibv_advise_mr on protection domain of soft0");
    expect_error(refused, words);
  }
  EXPECT_EQ(to_string(static_cast<memory_advice>(7)), "unknown (7)");
}

// parity: ibverbs-151, rrddmma-6
TEST(memory_region, raw_verbs_take_the_native_region) {
  const auto pd = make_pd();
  std::array<std::byte, 64> memory{};
  auto region =
      memory_region::adopt(pd.provider().verbs.reg_mr(pd.native(), memory.data(), memory.size(), 0),
                           pd, {}, ownership::borrow);
  EXPECT_EQ(region.provider().verbs.dereg_mr(region.native()), 0);
  EXPECT_TRUE(std::move(region).close().has_value())
      << "close() of a borrowed region calls no verb";
}

TEST(memory_region, slice_of_a_span_is_the_slice_of_its_bytes) {
  const auto region = make_pd().allocate(4096, {}).value();
  const auto part = region.bytes().subspan(96, 1000);
  EXPECT_EQ(region.slice(part), region.slice(96, 1000));
  EXPECT_EQ(region.slice(part.data(), part.data() + part.size()), region.slice(96, 1000));
  const auto* words = reinterpret_cast<const std::uint64_t*>(region.bytes().data());
  EXPECT_EQ(region.slice(words + 2, words + 5), region.slice(16, 24));
}

TEST(memory_region, element_counts_in_elements) {
  const auto region = make_pd().allocate(4096, {}).value();
  EXPECT_EQ(region.element<std::uint64_t>(3), region.slice(24, 8));
  EXPECT_EQ(region.element<std::uint32_t>(1, 4), region.slice(4, 16));
  EXPECT_EQ(region.try_element<std::uint64_t>(511).value(), region.slice(4088, 8));
}

TEST(memory_region, slice_of_a_span_counts_from_the_address_of_the_region) {
  std::array<std::byte, 64> memory{};
  const auto pd = make_pd();
  const auto zero_based = pd.register_memory(memory, access::zero_based);
  if (!zero_based) GTEST_SKIP() << zero_based.error().message();
  EXPECT_EQ(zero_based->slice(std::span(memory).subspan(8, 4)).address(), 8U);
}

TEST(memory_region, try_slice_reports_the_range_and_the_length) {
  std::array<std::byte, 4096> memory{};
  const auto region = make_pd().register_memory(memory, {}).value();
  EXPECT_EQ(region.try_slice(0, 4096).value(), region.slice());
  expect_error(region.try_slice(4096, 512), "slice [4096, 4608) exceeds the region of 4096 bytes");
  expect_error(region.try_slice(5, 0), "slice [5, 5) is empty");
  expect_error(region.try_slice(1, ~std::size_t{0}),
               "slice [1, 1 + 18446744073709551615) exceeds the region of 4096 bytes");
  expect_error(region.try_element<std::uint64_t>(512),
               "slice [4096, 4104) exceeds the region of 4096 bytes");
  expect_error(region.try_element<std::uint64_t>(~std::size_t{0}), "exceeds the region");
  EXPECT_EQ(region.try_slice(4096, 1).error().kind(), error_kind::invalid_argument);
  std::array<std::byte, 16> other{};
  expect_error(region.try_slice(other), "exceeds the region of 4096 bytes");
  expect_error(region.try_slice(memory.data() + 4, memory.data()), "exceeds the region");
  EXPECT_EQ(region.try_slice(std::span(memory).last(16)).value(), region.slice(4080, 16));
}

TEST(memory_region, constant_memory_is_registered_for_reading) {
  static constexpr std::array<std::byte, 64> constant{std::byte{7}};
  test::loopback pair;
  const auto& pd = pair.pd();
  const auto region = pd.register_memory(constant, access::remote_read).value();
  EXPECT_EQ(region.length(), constant.size());
  EXPECT_FALSE(region.owns_memory());
  const auto into = pd.allocate(64, access::local_write).value();
  auto batch = pair.a().queue.start_send();
  batch.read({.signaled = true}, into.slice(), region.remote());
  batch.submit().value();
  EXPECT_TRUE(test::take(pair.a().sends, 1).at(0).ok());
  EXPECT_TRUE(std::ranges::equal(into.bytes(), constant));
}

TEST(memory_region, constant_memory_is_not_registered_for_writing) {
  static constexpr std::array<std::byte, 64> constant{};
  const auto pd = make_pd();
  for (const access_flags access :
       {access_flags(access::local_write), access::local_write | access::remote_write})
    expect_error(pd.register_memory(constant, access), "constant memory cannot be registered with");
  expect_error(pd.register_memory(std::span<const std::byte>{}), "there is nothing to register");
}

// parity: ibverbs-157, rrddmma-46, ibverbs-rs-12
TEST(memory_region_death, slice_outside_aborts) {
  const auto region = make_pd().allocate(4096, {}).value();
  const char* rule = "exceeds the region of 4096 bytes";
  EXPECT_DEATH(static_cast<void>(region.slice(4096, 512)),
               "slice \\[4096, 4608\\) exceeds the region of 4096 bytes");
  EXPECT_DEATH(static_cast<void>(region.slice(0, 4097)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(4097, 0)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(~std::size_t{0}, 2)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(2, ~std::size_t{0})), rule);
  EXPECT_DEATH(static_cast<void>(region.element<std::uint64_t>(512)), rule);
  const std::array<std::byte, 4> other{};
  EXPECT_DEATH(static_cast<void>(region.slice(other)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(10, 0)), "a slice has 0 bytes");
}

// parity: ibverbs-152
TEST(memory_region_death, bytes_of_caller_memory_aborts) {
  std::array<std::byte, 64> memory{};
  const auto region = make_pd().register_memory(memory, {}).value();
  EXPECT_DEATH(static_cast<void>(region.bytes()),
               "bytes\\(\\) of a memory region that the library did not allocate");
}

// parity: ibverbs-158, rrddmma-48, ibverbs-rs-12
TEST(memory_region_death, slice_of_region_above_4_gib_aborts) {
  const auto pd = make_pd();
  std::array<std::byte, 64> memory{};
  const auto region = pd.register_memory(memory, {}).value();
  const std::size_t before = std::exchange(region.native()->length, std::size_t{1} << 32);
  const auto large = memory_region::adopt(region.native(), pd, {}, ownership::borrow);
  EXPECT_EQ(large.slice(1, 0xffff'ffff).length(), 0xffff'ffffU);
  EXPECT_DEATH(static_cast<void>(large.slice()), "a slice exceeds 4 GiB - 1 bytes");
  region.native()->length = before;
}

TEST(memory_region_death, use_of_moved_from_region_aborts) {
  auto region = make_pd().allocate(64, {}).value();
  const auto other = std::move(region);
  const char* rule = "a moved-from memory_region was used";
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): that is what is tested
  EXPECT_DEATH(static_cast<void>(region.native()), rule);
  EXPECT_DEATH(static_cast<void>(region.name()), rule);
  EXPECT_DEATH(static_cast<void>(region.domain()), rule);
  EXPECT_DEATH(static_cast<void>(std::move(region).close()), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(0, 1)), "verbena: usage error");
#ifdef VERBENA_CHECKED
  EXPECT_DEATH(static_cast<void>(region.slice()), rule);
  EXPECT_DEATH(static_cast<void>(region.remote()), rule);
#endif
  // NOLINTEND(bugprone-use-after-move,*.Move)
}

TEST(memory_region_death, adopt_with_wrong_pd_aborts) {
  const auto first = make_pd();
  const auto second = make_pd();
  const auto region = first.allocate(64, {}).value();
  EXPECT_DEATH(static_cast<void>(memory_region::adopt(nullptr, first, {}, ownership::borrow)),
               "memory_region::adopt\\(\\) with a null pointer");
  EXPECT_DEATH(
      static_cast<void>(memory_region::adopt(region.native(), second, {}, ownership::borrow)),
      "memory_region::adopt\\(\\) with another protection domain");
}

}  // namespace
}  // namespace verbena
