// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/byte_streams.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 10U;
constexpr std::size_t max_waiting_bytes = std::size_t{1} << 20U;

// Writes all bytes. Waits on EAGAIN: another process may have made the descriptor non-blocking.
bool write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(to, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd event{.fd = to, .events = POLLOUT, .revents = 0};
      ::poll(&event, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

/// Threads: thread-safe with `mutex`.
struct output_state {
  explicit output_state(int which) : to(which), written(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return is_ending || !waiting.empty(); });
      if (is_ending) return;
      const std::string next = std::exchange(waiting, {});
      is_writing = true;
      lock.unlock();
      const bool is_written = write_all(to, next);
      lock.lock();
      is_writing = false;
      has_failed = has_failed || !is_written;
      if (has_failed) waiting.clear();
      static_cast<void>(::eventfd_write(written.get(), 1));
    }
  }

  const int to;
  const unique_fd written;  // an eventfd
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  bool is_writing = false;
  bool has_failed = false;
  bool is_ending = false;
};

output_thread::output_thread(int to) : state_(std::make_shared<output_state>(to)) {
  // Not joined: it may be blocked in write(2) until the process ends.
  std::thread([state = state_] { state->run(); }).detach();
}

output_thread::~output_thread() {
  const std::lock_guard lock(state_->mutex);
  state_->is_ending = true;
  state_->changed.notify_one();
}

void output_thread::add(std::string_view bytes) {
  const std::lock_guard lock(state_->mutex);
  if (bytes.empty() || state_->has_failed) return;
  state_->waiting += bytes;
  state_->changed.notify_one();
}

void output_thread::discard() {
  const std::lock_guard lock(state_->mutex);
  state_->has_failed = true;
  state_->waiting.clear();
}

bool output_thread::is_full() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() > max_waiting_bytes;
}

bool output_thread::is_idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_failed || (state_->waiting.empty() && !state_->is_writing);
}

bool output_thread::has_failed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_failed;
}

int output_thread::fd() const noexcept { return state_->written.get(); }

bool output_thread::acknowledge() const {
  eventfd_t unused = 0;
  return ::eventfd_read(fd(), &unused) == 0;
}

read_outcome read_some(int from, std::string& to) {
  std::array<char, std::size_t{64} << 10U> room;
  while (true) {
    const auto count = ::read(from, room.data(), room.size());
    if (count > 0) {
      to.append(room.data(), static_cast<std::size_t>(count));
      return read_outcome::bytes;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno == EAGAIN ? read_outcome::would_block : read_outcome::end;
  }
}

void prefixed_lines::add(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const bool ends = newline != std::string_view::npos;
    partial_ += bytes.substr(0, ends ? newline : bytes.size());
    bytes.remove_prefix(ends ? newline + 1 : bytes.size());
    if (!ends && partial_.size() < max_line_bytes) break;
    out += prefix_ + partial_ + '\n';
    partial_.clear();
  }
  // If the reader has ended, the output is lost; the ranks are not affected.
  to_->add(out);
}

void prefixed_lines::end() {
  if (!partial_.empty()) add("\n");
}

}  // namespace verbena::tool
