// SPDX-License-Identifier: MIT
// On-demand paging, advice, and registration of dma-buf file descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t page = 4096;
constexpr int on_demand = buffer::all_access | IBV_ACCESS_ON_DEMAND;

// Two pages. The second page can be made inaccessible.
class two_pages {
 public:
  explicit two_pages(int fd = -1)
      : data(static_cast<std::byte*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                                          fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd,
                                          0))) {}
  two_pages(const two_pages&) = delete;
  two_pages& operator=(const two_pages&) = delete;
  ~two_pages() { munmap(data, 2 * page); }
  // Not unmapped, because another mapping could take the addresses.
  void forbid_second() const { ASSERT_EQ(mprotect(data + page, page, PROT_NONE), 0); }
  [[nodiscard]] bool resident(std::size_t index) const {
    unsigned char in_core = 0;
    return mincore(data + index * page, page, &in_core) == 0 && (in_core & 1U) != 0;
  }
  [[nodiscard]] std::vector<std::byte> copy(std::size_t at, std::size_t bytes) const {
    return {data + at, data + at + bytes};
  }
  std::byte* const data;
};

// A queue pair connected to itself, and reconnected after a failure.
class on_demand_memory : public ::testing::Test {
 protected:
  on_demand_memory() { connect(qp_, qp_); }

  ibv_wc execute(ibv_wr_opcode opcode, ibv_sge local, std::uint64_t remote, std::uint32_t key) {
    ibv_send_wr request{};
    request.wr_id = 3;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &local;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = key;
    EXPECT_EQ(qp_.send(request), 0);
    const ibv_wc done = device_.wait_for(3);
    if (done.status != IBV_WC_SUCCESS) {
      EXPECT_EQ(qp_.to_state(IBV_QPS_RESET), 0);
      connect(qp_, qp_);
    }
    return done;
  }
  static std::string explain(const ibv_wc& done) {
    const auto ask = reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
    std::array<char, 512> text{};
    ask(done.qp_num, done.wr_id, done.vendor_err, text.data(), text.size());
    return text.data();
  }
  static std::uint64_t number(const void* address) {
    return reinterpret_cast<std::uint64_t>(address);
  }
  ibv_mr* register_dmabuf(std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd,
                          int access = buffer::all_access) {
    errno = 0;
    return SOFT(ibv_reg_dmabuf_mr)(device_.pd, offset, length, iova, fd, access);
  }
  int advise(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge range) {
    return ibv_advise_mr(pd, advice, flags, &range, 1);
  }

  opened_device device_;
  queue_pair_handle qp_{device_};
  buffer source_{device_.pd, 2 * page, 1};
};

TEST_F(on_demand_memory, unmapped_page_fails_the_request_not_the_process) {
  const two_pages pages;
  ibv_mr* const mr = SOFT(ibv_reg_mr)(device_.pd, pages.data, 2 * page, on_demand);
  ASSERT_NE(mr, nullptr);
  const std::uint64_t second = number(pages.data) + page;
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 64), second, mr->rkey).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(pages.copy(page, 64), source_.copy(0, 64));
  pages.forbid_second();
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 64), second - 64, mr->rkey).status,
            IBV_WC_SUCCESS);
  const ibv_wc refused = execute(IBV_WR_RDMA_WRITE, source_.slice(0, 64), second - 8, mr->rkey);
  EXPECT_EQ(refused.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(explain(refused).find("are not accessible"), std::string::npos) << explain(refused);
  EXPECT_EQ(execute(IBV_WR_RDMA_READ, source_.slice(0, 64), second, mr->rkey).status,
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(
      execute(IBV_WR_RDMA_READ, {second - 8, 64, mr->lkey}, source_.address(), source_.mr().rkey)
          .status,
      IBV_WC_LOC_PROT_ERR);
  // Read-only pages can be read, and can be written after their protection is changed back.
  ASSERT_EQ(mprotect(pages.data, page, PROT_READ), 0);
  EXPECT_EQ(execute(IBV_WR_RDMA_READ, source_.slice(64, 8), number(pages.data), mr->rkey).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 8), number(pages.data), mr->rkey).status,
            IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(mprotect(pages.data, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 8), number(pages.data), mr->rkey).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
}

TEST_F(on_demand_memory, implicit_region_covers_all_mapped_memory) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(verbs_get_ctx(device_.context)
                ->query_device_ex(device_.context, nullptr, &device, sizeof device),
            0);
  ASSERT_EQ(device.odp_caps.general_caps,
            std::uint64_t{IBV_ODP_SUPPORT} | IBV_ODP_SUPPORT_IMPLICIT);
  EXPECT_NE(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_SRQ_RECV, 0U);
  EXPECT_EQ(SOFT(ibv_reg_mr)(device_.pd, nullptr, SIZE_MAX, buffer::all_access), nullptr);
  EXPECT_EQ(SOFT(ibv_reg_mr_iova2)(device_.pd, nullptr, SIZE_MAX, page, on_demand), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* const mr = SOFT(ibv_reg_mr)(device_.pd, nullptr, SIZE_MAX, on_demand);
  ASSERT_NE(mr, nullptr);
  const two_pages pages;
  EXPECT_EQ(
      execute(IBV_WR_RDMA_WRITE, {source_.address(), 64, mr->lkey}, number(pages.data), mr->rkey)
          .status,
      IBV_WC_SUCCESS);
  EXPECT_EQ(pages.copy(0, 64), source_.copy(0, 64));
  for (const std::uint64_t nowhere : {std::uint64_t{0}, std::uint64_t{page}, ~std::uint64_t{0} - 16,
                                      ~std::uint64_t{0} - 8, std::uint64_t{1} << 63U}) {
    EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 16), nowhere, mr->rkey).status,
              IBV_WC_REM_ACCESS_ERR)
        << nowhere;
    EXPECT_EQ(
        execute(IBV_WR_RDMA_WRITE, {nowhere, 16, mr->lkey}, source_.address(), source_.mr().rkey)
            .status,
        IBV_WC_LOC_PROT_ERR)
        << nowhere;
  }
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
}

TEST_F(on_demand_memory, access_by_another_process_is_limited_to_mapped_pages) {
  struct introduction {
    std::uint32_t number = 0;
    std::uint32_t key = 0;
    std::uint64_t address = 0;
  };
  child_process child([&](stream& parent) {
    opened_device device;
    queue_pair_handle qp(device);
    const two_pages pages;
    ibv_mr* const mr = SOFT(ibv_reg_mr)(device.pd, nullptr, SIZE_MAX, on_demand);
    if (mr == nullptr) return 1;
    pages.forbid_second();
    parent.put(introduction{qp.get()->qp_num, mr->rkey, number(pages.data)});
    qp.connect(parent.take<introduction>().number);
    parent.meet();
    parent.meet();
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
    return pages.copy(0, 64) == pattern(1, 64) ? 0 : 2;
  });
  opened_device device;
  queue_pair_handle qp(device);
  buffer source(device.pd, page, 1);
  child.to().put(introduction{qp.get()->qp_num, 0, 0});
  const auto peer = child.to().take<introduction>();
  qp.connect(peer.number);
  child.to().meet();
  const auto write = [&](std::uint64_t address) {
    ibv_sge data = source.slice(0, 64);
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = peer.key;
    EXPECT_EQ(qp.send(request), 0);
    return device.wait().status;
  };
  EXPECT_EQ(write(peer.address), IBV_WC_SUCCESS);
  EXPECT_EQ(write(peer.address + page - 8), IBV_WC_REM_ACCESS_ERR);
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
}

TEST_F(on_demand_memory, advise_prefetches_pages_and_checks_its_arguments) {
  const two_pages pages;
  ibv_mr* const mr = SOFT(ibv_reg_mr)(device_.pd, pages.data, 2 * page, on_demand);
  ASSERT_NE(mr, nullptr);
  EXPECT_FALSE(pages.resident(0));
  const auto range = [&](std::size_t at, std::uint32_t length) {
    return ibv_sge{number(pages.data) + at, length, mr->lkey};
  };
  ibv_pd* const pd = device_.pd;
  constexpr auto prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto for_writing = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  EXPECT_EQ(advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, range(0, 2 * page)), 0);
  EXPECT_FALSE(pages.resident(0));
  EXPECT_EQ(advise(pd, for_writing, 0, range(0, 1)), 0);
  EXPECT_TRUE(pages.resident(0));
  EXPECT_FALSE(pages.resident(1));
  EXPECT_EQ(advise(pd, prefetch, IBV_ADVISE_MR_FLAG_FLUSH, range(page - 1, 2)), 0);
  EXPECT_TRUE(pages.resident(1));

  EXPECT_EQ(advise(pd, prefetch, 2, range(0, 1)), EINVAL);
  EXPECT_EQ(ibv_advise_mr(pd, prefetch, 0, nullptr, 0), EINVAL);
  EXPECT_EQ(advise(pd, static_cast<ibv_advise_mr_advice>(3), 0, range(0, 1)), EOPNOTSUPP);
  EXPECT_EQ(advise(pd, prefetch, 0, {number(pages.data), 1, mr->lkey + 1}), ENOENT);
  EXPECT_EQ(advise(pd, prefetch, 0, source_.slice(0, 1)), ENOENT)
      << "the region is not registered on demand";
  EXPECT_EQ(advise(pd, prefetch, 0, range(2 * page - 1, 2)), EFAULT);
  EXPECT_EQ(advise(pd, prefetch, 0, range(-std::size_t{1}, 2)), EFAULT);
  ibv_pd* const other = SOFT(ibv_alloc_pd)(device_.context);
  EXPECT_EQ(advise(other, prefetch, 0, range(0, 1)), EPERM);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(other), 0);
  ASSERT_EQ(
      SOFT(ibv_rereg_mr)(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND),
      0);
  EXPECT_EQ(advise(pd, for_writing, 0, range(0, 1)), EPERM);
  pages.forbid_second();
  EXPECT_EQ(advise(pd, prefetch, 0, range(0, page)), 0);
  EXPECT_EQ(advise(pd, prefetch, 0, range(0, page + 1)), EFAULT);
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
}

TEST_F(on_demand_memory, dmabuf_is_registered_at_an_offset) {
  const int fd = memfd_create("verbena-test", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 3 * page), 0);
  constexpr std::uint64_t iova = 0x7000'0000'0000 + 100;
  ibv_mr* const mr = register_dmabuf(page + 100, page, iova, fd);
  ASSERT_NE(mr, nullptr) << errno;
  EXPECT_EQ(number(mr->addr), page + 100);
  EXPECT_EQ(mr->length, page);
  EXPECT_EQ(SOFT(ibv_rereg_mr)(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, page), iova, mr->rkey).status,
            IBV_WC_SUCCESS);
  std::vector<std::byte> read_back(page);
  EXPECT_EQ(pread(fd, read_back.data(), page, page + 100), static_cast<ssize_t>(page));
  EXPECT_EQ(read_back, source_.copy(0, page));
  EXPECT_EQ(execute(IBV_WR_RDMA_READ, {iova + 8, 64, mr->lkey}, source_.address() + 200,
                    source_.mr().rkey)
                .status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 64), iova + page - 63, mr->rkey).status,
            IBV_WC_REM_ACCESS_ERR);
  // If the file of a region is truncated, requests fail and no signal is raised.
  ASSERT_EQ(ftruncate(fd, 2 * page), 0);
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 64), iova, mr->rkey).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, source_.slice(0, 64), iova + page - 64, mr->rkey).status,
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
  ASSERT_EQ(close(fd), 0);
}

TEST_F(on_demand_memory, invalid_dmabuf_is_refused) {
  const int fd = memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, 2 * page), 0);
  const auto refused = [&](std::uint64_t offset, std::size_t length, std::uint64_t iova, int which,
                           int access = buffer::all_access) {
    ibv_mr* const mr = register_dmabuf(offset, length, iova, which, access);
    if (mr == nullptr) return errno;
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
    return 0;
  };
  EXPECT_EQ(refused(0, 2 * page, 0, fd), 0);
  EXPECT_EQ(refused(0, 0, 0, fd), EINVAL);
  EXPECT_EQ(refused(0, 2 * page + 1, 0, fd), EINVAL);
  EXPECT_EQ(refused(page, page + 1, 0, fd), EINVAL);
  EXPECT_EQ(refused(~std::uint64_t{0} - page + 1, 2 * page, 0, fd), EINVAL);
  EXPECT_EQ(refused(1, 8, 2, fd), EINVAL) << "offset and iova differ within the page";
  EXPECT_EQ(refused(0, page, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused(0, page, 0, fd, 1 << 14), EINVAL);
  EXPECT_EQ(refused(0, page, 0, fd, on_demand), EOPNOTSUPP);
  EXPECT_EQ(refused(0, page, 0, -1), EBADF);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  EXPECT_EQ(refused(0, page, 0, ends[0]), EINVAL);
  close(ends[0]);
  close(ends[1]);
  const int reader = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(refused(0, page, 0, reader), EACCES);
  EXPECT_EQ(refused(0, page, 0, reader, IBV_ACCESS_REMOTE_READ), 0);
  close(reader);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(refused(0, 2 * page, 0, fd), 0);
  close(fd);
}

}  // namespace
}  // namespace verbena::softdev::testing
