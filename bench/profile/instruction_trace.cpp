// SPDX-License-Identifier: MIT
#include "bench/profile/instruction_trace.hpp"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace bench {
#if defined(__x86_64__)
namespace {

using opcode_bytes = std::array<std::uint8_t, 16>;

bool is_legacy_prefix(std::uint8_t byte) {
  return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
         byte == 0x3e || byte == 0x64 || byte == 0x65;
}

executed classify(const opcode_bytes& bytes) {
  std::size_t at = 0;
  while (at < 8 && is_legacy_prefix(bytes[at])) ++at;
  executed found;
  if (bytes[at] == 0xf0) {
    found.is_locked = true;
    return found;
  }
  if ((bytes[at] & 0xf0U) == 0x40) ++at;  // REX
  const bool has_memory_operand = (bytes[at + 1] & 0xc0U) != 0xc0;
  const bool is_xchg = (bytes[at] == 0x86 || bytes[at] == 0x87) && has_memory_operand;
  const bool is_two_bytes = bytes[at] == 0x0f;
  const bool is_mfence = is_two_bytes && bytes[at + 1] == 0xae && bytes[at + 2] == 0xf0;
  found.is_locked = is_xchg || is_mfence;
  found.is_system_call = is_two_bytes && bytes[at + 1] == 0x05;
  return found;
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

// Returns the signal that stopped the thread, or 0 if it has ended.
int wait_for_stop(pid_t thread) {
  int status = 0;
  while (::waitpid(thread, &status, __WALL) < 0) {
    if (errno != EINTR) return 0;
  }
  return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

// The work of the device's threads between two operations depends on the time, which passes a
// thousand times faster than usual.
bool stop_other_threads(pid_t child, std::vector<pid_t>& stopped) {
  DIR* const threads = ::opendir(("/proc/" + std::to_string(child) + "/task").c_str());
  if (threads == nullptr) return false;
  bool done = true;
  while (const dirent* const entry = ::readdir(threads)) {
    const auto thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread == 0 || thread == child) continue;
    done = done && ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0;
    if (!done) break;
    stopped.push_back(thread);
    done = ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 && wait_for_stop(thread) != 0;
  }
  ::closedir(threads);
  return done;
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

std::optional<instruction_trace> step_to_second_mark(pid_t child) {
  instruction_trace trace;
  while (true) {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return std::nullopt;
    auto found = trace.find(registers.rip);
    if (found == trace.end())
      found = trace.emplace(registers.rip, classify(read_code(child, registers.rip))).first;
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return std::nullopt;
    const int stopped_by = wait_for_stop(child);
    if (stopped_by == mark) return trace;
    if (stopped_by != SIGTRAP) return std::nullopt;
    ++found->second.times;
  }
}

}  // namespace
#endif

std::optional<instruction_trace> trace_instructions(const std::function<void()>& prepare,
                                                    const std::function<void()>& measured) {
#if defined(__x86_64__)
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) run_child(prepare, measured);
  std::optional<instruction_trace> trace;
  std::vector<pid_t> stopped;
  if (wait_for_stop(child) == mark && stop_other_threads(child, stopped))
    trace = step_to_second_mark(child);
  ::kill(child, SIGKILL);
  // The end of the process is reported after that of its threads.
  for (const pid_t thread : stopped)
    while (wait_for_stop(thread) != 0) {
    }
  while (wait_for_stop(child) != 0) {
  }
  return trace;
#else
  static_cast<void>(prepare);
  static_cast<void>(measured);
  return std::nullopt;
#endif
}

std::optional<instruction_counts> count_instructions(const std::function<void()>& prepare,
                                                     const std::function<void()>& measured) {
  const auto trace = trace_instructions(prepare, measured);
  if (!trace) return std::nullopt;
  instruction_counts counts;
  for (const auto& [address, instruction] : *trace) {
    counts.all += instruction.times;
    if (instruction.is_locked) counts.locked += instruction.times;
    if (instruction.is_system_call) counts.system_calls += instruction.times;
  }
  return counts;
}

}  // namespace bench
