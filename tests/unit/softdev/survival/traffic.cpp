// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/survival/traffic.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace verbena::softdev::testing {
namespace {

constexpr std::uint64_t receive_id = 0x1000'0000;
constexpr int receives = 8;

bool is_shareable(traffic_kind kind) {
  return kind == traffic_kind::long_send_shareable || kind == traffic_kind::write_shareable ||
         kind == traffic_kind::long_write_shareable || kind == traffic_kind::read_shareable ||
         kind == traffic_kind::atomic_shareable;
}

ibv_wr_opcode opcode_of(traffic_kind kind) {
  switch (kind) {
    case traffic_kind::send:
    case traffic_kind::long_send:
    case traffic_kind::long_send_shareable:
      return IBV_WR_SEND;
    case traffic_kind::read:
    case traffic_kind::read_shareable:
      return IBV_WR_RDMA_READ;
    case traffic_kind::atomic:
    case traffic_kind::atomic_shareable:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
      return IBV_WR_RDMA_WRITE;
  }
}

std::size_t bytes_of(traffic_kind kind) {
  switch (kind) {
    case traffic_kind::long_send:
    case traffic_kind::long_send_shareable:
    case traffic_kind::long_write:
    case traffic_kind::long_write_shareable:
      return traffic_end::long_bytes;
    case traffic_kind::atomic:
    case traffic_kind::atomic_shareable:
      return 8;
    default:
      return 64;
  }
}

}  // namespace

shareable_buffer::shareable_buffer(ibv_pd* pd, std::size_t bytes) : bytes_(bytes) {
  const auto allocate =
      reinterpret_cast<void* (*)(std::size_t, int)>(find("verbena_soft_allocate"));
  memory_ = static_cast<std::byte*>(allocate(bytes, 0));
  if (memory_ == nullptr) throw std::runtime_error(std::strerror(errno));
  register_again(pd);
}

shareable_buffer::~shareable_buffer() {
  if (mr_ != nullptr) {
    EXPECT_EQ(deregister(), 0);
  }
  EXPECT_EQ(reinterpret_cast<int (*)(void*)>(find("verbena_soft_free"))(memory_), 0);
}

int shareable_buffer::deregister() { return SOFT(ibv_dereg_mr)(std::exchange(mr_, nullptr)); }

void shareable_buffer::register_again(ibv_pd* pd) {
  mr_ = SOFT(ibv_reg_mr)(pd, memory_, bytes_, buffer::all_access);
  if (mr_ == nullptr) throw std::runtime_error(std::strerror(errno));
}

traffic_end::traffic_end(int count) {
  for (int i = 0; i < count; ++i)
    queue_pairs.push_back(std::make_unique<queue_pair_handle>(device));
}

end_card traffic_end::card() {
  end_card mine;
  for (std::size_t i = 0; i < queue_pairs.size(); ++i) mine.qpns[i] = queue_pairs[i]->get()->qp_num;
  mine.keys = {ordinary.mr().rkey, shareable.key()};
  mine.addresses = {ordinary.address(), shareable.address()};
  return mine;
}

void traffic_end::connect(const end_card& to, const bring_up& how) {
  peer = to;
  for (std::size_t i = 0; i < queue_pairs.size(); ++i) {
    queue_pairs[i]->connect(to.qpns[i], how);
    for (int each = 0; each < receives; ++each) EXPECT_EQ(post_receive(i), 0);
  }
}

int traffic_end::post(traffic_kind kind, std::size_t queue_pair, std::uint64_t wr_id) {
  const std::size_t shared = is_shareable(kind) ? 1 : 0;
  ibv_sge data = ordinary.slice(half + 8 * queue_pair, bytes_of(kind));
  if (shared != 0) data = {shareable.address() + half, data.length, shareable.mr()->lkey};
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.opcode = opcode_of(kind);
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = peer.addresses[shared];
    request.wr.atomic.rkey = peer.keys[shared];
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = peer.addresses[shared] + 64;
    request.wr.rdma.rkey = peer.keys[shared];
  }
  return queue_pairs[queue_pair]->send(request);
}

int traffic_end::post_receive(std::size_t queue_pair) {
  return queue_pairs[queue_pair]->receive(receive_id + queue_pair,
                                          {ordinary.slice(half - long_bytes / 2, long_bytes)});
}

std::size_t traffic_end::position_of(const ibv_wc& completion) const {
  return static_cast<std::size_t>(completion.wr_id - receive_id);
}

bool traffic_end::poll(ibv_wc& out) {
  const int count = ibv_poll_cq(device.cq, 1, &out);
  if (count < 0) throw std::runtime_error("polling failed");
  if (count == 0) return false;
  if (out.wr_id < receive_id) return true;
  if (out.status == IBV_WC_SUCCESS) {
    EXPECT_EQ(post_receive(position_of(out)), 0);
  }
  return false;
}

ibv_wc_status traffic_end::transfer(traffic_kind kind, std::size_t queue_pair) {
  EXPECT_EQ(post(kind, queue_pair), 0);
  ibv_wc done{};
  if (!eventually([&] { return poll(done); })) throw std::runtime_error("no completion came");
  return done.status;
}

void traffic_end::disconnect() {
  for (const auto& each : queue_pairs) EXPECT_EQ(each->to_state(IBV_QPS_ERR), 0);
  queue_pairs.clear();
  ibv_wc done{};
  while (ibv_poll_cq(device.cq, 1, &done) > 0) {
  }
}

void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

void serve_for_ever(traffic_end& mine) {
  end_with_parent();
  ibv_wc done{};
  for (;;) {
    static_cast<void>(mine.poll(done));
    std::this_thread::yield();
  }
}

third_process::third_process() {
  other_ = std::make_unique<child_process>([](stream& parent) -> int {
    traffic_end mine;
    parent.put(mine.card());
    mine.connect(parent.take<end_card>());
    parent.meet();
    alarm(3600);
    serve_for_ever(mine);
  });
  const auto peer = other_->to().take<end_card>();
  other_->to().put(mine_.card());
  mine_.connect(peer);
  other_->to().meet();
}

void third_process::check() {
  constexpr std::size_t at = traffic_end::half + 4096;
  ++round_;
  // Writes to the third process, and reads back: in ordinary and in shareable memory.
  for (std::size_t shared = 0; shared < 2; ++shared) {
    const auto data = pattern(round_, 4096);
    std::memcpy(mine_.ordinary.data() + at, data.data(), data.size());
    ibv_sge from = mine_.ordinary.slice(at, 4096);
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &from;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = mine_.peer.addresses[shared] + 8192;
    request.wr.rdma.rkey = mine_.peer.keys[shared];
    ASSERT_EQ(mine_.queue_pairs[0]->send(request), 0);
    ibv_sge to = mine_.ordinary.slice(at + 4096, 4096);
    request.opcode = IBV_WR_RDMA_READ;
    request.sg_list = &to;
    ASSERT_EQ(mine_.queue_pairs[0]->send(request), 0);
    for (int i = 0; i < 2; ++i) {
      ibv_wc done{};
      ASSERT_TRUE(eventually([&] { return mine_.poll(done); }))
          << "third process, round " << round_;
      ASSERT_EQ(done.status, IBV_WC_SUCCESS) << "vendor error " << done.vendor_err;
    }
    ASSERT_EQ(mine_.ordinary.copy(at + 4096, 4096), data) << "data of the third process";
  }
  ASSERT_EQ(mine_.transfer(traffic_kind::send), IBV_WC_SUCCESS);
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

std::size_t count_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all))) - 1;
}

std::string list_descriptors() {
  std::string lines;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    lines += each.path().filename().string() + " " +
             std::filesystem::read_symlink(each.path(), gone).string() + "\n";
  }
  return lines;
}

std::set<std::string> files_of_shared_memory() {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(each.path().filename());
  return names;
}

bool eventually(const std::function<bool()>& done) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

void* map_shared(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  return memory;
}

void unmap_shared(void* memory, std::size_t bytes) { munmap(memory, bytes); }

}  // namespace verbena::softdev::testing
