// SPDX-License-Identifier: MIT
// Reads and writes streams of bytes between processes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::tool {

struct output_state;

/// Writes to a descriptor on a separate thread, so that a slow reader does not delay other work of
/// this process. Does not change the mode of the descriptor, which other processes may share.
///
/// The destructor discards bytes that the thread has not written. Create it with signals blocked.
/// Threads: one thread at a time.
class output_thread {
 public:
  /// Starts the thread.
  explicit output_thread(int to);
  output_thread(const output_thread&) = delete;
  output_thread& operator=(const output_thread&) = delete;
  ~output_thread();

  /// Adds bytes, without blocking. After a failure of write(2), bytes are discarded.
  void add(std::string_view bytes);
  /// Discards the unwritten bytes, and all later ones.
  void discard();
  /// Returns whether more than 1 MiB is unwritten: the caller should then stop reading its input.
  [[nodiscard]] bool is_full() const;
  /// Returns whether all bytes were written or discarded.
  [[nodiscard]] bool is_idle() const;
  /// Returns whether write(2) has failed, or discard() was called.
  [[nodiscard]] bool has_failed() const;
  /// Returns a descriptor that becomes readable after bytes were written.
  [[nodiscard]] int fd() const noexcept;
  /// Makes the descriptor unreadable again. Returns whether bytes were written.
  bool acknowledge() const;

 private:
  std::shared_ptr<output_state> state_;  // shared with the thread
};

/// The result of read_some().
enum class read_outcome : unsigned char {
  bytes,  ///< bytes were appended
  would_block,
  end,  ///< the end, or an error
};

/// Appends the bytes of one read(2), at most 64 KiB.
[[nodiscard]] read_outcome read_some(int from, std::string& to);

/// Writes lines with a prefix. Adds each line as a whole, so that lines of several writers are not
/// mixed. Lines longer than 64 KiB are divided. Threads: one thread at a time.
class prefixed_lines {
 public:
  /// Writes to `to`, which must outlive this object.
  prefixed_lines(output_thread& to, std::string prefix) : prefix_(std::move(prefix)), to_(&to) {}

  /// Adds bytes, and writes all complete lines.
  void add(std::string_view bytes);
  /// Writes the rest as a line.
  void end();

 private:
  std::string prefix_;
  std::string partial_;
  output_thread* to_;
};

}  // namespace verbena::tool
