// SPDX-License-Identifier: MIT
// The device under resource limits: a call succeeds or fails with an errno; the process never ends
// by a signal or an exception, and never hangs.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr int all_succeeded = 0;
constexpr int clean_error = 3;

struct limited_run {
  int status = -1;
  std::string messages;

  [[nodiscard]] bool succeeded() const {
    return WIFEXITED(status) && WEXITSTATUS(status) == all_succeeded;
  }
  [[nodiscard]] bool failed_cleanly() const {
    return WIFEXITED(status) && WEXITSTATUS(status) == clean_error;
  }
};

// Runs `work` in a child process that SIGALRM ends after a while.
limited_run run_in_child(const std::function<int()>& work) {
  static_cast<void>(table());  // the library is loaded without limits
  std::array<int, 2> text{};
  EXPECT_EQ(pipe2(text.data(), O_CLOEXEC), 0);  // a file would count against RLIMIT_FSIZE
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(text[1], STDERR_FILENO);
    signal(SIGXFSZ, SIG_DFL);
    alarm(30);
    try {
      _exit(work());
    } catch (const std::exception& thrown) {
      std::fprintf(stderr, "escaped exception: %s\n", thrown.what());
      _exit(250);
    }
  }
  limited_run result;
  EXPECT_EQ(waitpid(pid, &result.status, 0), pid);
  std::array<char, 4096> bytes{};
  close(text[1]);
  const ssize_t got = read(text[0], bytes.data(), bytes.size());
  if (got > 0) result.messages.assign(bytes.data(), static_cast<std::size_t>(got));
  close(text[0]);
  return result;
}

// Each step that fails ends the program: as under a limit, where the rest fails as well.
int refused(const char* what, int code) {
  std::fprintf(stderr, "%s: errno %d\n", what, code);
  return code > 0 ? clean_error : 1;
}

// Connects a queue pair to itself.
int connect_to_itself(ibv_qp* qp) {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = buffer::all_access;
  if (const int code = SOFT(ibv_modify_qp)(
          qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return refused("init", code);
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = IBV_MTU_1024;
  ready.dest_qp_num = qp->qp_num;
  ready.max_dest_rd_atomic = 1;
  ready.min_rnr_timer = 1;
  ready.ah_attr.is_global = 1;
  ready.ah_attr.port_num = 1;
  ready.ah_attr.grh.sgid_index = 1;
  if (SOFT(ibv_query_gid)(qp->context, 1, 1, &ready.ah_attr.grh.dgid) != 0)
    return refused("gid", errno);
  if (const int code =
          SOFT(ibv_modify_qp)(qp, &ready,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return refused("rtr", code);
  ibv_qp_attr sending{};
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = 8;
  sending.retry_cnt = 3;
  sending.rnr_retry = 7;
  sending.max_rd_atomic = 1;
  if (const int code =
          SOFT(ibv_modify_qp)(qp, &sending,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
    return refused("rts", code);
  return all_succeeded;
}

// Opens the device, writes and sends within it, and closes it.
int use_device() {
  errno = 0;
  ibv_context* const context =
      SOFT(ibv_open_device)(reinterpret_cast<ibv_device* (*)()>(find("verbena_soft_device"))());
  if (context == nullptr) return refused("open", errno);
  ibv_pd* const pd = SOFT(ibv_alloc_pd)(context);
  if (pd == nullptr) return refused("pd", errno);
  ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(context);
  if (channel == nullptr) return refused("channel", errno);
  ibv_cq* const cq = SOFT(ibv_create_cq)(context, 64, nullptr, channel, 0);
  if (cq == nullptr) return refused("cq", errno);
  ibv_srq_init_attr shared{};
  shared.attr.max_wr = 1024;
  shared.attr.max_sge = 4;
  if (SOFT(ibv_create_srq)(pd, &shared) == nullptr) return refused("srq", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {1024, 1024, 8, 8, 128};
  ibv_qp* const qp = SOFT(ibv_create_qp)(pd, &wanted);
  if (qp == nullptr) return refused("qp", errno);
  static std::array<std::byte, 8192> memory;
  ibv_mr* const mr = SOFT(ibv_reg_mr)(pd, memory.data(), memory.size(), buffer::all_access);
  if (mr == nullptr) return refused("mr", errno);
  void* const shareable =
      reinterpret_cast<void* (*)(std::size_t, int)>(find("verbena_soft_allocate"))(1 << 20, 0);
  if (shareable == nullptr) return refused("allocate", errno);
  if (const int failed = connect_to_itself(qp)) return failed;
  ibv_sge data{reinterpret_cast<std::uint64_t>(memory.data()), 64, mr->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = data.addr + 4096;
  request.wr.rdma.rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  if (const int code = ibv_post_send(qp, &request, &bad)) return refused("post", code);
  ibv_wc done{};
  int count = 0;
  while ((count = ibv_poll_cq(cq, 1, &done)) == 0) {
  }
  if (count < 0) return refused("poll", -count);
  return done.status == IBV_WC_SUCCESS ? all_succeeded : refused("status", EIO);
}

int limited(__rlimit_resource which, rlim_t value) {
  rlimit limit{};
  getrlimit(which, &limit);
  limit.rlim_cur = value;
  if (setrlimit(which, &limit) != 0) return 2;
  return use_device();
}

TEST(limits, device_without_limits_succeeds) {
  const limited_run run = run_in_child(&use_device);
  EXPECT_TRUE(run.succeeded()) << run.status << run.messages;
}

TEST(limits, file_size_limit_fails_the_opening_and_is_named) {
  for (rlim_t kib = 0; kib <= 32 * 1024; kib += kib < 64 ? 4 : 1024) {
    const limited_run run = run_in_child([&] { return limited(RLIMIT_FSIZE, kib << 10U); });
    ASSERT_TRUE(run.succeeded() || run.failed_cleanly())
        << kib << " KiB: " << run.status << run.messages;
    if (!run.succeeded()) {
      EXPECT_NE(run.messages.find("RLIMIT_FSIZE"), std::string::npos) << run.messages;
    }
  }
}

TEST(limits, descriptor_limit_fails_the_opening_or_a_creation_and_is_named) {
  for (rlim_t count = 3; count <= 48; ++count) {
    const limited_run run = run_in_child([&] { return limited(RLIMIT_NOFILE, count); });
    ASSERT_TRUE(run.succeeded() || run.failed_cleanly())
        << count << ": " << run.status << run.messages;
    if (!run.succeeded()) {
      EXPECT_TRUE(run.messages.find("Too many open files") != std::string::npos ||
                  run.messages.find("EMFILE") != std::string::npos)
          << count << ": " << run.messages;
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(limits, address_space_limit_fails_a_call_with_enomem) {
  for (rlim_t kib = 0; kib <= 96 * 1024; kib += 512) {
    const limited_run run = run_in_child([&] {
      std::FILE* const statm = std::fopen("/proc/self/statm", "r");
      unsigned long pages = 0;
      const bool read = statm != nullptr && std::fscanf(statm, "%lu", &pages) == 1;
      if (statm != nullptr) std::fclose(statm);
      if (!read) return 2;
      return limited(RLIMIT_AS, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (kib << 10U));
    });
    ASSERT_TRUE(run.succeeded() || run.failed_cleanly())
        << kib << " KiB: " << run.status << run.messages;
  }
}
#endif

}  // namespace
}  // namespace verbena::softdev::testing
