// SPDX-License-Identifier: MIT
#include "src/verbs/device_choice.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "src/verbs/diagnosis.hpp"
#include "verbena/base/log.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

bool same(const device& a, const device& b) { return a.name() == b.name() && a.guid() == b.guid(); }

bool has_active_port(const context& opened) {
  const auto attributes = opened.query();
  if (!attributes) return false;
  const unsigned ports = attributes->port_count();
  for (unsigned port = 1; port <= ports; ++port) {
    const auto found = opened.query_port(port_number(static_cast<std::uint8_t>(port)));
    if (found && found->state() == port_state::active) return true;
  }
  return false;
}

// What open_best() passed over, for the case that nothing better follows.
struct passed_over {
  std::optional<context> inactive;
  std::optional<error> failure;
  std::string reasons;

  void note(const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; }
};

// The device, if it is good enough to be the best.
std::optional<context> try_device(const device& candidate, passed_over& others) {
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

}  // namespace

result<soft_mode> parse_soft_mode(const char* value) {
  const std::string_view text = value != nullptr ? value : "";
  if (text.empty() || text == "on") return soft_mode::on;
  if (text == "off") return soft_mode::off;
  if (text == "only") return soft_mode::only;
  return error::invalid_argument(
      "list_devices", "VERBENA_SOFTDEV",
      "the environment variable is '" + std::string(text) + "'; it must be on, off or only");
}

std::vector<device> merge_lists(std::vector<device> hardware, std::vector<device> soft) {
  std::erase_if(hardware, [&soft](const device& candidate) {
    return std::any_of(soft.begin(), soft.end(),
                       [&](const device& other) { return same(candidate, other); });
  });
  hardware.insert(hardware.end(), soft.begin(), soft.end());
  return hardware;
}

result<context> open_best(std::span<const device> devices) {
  passed_over others;
  for (const auto& candidate : devices) {
    auto chosen = try_device(candidate, others);
    if (!chosen) continue;
    if (!others.reasons.empty())
      log(log_level::warning, "open_device: " + chosen->name() + " is used, because " +
                                  others.reasons + "; name a device to choose it yourself");
    return *std::move(chosen);
  }
  if (others.inactive) return *std::move(others.inactive);
  if (others.failure) return *std::move(others.failure);
  const std::string why = explain_missing_hardware();
  return error::unavailable(ENODEV, "open_device", {},
                            "there is no RDMA device" + (why.empty() ? "" : ": " + why));
}

result<context> open_named(std::span<const device> devices, std::string_view name) {
  std::string others;
  for (const auto& candidate : devices) {
    if (candidate.name() == name) return candidate.open();
    others += (others.empty() ? "" : ", ") + candidate.name();
  }
  return error::unavailable(
      ENODEV, "open_device", name,
      others.empty() ? "there is no RDMA device" : "there is no such device; there are: " + others);
}

}  // namespace verbena::inline VERBENA_ABI::detail
