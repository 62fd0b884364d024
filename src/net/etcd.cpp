// SPDX-License-Identifier: MIT
#include "src/net/etcd.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/base/earliest.hpp"
#include "src/base/quiet_thread.hpp"
#include "src/net/http.hpp"
#include "src/net/rendezvous.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds lease_time{10};
constexpr std::chrono::seconds time_to_renew{3};   // interval of renewals
constexpr std::chrono::seconds time_to_answer{3};  // time limit of a request
// Time limits of the requests that can delay the destructor of a group.
constexpr std::chrono::milliseconds time_to_be_renewed{1000};
constexpr std::chrono::milliseconds time_to_be_revoked{500};
constexpr std::size_t max_secret_bytes = 1024;

constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Keys and values are encoded in base64 (RFC 4648, section 4).
std::string to_base64(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 3) {
    const auto part = text.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      out += i <= part.size() ? digits[bits >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    auto part = text.substr(at, 4);
    while (at + 4 == text.size() && part.size() > 2 && part.back() == '=') part.remove_suffix(1);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto digit = i < part.size() ? digits.find(part[i]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      bits = bits << 6U | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t i = 0; i + 1 < part.size(); ++i)
      out += static_cast<char>(static_cast<unsigned char>(bits >> (16 - 8 * i)));
  }
  return out;
}

// Returns a member of an object, or null if it does not exist.
const json& member(const json& of, const char* name) {
  static const json none;
  if (!of.is_object()) return none;
  const auto found = of.find(name);
  return found == of.end() ? none : *found;
}

std::string text_member(const json& of, const char* name) {
  const auto* const text = member(of, name).get_ptr<const std::string*>();
  return text != nullptr ? *text : std::string();
}

struct stored {
  std::string value;
  std::string revision;  // of the last modification, in decimal
};

}  // namespace

// A client of etcd. Threads: one thread at a time.
class etcd_client {
 public:
  explicit etcd_client(etcd_place place) : place_(std::move(place)) {}

  [[nodiscard]] const std::string& server() const noexcept { return place_.server; }
  [[nodiscard]] std::string key_of(const membership& who) const {
    return place_.prefix + "/" + who.name + "/store";
  }
  [[nodiscard]] const std::string& local_address() const noexcept { return local_address_; }
  [[nodiscard]] error refuse(const std::string& why) const {
    return error::protocol("join", place_.server, why);
  }

  [[nodiscard]] result<json> ask(const char* path, const json& question, deadline until) {
    VERBENA_TRY(auto answer, post_json(place_.server + path, question.dump(),
                                       verbena::detail::earliest(until, time_to_answer)));
    local_address_ = std::move(answer.local_address);
    auto parsed = json::parse(answer.body, nullptr, false);
    if (answer.status != 200)
      return error::unavailable(0, "join", place_.server + path,
                                fmt::format("etcd answered with HTTP status {}: {}", answer.status,
                                            text_member(parsed, "error")));
    if (!parsed.is_object())
      return refuse("the answer is not a JSON object; is it etcd 3.4 or newer?");
    return parsed;
  }

  [[nodiscard]] result<std::string> grant_lease(deadline until) {
    VERBENA_TRY(const auto answer, ask("/v3/lease/grant", {{"TTL", lease_time.count()}}, until));
    auto lease = text_member(answer, "ID");
    if (lease.empty()) return refuse("the answer has no lease");
    return lease;
  }
  /// Renews a lease. Returns false if the lease has expired.
  [[nodiscard]] result<bool> renew(const std::string& lease, deadline until) {
    VERBENA_TRY(const auto answer, ask("/v3/lease/keepalive", {{"ID", lease}}, until));
    const auto left = text_member(member(answer, "result"), "TTL");
    return !left.empty() && left != "0";
  }
  [[nodiscard]] result<void> revoke(const std::string& lease, deadline until) {
    VERBENA_TRY_DISCARD(ask("/v3/lease/revoke", {{"ID", lease}}, until));
    return {};
  }
  [[nodiscard]] result<std::optional<stored>> get(const std::string& key, deadline until) {
    VERBENA_TRY(const auto answer, ask("/v3/kv/range", {{"key", to_base64(key)}}, until));
    const auto& found = member(answer, "kvs");
    if (!found.is_array() || found.empty()) return std::optional<stored>();
    auto value = from_base64(text_member(found.front(), "value"));
    auto revision = text_member(found.front(), "mod_revision");
    if (!value || revision.empty()) return refuse("the answer has no value or no revision");
    return std::optional(stored{*std::move(value), std::move(revision)});
  }
  /// Stores a value if the key has not changed since `revision`, or, for "0", if the key does not
  /// exist. Returns true if the value was stored.
  [[nodiscard]] result<bool> put(const std::string& key, const std::string& value,
                                 const std::string& lease, const std::string& revision,
                                 deadline until) {
    const json unchanged{{"key", to_base64(key)},
                         {"target", "MOD"},
                         {"result", "EQUAL"},
                         {"mod_revision", revision}};
    const json change{
        {"request_put", {{"key", to_base64(key)}, {"value", to_base64(value)}, {"lease", lease}}}};
    VERBENA_TRY(
        const auto answer,
        ask("/v3/kv/txn",
            {{"compare", json::array({unchanged})}, {"success", json::array({change})}}, until));
    const auto& succeeded = member(answer, "succeeded");
    return succeeded.is_boolean() && succeeded == true;
  }
  /// Stores a value with a new lease if the key does not exist or has this value already: the
  /// answer to an earlier request may have been lost. Returns the lease, or nullopt if the key has
  /// another value.
  [[nodiscard]] result<std::optional<std::string>> put_again(const std::string& key,
                                                             const std::string& value,
                                                             deadline until) {
    VERBENA_TRY(auto lease, grant_lease(until));
    VERBENA_TRY(const auto found, get(key, until));
    if (found && found->value != value) return std::optional<std::string>();
    VERBENA_TRY(const bool is_stored, put(key, value, lease, found ? found->revision : "0", until));
    return is_stored ? std::optional(std::move(lease)) : std::optional<std::string>();
  }

 private:
  etcd_place place_;
  std::string local_address_;
};

class announcement {
 public:
  announcement(etcd_client with, std::string key, std::string value, std::string lease)
      : with_(std::move(with)),
        key_(std::move(key)),
        value_(std::move(value)),
        lease_(std::move(lease)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  announcement(const announcement&) = delete;
  announcement& operator=(const announcement&) = delete;
  ~announcement() {
    if (is_started_) {
      static_cast<void>(::eventfd_write(stop_.get(), 1));  // cannot fail: the counter is 0
      ::pthread_join(thread_, nullptr);
    }
    // If the request fails, etcd removes the key when the lease expires.
    const auto revoke = [&] {
      static_cast<void>(with_.revoke(lease_, deadline::after(time_to_be_revoked)));
    };
    if (was_renewed_) verbena::detail::call_or_else(revoke, [] {});
  }

  [[nodiscard]] result<void> start() {
    if (!stop_) return error::from_errno(errno, "eventfd", with_.server());
    const auto body = [](void* self) -> void* {
      static_cast<announcement*>(self)->run();
      return nullptr;
    };
    if (const int code = verbena::detail::start_quiet_thread(thread_, body, this, "verbena-etcd");
        code != 0)
      return error::from_errno(code, "pthread_create", with_.server());
    is_started_ = true;
    return {};
  }

 private:
  void run() {
    while (true) {
      const auto ended = wait_for_fd(stop_.get(), POLLIN, deadline::after(time_to_renew));
      if (!ended.has_value() || *ended) return;
      bool is_renewed = false;
      // Without memory, the lease is renewed after the next interval.
      verbena::detail::call_or_else(
          [&] {
            const auto renewed = renew();
            is_renewed = renewed.has_value();
            if (!renewed && was_renewed_)
              log(log_level::warning, "etcd: the lease of the store could not be renewed: " +
                                          renewed.error().message());
          },
          [&] {
            if (!was_renewed_) return;
            log(log_level::warning,
                "etcd: the lease of the store could not be renewed: no memory is free");
          });
      was_renewed_ = is_renewed;
    }
  }
  // Renews the lease. If the lease has expired, announces the store again, unless another process
  // has announced a store.
  [[nodiscard]] result<void> renew() {
    const auto until = deadline::after(time_to_be_renewed);
    VERBENA_TRY(const bool is_alive, with_.renew(lease_, until));
    if (is_alive) return {};
    VERBENA_TRY(auto lease, with_.put_again(key_, value_, until));
    if (lease) {
      lease_ = *std::move(lease);
      is_replaced_ = false;
    } else if (!std::exchange(is_replaced_, true)) {
      log(log_level::warning, "etcd: another process has announced " + key_);
    }
    return {};
  }

  etcd_client with_;
  std::string key_;
  std::string value_;
  std::string lease_;
  unique_fd stop_;  // an eventfd
  pthread_t thread_{};
  bool is_started_ = false;
  bool was_renewed_ = true;   // the last attempt succeeded
  bool is_replaced_ = false;  // another process has announced a store
};

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(announcement& of) noexcept { delete &of; }

namespace {

using owned_announcement = verbena::detail::sole_owner<announcement>;

bool is_final(const error& why) {
  return why.kind() == error_kind::not_supported || why.call() == "dlopen" || why.call() == "dlsym";
}

struct key_value {
  const std::string& key;
  const std::string& value;
};

// Tries once to store the value. Replaces the value of a store that does not respond. Returns the
// lease, or nullopt if the value was not stored. If another store responds, sets `other` to that
// store.
result<std::optional<std::string>> try_put(etcd_client& with, const key_value& what,
                                           const std::string& lease,
                                           std::optional<announced_store>& other, deadline until) {
  const auto& [key, value] = what;
  // The lease must not expire while this process waits.
  VERBENA_TRY(const bool is_alive, with.renew(lease, until));
  if (!is_alive) return with.put_again(key, value, until);
  VERBENA_TRY(const auto found, with.get(key, until));
  // An equal value was stored by an earlier request whose answer was lost, or by a process that has
  // ended. It is stored again, with the lease of this process.
  const bool is_own = found && found->value == value;
  other.reset();
  if (auto old = found ? parse_announced(found->value) : error::protocol("", "", ""))
    other = *std::move(old);
  if (other && !is_own && probe_store(other->at, until)) return std::optional<std::string>();
  VERBENA_TRY(const bool is_stored,
              with.put(key, value, lease, found ? found->revision : "0", until));
  return is_stored ? std::optional(lease) : std::optional<std::string>();
}

// Stores the value as soon as no other store that responds has the key. Returns the lease.
result<std::string> put_when_free(etcd_client& with, const std::string& key,
                                  const std::string& value, const std::string& lease,
                                  deadline until) {
  retry_pauses pauses(pauses_for_store);
  std::optional<announced_store> other;
  while (true) {
    auto stored = try_put(with, {key, value}, lease, other, until);
    if (stored && *stored) return **std::move(stored);
    if (!stored && is_final(stored.error())) return std::move(stored).error();
    if (pauses.wait(until)) continue;
    if (!stored) return std::move(stored).error();
    return error::timed_out(
        "join", with.server(),
        fmt::format("another group uses the key {}; its store is {}. Give each group a name "
                    "(VERBENA_GROUP), or end the other group",
                    key, other ? to_string(other->at) : std::string("not known")));
  }
}

// Retries, because etcd may start after this process.
result<std::string> grant_first_lease(etcd_client& with, deadline until) {
  retry_pauses pauses(pauses_for_store);
  while (true) {
    auto lease = with.grant_lease(until);
    if (lease || is_final(lease.error()) || !pauses.wait(until)) return lease;
  }
}

result<owned_announcement> announce(etcd_client with, membership& place, std::optional<store>& own,
                                    deadline until, const store_options& options) {
  VERBENA_TRY(auto lease, grant_first_lease(with, until));
  auto used = options;
  const bool has_secret = !used.secret.empty();
  if (!has_secret) used.secret = random_secret();
  const std::string host = place.store.host.empty() ? with.local_address() : place.store.host;
  VERBENA_TRY(const auto at, address_to_listen({.host = host, .port = place.store.port}, until));
  VERBENA_TRY(own, open_resolved(at, until, [&](const bringup::address& each) {
                return store::open(each, used);
              }));
  place.store = {.host = host, .port = own->local_address().port};
  place.secret = used.secret;
  const auto value = to_text({.at = place.store, .secret = has_secret ? "" : used.secret});
  const auto key = with.key_of(place);
  VERBENA_TRY(lease, put_when_free(with, key, value, lease, until));
  owned_announcement made(new announcement(std::move(with), key, value, std::move(lease)));
  VERBENA_TRY_VOID(made->start());
  return made;
}

// Returns the announced store. Fails if the store does not accept a connection.
result<announced_store> look(etcd_client& with, const std::string& key, deadline until) {
  VERBENA_TRY(const auto found, with.get(key, until));
  if (!found)
    return error::unavailable(0, "join", with.server(), "rank 0 has not stored the key " + key);
  VERBENA_TRY(auto announced, parse_announced(found->value));
  VERBENA_TRY_VOID(probe_store(announced.at, until));
  return announced;
}

}  // namespace

result<etcd_place> parse_etcd(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return error::invalid_argument("membership", "VERBENA_ETCD",
                                   fmt::format("VERBENA_ETCD={} {}", text, why));
  };
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos ||
      (text.substr(0, scheme) != "http" && text.substr(0, scheme) != "https"))
    return refuse("is not http://host:port/prefix or https://host:port/prefix");
  const auto begin = scheme + 3;
  const auto slash = std::min(text.find('/', begin), text.size());
  const auto server = text.substr(begin, slash - begin);
  if (server.find('@') != std::string_view::npos)
    return refuse("has a user name, which is not supported");
  if (server.empty() || !std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; }))
    return refuse("has no host, or characters that are not printable ASCII");
  auto prefix = text.substr(std::min(slash + 1, text.size()));
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  return etcd_place{.server = std::string(text.substr(0, slash)),
                    .prefix = prefix.empty() ? "verbena" : std::string(prefix)};
}

std::string to_text(const announced_store& of) {
  return "verbena 1 " + to_string(of.at) + " " + of.secret;
}

result<announced_store> parse_announced(std::string_view text) {
  constexpr std::string_view begin = "verbena 1 ";
  const auto refuse = [] {
    return error::protocol("join", "etcd",
                           "the value of the store's key is malformed or from another version");
  };
  if (!text.starts_with(begin)) return refuse();
  text.remove_prefix(begin.size());
  const auto end = text.find(' ');
  if (end == std::string_view::npos || text.size() - end > max_secret_bytes) return refuse();
  auto at = bringup::parse_address(text.substr(0, end));
  if (!at || at->port == 0) return refuse();
  return announced_store{.at = *std::move(at), .secret = std::string(text.substr(end + 1))};
}

result<owned_announcement> meet_by_etcd(membership& place, std::optional<store>& own,
                                        deadline until, const store_options& options) {
  VERBENA_TRY(const auto parsed, parse_etcd(place.etcd));
  etcd_client with(parsed);
  const auto key = with.key_of(place);
  place.host = store_host::rank_0;
  retry_pauses pauses(pauses_for_store);
  while (place.rank != 0) {
    auto found = look(with, key, until);
    if (found) {
      place.store = found->at;
      // A secret of the program takes precedence; it also authenticates the store.
      if (place.secret.empty()) place.secret = found->secret;
      return owned_announcement();
    }
    if (is_final(found.error())) return std::move(found).error();
    if (!pauses.wait(until))
      return error::timed_out("join", with.server(),
                              "the store of rank 0 was not found before the deadline; check that "
                              "rank 0 runs with the same VERBENA_ETCD and VERBENA_GROUP; the last "
                              "attempt: " +
                                  found.error().message());
  }
  return announce(std::move(with), place, own, until, options);
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
