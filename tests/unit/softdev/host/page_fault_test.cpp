// SPDX-License-Identifier: MIT
#include "softdev/host/page_fault.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>

#include "softdev/host/memory_faults.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t bytes_of_page = 4096;

// Three pages: writable, readable, not accessible.
class three_pages {
 public:
  three_pages()
      : data_(static_cast<std::byte*>(mmap(nullptr, 3 * bytes_of_page, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memset(data_, 0x5a, 2 * bytes_of_page);
    EXPECT_EQ(mprotect(data_ + bytes_of_page, bytes_of_page, PROT_READ), 0);
    EXPECT_EQ(munmap(data_ + 2 * bytes_of_page, bytes_of_page), 0);
  }
  three_pages(const three_pages&) = delete;
  three_pages& operator=(const three_pages&) = delete;
  ~three_pages() { munmap(data_, 2 * bytes_of_page); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* const data_;
};

// Returns whether the answers for all ranges are right.
bool answers_are_right() {
  const three_pages memory;
  std::byte* const data = memory.data();
  const auto readable = [&](std::size_t first, std::size_t bytes) {
    return ends_are_accessible(data + first, bytes, false);
  };
  const auto writable = [&](std::size_t first, std::size_t bytes) {
    return ends_are_accessible(data + first, bytes, true);
  };
  const bool right = readable(0, 1) && readable(0, 2 * bytes_of_page) &&
                     readable(2 * bytes_of_page - 1, 1) && !readable(0, 2 * bytes_of_page + 1) &&
                     !readable(2 * bytes_of_page, 1) && writable(0, bytes_of_page) &&
                     writable(bytes_of_page - 1, 1) && !writable(0, bytes_of_page + 1) &&
                     !writable(bytes_of_page, 1) && !writable(2 * bytes_of_page, 1) &&
                     !ends_are_accessible(nullptr, 64, false) &&
                     !ends_are_accessible(nullptr, 64, true);
  for (std::size_t i = 0; i < 2 * bytes_of_page; ++i)
    if (data[i] != std::byte{0x5a}) return false;
  return right;
}

// Runs `work` in a child process and returns its wait status.
int wait_status_of(const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    _exit(work());
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(page_fault, ends_are_accessible_if_both_bytes_are) {
  EXPECT_TRUE(answers_are_right());
  EXPECT_TRUE(memory_faults_are_caught());
}

TEST(page_fault, ends_are_looked_at_without_a_signal_if_the_program_replaced_the_handler) {
  EXPECT_EQ(wait_status_of([] {
              if (!answers_are_right()) return 1;
              struct sigaction mine{};
              mine.sa_handler = [](int) { _exit(9); };
              sigaction(SIGSEGV, &mine, nullptr);
              return !memory_faults_are_caught() && answers_are_right() ? 0 : 2;
            }),
            0);
}

TEST(page_fault, ends_are_looked_at_without_a_signal_in_a_thread_that_blocks_it) {
  for (const int number : {SIGSEGV, SIGBUS})
    EXPECT_EQ(wait_status_of([number] {
                bool right = answers_are_right();
                std::thread([&] {
                  sigset_t blocked;
                  sigemptyset(&blocked);
                  sigaddset(&blocked, number);
                  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
                  right = right && !memory_faults_are_caught() && answers_are_right();
                }).join();
                return right ? 0 : 1;
              }),
              0);
}

TEST(page_fault, end_beyond_a_truncated_file_is_not_accessible) {
  const int fd = memfd_create("verbena-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 2 * bytes_of_page), 0);
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, 2 * bytes_of_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_EQ(ftruncate(fd, bytes_of_page), 0);
#if defined(__x86_64__)
  EXPECT_FALSE(ends_are_accessible(memory, 2 * bytes_of_page, true));
  EXPECT_FALSE(ends_are_accessible(memory, 2 * bytes_of_page, false));
#endif
  EXPECT_TRUE(ends_are_accessible(memory, bytes_of_page, true));
  munmap(memory, 2 * bytes_of_page);
  close(fd);
}

}  // namespace
}  // namespace verbena::softdev
