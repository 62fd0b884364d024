// SPDX-License-Identifier: MIT
// The locked instructions of a message between two processes: the sender, the receiver and the
// acknowledgement. Each costs about 20 cycles, and more if another processor has the cache line.
// A child process sends the message, and this process executes the child one instruction at a time
// (ptrace(2)).
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "softdev/core/process_barrier.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

// The instructions that the child executes between its two marks.
struct executed_instructions {
  std::uint64_t all = 0;
  /// With a LOCK prefix, or XCHG with memory, or MFENCE: each waits for earlier stores.
  std::uint64_t locked = 0;
  std::uint64_t system_calls = 0;
};

#if defined(__x86_64__)

using opcode_bytes = std::array<std::uint8_t, 16>;

bool is_legacy_prefix(std::uint8_t byte) {
  return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
         byte == 0x3e || byte == 0x64 || byte == 0x65;
}

enum class instruction : std::uint8_t { ordinary, locked, system_call };

instruction classify(const opcode_bytes& bytes) {
  std::size_t at = 0;
  while (at < 8 && is_legacy_prefix(bytes[at])) ++at;
  if (bytes[at] == 0xf0) return instruction::locked;
  if ((bytes[at] & 0xf0U) == 0x40) ++at;  // REX
  const bool memory_operand = (bytes[at + 1] & 0xc0U) != 0xc0;
  if ((bytes[at] == 0x86 || bytes[at] == 0x87) && memory_operand) return instruction::locked;
  if (bytes[at] == 0x0f && bytes[at + 1] == 0xae && bytes[at + 2] == 0xf0)
    return instruction::locked;  // MFENCE
  if (bytes[at] == 0x0f && bytes[at + 1] == 0x05) return instruction::system_call;
  return instruction::ordinary;
}

opcode_bytes read_code(pid_t child, std::uint64_t address) {
  opcode_bytes bytes{};
  for (std::size_t word = 0; word < 2; ++word) {
    const long value =
        ::ptrace(PTRACE_PEEKTEXT, child, reinterpret_cast<void*>(address + word * 8), nullptr);
    std::memcpy(bytes.data() + word * 8, &value, sizeof value);
  }
  return bytes;
}

// Returns the signal that stopped the child, or 0 if it has ended.
int wait_for_stop(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, __WALL) < 0) {
    if (errno != EINTR) return 0;
  }
  return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

constexpr int mark = SIGUSR1;

[[noreturn]] void run_child(const std::function<void()>& prepare,
                            const std::function<void()>& measured) {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
  prepare();
  ::raise(mark);
  measured();
  ::raise(mark);
  ::_exit(0);
}

std::optional<executed_instructions> step_to_second_mark(pid_t child) {
  executed_instructions counted;
  while (true) {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return std::nullopt;
    const instruction next = classify(read_code(child, registers.rip));
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return std::nullopt;
    const int stopped_by = wait_for_stop(child);
    if (stopped_by == mark) return counted;
    if (stopped_by != SIGTRAP) return std::nullopt;
    ++counted.all;
    if (next == instruction::locked) ++counted.locked;
    if (next == instruction::system_call) ++counted.system_calls;
  }
}

#endif

// Runs `prepare`, then counts what `measured` executes in its first thread, both in one child
// process. Returns nullopt if this is not x86-64, or the kernel does not permit ptrace(2).
std::optional<executed_instructions> count_instructions(const std::function<void()>& prepare,
                                                        const std::function<void()>& measured) {
#if defined(__x86_64__)
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) run_child(prepare, measured);
  std::optional<executed_instructions> counted;
  if (wait_for_stop(child) == mark) counted = step_to_second_mark(child);
  ::kill(child, SIGKILL);
  while (wait_for_stop(child) != 0) {
  }
  return counted;
#else
  static_cast<void>(prepare);
  static_cast<void>(measured);
  return std::nullopt;
#endif
}

TEST(locked_instructions, are_counted) {
  std::atomic<int> value = 0;
  const auto counted = count_instructions([] {},
                                          [&] {
                                            value.fetch_add(1);
                                            value.store(2, std::memory_order_seq_cst);
                                            value.store(3, std::memory_order_relaxed);
                                            static_cast<void>(::getppid());
                                          });
  if (!counted) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
  // raise(3), which sets the second mark, has two or three system calls before the mark arrives.
  EXPECT_GE(counted->locked, 2U);
  EXPECT_LE(counted->locked, 3U);
  EXPECT_GE(counted->system_calls, 2U);
}

class message_cost : public ::testing::Test {
 protected:
  // Sends one message of 8 bytes and polls both completions.
  void send_once() {
    static_cast<void>(post_receive(*pair_->b->qp, 2, {to_->slice(0, 8)}));
    static_cast<void>(post(*pair_->a->qp, {.wr_id = 1, .flags = signaled}, {from_->slice(0, 8)}));
    pair_->right.path->progress();
    received_ += pair_->b->received->poll(room_);
    pair_->left.path->progress();
    sent_ += pair_->a->sent->poll(room_);
  }
  void prepare() {
    // With one thread, the C library omits the locks of mutexes and reference counts.
    std::thread([] {
      while (true) ::pause();
    }).detach();
    pair_ = std::make_unique<device_pair>();
    pair_->connect_ends();
    from_ = std::make_unique<shared_buffer>(pair_->left, memory_kind::shareable, 4096, 1);
    to_ = std::make_unique<shared_buffer>(pair_->right, memory_kind::shareable, 4096, 2);
    static_cast<void>(post_receive(*pair_->b->qp, 2, {to_->slice(0, 8)}));
    static_cast<void>(post(*pair_->a->qp, {.wr_id = 1, .flags = signaled}, {from_->slice(0, 8)}));
    static_cast<void>(pair_->wait_for(*pair_->a->sent, 1));
    static_cast<void>(pair_->wait_for(*pair_->b->received, 1));
    pair_->settle();
    // The thread becomes the owner of the locks.
    constexpr std::size_t first_messages = 300;
    for (std::size_t i = 0; i < first_messages; ++i) send_once();
    if (sent_ != first_messages || received_ != first_messages) ::_exit(1);
  }

  std::unique_ptr<device_pair> pair_;
  std::unique_ptr<shared_buffer> from_;
  std::unique_ptr<shared_buffer> to_;
  std::array<completion, 4> room_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

TEST_F(message_cost, of_a_send_is_bounded) {
  const auto counted = count_instructions([this] { prepare(); }, [this] { send_once(); });
  if (!counted) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
  RecordProperty("locked", static_cast<int>(counted->locked));
  RecordProperty("all", static_cast<int>(counted->all));
  // Without membarrier(2), each lock costs one, and one belongs to posting the receive request.
  EXPECT_LE(counted->locked, has_process_barrier() ? 4U : 18U);
  EXPECT_LE(counted->system_calls, 3U) << "only those of raise(3), which sets the mark";
}

}  // namespace
}  // namespace verbena::softdev::testing
