// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/cost/instruction_count.hpp"

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace verbena::softdev::testing {
#if defined(__x86_64__)
namespace {

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

}  // namespace
#endif

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

}  // namespace verbena::softdev::testing
