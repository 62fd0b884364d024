// SPDX-License-Identifier: MIT
#include "src/verbs/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "src/verbs/diagnosis.hpp"
#include "src/verbs/ports.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

bool same(const device& a, const device& b) { return a.name() == b.name() && a.guid() == b.guid(); }

bool has_active_port(const context& opened) {
  const auto ports = query_ports(opened);
  return ports && std::ranges::any_of(*ports, [](const port_attributes& port) {
           return port.state() == port_state::active;
         });
}

// The order in which open_best() tries devices.
enum class device_rank : std::uint8_t { hardware, kernel_software, soft0 };

// rxe, siw and other software devices of the kernel have no parent device in sysfs. A device
// without a folder in sysfs belongs to a test and counts as hardware.
device_rank rank_of(const device& of) {
  if (of.origin() == provider_origin::soft) return device_rank::soft0;
  const ibv_device& native = *of.native();
  const std::filesystem::path folder(
      std::string(native.ibdev_path, ::strnlen(native.ibdev_path, sizeof native.ibdev_path)));
  std::error_code failed;
  return !folder.empty() && std::filesystem::is_directory(folder, failed) &&
                 !std::filesystem::exists(folder / "device", failed)
             ? device_rank::kernel_software
             : device_rank::hardware;
}

struct ranked_device {
  const device* of;
  device_rank rank;
};

// Returns the devices by rank. Devices of one rank keep their order. (libstdc++ 12 implements
// std::stable_sort with a function that clang reports.)
std::vector<ranked_device> by_rank(std::span<const device> among) {
  std::vector<ranked_device> all;
  all.reserve(among.size());
  for (const auto& each : among) all.push_back({&each, rank_of(each)});
  std::ranges::sort(all, {},
                    [](const ranked_device& each) { return std::pair(each.rank, each.of); });
  return all;
}

// The devices that open_best() has skipped. They are used if no better device follows.
struct skipped_devices {
  std::optional<context> inactive;
  std::optional<error> failure;
  std::string reasons;

  void note(const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; }
};

// Opens the candidate. Returns it if it is the software device or has an active port.
std::optional<context> try_device(const device& candidate, skipped_devices& others) {
  auto opened = candidate.open();
  if (!opened) {
    others.note(opened.error().message());
    others.failure = std::move(opened).error();
    return std::nullopt;
  }
  if (candidate.origin() == provider_origin::soft || has_active_port(*opened))
    return *std::move(opened);
  others.note(candidate.name() + " has no ACTIVE port");
  if (!others.inactive) others.inactive = *std::move(opened);
  return std::nullopt;
}

std::string fallback_warning(const context& chosen, const skipped_devices& others,
                             std::span<const device> among) {
  std::string why = others.reasons;
  if (why.empty()) why = explain_missing_hardware(among);
  if (why.empty()) why = "there is no RDMA hardware";
  return fmt::format(
      "open_device: using {}: {}; to require hardware, pass devices::hardware_only or the name of "
      "a "
      "device",
      chosen.name(), why);
}

}  // namespace

result<soft_mode> parse_soft_mode(const char* value) {
  const std::string_view text = value != nullptr ? value : "";
  if (text.empty() || text == "on") return soft_mode::on;
  if (text == "off") return soft_mode::off;
  if (text == "only") return soft_mode::only;
  return error::invalid_argument("list_devices", "VERBENA_SOFTDEV",
                                 fmt::format("invalid value '{}'; must be on, off or only", text));
}

std::vector<device> merge_lists(std::vector<device> hardware, std::vector<device> soft) {
  std::erase_if(hardware, [&soft](const device& candidate) {
    return std::any_of(soft.begin(), soft.end(),
                       [&](const device& other) { return same(candidate, other); });
  });
  hardware.insert(hardware.end(), soft.begin(), soft.end());
  return hardware;
}

result<chosen_device> open_best(std::span<const device> among, devices accepted) {
  skipped_devices others;
  for (const auto& [candidate, rank] : by_rank(among)) {
    if (accepted == devices::hardware_only && rank != device_rank::hardware) {
      others.note(candidate->name() + " is a software device");
      continue;
    }
    auto chosen = try_device(*candidate, others);
    if (!chosen) continue;
    std::string warning;
    if (rank != device_rank::hardware || !others.reasons.empty())
      warning = fallback_warning(*chosen, others, among);
    return chosen_device{*std::move(chosen), std::move(warning)};
  }
  if (others.inactive) {
    std::string warning = fallback_warning(*others.inactive, others, among);
    return chosen_device{*std::move(others.inactive), std::move(warning)};
  }
  if (others.failure) return *std::move(others.failure);
  std::string why = explain_missing_hardware(among);
  if (why.empty()) why = others.reasons;
  return error::unavailable(ENODEV, "open_device", {},
                            fmt::format("there is no RDMA {}{}{}",
                                        accepted == devices::hardware_only ? "hardware" : "device",
                                        why.empty() ? "" : ": ", why));
}

result<context> open_named(std::span<const device> among, std::string_view name) {
  std::string others;
  for (const auto& candidate : among) {
    if (candidate.name() == name) return candidate.open();
    others += (others.empty() ? "" : ", ") + candidate.name();
  }
  return error::unavailable(ENODEV, "open_device", name,
                            others.empty() ? "there is no RDMA device"
                                           : "no device has this name; the devices are: " + others);
}

}  // namespace verbena::inline VERBENA_ABI::detail
