// SPDX-License-Identifier: MIT
#include "softdev/peers/slot_claim.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {

namespace {
constexpr int backlog = 128;

local_name name_of(std::uint32_t slot) noexcept {
  return local_name("verbena-soft0.%u.%u", static_cast<unsigned>(::geteuid()), slot);
}

/// Counts the holders of names of one kind, and lists the first ones.
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

/// Says which processes hold all the names. About 3,000 system calls.
std::string describe_holders() {
  holder_list own;
  holder_list others;
  holder_list unknown;
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    const name_holder found = find_holder(name_of(slot));
    const std::string pid = "pid " + std::to_string(found.process.pid);
    if (found.error != 0) {
      unknown.add("errno " + std::to_string(found.error));
    } else if (found.process.same_user) {
      own.add(pid);
    } else {
      others.add("user " + std::to_string(found.process.user) + " " + pid);
    }
  }
  std::string out = "the 1024 names of this user's processes are taken";
  const char* separator = ": ";
  const auto append = [&](const holder_list& holders, const char* who) {
    if (holders.empty()) return;
    out += separator + holders.text(who);
    separator = ", ";
  };
  append(own, "this user");
  append(others, "other users");
  append(unknown, "processes that do not answer");
  const bool only_own = others.empty() && unknown.empty();
  return out + (only_own ? "; close some of these processes"
                         : "; end these processes, or use a network namespace without other users "
                           "(unshare -n)");
}
}  // namespace

result<slot_claim> slot_claim::take() {
  auto [listener, failed] = new_local_socket();
  if (failed != 0) return error::from_errno(failed, "socket", "slot of soft0");
  const std::uint32_t first = random_u32() % slot_count;
  for (std::uint32_t step = 0; step < slot_count; ++step) {
    const std::uint32_t slot = (first + step) % slot_count;
    const local_name name = name_of(slot);
    if (::bind(listener.get(), name.get(), name.length()) != 0) {
      if (errno == EADDRINUSE) continue;
      return error::from_errno(errno, "bind", "slot of soft0");
    }
    if (::listen(listener.get(), backlog) != 0) {
      return error::from_errno(errno, "listen", "slot of soft0");
    }
    return slot_claim(std::move(listener), slot);
  }
  return error::unavailable(EADDRINUSE, "bind", "soft0", describe_holders());
}

unique_fd slot_claim::accept() noexcept { return accept_own_user(listener_.get(), backlog).socket; }

socket_or_error connect_to_slot(std::uint32_t slot) noexcept {
  return connect_to_name(name_of(slot));
}

slot_holder find_slot_holder(std::uint32_t slot) noexcept {
  const name_holder found = find_holder(name_of(slot));
  if (found.error != 0) return {.error = found.error};
  if (!found.process.same_user) return {.error = EACCES};
  return {.pid = found.process.pid};
}

}  // namespace verbena::softdev
