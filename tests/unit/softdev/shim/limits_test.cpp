// SPDX-License-Identifier: MIT
// The device under resource limits: a call succeeds or fails with an errno; the process never ends
// by a signal or an exception, and never hangs.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"
#include "verbena/base/sanitizers.hpp"

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

// Not under sanitizers, whose runtime needs descriptors and memory itself.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
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

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(VERBENA_ADDRESS_SANITIZER) && \
    !defined(VERBENA_THREAD_SANITIZER)

// Makes a system call fail with EPERM in this process, as a container's filter does.
bool deny(unsigned number) {
  std::array<sock_filter, 4> program = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{program.size(), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct system_call {
  const char* name;
  unsigned number;
};
#define SYSTEM_CALL(name) \
  system_call { #name, SYS_##name }
// The calls that the device makes, besides those without which the C library ends the process.
constexpr std::array denied_calls = {
    SYSTEM_CALL(accept4),
    SYSTEM_CALL(bind),
    SYSTEM_CALL(clone3),
    SYSTEM_CALL(connect),
    SYSTEM_CALL(epoll_create1),
    SYSTEM_CALL(epoll_ctl),
    SYSTEM_CALL(epoll_pwait),
    SYSTEM_CALL(eventfd2),
    SYSTEM_CALL(fcntl),
    SYSTEM_CALL(ftruncate),
    SYSTEM_CALL(getrandom),
    SYSTEM_CALL(getsockopt),
    SYSTEM_CALL(ioctl),
    SYSTEM_CALL(listen),
    SYSTEM_CALL(madvise),
    SYSTEM_CALL(membarrier),
    SYSTEM_CALL(memfd_create),
    SYSTEM_CALL(mincore),
    SYSTEM_CALL(mmap),
    SYSTEM_CALL(mprotect),
    SYSTEM_CALL(openat),
    SYSTEM_CALL(pidfd_open),
    SYSTEM_CALL(ppoll),
    SYSTEM_CALL(prctl),
    SYSTEM_CALL(prlimit64),
    SYSTEM_CALL(process_vm_readv),
    SYSTEM_CALL(process_vm_writev),
    SYSTEM_CALL(read),
    SYSTEM_CALL(recvfrom),
    SYSTEM_CALL(recvmsg),
    SYSTEM_CALL(rt_sigaction),
    SYSTEM_CALL(rt_sigprocmask),
    SYSTEM_CALL(sched_yield),
    SYSTEM_CALL(sendmsg),
    SYSTEM_CALL(sendto),
    SYSTEM_CALL(setsockopt),
    SYSTEM_CALL(socket),
    SYSTEM_CALL(write),
#if defined(SYS_poll)
    SYSTEM_CALL(epoll_wait),
    SYSTEM_CALL(poll),
#endif
};

TEST(denied_system_calls, device_succeeds_or_fails_cleanly) {
  for (const auto& [name, number] : denied_calls) {
    const limited_run run = run_in_child([&] { return deny(number) ? use_device() : 2; });
    EXPECT_TRUE(run.succeeded() || run.failed_cleanly())
        << name << ": " << run.status << " " << run.messages;
  }
}

TEST(denied_system_calls, random_numbers_do_not_need_getrandom) {
  const limited_run run = run_in_child([&] { return deny(SYS_getrandom) ? use_device() : 2; });
  EXPECT_TRUE(run.succeeded()) << run.status << run.messages;
}

// The parent is not denied anything; the child connects to it and writes.
TEST(denied_system_calls, request_to_a_peer_succeeds_or_fails_cleanly) {
  struct denied_peer {
    std::uint32_t number = 0;
    std::uint32_t key = 0;
    std::uint64_t address = 0;
  };
  opened_device device;
  buffer target(device.pd, 4096);
  for (const auto& [name, number] : denied_calls) {
    // The messages of this test need read and write.
    if (number == SYS_sendto || number == SYS_recvfrom) continue;
    queue_pair_handle qp(device);
    std::array<int, 2> text{};
    ASSERT_EQ(pipe2(text.data(), O_CLOEXEC), 0);
    child_process child([&](stream& parent) {
      const auto peer = parent.take<denied_peer>();
      opened_device mine;
      buffer source(mine.pd, 4096);
      queue_pair_handle ours(mine);
      parent.put(denied_peer{ours.get()->qp_num, 0, 0});
      parent.meet();
      alarm(30);
      dup2(text[1], STDERR_FILENO);
      if (!deny(number)) return 2;
      try {
        ours.connect(peer.number, {.timeout = 14, .retry_count = 1});
      } catch (const std::exception&) {
        _exit(clean_error);
      }
      if (::testing::Test::HasFailure()) _exit(clean_error);
      ibv_sge data = source.slice(0, 64);
      ibv_send_wr request{};
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags = IBV_SEND_SIGNALED;
      request.sg_list = &data;
      request.num_sge = 1;
      request.wr.rdma.remote_addr = peer.address;
      request.wr.rdma.rkey = peer.key;
      if (ours.send(request) != 0) _exit(clean_error);
      ibv_wc done{};
      int count = 0;
      while ((count = ibv_poll_cq(mine.cq, 1, &done)) == 0) {
      }
      _exit(count == 1 && done.status == IBV_WC_SUCCESS ? all_succeeded : clean_error);
    });
    child.to().put(denied_peer{qp.get()->qp_num, target.mr().rkey, target.address()});
    const auto peer = child.to().take<denied_peer>();
    qp.connect(peer.number);
    child.to().meet();
    const int result = child.join();
    close(text[1]);
    std::array<char, 4096> bytes{};
    const ssize_t got = read(text[0], bytes.data(), bytes.size() - 1);
    close(text[0]);
    if (number == SYS_recvmsg || number == SYS_sendmsg) {
      EXPECT_EQ(result, clean_error) << name;
      EXPECT_NE(std::string(bytes.data()).find(name), std::string::npos)
          << name << ": " << got << " bytes: " << bytes.data();
    }
    EXPECT_TRUE(result == all_succeeded || result == clean_error) << name << ": " << result;
  }
}

#endif

// The objects of the parent do not exist in a child of fork().
TEST(limits, child_of_fork_has_all_objects_of_the_device) {
  opened_device device;
  std::vector<ibv_pd*> domains;
  while (ibv_pd* const made = SOFT(ibv_alloc_pd)(device.context)) domains.push_back(made);
  EXPECT_GT(domains.size(), 30'000U);
  EXPECT_EQ(in_child([] {
              const opened_device own;
              return own.pd != nullptr ? 0 : 1;
            }),
            0);
  for (ibv_pd* const each : domains) EXPECT_EQ(SOFT(ibv_dealloc_pd)(each), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
