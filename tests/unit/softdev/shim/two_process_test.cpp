// SPDX-License-Identifier: MIT
// Transfers between two processes of this host by the C interface.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

struct introduction {
  std::uint32_t qp_num = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
};

enum class kind { ordinary, shareable };

// Registered memory, ordinary or shareable.
class region {
 public:
  region(ibv_pd* pd, std::size_t bytes, std::uint32_t seed, kind which) {
    const auto start = pattern(seed, bytes);
    if (which == kind::ordinary) {
      own_ = start;
      data_ = own_.data();
    } else {
      const auto allocate =
          reinterpret_cast<verbena_soft_allocate_function>(find("verbena_soft_allocate"));
      shared_ = allocate(bytes, 0);
      if (shared_ == nullptr) throw std::runtime_error("verbena_soft_allocate failed");
      data_ = static_cast<std::byte*>(shared_);
      std::memcpy(data_, start.data(), bytes);
    }
    mr_ = SOFT(ibv_reg_mr)(pd, data_, bytes, buffer::all_access);
    if (mr_ == nullptr) throw std::runtime_error(std::strerror(errno));
  }
  region(const region&) = delete;
  region& operator=(const region&) = delete;
  ~region() {
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr_), 0);
    const auto give_back = reinterpret_cast<verbena_soft_free_function>(find("verbena_soft_free"));
    if (shared_ != nullptr) {
      EXPECT_EQ(give_back(shared_), 0);
    }
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] ibv_sge slice(std::size_t offset, std::size_t length) const {
    return {reinterpret_cast<std::uint64_t>(data_ + offset), static_cast<std::uint32_t>(length),
            mr_->lkey};
  }
  [[nodiscard]] std::vector<std::byte> copy(std::size_t offset, std::size_t length) const {
    return {data_ + offset, data_ + offset + length};
  }
  [[nodiscard]] const ibv_mr& mr() const { return *mr_; }

 private:
  std::vector<std::byte> own_;
  void* shared_ = nullptr;
  std::byte* data_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

// One side: a device, memory, and a queue pair that is connected to the other side.
class side {
 public:
  static constexpr std::size_t bytes = 1U << 20U;

  side(stream& other, std::uint32_t seed, kind which, const bring_up& how = {})
      : memory(device.pd, bytes, seed, which) {
    other.put(introduction{qp.get()->qp_num, memory.mr().rkey,
                           reinterpret_cast<std::uint64_t>(memory.mr().addr)});
    peer = other.take<introduction>();
    qp.connect(peer.qp_num, how);
    other.meet();
  }

  ibv_wc_status execute(ibv_wr_opcode opcode, ibv_sge data, std::uint64_t offset = 0) {
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data;
    request.num_sge = 1;
    request.imm_data = 7;
    request.wr.rdma.remote_addr = peer.address + offset;
    request.wr.rdma.rkey = peer.rkey;
    EXPECT_EQ(qp.send(request), 0);
    return device.wait_for(1).status;
  }
  std::uint64_t fetch_add(std::uint64_t offset, std::uint64_t value) {
    ibv_sge data = memory.slice(0, 8);
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data;
    request.num_sge = 1;
    request.wr.atomic.remote_addr = peer.address + offset;
    request.wr.atomic.rkey = peer.rkey;
    request.wr.atomic.compare_add = value;
    EXPECT_EQ(qp.send(request), 0);
    EXPECT_EQ(device.wait_for(1).status, IBV_WC_SUCCESS);
    std::uint64_t old = 0;
    std::memcpy(&old, memory.data(), sizeof old);
    return old;
  }

  opened_device device;
  queue_pair_handle qp{device, {.extended = true}};
  region memory;
  introduction peer;
};

class two_processes : public ::testing::TestWithParam<kind> {};

TEST_P(two_processes, messages_arrive_in_both_directions) {
  child_process child([&](stream& parent) {
    side own(parent, 2, GetParam());
    for (const std::size_t bytes : {1U, 64U, 5000U, 300'000U}) {
      if (own.qp.receive(9, {own.memory.slice(0, bytes)}) != 0) return 1;
      parent.meet();
      const ibv_wc got = own.device.wait_for(9);
      if (got.status != IBV_WC_SUCCESS || got.byte_len != bytes) return 2;
      if (own.memory.copy(0, bytes) != pattern(1, bytes)) return 3;
      // Sends the received message back.
      if (own.execute(IBV_WR_SEND, own.memory.slice(0, bytes)) != IBV_WC_SUCCESS) return 4;
    }
    parent.meet();
    return 0;
  });
  {
    side own(child.to(), 1, GetParam());
    for (const std::size_t bytes : {1U, 64U, 5000U, 300'000U}) {
      ASSERT_EQ(own.qp.receive(9, {own.memory.slice(side::bytes / 2, bytes)}), 0);
      child.to().meet();
      ibv_sge data = own.memory.slice(0, bytes);
      ibv_send_wr request{};
      request.wr_id = 1;
      request.opcode = IBV_WR_SEND;
      request.sg_list = &data;
      request.num_sge = 1;
      ASSERT_EQ(own.qp.send(request), 0);
      const ibv_wc got = own.device.wait_for(9);
      EXPECT_EQ(got.status, IBV_WC_SUCCESS);
      EXPECT_EQ(own.memory.copy(side::bytes / 2, bytes), pattern(1, bytes));
    }
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

// In shareable memory, the receiver copies all but the first ones from the sender's memory.
TEST_P(two_processes, long_messages_of_changing_content_arrive) {
  constexpr std::size_t most = side::bytes / 2;
  constexpr std::size_t lengths[] = {4095, 4096, 4097, 65'536, 300'000, most};
  constexpr std::uint32_t rounds = 48;
  child_process child([&](stream& parent) {
    side own(parent, 2, GetParam());
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::size_t bytes = lengths[round % std::size(lengths)];
      if (own.qp.receive(9, {own.memory.slice(0, most)}) != 0) return 1;
      parent.meet();
      const ibv_wc got = own.device.wait_for(9);
      if (got.status != IBV_WC_SUCCESS || got.byte_len != bytes) return 2;
      if (round % 2 != 0 && got.imm_data != 7) return 3;
      if (own.memory.copy(0, bytes) != pattern(round, bytes)) return 4;
    }
    parent.meet();
    return 0;
  });
  {
    side own(child.to(), 1, GetParam());
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::size_t bytes = lengths[round % std::size(lengths)];
      const auto content = pattern(round, bytes);
      std::memcpy(own.memory.data(), content.data(), bytes);
      child.to().meet();
      const auto opcode = round % 2 == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
      ASSERT_EQ(own.execute(opcode, own.memory.slice(0, bytes)), IBV_WC_SUCCESS);
      // It belongs to the program again.
      std::memset(own.memory.data(), 0, bytes);
    }
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

TEST_P(two_processes, rdma_operations_reach_a_process_that_makes_no_calls) {
  child_process child([&](stream& parent) {
    side own(parent, 2, GetParam());
    parent.meet();
    // Only waits, without calls of the device.
    if (own.memory.copy(1000, 200'000) != pattern(1, 200'000)) return 1;
    auto& word = *reinterpret_cast<std::uint64_t*>(own.memory.data() + 512);
    return std::atomic_ref(word).load(std::memory_order_acquire) == 1100 ? 0 : 2;
  });
  {
    side own(child.to(), 1, GetParam());
    EXPECT_EQ(own.execute(IBV_WR_RDMA_WRITE, own.memory.slice(0, 200'000), 1000), IBV_WC_SUCCESS);
    EXPECT_EQ(own.execute(IBV_WR_RDMA_READ, own.memory.slice(300'000, 150'000), 400'000),
              IBV_WC_SUCCESS);
    const auto theirs = pattern(2, side::bytes);
    EXPECT_EQ(own.memory.copy(300'000, 150'000),
              std::vector(theirs.begin() + 400'000, theirs.begin() + 550'000));
    const std::uint64_t zero = 0;
    std::memcpy(own.memory.data() + 64, &zero, sizeof zero);
    EXPECT_EQ(own.execute(IBV_WR_RDMA_WRITE, own.memory.slice(64, 8), 512), IBV_WC_SUCCESS);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(own.fetch_add(512, 11), i * 11);
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

// The child adds and the parent compares and swaps, until the parent has often found another value
// than it expected. Then it sets the top bit, and the child stops.
// parity: semantics-95
TEST_P(two_processes, concurrent_atomics_of_both_processes_lose_no_update) {
  constexpr std::uint64_t stop = std::uint64_t{1} << 63U;
  constexpr int enough = 50;
  child_process child([&](stream& parent) {
    side own(parent, 2, GetParam());
    parent.meet();
    std::uint64_t added = 0;
    for (bool stopped = false; !stopped; ++added) stopped = (own.fetch_add(512, 1) & stop) != 0;
    parent.put(added);
    return 0;
  });
  {
    side own(child.to(), 1, GetParam());
    queue_pair_handle loop(own.device);
    loop.connect(loop.get()->qp_num);
    auto& word = *reinterpret_cast<std::uint64_t*>(own.memory.data() + 512);
    std::atomic_ref(word).store(0);
    const auto compare_and_swap = [&](std::uint64_t expected, std::uint64_t value) {
      ibv_sge result = own.memory.slice(0, 8);
      ibv_send_wr request{};
      request.wr_id = 3;
      request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
      request.send_flags = IBV_SEND_SIGNALED;
      request.sg_list = &result;
      request.num_sge = 1;
      request.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(&word);
      request.wr.atomic.rkey = own.memory.mr().rkey;
      request.wr.atomic.compare_add = expected;
      request.wr.atomic.swap = value;
      EXPECT_EQ(loop.send(request), 0);
      EXPECT_EQ(own.device.wait_for(3).status, IBV_WC_SUCCESS);
      std::uint64_t old = 0;
      std::memcpy(&old, own.memory.data(), sizeof old);
      return old;
    };
    child.to().meet();
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::uint64_t added = 0;
    std::uint64_t expected = 0;
    int changed = 0;
    while (changed < enough && std::chrono::steady_clock::now() < give_up) {
      const std::uint64_t old = compare_and_swap(expected, expected + 1);
      const bool swapped = old == expected;
      added += swapped ? 1U : 0U;
      changed += swapped ? 0 : 1;
      expected = swapped ? old + 1 : old;
    }
    EXPECT_EQ(changed, enough);
    for (std::uint64_t old = ~expected; old != expected;) {
      old = compare_and_swap(expected, expected | stop);
      if (old != expected) std::swap(old, expected);
    }
    const auto theirs = child.to().take<std::uint64_t>();
    EXPECT_EQ(std::atomic_ref(word).load() & ~stop, added + theirs);
  }
  EXPECT_EQ(child.join(), 0);
}

// Receives 50 messages. Arms the queue, waits for an event and drains the queue.
int receive_by_events(stream& parent, opened_device& device, ibv_comp_channel* channel,
                      ibv_cq* queue, kind which) {
  queue_pair_handle qp(device, {.recv_cq = queue});
  region memory(device.pd, side::bytes, 2, which);
  parent.put(introduction{qp.get()->qp_num, memory.mr().rkey, 0});
  qp.connect(parent.take<introduction>().qp_num);
  parent.meet();
  for (int round = 0; round < 50; ++round) {
    if (qp.receive(9, {memory.slice(0, side::bytes)}) != 0) return 1;
    if (ibv_req_notify_cq(queue, round % 2) != 0) return 2;
    parent.meet();
    if (round % 3 == 0) {
      // A program may poll the descriptor itself.
      pollfd wanted{channel->fd, POLLIN, 0};
      if (poll(&wanted, 1, 20'000) != 1) return 3;
    }
    ibv_cq* ready = nullptr;
    void* cookie = nullptr;
    if (SOFT(ibv_get_cq_event)(channel, &ready, &cookie) != 0 || ready != queue) return 4;
    SOFT(ibv_ack_cq_events)(queue, 1);
    if (device.wait_for(9, queue).status != IBV_WC_SUCCESS) return 5;
  }
  parent.meet();
  return 0;
}

TEST_P(two_processes, armed_process_is_woken_by_a_message) {
  child_process child([&](stream& parent) {
    opened_device device;
    ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(device.context);
    ibv_cq* const queue = SOFT(ibv_create_cq)(device.context, 16, nullptr, channel, 0);
    const int result = receive_by_events(parent, device, channel, queue, GetParam());
    EXPECT_EQ(SOFT(ibv_destroy_cq)(queue), 0);
    EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
    return result;
  });
  {
    side own(child.to(), 1, GetParam());
    for (int round = 0; round < 50; ++round) {
      child.to().meet();
      ibv_sge data = own.memory.slice(0, round % 4 < 2 ? 64 : side::bytes);
      ibv_send_wr request{};
      request.wr_id = 1;
      request.opcode = IBV_WR_SEND;
      request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
      request.sg_list = &data;
      request.num_sge = 1;
      ASSERT_EQ(own.qp.send(request), 0);
      EXPECT_EQ(own.device.wait_for(1).status, IBV_WC_SUCCESS);
    }
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

TEST_P(two_processes, killed_peer_fails_with_retry_exceeded) {
  child_process child([&](stream& parent) {
    side own(parent, 2, GetParam());
    parent.meet();
    static_cast<void>(parent.take<char>());
    return 0;
  });
  side own(child.to(), 1, GetParam(), {.timeout = 8, .retry_count = 2});
  child.to().meet();
  EXPECT_EQ(own.execute(IBV_WR_RDMA_WRITE, own.memory.slice(0, 64)), IBV_WC_SUCCESS);
  child.kill_it();
  EXPECT_EQ(child.join(), 1000 + SIGKILL);
  ibv_wc_status status = IBV_WC_SUCCESS;
  for (int i = 0; status == IBV_WC_SUCCESS && i < 100'000; ++i)
    status = own.execute(IBV_WR_SEND, own.memory.slice(0, 64));
  EXPECT_EQ(status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(own.qp.state(), IBV_QPS_ERR);
}

INSTANTIATE_TEST_SUITE_P(memory, two_processes, ::testing::Values(kind::ordinary, kind::shareable),
                         [](const auto& which) {
                           return which.param == kind::ordinary ? "ordinary" : "shareable";
                         });

/// Returns a UDP port that was free during the call.
std::uint16_t free_udp_port() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  socklen_t length = sizeof name;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&name), length), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length), 0);
  ::close(fd);
  return ntohs(name.sin_port);
}

// While it polls, the receiver may send an ACK later, with its next request.
TEST(two_processes_by_packets, sender_completes_after_the_receiver_has_ceased_to_poll) {
  constexpr int messages = 20;
  EXPECT_EQ(in_child([] {
              setenv("VERBENA_SOFTDEV_WIRE", "on", 1);
              setenv("VERBENA_SOFTDEV_PATH", "wire", 1);
              setenv("VERBENA_SOFTDEV_WIRE_PORT", std::to_string(free_udp_port()).c_str(), 1);
              const bring_up how{.timeout = 18, .retry_count = 7};
              child_process child([&](stream& parent) {
                side own(parent, 2, kind::ordinary, how);
                for (int i = 0; i < messages; ++i) {
                  if (own.qp.receive(9, {own.memory.slice(0, 8)}) != 0) return 1;
                  parent.meet();
                  if (own.device.wait_for(9).status != IBV_WC_SUCCESS) return 2;
                  parent.meet();  // does not poll until the sender has its completion
                }
                return 0;
              });
              side own(child.to(), 1, kind::ordinary, how);
              for (int i = 0; i < messages; ++i) {
                child.to().meet();
                // lint: allow(sleep): the receiver polls for some time
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                const auto before = std::chrono::steady_clock::now();
                EXPECT_EQ(own.execute(IBV_WR_SEND, own.memory.slice(0, 8)), IBV_WC_SUCCESS);
                EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1))
                    << "the ACK timeout, 1.07 s";
                child.to().meet();
              }
              return child.join();
            }),
            0);
}

}  // namespace
}  // namespace verbena::softdev::testing
