// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/shim/subprocess.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace verbena::softdev::testing {

int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    alarm(60);
    int result = 255;
    try {
      result = work();
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "child: %s\n", problem.what());
    }
    _exit(result);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
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
