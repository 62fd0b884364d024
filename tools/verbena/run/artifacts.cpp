// SPDX-License-Identifier: MIT
#include "tools/verbena/run/artifacts.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace verbena::tool {
namespace {

namespace files = std::filesystem;

constexpr const char* variable = "VERBENA_RUN_LIBRARIES";

artifacts in_folder(const files::path& folder) {
  return {.folder = folder.string(),
          .preload = (folder / "libverbena-preload.so").string(),
          .dropin = (folder / "dropin" / "libibverbs.so.1").string(),
          .connecting_dropin = (folder / "dropin" / "librdmacm.so.1").string()};
}

bool can_be_read(const std::string& file) { return ::access(file.c_str(), R_OK) == 0; }

// Returns the first missing file that `chosen` needs; empty if none is missing.
std::string missing_file(const artifacts& found, way chosen) {
  const auto device = found.folder + "/libverbena-soft.so.0";
  const auto needed = chosen == way::preload
                          ? std::vector{found.preload, device}
                          : std::vector{found.dropin, found.connecting_dropin, device};
  const auto missing = std::ranges::find_if_not(needed, can_be_read);
  return missing != needed.end() ? *missing : "";
}

// Returns the file of this program. Without /proc, the file that it was started with, which may be
// a link in a folder without libraries.
files::path own_file(std::error_code& failed) {
  const auto link = files::read_symlink("/proc/self/exe", failed);
  if (!failed) return link;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel passes the address as a number
  const auto* const started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (started == nullptr) return {};
  return files::canonical(started, failed);
}

// Returns the folders to search; only the one in VERBENA_RUN_LIBRARIES if it is set.
std::vector<files::path> candidates() {
  const char* const named = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
  if (named != nullptr && *named != '\0') {
    std::error_code failed;
    const auto absolute = files::absolute(named, failed);
    return {failed ? files::path(named) : absolute};
  }
  std::error_code failed;
  const auto own = own_file(failed).parent_path();
  if (failed) return {};
  return {(own / "../lib").lexically_normal(), (own / VERBENA_TOOL_LIBRARIES).lexically_normal()};
}

}  // namespace

outcome<artifacts> find_artifacts(way chosen) {
  std::string missing = "libverbena-soft.so.0";
  for (const auto& folder : candidates()) {
    const auto found = in_folder(folder);
    missing = missing_file(found, chosen);
    if (!missing.empty()) continue;
    if (found.folder.find_first_of(" :;\t\n$") != std::string::npos)
      return refusal{.status = run_status::failed,
                     .text = "LD_PRELOAD cannot contain the path '" + found.folder +
                             "': install to a path without blanks, colons, semicolons and dollars"};
    return found;
  }
  const char* const remedy = can_be_read("/proc/self/exe")
                                 ? "build or install the software device, or set "
                                 : "/proc is not mounted, so that the installation may be "
                                   "overlooked; mount /proc, or set ";
  return refusal{.status = run_status::failed,
                 .text = missing + " was not found: " + remedy + variable + " to its folder"};
}

}  // namespace verbena::tool
