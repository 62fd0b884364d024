// SPDX-License-Identifier: MIT
// VERBENA_SOFTDEV_EVENTS: what happens to the device of a program that cannot be told to call
// verbena_soft_inject_event. The thread lives until the last command.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "softdev/shim/inject_event.hpp"
#include "src/base/quiet_thread.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

struct step {
  std::chrono::milliseconds after;
  std::string command;
};
struct script {
  host* home;
  std::vector<step> steps;
};

void complain(const std::string& of) {
  log(log_level::warning, "VERBENA_SOFTDEV_EVENTS: expected MILLISECONDS COMMAND; …; ignored: '" +
                              of.substr(0, 40) + "' is ignored");
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// `500 port 1 down`; empty steps are none.
void read_step(std::string_view text, std::vector<step>& out) {
  constexpr unsigned a_day = 86'400'000;
  text = without_spaces(text);
  if (text.empty()) return;
  unsigned delay = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), delay);
  const std::string_view command =
      without_spaces(text.substr(static_cast<std::size_t>(end - text.data())));
  if (failed != std::errc{} || delay > a_day || command.empty()) return complain(std::string(text));
  out.push_back({std::chrono::milliseconds(delay), std::string(command)});
}

std::vector<step> read_steps(std::string_view text) {
  std::vector<step> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    read_step(text.substr(0, end), out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void* play(void* of) {
  const std::unique_ptr<script> what(static_cast<script*>(of));
  for (const step& each : what->steps) {
    // lint: allow(sleep): the time is what the command is given with
    std::this_thread::sleep_for(each.after);
    if (inject_event(*what->home, each.command) != 0) complain(each.command);
  }
  return nullptr;
}

}  // namespace

void start_script(host& home) {
  static std::atomic<bool> started{false};
  const char* const text = std::getenv("VERBENA_SOFTDEV_EVENTS");
  if (text == nullptr || started.exchange(true)) return;
  auto what = std::make_unique<script>(script{&home, read_steps(text)});
  if (what->steps.empty()) return;
  pthread_t thread;
  script* const mine = what.release();  // the thread's, if there is one
  if (verbena::detail::start_quiet_thread(thread, &play, mine, "verbena-script") == 0) {
    pthread_detach(thread);
  } else {
    what.reset(mine);
    log(log_level::warning, "VERBENA_SOFTDEV_EVENTS is ignored: its thread cannot be created");
  }
}

}  // namespace verbena::softdev
