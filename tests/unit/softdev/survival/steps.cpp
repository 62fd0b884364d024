// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/survival/steps.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>

namespace verbena::softdev::testing {
namespace {

[[noreturn]] void die() {
  for (;;) ::syscall(SYS_kill, ::getpid(), SIGKILL);
}

#if defined(__x86_64__)

struct range {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
};

// Written before the handlers are installed.
struct store_counter {
  std::array<range, 256> ranges{};
  std::size_t count = 0;
  std::uint32_t last = 0;
  step_report* report = nullptr;
  struct sigaction previous_fault{};
  struct sigaction previous_trap{};
} stores;

constexpr greg_t trap_flag = 0x100;

void protect(int protection) {
  for (std::size_t i = 0; i < stores.count; ++i) {
    const range& each = stores.ranges[i];
    ::mprotect(reinterpret_cast<void*>(each.first), each.end - each.first, protection);
  }
}

void on_fault(int number, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const range* const first = stores.ranges.data();
  const bool counted = std::any_of(first, first + stores.count, [&](const range& each) {
    return at >= each.first && at < each.end;
  });
  if (!counted) {
    if ((stores.previous_fault.sa_flags & SA_SIGINFO) == 0) die();
    stores.previous_fault.sa_sigaction(number, info, context);
    return;
  }
  if (stores.report->count.fetch_add(1) + 1 == stores.last) die();
  protect(PROT_READ | PROT_WRITE);
  auto& state = *static_cast<ucontext_t*>(context);
  state.uc_mcontext.gregs[REG_EFL] |= trap_flag;
  ::sigdelset(&state.uc_sigmask, SIGTRAP);  // threads of the device block signals
}

void on_trap(int /*number*/, siginfo_t* /*info*/, void* context) {
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
  protect(PROT_READ);
}

void find_ranges() {
  stores.count = 0;
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), maps) != nullptr) {
    unsigned long first = 0;
    unsigned long end = 0;
    std::array<char, 8> flags{};
    if (std::sscanf(line.data(), "%lx-%lx %7s", &first, &end, flags.data()) != 3) continue;
    // Not the memory of the program, which system calls also write.
    if (std::strcmp(flags.data(), "rw-s") != 0 || std::strstr(line.data(), "memfd:") == nullptr ||
        std::strstr(line.data(), "memfd:verbena-memory") != nullptr)
      continue;
    if (stores.count < stores.ranges.size()) stores.ranges[stores.count++] = {first, end};
  }
  std::fclose(maps);
}

#endif

}  // namespace

#if defined(__x86_64__)

bool count_stores(step_report& report, std::uint32_t last) {
  find_ranges();
  stores.last = last;
  stores.report = &report;
  report.count = 0;
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_sigaction = &on_fault;
  ::sigaction(SIGSEGV, &action, &stores.previous_fault);
  action.sa_sigaction = &on_trap;
  ::sigaction(SIGTRAP, &action, &stores.previous_trap);
  protect(PROT_READ);
  return stores.count > 0;
}

void stop_counting_stores() {
  protect(PROT_READ | PROT_WRITE);
  ::sigaction(SIGSEGV, &stores.previous_fault, nullptr);
}

#else

bool count_stores(step_report& /*report*/, std::uint32_t /*last*/) { return false; }
void stop_counting_stores() {}

#endif

namespace {

enum class decision : std::uint8_t { permit, kill, fail };

struct call_observer {
  std::atomic<int> listener{-1};
  step_report* report = nullptr;
  std::atomic<decision> what{decision::permit};
  std::atomic<std::uint32_t> last{0};
  std::atomic<call_failure> how{call_failure::resource};
} observer;

int transient_error(int number) {
  switch (number) {
#if defined(SYS_poll)
    case SYS_poll:
    case SYS_epoll_wait:
    case SYS_open:
#endif
    case SYS_accept4:
    case SYS_connect:
    case SYS_epoll_pwait:
    case SYS_openat:
    case SYS_ppoll:
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendmsg:
    case SYS_sendto:
    case SYS_write:
      return EINTR;
    default:
      return EAGAIN;
  }
}

int error_of_limit(int number) {
  switch (number) {
    case SYS_accept4:
    case SYS_dup:
    case SYS_epoll_create1:
    case SYS_eventfd2:
    case SYS_fcntl:
    case SYS_memfd_create:
    case SYS_openat:
    case SYS_pidfd_open:
    case SYS_socket:
    case SYS_socketpair:
      return EMFILE;
    case SYS_clone:
    case SYS_clone3:
      return EAGAIN;
    case SYS_sendmsg:
    case SYS_sendto:
      return ENOBUFS;
    default:
      return ENOMEM;
  }
}

int error_of(int number, call_failure how) {
  if (how == call_failure::denied) return EPERM;
  return how == call_failure::transient ? transient_error(number) : error_of_limit(number);
}

// Allocates nothing and takes no lock: an observed thread may hold any.
void decide(int listener) {
  for (;;) {
    seccomp_notif call{};
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return;
    }
    seccomp_notif_resp answer{};
    answer.id = call.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    const decision what = observer.what;
    if (observer.report->count.fetch_add(1) + 1 == observer.last && what != decision::permit) {
      observer.report->number = call.data.nr;
      if (what == decision::kill) die();
      answer.flags = 0;
      answer.error = -error_of(call.data.nr, observer.how);
    }
    ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

// Not observed: calls that cannot fail, or whose failure only leaks.
constexpr std::array permitted_calls = {
    SYS_brk,          SYS_close,          SYS_exit,         SYS_exit_group,  SYS_futex,
    SYS_getegid,      SYS_geteuid,        SYS_getgid,       SYS_getpid,      SYS_gettid,
    SYS_getuid,       SYS_kill,           SYS_madvise,      SYS_munmap,      SYS_rseq,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield, SYS_set_robust_list,
    SYS_tgkill,
};

bool install_filter() {
  std::array<sock_filter, permitted_calls.size() + 3> program{};
  std::size_t at = 0;
  program[at++] = sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t i = 0; i < permitted_calls.size(); ++i) {
    const auto distance = static_cast<std::uint8_t>(permitted_calls.size() - i);
    program[at++] = sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                         static_cast<unsigned>(permitted_calls[i]), distance, 0);
  }
  program[at++] = sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  program[at++] = sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_fprog filter{static_cast<unsigned short>(at), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  const long listener =
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
  if (listener < 0) return false;
  observer.listener = static_cast<int>(listener);
  return true;
}

}  // namespace

bool observe_system_calls(step_report& report) {
  observer.report = &report;
  observer.listener = -1;
  std::thread([] {
    while (observer.listener == -1) std::this_thread::yield();
    if (observer.listener >= 0) decide(observer.listener);
  }).detach();
  const bool done = install_filter();
  if (!done) observer.listener = -2;
  return done;
}

void kill_at_system_call(std::uint32_t last) {
  observer.what = decision::permit;
  observer.report->count = 0;
  observer.last = last;
  observer.what = decision::kill;
}

void fail_system_call(std::uint32_t last, call_failure how) {
  observer.what = decision::permit;
  observer.how = how;
  observer.report->count = 0;
  observer.last = last;
  observer.what = decision::fail;
}

std::uint32_t permit_system_calls() {
  observer.what = decision::permit;
  return observer.report->count;
}

}  // namespace verbena::softdev::testing
