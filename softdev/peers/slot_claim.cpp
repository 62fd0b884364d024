// SPDX-License-Identifier: MIT
#include "softdev/peers/slot_claim.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <vector>

#include "softdev/core/process_slot.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {

namespace {
constexpr int backlog = 128;
constexpr int attempts_to_bind = 8;

/// Slots [first, end).
struct slot_range {
  std::uint32_t first;
  std::uint32_t end;
  [[nodiscard]] std::uint32_t count() const noexcept { return end - first; }
  [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
    return slot >= first && slot < end;
  }
};
constexpr slot_range large_public = {0, 576};
constexpr slot_range large_private = {576, large_slots};
constexpr slot_range small_public = {large_slots, large_slots + 2048};
constexpr slot_range small_private = {large_slots + 2048, slot_count};
constexpr std::uint32_t public_slots = large_public.end + (small_public.end - small_public.first);
static_assert(slot_count <= name_entries::port_blocks);

/// The two names of a slot.
struct slot_names {
  local_name listener;
  local_name groups;
};

slot_names names_of_public(std::uint32_t slot) noexcept {
  const auto user = static_cast<unsigned>(::geteuid());
  return {local_name("verbena-soft0.%u.%u", user, slot),
          local_name("verbena-groups.%u.%u", user, slot)};
}

slot_names names_of(const name_token& token) noexcept {
  const auto user = static_cast<unsigned>(::geteuid());
  const auto high = static_cast<unsigned long long>(token.high);
  const auto low = static_cast<unsigned long long>(token.low);
  return {local_name("verbena-soft0.%u.%016llx%016llx", user, high, low),
          local_name("verbena-groups.%u.%016llx%016llx", user, high, low)};
}

/// Returns the names of a slot; nullopt if the slot is private and was never claimed.
std::optional<slot_names> names_of(std::uint32_t slot,
                                   const std::optional<name_table>& table) noexcept {
  if (is_public_slot(slot)) return names_of_public(slot);
  const name_token token = table ? table->find(name_entries::slots + slot) : name_token();
  if (!token) return std::nullopt;
  return names_of(token);
}

/// Opens the table of names if the slot is private. Does not use a table that other users can
/// change.
result<std::optional<name_table>> table_for(std::uint32_t slot) noexcept {
  if (is_public_slot(slot)) return std::optional<name_table>();
  auto opened = name_table::open(if_missing::fail);
  if (opened) return std::optional(*std::move(opened));
  if (is_lack_of_resources(opened.error().code())) return std::move(opened).error();
  if (opened.error().code() == EACCES)
    log(log_level::warning, "soft0: " + opened.error().message());
  return std::optional<name_table>();
}

/// Counts the names that holders of one kind have, and lists the first holders.
class holder_list {
 public:
  void add(std::string holder) {
    ++names_;
    if (std::ranges::find(listed_, holder) != listed_.end()) return;
    if (listed_.size() < most_listed) {
      listed_.push_back(std::move(holder));
    } else {
      complete_ = false;
    }
  }
  [[nodiscard]] bool empty() const noexcept { return names_ == 0; }
  [[nodiscard]] std::string text(const char* who) const {
    std::string out = std::to_string(names_) + " by " + who;
    for (std::size_t index = 0; index < listed_.size(); ++index) {
      out += (index == 0 ? " (" : ", ") + listed_[index];
    }
    if (!listed_.empty()) out += complete_ ? ")" : ", …)";
    return out;
  }

 private:
  static constexpr std::size_t most_listed = 5;
  std::size_t names_ = 0;
  std::vector<std::string> listed_;
  bool complete_ = true;
};

/// Returns the holder of a public slot: of its first name, or of the second one if the first is
/// free.
name_holder find_public_holder(std::uint32_t slot) noexcept {
  const slot_names names = names_of_public(slot);
  const name_holder first = find_holder(names.listener);
  return first.error == 0 ? first : find_holder(names.groups);
}

/// Describes the processes that hold the public names. Makes about 10,000 system calls.
std::string describe_public_holders(std::string& remedy) {
  holder_list own;
  holder_list others;
  holder_list unknown;
  for (const slot_range& range : {large_public, small_public}) {
    for (std::uint32_t slot = range.first; slot < range.end; ++slot) {
      const name_holder found = find_public_holder(slot);
      const std::string pid = "pid " + std::to_string(found.process.pid);
      if (found.error != 0) {
        unknown.add("errno " + std::to_string(found.error));
      } else if (found.process.same_user) {
        own.add(pid);
      } else {
        others.add("user " + std::to_string(found.process.user) + " " + pid);
      }
    }
  }
  std::string out;
  const auto append = [&](const holder_list& holders, const char* who) {
    if (holders.empty()) return;
    out += (out.empty() ? ": " : ", ") + holders.text(who);
  };
  append(own, "this user");
  append(others, "other users");
  append(unknown, "processes that do not answer");
  remedy = others.empty() && unknown.empty()
               ? "end some of these processes"
               : "end these processes, or use a network namespace without other users "
                 "(unshare -n)";
  return out;
}

bool is_held_by_other_user(std::uint32_t slot) noexcept {
  const name_holder found = find_public_holder(slot);
  return found.error != 0 || !found.process.same_user;
}

}  // namespace

bool is_public_slot(std::uint32_t slot) noexcept {
  return large_public.contains(slot) || small_public.contains(slot);
}

/// Looks for a free slot, one range after the other.
class slot_search {
 public:
  result<slot_claim> run() {
    if (auto found = find_public(large_public); !found || *found) return finish(std::move(found));
    if (other_users_hold_many(large_public)) {
      if (auto found = find_private(large_private); !found || *found)
        return finish(std::move(found));
    }
    if (auto found = find_public(small_public); !found || *found) return finish(std::move(found));
    for (const slot_range& range : {large_private, small_private}) {
      if (auto found = find_private(range); !found || *found) return finish(std::move(found));
    }
    std::string remedy;
    std::string text = "the " + std::to_string(public_slots) +
                       " process slots of this user are in use" + describe_public_holders(remedy);
    text += no_table_.empty()
                ? "; so are those with names that other users cannot bind"
                : "; names that other users cannot bind are unavailable: " + no_table_;
    return error::unavailable(EADDRINUSE, "bind", "soft0", text + "; " + remedy);
  }

 private:
  using found_slot = result<std::optional<slot_claim>>;
  using sockets = slot_claim::sockets;

  static result<slot_claim> finish(found_slot found) {
    if (!found) return std::move(found).error();
    return **std::move(found);
  }

  static error failure(int code, const char* call) {
    return error::from_errno(code, call, "slot of soft0");
  }

  /// Binds both sockets. Returns 0, EADDRINUSE if one of the names is taken, or another errno. The
  /// next call reuses the sockets that are not bound.
  static int bind_both(sockets& made, const slot_names& names, const char*& call) {
    call = "socket";
    for (unique_fd* const each : {&made.listener, &made.groups}) {
      if (*each) continue;
      auto [socket, failed] = new_local_socket();
      if (failed != 0) return failed;
      *each = std::move(socket);
    }
    call = "bind";
    const auto bound = [](const unique_fd& socket, const local_name& name) {
      return ::bind(socket.get(), name.get(), name.length()) == 0;
    };
    if (!bound(made.listener, names.listener)) return errno;
    if (!bound(made.groups, names.groups)) {
      const int code = errno;
      made.listener.reset();
      return code;
    }
    call = "listen";
    return ::listen(made.listener.get(), backlog) == 0 ? 0 : errno;
  }

  static found_slot find_public(const slot_range& range) {
    const std::uint32_t start = random_u32() % range.count();
    sockets made;
    for (std::uint32_t step = 0; step < range.count(); ++step) {
      const std::uint32_t slot = range.first + (start + step) % range.count();
      const char* call = nullptr;
      const int failed = bind_both(made, names_of_public(slot), call);
      if (failed == EADDRINUSE) continue;
      if (failed != 0) return failure(failed, call);
      return std::optional(slot_claim(std::move(made), slot));
    }
    return std::optional<slot_claim>();
  }

  /// Queries only a few holders, because each query wakes the holder.
  static bool other_users_hold_many(const slot_range& range) {
    constexpr int asked = 16;
    for (int i = 0; i < asked; ++i)
      if (is_held_by_other_user(range.first + random_u32() % range.count())) return true;
    return false;
  }

  found_slot find_private(const slot_range& range) {
    auto opened = name_table::open(if_missing::create);
    if (!opened) {
      if (is_lack_of_resources(opened.error().code())) return std::move(opened).error();
      no_table_ = opened.error().message();
      return std::optional<slot_claim>();
    }
    const name_table& table = *opened;
    const std::uint32_t start = random_u32() % range.count();
    for (std::uint32_t step = 0; step < range.count(); ++step) {
      const std::uint32_t slot = range.first + (start + step) % range.count();
      const int held = table.lock(name_entries::slots + slot);
      if (held == EADDRINUSE) continue;
      if (held != 0) {
        no_table_ = failure(held, "fcntl").message();
        return std::optional<slot_claim>();
      }
      sockets made;
      VERBENA_TRY_VOID(publish_private(made, table, slot));
      made.lock = (*std::move(opened)).release();
      return std::optional(slot_claim(std::move(made), slot));
    }
    return std::optional<slot_claim>();
  }

  static result<void> publish_private(sockets& made, const name_table& table, std::uint32_t slot) {
    // Another user who sees the first name can take the second one. Then new names are drawn.
    for (int attempt = 0;; ++attempt) {
      const name_token token = name_token::draw();
      const char* call = nullptr;
      const int failed = bind_both(made, names_of(token), call);
      if (failed == EADDRINUSE && attempt < attempts_to_bind) continue;
      if (failed != 0) return failure(failed, call);
      const int unknown = table.publish(name_entries::slots + slot, token);
      if (unknown != 0) return failure(unknown, "pwrite");
      return {};
    }
  }

  std::string no_table_;  ///< why there are no private slots
};

result<slot_claim> slot_claim::take() { return slot_search().run(); }

unique_fd slot_claim::accept() noexcept {
  return accept_own_user(sockets_.listener.get(), backlog).socket;
}

int slot_claim::announce_group_user() noexcept {
  // No connection is ever accepted: a successful connect(2) is the answer.
  return ::listen(sockets_.groups.get(), 1) == 0 ? 0 : errno;
}

void slot_claim::close() noexcept { sockets_ = {}; }

socket_or_error connect_to_slot(std::uint32_t slot) noexcept {
  auto table = table_for(slot);
  if (!table) return {{}, table.error().code()};
  const auto names = names_of(slot, *table);
  return names ? connect_to_name(names->listener) : socket_or_error{{}, ECONNREFUSED};
}

slot_holder find_slot_holder(std::uint32_t slot) noexcept {
  const socket_or_error made = connect_to_slot(slot);
  if (made.error != 0) return {.error = made.error};
  return {.pid = identify_peer(made.socket.get()).pid};
}

result<group_user_search> group_user_search::begin() {
  auto opened = name_table::open(if_missing::fail);
  if (opened) return group_user_search(*std::move(opened));
  if (is_lack_of_resources(opened.error().code())) return std::move(opened).error();
  // Without the table, no process is found in private slots.
  return group_user_search(std::nullopt);
}

bool group_user_search::is_group_user(std::uint32_t slot, int& failed) noexcept {
  const auto names = names_of(slot, table_);
  if (!names) return false;
  if (!probe_) {
    socket_or_error made = new_local_socket();
    if (made.error != 0) {
      failed = made.error;
      return false;
    }
    probe_ = std::move(made.socket);
  }
  if (::connect(probe_.get(), names->groups.get(), names->groups.length()) != 0)
    return errno == EAGAIN;
  const unique_fd connected = std::move(probe_);
  return identify_peer(connected.get()).same_user;
}

}  // namespace verbena::softdev
