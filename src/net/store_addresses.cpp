// SPDX-License-Identifier: MIT
#include "src/net/store_addresses.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/bringup/own_names.hpp"
#include "src/bringup/socket.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::earliest;

bool is_ipv6_text(const std::string& address) { return address.find(':') != std::string::npos; }

std::string reason_of(const error& why) {
  if (why.call() == "getaddrinfo") return "the name cannot be resolved";
  return std::generic_category().message(why.code());
}

/// Connects to several addresses at the same time.
class reaching {
 public:
  reaching(const std::vector<bringup::address>& at, deadline until) : at_(at), until_(until) {}

  [[nodiscard]] bool has_next() const { return next_ < at_.size(); }
  [[nodiscard]] bool is_idle() const { return attempts_.empty(); }
  void start_next() {
    const auto& to = at_[next_++];
    attempts_.push_back({to, bringup::stream::connect_in_steps(to, until_)});
  }
  /// Returns the address of an attempt that has succeeded. Removes those that have failed.
  [[nodiscard]] std::optional<bringup::address> progress() {
    for (auto each = attempts_.begin(); each != attempts_.end();) {
      auto ended = each->connecting.progress();
      if (!ended) {
        ++each;
        continue;
      }
      if (*ended)
        return bringup::detail::peer_address_of((*ended)->fd()).value_or(std::move(each->to));
      add_failure(each->to, std::move(*ended).error());
      each = attempts_.erase(each);
    }
    return std::nullopt;
  }
  /// Waits until an attempt can advance, or until `at_most`.
  void wait(deadline at_most) const {
    std::vector<pollfd> events;
    for (const auto& each : attempts_) {
      events.push_back({each.connecting.fd(), each.connecting.events(), 0});
      at_most = earliest(at_most, each.connecting.next_deadline());
    }
    ::poll(events.data(), events.size(), at_most.poll_timeout_ms());
  }
  [[nodiscard]] error failure() const {
    const std::string text = fmt::format(
        "rank 0 has opened the store, but this host cannot reach it at any of its addresses: {}; "
        "check "
        "that the hosts have a common network and that a firewall permits TCP connections to all "
        "ports of the host of rank 0, or set MASTER_ADDR and MASTER_PORT on all ranks (mpirun -x) "
        "to an address and a port of the host of rank 0",
        reasons_);
    const std::string object = "the store of rank 0";
    if (is_late_ || !first_) return error::timed_out("join", object, text);
    return error::unavailable(first_->code(), "join", object, text);
  }

 private:
  struct attempt {
    bringup::address to;
    steps<bringup::stream> connecting;
  };

  void add_failure(const bringup::address& to, error why) {
    if (!reasons_.empty()) reasons_ += ", ";
    reasons_ += fmt::format("{} ({})", to_string(to), reason_of(why));
    is_late_ = is_late_ || why.kind() == error_kind::timed_out;
    if (!first_) first_ = std::move(why);
  }

  const std::vector<bringup::address>& at_;
  deadline until_;
  std::size_t next_ = 0;
  std::vector<attempt> attempts_;
  std::string reasons_;
  std::optional<error> first_;
  bool is_late_ = false;
};

}  // namespace

std::string to_text(const published_store& of) {
  std::string text;
  for (const auto& each : of.at) text += (text.empty() ? "" : ",") + to_string(each);
  return of.secret.empty() ? text : text + " " + of.secret;
}

result<published_store> parse_published(std::string_view text) {
  const auto invalid = [&] {
    return error::protocol("join", "the store of rank 0",
                           fmt::format("\"{}\" is not a list of addresses", text));
  };
  published_store made;
  const auto end = std::min(text.find(' '), text.size());
  if (end < text.size()) made.secret = text.substr(end + 1);
  for (auto rest = text.substr(0, end); !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    auto each = bringup::parse_address(rest.substr(0, comma));
    if (!each || each->port == 0) return invalid();
    made.at.push_back(*std::move(each));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (made.at.empty()) return invalid();
  return made;
}

std::vector<std::string> addresses_for_hosts(const std::vector<std::string>& all) {
  std::vector<std::string> out;
  for (const bool wants_ipv6 : {false, true})
    for (const auto& each : all) {
      const bool is_known = std::ranges::find(out, each) != out.end();
      if (is_ipv6_text(each) != wants_ipv6 || is_known || bringup::detail::is_loopback(each) ||
          each.starts_with("fe80:") || out.size() == max_published_addresses)
        continue;
      out.push_back(each);
    }
  return out;
}

result<std::vector<std::string>> addresses_for_hosts() {
  VERBENA_TRY(const auto all, bringup::detail::interface_addresses());
  return addresses_for_hosts(all);
}

void put_own_last(std::vector<bringup::address>& of, const std::set<std::string>& own) {
  // Two copies: std::stable_partition of libstdc++ 12 uses a function that clang reports.
  std::vector<bringup::address> last;
  std::erase_if(of, [&](const auto& each) {
    if (!own.contains(each.host)) return false;
    last.push_back(each);
    return true;
  });
  std::ranges::move(last, std::back_inserter(of));
}

result<bringup::address> find_reachable(const std::vector<bringup::address>& at, deadline until,
                                        std::chrono::nanoseconds patience) {
  reaching all(at, until);
  auto next_start = deadline::after(patience);
  while (all.has_next() || !all.is_idle()) {
    if (all.has_next() && (all.is_idle() || next_start.expired())) {
      all.start_next();
      next_start = deadline::after(patience);
    }
    if (auto reached = all.progress()) return *std::move(reached);
    if (!all.is_idle()) all.wait(all.has_next() ? next_start : deadline::never());
  }
  return all.failure();
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
