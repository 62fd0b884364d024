// SPDX-License-Identifier: MIT
// `zoo --list` prints all entries as JSON. `zoo NAME FORM` runs one form of an entry in this
// process. scripts/zoo.py starts the program and evaluates its output.
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tests/zoo/entry.hpp"

namespace verbena::zoo {
namespace {

constexpr std::array classes = {
    &lifetime,          //
    &aliasing,          //
    &ordering,          //
    &queue_accounting,  //
    &state_machine,     //
    &keys_and_bounds,   //
    &events,            //
    &threads,           //
    &teardown,          //
    &byte_order,        //
    &datagram_header,   //
    &request_numbers,   //
    &inline_limits,     //
    &forks,             //
    &asynchronous,      //
};
constexpr std::array harms = {"wrong data", "hang", "crash", "leak"};
constexpr std::array levels = {"compiler", "stop", "value", "unwritable"};
constexpr std::array answers = {"yes", "no", "absent", "unknown"};

template <class Names, class Enum>
const char* name_of(const Names& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') made += '\\';
    made += each;
  }
  return made + '"';
}

std::string shown(const char* key, const crate& of) {
  return std::string(", \"") + key + R"(": {"stops": )" + quoted(name_of(answers, of.stops)) +
         R"(, "why": )" + quoted(of.why) + "}";
}

std::string shown(const entry& of) {
  const std::array<std::pair<const char*, const char*>, 8> fields = {
      {{"name", of.name},
       {"class", of.kind},
       {"mistake", of.mistake},
       {"seen", of.seen},
       {"harm", name_of(harms, of.does)},
       {"level", name_of(levels, of.caught_by)},
       {"words", of.words},
       {"in_c_verbs", of.in_c_verbs != nullptr ? of.in_c_verbs : ""}}};
  std::string made;
  for (const auto& [key, value] : fields)
    made += (made.empty() ? "{" : ", ") + quoted(key) + ": " + quoted(value);
  return made + shown("ibverbs", of.ibverbs) + shown("ibverbs-rs", of.ibverbs_rs) +
         shown("rrddmma", of.rrddmma) + "}";
}

void list() {
  const char* between = "[\n";
  for (const auto& each : classes)
    for (const entry& one : each()) {
      std::printf("%s%s", between, shown(one).c_str());
      between = ",\n";
    }
  std::puts("\n]");
}

form find(std::string_view name, std::string_view which) {
  for (const auto& each : classes)
    for (const entry& one : each())
      if (name == one.name)
        return which == "harm"     ? one.harmful
               : which == "caught" ? one.caught
               : which == "twin"   ? one.twin
                                   : nullptr;
  return nullptr;
}

[[noreturn]] void end(int status, const char* word, std::string_view what) {
  std::printf("%s: %.*s\n", word, static_cast<int>(what.size()), what.data());
  std::fflush(stdout);
  std::_Exit(status);
}

int run(std::string_view name, std::string_view which) {
  const form chosen = find(name, which);
  if (chosen == nullptr) return 2;
  const rlimit no_cores{};
  setrlimit(RLIMIT_CORE, &no_cores);
  try {
    chosen();
  } catch (const std::exception& caught) {
    failed(caught.what());
  }
  if (which == "harm") end(3, "failed", "no effect was observed");
  std::puts("done");
  return 0;
}

}  // namespace

// The process exits immediately, because its state is undefined after the mistake.
void harmed(const std::string& what) { end(0, "harm", what); }
void reported(const std::string& what) { end(0, "reported", what); }
void verified(const std::string& what) { std::printf("verified: %s\n", what.c_str()); }
void failed(std::string_view what) { end(4, "failed", what); }

}  // namespace verbena::zoo

int main(int count, char** arguments) {
  const std::span words(arguments, static_cast<std::size_t>(count));
  if (words.size() == 2 && std::string_view(words[1]) == "--list") {
    verbena::zoo::list();
    return 0;
  }
  const int status = words.size() == 3 ? verbena::zoo::run(words[1], words[2]) : 2;
  if (status == 2) std::fputs("usage: zoo --list, or zoo NAME harm|caught|twin\n", stderr);
  return status;
}
