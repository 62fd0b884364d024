// SPDX-License-Identifier: MIT
#include "softdev/shim/script.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "src/base/quiet_thread.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

constexpr const char* variable = "VERBENA_SOFTDEV_INJECT";

// Returns the line and the column of a byte, for messages.
std::string place_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t last = before.rfind('\n');
  const std::size_t column = last == std::string_view::npos ? at + 1 : at - last;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

error not_read(const std::string& source, std::string_view text, const invalid_word& what) {
  const std::string fault = what.word.empty() ? "the command is incomplete; add "
                                              : "'" + what.word + "' is not valid here; use ";
  return error::invalid_argument(source, {},
                                 place_of(text, what.at) + ": " + fault + what.expected);
}

result<std::string> read_file(const std::string& source, const std::string& name) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(name.c_str(), "re"), close);
  std::string text;
  char piece[4096];
  while (file) {
    const std::size_t count = std::fread(piece, 1, sizeof piece, file.get());
    if (count == 0 && std::ferror(file.get()) == 0) return text;
    if (count == 0) break;
    text.append(piece, count);
  }
  return error::from_errno(errno, source, name,
                           "the file of the script cannot be read; check its name after '@'");
}

result<script> read_steps(const std::string& source, std::string_view text) {
  script steps;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(";\n#", begin), text.size());
    word_reader words(text, begin, end);
    if (!words.at_end()) {
      script_step step;
      if (words.at_number()) step.after = words.duration();
      step.act = read_command(words);
      if (words.problem()) return not_read(source, text, *words.problem());
      step.text = text.substr(begin, end - begin);
      steps.push_back(std::move(step));
    }
    const bool comment = end < text.size() && text[end] == '#';
    begin = (comment ? std::min(text.find('\n', end), text.size()) : end) + 1;
  }
  return steps;
}

struct playing {
  host* home;
  script steps;
};

void* play(void* of) {
  const std::unique_ptr<playing> what(static_cast<playing*>(of));
  for (const script_step& each : what->steps) {
    // lint: allow(sleep): the script consists of commands and times
    std::this_thread::sleep_for(each.after);
    if (const int failed = each.act(*what->home))
      log(log_level::warning, "soft0: the injected command '" + each.text +
                                  "' failed: " + std::generic_category().message(failed));
  }
  return nullptr;
}

}  // namespace

command read_command(word_reader& words) {
  std::string names;
  for (const command_family& family : {device_commands(), fault_commands(), object_commands()}) {
    if (command found = family.read(words)) {
      if (!words.at_end()) words.refuse("the end of the command");
      return found;
    }
    if (words.problem()) return {};
    names.append(names.empty() ? "" : ", ").append(family.names());
  }
  words.refuse("one of " + names);
  return {};
}

result<script> read_script(const std::string& source, std::string_view text) {
  if (!text.starts_with('@')) return read_steps(source, text);
  const std::string name(text.substr(1));
  VERBENA_TRY(const std::string content, read_file(source, name));
  return read_steps(source + " (file " + name + ")", content);
}

int run_script(host& home, script steps) {
  const auto later = std::ranges::find_if(
      steps, [](const script_step& each) { return each.after > std::chrono::microseconds(0); });
  for (auto step = steps.begin(); step != later; ++step) {
    if (const int failed = step->act(home)) return failed;
  }
  if (later == steps.end()) return 0;
  auto what = std::make_unique<playing>(playing{&home, {later, steps.end()}});
  pthread_t thread;
  playing* const mine = what.release();  // owned by the thread, if it starts
  const int failed = verbena::detail::start_quiet_thread(thread, &play, mine, "verbena-script");
  if (failed != 0) {
    what.reset(mine);
    return failed;
  }
  pthread_detach(thread);
  return 0;
}

result<void> run_script_of_environment(host& home) {
  static std::atomic<host*> started{nullptr};
  const char* const text = ::secure_getenv(variable);
  if (text == nullptr || started.load() == &home) return {};
  VERBENA_TRY(script steps, read_script(variable, text));
  if (started.exchange(&home) == &home) return {};
  if (const int failed = run_script(home, std::move(steps)))
    return error::from_errno(failed, variable, "soft0",
                             "a command of the script failed; the commands after it are ignored");
  return {};
}

}  // namespace verbena::softdev
