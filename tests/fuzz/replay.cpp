// SPDX-License-Identifier: MIT
// fuzz_replay TARGET FOLDER-OR-FILE...: runs the stored inputs of a target.
// fuzz_replay TARGET --seeds FOLDER: writes the inputs that the target makes of real messages.
// The names of the inputs are printed, so that the last one is the one that ended the program.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace {

using verbena::fuzz::target;

int refuse(const std::string& why) {
  std::fprintf(stderr, "fuzz_replay: %s\n", why.c_str());
  return 2;
}

const target* find(std::string_view name) {
  const target* each = target::first();
  while (each != nullptr && each->name() != name) each = each->next();
  return each;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place)) return {place};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(place)) files.push_back(entry);
  std::ranges::sort(files);
  return files;
}

}  // namespace

int main(int count, char** arguments) {
  const std::span<char*> words(arguments, static_cast<std::size_t>(count));
  if (words.size() < 3) return refuse("usage: fuzz_replay TARGET FOLDER-OR-FILE...");
  const target* const chosen = find(words[1]);
  if (chosen == nullptr) return refuse("there is no target " + std::string(words[1]));
  if (words[2] == std::string_view("--seeds")) {
    if (words.size() != 4) return refuse("--seeds needs a folder");
    verbena::fuzz::seed_folder into(words[3]);
    chosen->write_seeds(into);
    return 0;
  }
  std::size_t ran = 0;
  for (const char* const place : words.subspan(2))
    for (const auto& path : files_of(place)) {
      std::ifstream file(path, std::ios::binary);
      if (!file) return refuse(path.string() + " cannot be read");
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s\n", path.c_str());
      std::fflush(stdout);
      chosen->run(std::as_bytes(std::span(bytes)));
      ++ran;
    }
  if (ran == 0) return refuse("there is no input of " + std::string(words[1]));
  return 0;
}
