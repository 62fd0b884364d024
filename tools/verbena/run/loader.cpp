// SPDX-License-Identifier: MIT
#include "tools/verbena/run/loader.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t longest_list = std::size_t{1} << 20;

// Reads until the peer closes the pipe; returns nullopt if the text exceeds 1 MiB.
std::optional<std::string> read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const auto count = ::read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || text.size() > longest_list) return std::nullopt;
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

// Starts `loader --list executable` with stdout in `output` and stderr in /dev/null.
std::optional<pid_t> start(const std::string& loader, const std::string& executable, int output) {
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return std::nullopt;
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  std::string words[] = {loader, "--list", executable};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, loader.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? std::optional(child) : std::nullopt;
}

bool ended_well(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

loaded_libraries read_loader_list(const std::string& list) {
  loaded_libraries found{.on_libibverbs = dependence::not_linked, .paths = {}};
  std::string_view rest = list;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with("libibverbs.so.1 "))
      found.on_libibverbs = line.find("=> not found") != std::string_view::npos
                                ? dependence::missing
                                : dependence::linked;
    // NAME => PATH (ADDRESS)
    constexpr std::string_view arrow = "=> ";
    if (const auto place = line.find(arrow); place != std::string_view::npos)
      line.remove_prefix(place + arrow.size());
    if (line.starts_with('/')) found.paths.emplace_back(line.substr(0, line.rfind(" (")));
  }
  return found;
}

loaded_libraries ask_loader(const std::string& loader, const std::string& executable) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  unique_fd ours(ends[0]);
  unique_fd theirs(ends[1]);
  const auto child = start(loader, executable, theirs.get());
  theirs.reset();
  if (!child) return {};
  const auto list = read_all(ours.get());
  ours.reset();  // a loader that still writes receives SIGPIPE
  const bool complete = ended_well(*child);
  if (!list) return {};
  auto found = read_loader_list(*list);
  // If the loader failed, the list is incomplete: the absence of libibverbs proves nothing.
  if (!complete && found.on_libibverbs == dependence::not_linked)
    found.on_libibverbs = dependence::not_known;
  return found;
}

}  // namespace verbena::tool
