// SPDX-License-Identifier: MIT
#include "verbena/verbs/inject_event.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <iterator>

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr const char* call = "verbena_soft_inject_event";

/// Returns a selection as words of a command, each after a space.
std::string words_of(const request_selection& which) {
  static constexpr struct {
    send_operation operation;
    const char* name;
  } operations[] = {{send_operation::send, "send"},
                    {send_operation::send_with_immediate, "send_with_imm"},
                    {send_operation::write, "rdma_write"},
                    {send_operation::write_with_immediate, "rdma_write_with_imm"},
                    {send_operation::read, "rdma_read"},
                    {send_operation::compare_and_swap, "atomic_cmp_and_swp"},
                    {send_operation::fetch_and_add, "atomic_fetch_and_add"}};
  std::string words;
  const auto out = std::back_inserter(words);
  if (which.queue_pair) fmt::format_to(out, " qp={}", which.queue_pair->value());
  if (which.queue_pair_index != 0) fmt::format_to(out, " qp-index={}", which.queue_pair_index);
  const char* before = " opcode=";
  for (const auto& [operation, name] : operations) {
    if (!which.operations.contains(operation)) continue;
    words.append(before).append(name);
    before = ",";
  }
  if (which.at != 0) fmt::format_to(out, " at={}", which.at);
  if (which.every != 0) fmt::format_to(out, " every={}", which.every);
  if (which.probability != 0) fmt::format_to(out, " probability={}", which.probability);
  if (which.seed != 0) fmt::format_to(out, " seed={}", which.seed);
  if (which.count != 0) fmt::format_to(out, " count={}", which.count);
  return words;
}

/// Returns the command of a fault, without its time.
std::string command_of(const injected_fault& fault) {
  switch (fault.kind) {
    case fault_kind::failure:
      return fmt::format("fail {}{}", static_cast<std::uint32_t>(fault.status),
                         words_of(fault.requests));
    case fault_kind::lost_acknowledgement:
      return "fail retry_exc_err delivered" + words_of(fault.requests);
    case fault_kind::receiver_not_ready:
      return fmt::format("rnr times={}{}", fault.times, words_of(fault.requests));
    case fault_kind::delay:
      return fmt::format("delay {}us{}", fault.duration.count(), words_of(fault.requests));
    case fault_kind::revoked_access:
      if (fault.key) return fmt::format("revoke-region key={}", fault.key->value());
      return fmt::format("revoke-region index={}", fault.index);
    case fault_kind::completion_queue_overrun:
      return fmt::format("overrun-cq index={}", fault.index);
    case fault_kind::peer_exit:
      return fault.pid ? fmt::format("peer-exit pid={}", *fault.pid) : "peer-exit";
    case fault_kind::port_down:
      return "port 1 down";
    case fault_kind::port_up:
      return "port 1 up";
    case fault_kind::gid_change:
      return "gid-change";
    case fault_kind::gid_move:
      return "gid-move";
  }
  return "unknown";
}

/// Returns a fault as a step of a script.
std::string step_of(const injected_fault& fault) {
  std::string step;
  if (fault.after.count() != 0) step = fmt::format("{}us ", fault.after.count());
  if (fault.before) step += "when" + words_of(*fault.before) + " do ";
  return step + command_of(fault);
}

/// Returns the device's description of an invalid text; empty if the text is valid.
std::string problem_of(const context& device, const std::string& commands) {
  const auto check = device.provider().soft_check_commands;
  std::string text(check != nullptr ? check(commands.c_str(), nullptr, 0) : 0, '\0');
  if (!text.empty()) check(commands.c_str(), text.data(), text.size() + 1);
  return text;
}

}  // namespace

result<void> inject_event(const context& device, const std::string& commands) {
  const auto function = device.provider().soft_inject_event;
  if (function == nullptr)
    return error::not_supported(call, device.name(),
                                "events can be injected into the software device only: open soft0");
  if (const std::string problem = problem_of(device, commands); !problem.empty())
    return error::from_errno(EINVAL, call, device.name(), problem);
  if (const int code = function(device.native(), commands.c_str()); code != 0)
    return error::from_errno(code, call, device.name(),
                             fmt::format("a command of '{}' failed; check that its objects exist",
                                         commands.substr(0, 80)));
  return {};
}

result<void> inject_faults(const context& device, std::span<const injected_fault> faults) {
  if (faults.empty()) return {};
  std::string script;
  for (const injected_fault& fault : faults) script += step_of(fault) + "\n";
  return inject_event(device, script);
}

result<void> inject_faults(const context& device, std::initializer_list<injected_fault> faults) {
  return inject_faults(device, std::span(faults.begin(), faults.size()));
}

result<void> inject_failure(const context& device, completion_status status,
                            const request_selection& which) {
  return inject_faults(device,
                       {{.kind = fault_kind::failure, .requests = which, .status = status}});
}

result<void> inject_lost_acknowledgement(const context& device, const request_selection& which) {
  return inject_faults(device, {{.kind = fault_kind::lost_acknowledgement, .requests = which}});
}

result<void> inject_rnr(const context& device, unsigned times, const request_selection& which) {
  return inject_faults(
      device, {{.kind = fault_kind::receiver_not_ready, .requests = which, .times = times}});
}

result<void> inject_delay(const context& device, std::chrono::microseconds delay,
                          const request_selection& which) {
  return inject_faults(device, {{.kind = fault_kind::delay, .requests = which, .duration = delay}});
}

}  // namespace verbena::inline VERBENA_ABI
