// SPDX-License-Identifier: MIT
// Protection domains, memory regions and shareable memory: valid and invalid calls.
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

class memory : public ::testing::Test {
 protected:
  // Registers and deregisters memory. Returns 0 or the errno.
  int registering(void* address, std::size_t length, unsigned access) {
    errno = 0;
    ibv_mr* const mr = SOFT(ibv_reg_mr_iova2)(device_.pd, address, length, 0, access);
    if (mr == nullptr) return errno;
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
    return 0;
  }

  opened_device device_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(8192);
};

TEST_F(memory, region_reports_its_registration) {
  ibv_mr* const mr =
      SOFT(ibv_reg_mr)(device_.pd, bytes_.data(), bytes_.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, bytes_.data());
  EXPECT_EQ(mr->length, bytes_.size());
  EXPECT_EQ(mr->pd, device_.pd);
  EXPECT_EQ(mr->context, device_.context);
  EXPECT_NE(mr->lkey, 0U);
  EXPECT_NE(mr->rkey, 0U);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(device_.pd), EBUSY);
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
}

TEST_F(memory, invalid_registration_is_refused) {
  const auto none = static_cast<unsigned>(0);
  EXPECT_EQ(registering(bytes_.data(), bytes_.size(), none), 0);
  EXPECT_EQ(registering(bytes_.data(), 0, none), EINVAL);
  EXPECT_EQ(registering(bytes_.data(), ~std::size_t{0}, none), EINVAL);
  EXPECT_EQ(registering(nullptr, 4096, none), EFAULT);
  EXPECT_EQ(registering(bytes_.data(), 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(registering(bytes_.data(), 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(registering(bytes_.data(), 64, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(registering(bytes_.data(), 64, 1U << 14U), EINVAL);
  EXPECT_EQ(registering(bytes_.data(), 64, IBV_ACCESS_MW_BIND), EOPNOTSUPP);
  EXPECT_EQ(registering(bytes_.data(), 64, IBV_ACCESS_RELAXED_ORDERING), 0);
}

// A queue pair connected to itself writes into a region that is re-registered.
class reregistration : public memory {
 protected:
  reregistration() { connect(qp_, qp_); }
  ~reregistration() override { EXPECT_EQ(SOFT(ibv_dereg_mr)(mr_), 0); }

  int change(int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
    return SOFT(ibv_rereg_mr)(mr_, flags, pd, address, length, access);
  }
  ibv_wc_status write_to(std::byte* address) {
    ibv_sge data = source_.slice(0, 64);
    ibv_send_wr write{};
    write.opcode = IBV_WR_RDMA_WRITE;
    write.send_flags = IBV_SEND_SIGNALED;
    write.sg_list = &data;
    write.num_sge = 1;
    write.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(address);
    write.wr.rdma.rkey = key_;
    EXPECT_EQ(qp_.send(write), 0);
    return device_.wait().status;
  }
  bool holds(std::size_t at) {
    const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(at);
    return std::vector(from, from + 64) == pattern(1, 64);
  }

  static constexpr int writable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  queue_pair_handle qp_{device_};
  buffer source_{device_.pd, 64, 1};
  ibv_mr* mr_ = SOFT(ibv_reg_mr)(device_.pd, bytes_.data(), 128, IBV_ACCESS_LOCAL_WRITE);
  std::uint32_t key_ = mr_->rkey;
};

TEST_F(reregistration, new_access_flags_apply_under_the_same_key) {
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, writable), 0);
  EXPECT_EQ(mr_->rkey, key_);
  EXPECT_EQ(write_to(bytes_.data()), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(0));
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(write_to(bytes_.data()), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(reregistration, new_memory_replaces_the_old_memory) {
  constexpr int both = IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION;
  EXPECT_EQ(change(both, nullptr, bytes_.data() + 4096, 256, writable), 0);
  EXPECT_EQ(mr_->addr, bytes_.data() + 4096);
  EXPECT_EQ(mr_->length, 256U);
  EXPECT_EQ(write_to(bytes_.data() + 4096 + 192), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(4096 + 192));
  EXPECT_EQ(write_to(bytes_.data()), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(reregistration, region_moves_to_the_new_pd) {
  ibv_pd* const other = SOFT(ibv_alloc_pd)(device_.context);
  constexpr int both = IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_PD;
  EXPECT_EQ(change(both, other, nullptr, 0, writable), 0);
  EXPECT_EQ(mr_->pd, other);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(other), EBUSY);
  EXPECT_EQ(write_to(bytes_.data()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_PD, device_.pd, nullptr, 0, 0), 0);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(other), 0);
}

TEST_F(reregistration, invalid_change_leaves_the_region_unchanged) {
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, writable), 0);
  const auto refused = [&](int flags, void* address, std::size_t length, int access, int code) {
    errno = 0;
    EXPECT_EQ(change(flags, nullptr, address, length, access), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(errno, code);
  };
  refused(0, nullptr, 0, 0, EINVAL);
  refused(8, nullptr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_PD, nullptr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
  refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, 1 << 14, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, bytes_.data(), 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 64, 0, EFAULT);
  EXPECT_EQ(write_to(bytes_.data()), IBV_WC_SUCCESS);
}

TEST_F(memory, read_only_pages_with_write_access_are_refused) {
  constexpr std::size_t page = 4096;
  void* const pages = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(registering(pages, 2 * page, 0), 0);
  EXPECT_EQ(registering(pages, 2 * page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  ASSERT_EQ(mprotect(pages, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(registering(pages, page, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(registering(pages, page + 1, IBV_ACCESS_LOCAL_WRITE), EFAULT)
      << "the end of the range is read-only";
  ASSERT_EQ(munmap(pages, 2 * page), 0);
}

/// Maps a page far below those that the kernel maps next: no thread maps the page behind it.
void* map_lonely_page(std::size_t page) {
  constexpr std::size_t far_below = std::size_t{1} << 30U;
  const auto map = [page](void* where, int flags) {
    return mmap(where, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  };
  auto* place = static_cast<std::byte*>(map(nullptr, 0));
  munmap(place, page);
  void* mapped = MAP_FAILED;
  for (int attempt = 0; attempt < 16 && mapped == MAP_FAILED; ++attempt)
    mapped = map(place -= far_below, MAP_FIXED_NOREPLACE);
  return mapped;
}

TEST_F(memory, range_with_unmapped_end_is_refused) {
  constexpr std::size_t page = 4096;
  void* const pages = map_lonely_page(page);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(registering(pages, page, 0), 0);
  EXPECT_EQ(registering(pages, page + 1, 0), EFAULT);
  EXPECT_EQ(munmap(pages, page), 0);
}

TEST_F(memory, registration_ignores_rlimit_memlock) {
  EXPECT_EQ(in_child([&] {
              const rlimit small{64 * 1024, 64 * 1024};
              if (setrlimit(RLIMIT_MEMLOCK, &small) != 0) return 2;
              opened_device inner;
              std::vector<std::byte> large(16U << 20U);
              ibv_mr* const mr = SOFT(ibv_reg_mr)(inner.pd, large.data(), large.size(), 0);
              if (mr == nullptr) return 3;
              void* const shareable = reinterpret_cast<verbena_soft_allocate_function>(
                  find("verbena_soft_allocate"))(16U << 20U, 0);
              return SOFT(ibv_dereg_mr)(mr) == 0 && shareable != nullptr ? 0 : 4;
            }),
            0);
}

TEST_F(memory, iova_replaces_the_address_in_requests) {
  queue_pair_handle qp(device_);
  connect(qp, qp);
  buffer source(device_.pd, 64, 1);
  constexpr std::uint64_t iova = 0x1000'0000'0000;
  ibv_mr* const mr = SOFT(ibv_reg_mr_iova2)(device_.pd, bytes_.data(), bytes_.size(), iova,
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  ibv_sge data = source.slice(0, 64);
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = IBV_SEND_SIGNALED;
  write.sg_list = &data;
  write.num_sge = 1;
  write.wr.rdma.remote_addr = iova + 100;
  write.wr.rdma.rkey = mr->rkey;
  ASSERT_EQ(qp.send(write), 0);
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::vector(bytes_.begin() + 100, bytes_.begin() + 164), pattern(1, 64));
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
}

TEST_F(memory, shareable_memory_is_zeroed_aligned_and_not_freed_while_registered) {
  const auto allocate =
      reinterpret_cast<verbena_soft_allocate_function>(find("verbena_soft_allocate"));
  const auto give_back = reinterpret_cast<verbena_soft_free_function>(find("verbena_soft_free"));
  auto* const pages = static_cast<std::byte*>(allocate(10'000, 0));
  ASSERT_NE(pages, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages) % 4096, 0U);
  EXPECT_EQ(std::vector<std::byte>(pages, pages + 10'000), std::vector<std::byte>(10'000));
  ibv_mr* const mr = SOFT(ibv_reg_mr)(device_.pd, pages, 10'000, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(give_back(pages), EBUSY);
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
  EXPECT_EQ(give_back(pages), 0);
  EXPECT_EQ(give_back(bytes_.data()), EINVAL);
  errno = 0;
  EXPECT_EQ(allocate(0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(memory, registration_in_a_forked_child_is_refused_with_a_remedy) {
  queue_pair_handle qp(device_);
  connect(qp, qp);
  EXPECT_EQ(in_child([&] {
              errno = 0;
              if (SOFT(ibv_alloc_pd)(device_.context) != nullptr || errno != ENODEV) return 1;
              ibv_send_wr request{};
              ibv_send_wr* refused = nullptr;
              if (ibv_post_send(qp.get(), &request, &refused) != ENODEV) return 2;
              if (refused != &request) return 3;
              ibv_wc done{};
              if (ibv_poll_cq(device_.cq, 1, &done) >= 0) return 4;
              if (SOFT(ibv_destroy_qp)(qp.get()) != ENODEV) return 5;
              // A context that the child has opened works.
              opened_device own;
              queue_pair_handle inner(own);
              connect(inner, inner);
              buffer source(own.pd, 64, 1);
              buffer sink(own.pd, 64, 2);
              ibv_sge data = source.slice(0, 64);
              ibv_send_wr write{};
              write.opcode = IBV_WR_RDMA_WRITE;
              write.send_flags = IBV_SEND_SIGNALED;
              write.sg_list = &data;
              write.num_sge = 1;
              write.wr.rdma.remote_addr = sink.address();
              write.wr.rdma.rkey = sink.mr().rkey;
              if (inner.send(write) != 0) return 6;
              if (own.wait().status != IBV_WC_SUCCESS) return 7;
              return sink.copy(0, 64) == pattern(1, 64) ? 0 : 8;
            }),
            0);
  // The context of the parent still works.
  EXPECT_EQ(qp.state(), IBV_QPS_RTS);
}

}  // namespace
}  // namespace verbena::softdev::testing
