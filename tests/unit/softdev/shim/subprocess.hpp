// SPDX-License-Identifier: MIT
// Child processes with a stream to the test, and shell commands.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace verbena::softdev::testing {

/// One end of a stream between two processes. Values are trivially copyable structures. If the peer
/// has exited or sends nothing for 30 seconds, functions throw.
class stream {
 public:
  explicit stream(int fd) : fd_(fd) {}
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream();

  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(&value, sizeof value);
  }
  template <class T>
  [[nodiscard]] T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    take_bytes(&value, sizeof value);
    return value;
  }
  /// Waits until the peer calls this function too.
  void meet() {
    put('m');
    static_cast<void>(take<char>());
  }

 private:
  void put_bytes(const void* bytes, std::size_t count);
  void take_bytes(void* bytes, std::size_t count);
  int fd_;
};

/// A forked child that runs `work` with a stream to this process. A child that runs longer than one
/// minute is killed.
class child_process {
 public:
  explicit child_process(const std::function<int(stream& parent)>& work);
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  [[nodiscard]] stream& to() { return *stream_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill_it();
  /// Waits for the child. Returns the result of `work` (0 … 253), 254 if an expectation failed, 255
  /// after an exception, or 1000 plus the signal that ended the child.
  [[nodiscard]] int join();

 private:
  pid_t pid_ = -1;
  stream* stream_ = nullptr;
};

/// Runs `work` in a child and returns the result of child_process::join().
[[nodiscard]] int in_child(const std::function<int()>& work);

/// Returns the standard output of a shell command. Throws if the command fails.
[[nodiscard]] std::string output_of(const std::string& command);
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

}  // namespace verbena::softdev::testing
