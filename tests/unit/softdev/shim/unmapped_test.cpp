// SPDX-License-Identifier: MIT
// Registered memory that is unmapped, protected or truncated before a request uses it: the request
// fails, and the process lives.
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t pages_bytes = 64 * page_bytes;

#if defined(__x86_64__) || defined(__aarch64__)

// Registered pages that can be withdrawn, and are at their place again afterwards.
class pages {
 public:
  explicit pages(ibv_pd* pd)
      : data_(map_apart()), mr_(SOFT(ibv_reg_mr)(pd, data_, pages_bytes, buffer::all_access)) {
    EXPECT_NE(mr_, nullptr);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() {
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr_), 0);
    munmap(data_, pages_bytes);
  }
  void withdraw() const { ASSERT_EQ(mprotect(data_, pages_bytes, PROT_NONE), 0); }
  void unmap() const { ASSERT_EQ(munmap(data_, pages_bytes), 0); }
  void put_back() { ASSERT_EQ(map(data_, MAP_FIXED), data_); }
  [[nodiscard]] ibv_sge slice(std::size_t offset, std::uint32_t bytes) const {
    return {address() + offset, bytes, mr_->lkey};
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  [[nodiscard]] std::uint32_t key() const { return mr_->rkey; }

 private:
  static void* map(void* at, int flags) {
    return mmap(at, pages_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
                0);
  }
  // Far below the other mappings: the kernel takes the highest gap for the next mapping, so nothing
  // takes this place after unmap().
  static std::byte* map_apart() {
    constexpr std::uintptr_t distance = std::uintptr_t{64} << 30;
    void* const near = map(nullptr, 0);
    const auto apart = reinterpret_cast<std::uintptr_t>(near) - distance;
    munmap(near, pages_bytes);
    for (std::uintptr_t place = apart;; place -= pages_bytes) {
      void* const mapped = map(reinterpret_cast<void*>(place), MAP_FIXED_NOREPLACE);
      if (mapped != MAP_FAILED) return static_cast<std::byte*>(mapped);
      if (errno != EEXIST) throw std::system_error(errno, std::generic_category(), "mmap");
    }
  }

  std::byte* const data_;
  ibv_mr* const mr_;
};

ibv_send_wr request_of(ibv_wr_opcode opcode, ibv_sge& local, std::uint64_t remote,
                       std::uint32_t key) {
  ibv_send_wr request{};
  request.wr_id = 3;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &local;
  request.num_sge = 1;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    local.length = 8;
    request.wr.atomic.remote_addr = remote;
    request.wr.atomic.rkey = key;
  } else {
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = key;
  }
  return request;
}

constexpr std::array one_sided = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                  IBV_WR_ATOMIC_CMP_AND_SWP};
constexpr std::array<std::uint32_t, 4> request_sizes = {1, 64, 3000, pages_bytes};

std::string reason_of(const ibv_wc& done) {
  const auto ask = reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  std::array<char, 512> text{};
  ask(done.qp_num, done.wr_id, done.vendor_err, text.data(), text.size());
  return text.data();
}

// Two queue pairs of this process.
class unmapped_memory : public ::testing::Test {
 protected:
  unmapped_memory() { connect(a_, b_); }
  void reconnect() {
    EXPECT_EQ(a_.to_state(IBV_QPS_RESET), 0);
    EXPECT_EQ(b_.to_state(IBV_QPS_RESET), 0);
    ibv_wc ignored{};
    while (ibv_poll_cq(device_.cq, 1, &ignored) > 0) {
    }
    connect(a_, b_);
  }
  ibv_wc execute(ibv_wr_opcode opcode, ibv_sge local, std::uint64_t remote, std::uint32_t key) {
    EXPECT_EQ(a_.send(request_of(opcode, local, remote, key)), 0);
    return device_.wait_for(3);
  }

  opened_device device_;
  queue_pair_handle a_{device_};
  queue_pair_handle b_{device_};
  pages good_{device_.pd};
  pages bad_{device_.pd};
};

TEST_F(unmapped_memory, one_sided_request_fails_by_a_remote_access_error) {
  bad_.withdraw();
  for (const ibv_wr_opcode opcode : one_sided) {
    for (const std::uint32_t size : request_sizes) {
      const ibv_wc done = execute(opcode, good_.slice(0, size), bad_.address(), bad_.key());
      EXPECT_EQ(done.status, IBV_WC_REM_ACCESS_ERR) << opcode << " " << size;
      EXPECT_NE(reason_of(done).find("are not accessible"), std::string::npos) << reason_of(done);
      reconnect();
    }
  }
  bad_.put_back();
  for (const ibv_wr_opcode opcode : one_sided)
    EXPECT_EQ(execute(opcode, good_.slice(0, 64), bad_.address(), bad_.key()).status,
              IBV_WC_SUCCESS);
}

TEST_F(unmapped_memory, local_memory_fails_by_a_local_protection_error) {
  bad_.withdraw();
  for (const ibv_wr_opcode opcode : one_sided) {
    for (const std::uint32_t size : request_sizes) {
      const ibv_wc done = execute(opcode, bad_.slice(0, size), good_.address(), good_.key());
      EXPECT_EQ(done.status, IBV_WC_LOC_PROT_ERR) << opcode << " " << size;
      char key[16];
      std::snprintf(key, sizeof key, "0x%x", bad_.key());
      EXPECT_NE(reason_of(done).find(key), std::string::npos) << reason_of(done);
      // As if the message had been cut off, the responder goes on.
      EXPECT_EQ(b_.state(), IBV_QPS_RTS);
      reconnect();
    }
  }
}

TEST_F(unmapped_memory, send_from_inaccessible_memory_leaves_the_receive_request) {
  EXPECT_EQ(b_.receive(5, {good_.slice(0, page_bytes)}), 0);
  bad_.withdraw();
  EXPECT_EQ(execute(IBV_WR_SEND, bad_.slice(0, 64), 0, 0).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b_.state(), IBV_QPS_RTS);
  EXPECT_EQ(a_.to_state(IBV_QPS_RESET), 0);
  a_.connect(b_.get()->qp_num);
  ibv_sge data = good_.slice(page_bytes, 64);
  EXPECT_EQ(a_.send(request_of(IBV_WR_SEND, data, 0, 0)), 0);
  std::uint64_t seen = 0;
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    seen += done.wr_id;
  }
  EXPECT_EQ(seen, 3U + 5U);
}

TEST_F(unmapped_memory, receive_into_inaccessible_memory_fails_on_both_sides) {
  EXPECT_EQ(b_.receive(5, {good_.slice(0, 32), bad_.slice(0, page_bytes)}), 0);
  bad_.withdraw();
  ibv_sge data = good_.slice(page_bytes, 64);
  EXPECT_EQ(a_.send(request_of(IBV_WR_SEND, data, 0, 0)), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    EXPECT_EQ(done.status, done.wr_id == 5 ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
  }
}

TEST_F(unmapped_memory, inline_data_of_inaccessible_memory_are_refused) {
  bad_.withdraw();
  ibv_sge local = bad_.slice(0, 64);
  ibv_send_wr request = request_of(IBV_WR_RDMA_WRITE, local, good_.address(), good_.key());
  request.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(a_.send(request), EFAULT);
  EXPECT_EQ(
      execute(IBV_WR_RDMA_WRITE, good_.slice(0, 64), good_.address() + page_bytes, good_.key())
          .status,
      IBV_WC_SUCCESS);
}

TEST_F(unmapped_memory, datagram_fails_locally_or_is_dropped) {
  queue_pair_handle ud(device_, {.type = IBV_QPT_UD});
  ud.connect(0);
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.sgid_index = 1;
  ASSERT_EQ(SOFT(ibv_query_gid)(device_.context, 1, 1, &attributes.grh.dgid), 0);
  ibv_ah* const ah = SOFT(ibv_create_ah)(device_.pd, &attributes);
  ASSERT_NE(ah, nullptr);
  const auto send_to = [&](ibv_sge local) {
    ibv_send_wr request{};
    request.wr_id = 3;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &local;
    request.num_sge = 1;
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = ud.get()->qp_num;
    request.wr.ud.remote_qkey = 0x1111'1111;
    EXPECT_EQ(ud.send(request), 0);
  };
  EXPECT_EQ(ud.receive(5, {good_.slice(0, page_bytes)}), 0);
  bad_.withdraw();
  send_to(bad_.slice(0, 64));
  EXPECT_EQ(device_.wait_for(3).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(SOFT(ibv_destroy_ah)(ah), 0);
}

// The other process owns the memory, unmaps it when it is told, and then only polls.
struct withdrawn_target {
  std::uint32_t number = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
};

TEST(unmapped_memory_of_a_peer, request_fails_and_the_owner_lives) {
  child_process child([](stream& parent) {
    opened_device device;
    pages target(device.pd);
    bool mapped = true;
    for (;;) {
      queue_pair_handle qp(device);
      parent.put(withdrawn_target{qp.get()->qp_num, target.key(), target.address()});
      const auto peer = parent.take<withdrawn_target>();
      if (peer.number == 0) break;
      qp.connect(peer.number);
      EXPECT_EQ(qp.receive(5, {target.slice(0, pages_bytes)}), 0);
      if (mapped) target.unmap();
      mapped = false;
      parent.meet();
      parent.meet();  // the progress thread of this process serves the peer meanwhile
    }
    target.put_back();
    return 0;
  });
  opened_device device;
  const pages source(device.pd);
  const auto fails = [&](ibv_wr_opcode opcode, std::uint32_t size, ibv_wc_status expected) {
    queue_pair_handle qp(device);
    const auto peer = child.to().take<withdrawn_target>();
    child.to().put(withdrawn_target{qp.get()->qp_num, 0, 0});
    qp.connect(peer.number);
    child.to().meet();
    ibv_sge local = source.slice(0, size);
    EXPECT_EQ(qp.send(request_of(opcode, local, peer.address, peer.key)), 0);
    EXPECT_EQ(device.wait_for(3).status, expected) << opcode << " " << size;
    child.to().meet();
  };
  for (const std::uint32_t size : request_sizes) {
    for (const ibv_wr_opcode opcode : one_sided) fails(opcode, size, IBV_WC_REM_ACCESS_ERR);
    fails(IBV_WR_SEND, size, IBV_WC_REM_OP_ERR);
  }
  static_cast<void>(child.to().take<withdrawn_target>());
  child.to().put(withdrawn_target{});
  EXPECT_EQ(child.join(), 0);
}

TEST(unmapped_memory_of_a_peer, local_memory_fails_by_a_local_protection_error) {
  child_process child([](stream& parent) {
    opened_device device;
    const pages target(device.pd);
    for (;;) {
      queue_pair_handle qp(device);
      parent.put(withdrawn_target{qp.get()->qp_num, target.key(), target.address()});
      const auto peer = parent.take<withdrawn_target>();
      if (peer.number == 0) return 0;
      qp.connect(peer.number);
      EXPECT_EQ(qp.receive(5, {target.slice(0, pages_bytes)}), 0);
      parent.meet();
      parent.meet();
    }
  });
  opened_device device;
  pages bad(device.pd);
  bad.withdraw();
  const auto fails = [&](ibv_wr_opcode opcode, std::uint32_t size) {
    queue_pair_handle qp(device);
    const auto peer = child.to().take<withdrawn_target>();
    child.to().put(withdrawn_target{qp.get()->qp_num, 0, 0});
    qp.connect(peer.number);
    child.to().meet();
    ibv_sge local = bad.slice(0, size);
    EXPECT_EQ(qp.send(request_of(opcode, local, peer.address, peer.key)), 0);
    EXPECT_EQ(device.wait_for(3).status, IBV_WC_LOC_PROT_ERR) << opcode << " " << size;
    child.to().meet();
  };
  for (const std::uint32_t size : request_sizes) {
    for (const ibv_wr_opcode opcode : one_sided) fails(opcode, size);
    fails(IBV_WR_SEND, size);
  }
  static_cast<void>(child.to().take<withdrawn_target>());
  child.to().put(withdrawn_target{});
  EXPECT_EQ(child.join(), 0);
}

// The write and the atomic of a list are executed in mapped memory. The atomic fails, because its
// result cannot be stored, and must not be executed again.
TEST(unmapped_memory_of_a_peer, atomic_without_a_place_for_its_result_is_executed_once) {
  child_process child([](stream& parent) {
    opened_device device;
    const auto allocate =
        reinterpret_cast<verbena_soft_allocate_function>(find("verbena_soft_allocate"));
    auto* const words = static_cast<volatile std::uint64_t*>(allocate(page_bytes, 0));
    void* const memory = const_cast<std::uint64_t*>(words);
    ibv_mr* const mr = SOFT(ibv_reg_mr)(device.pd, memory, page_bytes, buffer::all_access);
    {
      queue_pair_handle qp(device);
      parent.put(
          withdrawn_target{qp.get()->qp_num, mr->rkey, reinterpret_cast<std::uint64_t>(memory)});
      qp.connect(parent.take<withdrawn_target>().number);
      parent.meet();
      parent.meet();
      parent.put(std::uint64_t{words[1]});
      parent.meet();
    }
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
    return 0;
  });
  opened_device device;
  const pages good(device.pd);
  pages bad(device.pd);
  {
    queue_pair_handle qp(device);
    const auto peer = child.to().take<withdrawn_target>();
    child.to().put(withdrawn_target{qp.get()->qp_num, 0, 0});
    qp.connect(peer.number);
    child.to().meet();
    ibv_sge data = good.slice(0, 8);
    // The memory is mapped after some writes, which take another way.
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(qp.send(request_of(IBV_WR_RDMA_WRITE, data, peer.address, peer.key)), 0);
      EXPECT_EQ(device.wait_for(3).status, IBV_WC_SUCCESS);
      // lint: allow(sleep): the progress thread maps the memory meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    bad.withdraw();
    ibv_sge place = bad.slice(0, 8);
    ibv_send_wr add = request_of(IBV_WR_ATOMIC_FETCH_AND_ADD, place, peer.address + 8, peer.key);
    add.wr.atomic.compare_add = 1;
    ibv_send_wr list = request_of(IBV_WR_RDMA_WRITE, data, peer.address, peer.key);
    list.send_flags = 0;
    list.next = &add;
    EXPECT_EQ(qp.send(list), 0);
    EXPECT_EQ(device.wait_for(3).status, IBV_WC_LOC_PROT_ERR);
    child.to().meet();
    EXPECT_LE(child.to().take<std::uint64_t>(), 1U);
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

#endif

}  // namespace
}  // namespace verbena::softdev::testing
