// SPDX-License-Identifier: MIT
#include "tools/verbena/run/environment.hpp"

#include <cstdlib>
#include <filesystem>

namespace verbena::tool {
namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? value : "";
}

}  // namespace

std::string put_first(const std::string& entry, std::string_view list) {
  if (list.empty() || list == entry || list.starts_with(entry + ':'))
    return list.empty() ? entry : std::string(list);
  return entry + ':' + std::string(list);
}

settings environment_for(way chosen, const artifacts& from) {
  if (chosen == way::preload)
    return {{"LD_PRELOAD", put_first(from.preload, environment("LD_PRELOAD"))}};
  // LD_PRELOAD is for programs with an RPATH, which precedes LD_LIBRARY_PATH. LD_LIBRARY_PATH is
  // for all other programs.
  const auto folder = std::filesystem::path(from.dropin).parent_path().string();
  const auto both = from.dropin + ':' + from.connecting_dropin;
  return {{"LD_PRELOAD", put_first(both, environment("LD_PRELOAD"))},
          {"LD_LIBRARY_PATH", put_first(folder, environment("LD_LIBRARY_PATH"))}};
}

}  // namespace verbena::tool
