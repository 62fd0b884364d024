// SPDX-License-Identifier: MIT
#include "tools/verbena/run/command.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/verbena/run/artifacts.hpp"
#include "tools/verbena/run/choice.hpp"
#include "tools/verbena/run/environment.hpp"
#include "tools/verbena/run/program.hpp"
#include "tools/verbena/run/reach.hpp"

namespace verbena::tool {
namespace {

int refuse(const refusal& why) {
  std::cerr << "verbena run: " << why.text << '\n';
  return why.status;
}

void tell(const program& found, const choice& chosen, const settings& environment) {
  std::cerr << "verbena run: program: " << found.file << '\n';
  for (const auto& interpreter : found.interpreters)
    std::cerr << "verbena run: interpreter: " << interpreter << '\n';
  std::cerr << "verbena run: method: " << (chosen.way == way::preload ? "preload" : "drop-in")
            << ", because " << chosen.reason << '\n';
  for (const auto& [name, value] : environment)
    std::cerr << "verbena run: " << name << '=' << value << '\n';
  const char* const mode = std::getenv("VERBENA_SOFTDEV");  // NOLINT(concurrency-mt-unsafe)
  std::cerr << "verbena run: VERBENA_SOFTDEV=" << (mode != nullptr ? mode : "(not set: on)")
            << '\n';
}

// Returns only on failure.
int become(const program& found, const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(found.file.c_str(), arguments.data());
  const int code = errno;
  return refuse({.status = code == ENOENT ? run_status::not_found : run_status::cannot_execute,
                 .text = found.file + ": " + std::generic_category().message(code)});
}

}  // namespace

int execute(const run_options& options) {
  const auto found = find_program(options.command.front());
  if (!found) return refuse(found.why());
  const auto chosen = choose_way(found.value(), options.way);
  const auto libraries = find_artifacts(chosen.way);
  if (!libraries) return refuse(libraries.why());
  const auto environment = environment_for(chosen.way, libraries.value());
  if (options.verbose) tell(found.value(), chosen, environment);
  if (options.way == way::preload)
    if (const auto missed = missed_by_preload(found.value()); !missed.empty())
      std::cerr << "verbena run: warning: " << missed << '\n';
  for (const auto& [name, value] : environment) {
    if (::setenv(name.c_str(), value.c_str(), 1) != 0)  // NOLINT(concurrency-mt-unsafe)
      return refuse(
          {.status = run_status::failed,
           .text = name + " could not be set: " + std::generic_category().message(errno)});
  }
  return become(found.value(), options.command);
}

}  // namespace verbena::tool
