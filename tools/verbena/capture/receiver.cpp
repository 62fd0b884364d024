// SPDX-License-Identifier: MIT
#include "tools/verbena/capture/receiver.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <system_error>

namespace verbena::tool {
namespace {

constexpr int step_ms = 50;
constexpr std::size_t largest_message = 65536;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string folder_for_sockets() {
  for (const char* const name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
    if (value != nullptr && value[0] == '/' && ::access(value, W_OK) == 0) return value;
  }
  return "/tmp";
}

/// Writes all bytes. Returns 0 or an errno.
int write_all(int to, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(to, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd event{.fd = to, .events = POLLOUT, .revents = 0};
      ::poll(&event, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

receiver::receiver(int output) : output_(output), folder_(folder_for_sockets()) {
  folder_ += "/verbena-capture-XXXXXX";
  if (::mkdtemp(folder_.data()) == nullptr) fail("mkdtemp " + folder_);
  path_ = folder_ + "/packets";
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path_.size() >= sizeof name.sun_path) {
    errno = ENAMETOOLONG;
    fail(path_);
  }
  std::ranges::copy(path_, name.sun_path);
  socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_) fail("socket");
  const mode_t before = ::umask(S_IRWXG | S_IRWXO);
  const int bound = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  ::umask(before);
  if (bound != 0) fail("bind " + path_);
}

receiver::~receiver() {
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
}

bool receiver::receive_one(int flags) {
  static std::array<std::byte, largest_message> message;
  const auto count = ::recv(socket_.get(), message.data(), message.size(), flags);
  if (count <= 0) return false;
  const auto bytes = std::span(message).first(static_cast<std::size_t>(count));
  // Each process sends the file header first; the stream needs only one.
  if (begins_capture(bytes)) {
    if (begun_) return true;
    begun_ = true;
  }
  auto found = count_packets(bytes);
  if (failure_ == 0) failure_ = write_all(output_, bytes);
  if (failure_ != 0) found = {.stored = 0, .lost = found.lost + found.stored};
  count_ += found;
  return true;
}

void receiver::receive() {
  pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, step_ms) > 0) drain();
}

void receiver::drain() {
  while (receive_one(MSG_DONTWAIT)) continue;
}

}  // namespace verbena::tool
