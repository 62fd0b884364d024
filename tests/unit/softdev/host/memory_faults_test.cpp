// SPDX-License-Identifier: MIT
#include "softdev/host/memory_faults.hpp"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "softdev/core/copy.hpp"
#include "softdev/wire/socket/packet_sender.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t page = 4096;

#if defined(__x86_64__) || defined(__aarch64__)

// Two pages, of which the second is not accessible.
class half_accessible {
 public:
  explicit half_accessible(int second_page = PROT_NONE)
      : data_(static_cast<std::byte*>(
            mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(mprotect(end(), page, second_page), 0);
  }
  half_accessible(const half_accessible&) = delete;
  half_accessible& operator=(const half_accessible&) = delete;
  ~half_accessible() { munmap(data_, 2 * page); }
  [[nodiscard]] std::byte* end() const { return data_ + page; }

 private:
  std::byte* const data_;
};

// Runs `work` in a child process and returns its wait status.
int status_of_child(const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(30);
    for (const int number : {SIGSEGV, SIGBUS}) signal(number, SIG_DFL);
    _exit(work());
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

bool exited_with(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

TEST(memory_faults, copy_returns_the_side_that_is_not_accessible) {
  install_memory_fault_handler();
  const half_accessible memory;
  std::vector<std::byte> ours(1024, std::byte{7});
  for (std::size_t bytes = 1; bytes <= 600; bytes += bytes < 40 ? 1 : 37) {
    for (std::size_t before = 0; before < bytes && before < 300; before += before < 18 ? 1 : 31) {
      ASSERT_EQ(copy_payload(memory.end() - before, ours.data() + 1, bytes), copy_fault::sink)
          << bytes << " bytes, " << before << " of them before the end";
      ASSERT_EQ(copy_payload(ours.data() + 3, memory.end() - before, bytes), copy_fault::source)
          << bytes << " bytes, " << before << " of them before the end";
    }
    ASSERT_EQ(copy_payload(memory.end() - bytes, ours.data(), bytes), copy_fault::none);
    ASSERT_EQ(std::memcmp(memory.end() - bytes, ours.data(), bytes), 0);
  }
}

TEST(memory_faults, packet_whose_payload_is_not_accessible_is_not_sent) {
  install_memory_fault_handler();
  const half_accessible memory;
  const auto sender = wire::packet_sender::open(wire::roce_port).value();
  wire::packet what{
      .opcode = wire::make_opcode(wire::packet_transport::rc, wire::operation::send_only),
      .payload = std::span<const std::byte>(memory.end() - 300, 600)};
  EXPECT_FALSE(sender->put({}, what));
  EXPECT_TRUE(sender->empty());
  what.payload = what.payload.first(300);
  EXPECT_TRUE(sender->put({}, what));
  EXPECT_FALSE(sender->empty());
}

TEST(memory_faults, copy_to_a_non_canonical_address_returns_a_fault) {
  install_memory_fault_handler();
  std::byte ours[64]{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that no memory can have
  auto* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 62U);
  EXPECT_EQ(copy_payload(nowhere, ours, sizeof ours), copy_fault::sink);
  EXPECT_EQ(copy_payload(ours, nowhere, sizeof ours), copy_fault::source);
}

TEST(memory_faults, copy_beyond_the_end_of_a_file_returns_a_fault) {
  install_memory_fault_handler();
  const int fd = memfd_create("verbena-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, page), 0);
  auto* const memory =
      static_cast<std::byte*>(mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_EQ(ftruncate(fd, 0), 0);
  std::byte ours[64]{};
  EXPECT_EQ(copy_payload(memory, ours, sizeof ours), copy_fault::sink);
  EXPECT_EQ(copy_payload(ours, memory, sizeof ours), copy_fault::source);
  munmap(memory, page);
  close(fd);
}

TEST(memory_faults, atomic_on_an_inaccessible_word_returns_false) {
  install_memory_fault_handler();
  const half_accessible memory;
  std::uint64_t original = 0;
  EXPECT_FALSE(fetch_add_word(memory.end(), 1, original));
  EXPECT_FALSE(compare_exchange_word(memory.end(), 0, 1, original));
  std::byte* const word = memory.end() - 8;
  EXPECT_TRUE(fetch_add_word(word, 5, original));
  EXPECT_EQ(original, 0U);
  EXPECT_TRUE(compare_exchange_word(word, 4, 9, original));
  EXPECT_EQ(original, 5U);
  EXPECT_TRUE(compare_exchange_word(word, 5, 9, original));
  EXPECT_EQ(original, 5U);
  EXPECT_TRUE(fetch_add_word(word, 0, original));
  EXPECT_EQ(original, 9U);
}

#if defined(__x86_64__)
TEST(memory_faults, atomic_on_a_read_only_word_returns_false) {
  install_memory_fault_handler();
  const half_accessible memory(PROT_READ);
  std::uint64_t original = 0;
  EXPECT_FALSE(fetch_add_word(memory.end(), 1, original));
  EXPECT_FALSE(compare_exchange_word(memory.end(), 0, 1, original));
}
#endif

TEST(memory_faults, fault_of_the_program_without_a_handler_ends_it_by_the_signal) {
  const int status = status_of_child([] {
    install_memory_fault_handler();
    const half_accessible memory;
    *reinterpret_cast<volatile char*>(memory.end()) = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST(memory_faults, sent_signal_without_a_handler_ends_the_program) {
  const int status = status_of_child([] {
    install_memory_fault_handler();
    ::raise(SIGBUS);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

TEST(memory_faults, ignored_signal_stays_ignored) {
  EXPECT_TRUE(exited_with(status_of_child([] {
                            signal(SIGSEGV, SIG_IGN);
                            install_memory_fault_handler();
                            ::raise(SIGSEGV);
                            return 4;
                          }),
                          4));
}

sigjmp_buf after_fault;

// Writes to `place`. Returns whether a handler ended that by siglongjmp(3). No variable of the
// caller changes between the two returns of sigsetjmp(3).
[[gnu::noinline]] bool faults_at(std::byte* place) {
  if (sigsetjmp(after_fault, 1) != 0) return true;
  *reinterpret_cast<volatile char*>(place) = 1;
  return false;
}
void* volatile fault_address = nullptr;
volatile sig_atomic_t was_blocked = 0;

TEST(memory_faults, fault_of_the_program_goes_to_its_handler) {
  const int status = status_of_child([] {
    struct sigaction mine{};
    mine.sa_sigaction = [](int, siginfo_t* info, void*) {
      fault_address = info->si_addr;
      sigset_t blocked;
      sigprocmask(SIG_BLOCK, nullptr, &blocked);
      was_blocked = sigismember(&blocked, SIGUSR1);
      siglongjmp(after_fault, 1);
    };
    mine.sa_flags = SA_SIGINFO;
    sigaddset(&mine.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &mine, nullptr);
    install_memory_fault_handler();
    const half_accessible memory;
    std::byte ours[8]{};
    if (copy_payload(memory.end(), ours, sizeof ours) != copy_fault::sink) return 1;
    for (int round = 0; round < 2; ++round) {
      if (!faults_at(memory.end() + 8)) return 2;
      if (fault_address != memory.end() + 8 || was_blocked != 1) return 3;
      if (copy_payload(memory.end(), ours, sizeof ours) != copy_fault::sink) return 4;
    }
    return 5;
  });
  EXPECT_TRUE(exited_with(status, 5)) << status;
}

TEST(memory_faults, handler_for_one_signal_is_called_once) {
  const int status = status_of_child([] {
    struct sigaction mine{};
    mine.sa_handler = [](int) {};
    mine.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGSEGV, &mine, nullptr);
    install_memory_fault_handler();
    const half_accessible memory;
    *reinterpret_cast<volatile char*>(memory.end()) = 1;  // the handler, then the default action
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

#endif

TEST(memory_faults, only_instructions_of_the_copies_have_a_continuation) {
  EXPECT_EQ(continuation_of(0), 0U);
  EXPECT_EQ(continuation_of(reinterpret_cast<std::uintptr_t>(&install_memory_fault_handler)), 0U);
}

}  // namespace
}  // namespace verbena::softdev
