// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/shim/subprocess.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace verbena::softdev::testing {

stream::~stream() { close(fd_); }

void stream::put_bytes(const void* bytes, std::size_t count) {
  if (send(fd_, bytes, count, MSG_NOSIGNAL) != static_cast<ssize_t>(count))
    throw std::runtime_error("the other process is gone");
}

void stream::take_bytes(void* bytes, std::size_t count) {
  auto* at = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const ssize_t got = recv(fd_, at, count, MSG_WAITALL);
    // A receive with a timeout is also interrupted when a stopped process is continued (signal(7)).
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("the other process is gone or silent");
    at += got;
    count -= static_cast<std::size_t>(got);
  }
}

child_process::child_process(const std::function<int(stream& parent)>& work) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair failed");
  const timeval receive_timeout{30, 0};
  for (const int end : ends)
    setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &receive_timeout, sizeof receive_timeout);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    close(ends[0]);
    alarm(60);
    int result = 255;
    try {
      stream parent(ends[1]);
      result = work(parent);
      if (result == 0 && ::testing::Test::HasFailure()) result = 254;
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "child: %s\n", problem.what());
    }
    _exit(result);
  }
  close(ends[1]);
  stream_ = new stream(ends[0]);
}

child_process::~child_process() {
  if (pid_ > 0) {
    kill_it();
    static_cast<void>(join());
  }
  delete stream_;
}

void child_process::kill_it() { kill(pid_, SIGKILL); }

int child_process::join() {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, 0);
  const bool known = ended == pid_;
  pid_ = -1;
  if (!known) throw std::runtime_error("waitpid failed");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int in_child(const std::function<int()>& work) {
  child_process child([&](stream& /*parent*/) { return work(); });
  return child.join();
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string text;
  char piece[4096];
  for (std::size_t got = 0; (got = std::fread(piece, 1, sizeof piece, pipe)) > 0;)
    text.append(piece, got);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed");
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace verbena::softdev::testing
